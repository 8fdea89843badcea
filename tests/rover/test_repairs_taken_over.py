"""Proposals from what was: versions in which the check held, and repairs of siblings that fit word for word."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from packages import CHECKS, INSTRUCTION, runtime, summary_package, summary_resources

from rover.repair.proposals.history import FromHistory, FromSibling
from rover.repair.proposals.patch import applied
from rover.repair.proposals.protocol import Earlier, PackageView, Precedent
from rover.repair.proposals.registry import propose
from rover.repair.proposals.rules_verifier import VerifierByRule
from rover.repair.proposals.verifier_edit import BESIDE, VerifierEdit
from rover.repair.vote import by_vote
from rover.rollout.engine import Engine
from rover.rollout.env import Env, env_from_files, in_the_way, reference_state
from rover_store.ids import ComponentName
from rover_store.records import Criterion, Diagnosis, Finding, Verifier
from rover_store.records.contract import ProtectedRule


def package(**changes: bytes) -> Env:
    files = {**summary_package(), **{k.replace("__", "/").replace("_", "."): v for k, v in changes.items()}}
    return env_from_files(files, summary_resources())


def view_of(env: Env, **more: object) -> PackageView:
    seen = PackageView(env.package, "0" * 40, env.tree, env, env.files, env.resources)
    return replace(seen, **more)  # type: ignore[arg-type]


def diagnosis(*found: Finding) -> Diagnosis:
    return Diagnosis(package="order-summary", tree="0" * 40, verdict="environment", findings=found)


def finding(kind: str, component: ComponentName, probe: str = "p", **details: object) -> Finding:
    return Finding(probe=probe, kind=kind, message=kind, components=(component,), details=dict(details))


# --- patches -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("before", "after", "mine", "expected"),
    [
        ("a\nb\nc\n", "a\nB\nc\n", "x\nb\ny\n", "x\nB\ny\n"),
        ("a\nb\nc\n", "a\nc\n", "a\nb\nc\nd\n", "a\nc\nd\n"),
        ("a\nb\n", "a\nnew\nb\n", "a\nb\nc\n", "a\nnew\nb\nc\n"),
        ("a\nb\nc\n", "a\nB\nc\n", "a\nb\nb\nc\n", None),  # it stands there twice, and neither is sure
        ("a\nb\nc\n", "a\nB\nc\n", "x\ny\n", None),
    ],
)
def test_blocks_of_a_text(before: str, after: str, mine: str, expected: str | None) -> None:
    found = applied({"t": before.encode()}, {"t": after.encode()}, {"t": mine.encode(), "u": b"u"})
    assert found == (None if expected is None else {"t": expected.encode(), "u": b"u"})


@pytest.mark.parametrize(
    ("before", "after", "mine", "expected"),
    [
        (b'{"turns": 2}', b'{"turns": 30}', b'{"turns": 2, "seconds": 9}', b'{\n  "turns": 30,\n  "seconds": 9\n}\n'),
        (b'{"tools": ["a"]}', b'{"tools": ["a", "b"]}', b'{"tools": ["c", "a"]}',
         b'{\n  "tools": [\n    "c",\n    "a",\n    "b"\n  ]\n}\n'),
        (b'{"x": 1}', b"{}", b'{"x": 1, "y": 2}', b'{\n  "y": 2\n}\n'),
        (b'{"turns": 2}', b'{"turns": 30}', b'{"turns": 5}', None),
        (b'{"turns": 2}', b'{"turns": 30}', b"[", None),
    ],
)  # fmt: skip
def test_fields_of_a_record(before: bytes, after: bytes, mine: bytes, expected: bytes | None) -> None:
    found = applied({"r.json": before}, {"r.json": after}, {"r.json": mine})
    assert found == (None if expected is None else {"r.json": expected})


def test_whole_files_come_and_go() -> None:
    assert applied({"a": b"1"}, {}, {"a": b"1", "b": b"2"}) == {"b": b"2"}
    assert applied({}, {"a": b"1"}, {"b": b"2"}) == {"a": b"1", "b": b"2"}
    assert applied({}, {"a": b"1"}, {"a": b"other"}) is None
    assert applied({"a": b"\xff\x00"}, {"a": b"x"}, {"a": b"\xff\x01"}) is None


def test_the_repair_of_a_sibling_is_made_here() -> None:
    broken = INSTRUCTION.replace("report.csv", "report_new.csv").encode()
    env = package(task__instruction_md=broken)
    theirs = b"Ask for it.\nSummarise the file `orders.csv` into a new file `report_new.csv`.\n"
    fits = Precedent("c" * 40, "other", "task", {"instruction.md": theirs},
                     {"instruction.md": theirs.replace(b"_new", b"")})  # fmt: skip
    no_fit = Precedent("b" * 40, "third", "task", {"instruction.md": b"x\n"}, {"instruction.md": b"y\n"})
    seen = view_of(env, precedents=lambda component: iter((no_fit, fits)))
    draft = FromSibling("task").propose(seen, diagnosis(finding("renamed_deliverable", "task")))
    assert draft is not None
    assert draft.files["instruction.md"].splitlines()[0] == INSTRUCTION.encode().splitlines()[0]
    assert "the repair of other in cccccccccccc" in draft.rationale
    assert FromSibling("task").propose(view_of(env), diagnosis(finding("x", "task"))) is None
    assert FromSibling("harness").propose(seen, diagnosis(finding("x", "task"))) is None
    assert all(d.style != "history" for d in propose(seen, diagnosis(finding("unheard", "task")), history=False))


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    box = runtime()
    with Engine(box) as made:  # the static probe that is asked runs nothing in it
        yield made
    box.close()


# --- versions ------------------------------------------------------------------------------------------------
def test_of_several_versions_the_newest_in_which_the_check_held(engine: Engine) -> None:
    """The probe that raised the finding is asked again on each."""
    env = package(task__instruction_md=b"Summarise `orders.csv` into `report_new.csv`: `region`, `orders`, `total`.\n")
    texts = (b"Summarise `orders.csv` into `out.csv`.\n", INSTRUCTION.encode(), b"Older: `report.csv`.\n")

    def versions(component: ComponentName) -> Iterator[Earlier]:
        rest = {p: d for p, d in env.files.items() if p.startswith("task/")}
        for number, text in enumerate(texts):
            files = {**{p.removeprefix("task/"): d for p, d in rest.items()}, "instruction.md": text}
            yield Earlier(f"c{number}" * 20, f"{number}" * 40, files, False)

    seen = view_of(env, history=versions, engine=engine)
    found = finding("renamed_deliverable", "task", "deliverables", subject="report.csv")
    draft = FromHistory("task").propose(seen, diagnosis(found))
    assert draft is not None
    assert draft.files["instruction.md"] == INSTRUCTION.encode()
    blind = FromHistory("task").propose(replace(seen, engine=None), diagnosis(found))
    assert blind is not None
    assert blind.files["instruction.md"] == texts[0]  # nobody to ask: the last one


# --- a verifier in part --------------------------------------------------------------------------------------
def test_only_the_criteria_concerned_are_written_again() -> None:
    env = package()
    edit = VerifierEdit(view_of(env))
    edit.write_checks(frozenset({"total"}))
    edit.derive(again=False)
    draft = edit.draft()
    assert draft is not None
    assert draft.files["checks/main.py"] == CHECKS.encode()
    new = Verifier.load(draft.files["verifier.json"], "verifier.json")
    changed = [c.id for c, old in zip(new.criteria, env.verifier.criteria, strict=True) if c != old]
    assert changed == ["total"]
    assert new.criteria[-1].check == f"{BESIDE}:check_total"
    compile(draft.files[BESIDE], BESIDE, "exec")
    assert draft.files[BESIDE].count(b"def check_") == 1


def test_what_the_contract_does_not_demand_goes_and_weights_follow_it() -> None:
    env = package()
    extra = Criterion(id="log", requirement="log", check="checks/extra.py:log", critical=True)
    light = tuple(c.model_copy(update={"weight": 0.5, "critical": False}) for c in env.verifier.criteria)
    odd = Verifier(criteria=(*light, extra), pass_weight=0.3).dump()
    env = package(verifier__verifier_json=odd, verifier__checks__extra_py=b"def log(ev):\n    return 1.0\n")
    found = diagnosis(finding("extra_demand", "verifier", "coverage", criterion="log"))
    draft = VerifierByRule().propose(view_of(env), found)
    assert draft is not None
    new = Verifier.load(draft.files["verifier.json"], "verifier.json")
    needs = {r.id: r for r in env.contract.requirements}
    assert {c.id: (c.weight, c.critical) for c in new.criteria} == {
        c.id: (needs[c.requirement].weight, needs[c.requirement].critical) for c in light
    }
    assert new.pass_weight == 0.75
    assert "checks/extra.py" not in draft.files
    assert draft.files["checks/main.py"] == CHECKS.encode()


def test_a_symptom_has_all_of_them_written() -> None:
    seen = view_of(package())
    for probe, kind in (("attackers", "lax_verifier"), ("p", "verifier_crash"), ("p", "lax_verifier")):
        draft = VerifierByRule().propose(seen, diagnosis(finding(kind, "verifier", probe)))
        assert draft is not None
        assert b"Checks written from the contract" in draft.files["checks/main.py"]
        assert BESIDE not in draft.files
    assert VerifierByRule().propose(seen, diagnosis(finding("unheard", "verifier"))) is None


# --- a contract that is at odds with itself, a start that is in the way ------------------------------------------
def test_a_deliverable_that_the_contract_protects_is_put_right_by_the_task() -> None:
    """Request, reference and criteria would have it written: the vote frees it, and T and V follow the vote."""
    whole = package().contract
    both = tuple(
        r.model_copy(update={"rule": ProtectedRule(paths=(*r.rule.paths, "report.csv"))})
        if isinstance(r.rule, ProtectedRule) else r for r in whole.requirements
    )  # fmt: skip
    env = package(task__contract_json=whole.model_copy(update={"requirements": both}).dump())
    intent = by_vote(env, None, None)
    assert intent.contract == whole
    assert intent.undecided == ()
    assert any("report.csv is to be written" in note for note in intent.notes)
    seen = view_of(env, intent=intent.contract)
    found = diagnosis(finding("contradiction", "task"), finding("protected_target", "verifier", criteria=["sources"]))
    drafts = {d.component: d for d in propose(seen, found)}
    assert drafts["task"].files["contract.json"] == whole.dump()
    assert drafts["task"].files["instruction.md"] == INSTRUCTION.encode()
    assert b"rc.protected(ev, ['orders.csv', 'notes.md'])" in drafts["verifier"].files[BESIDE]


def test_a_reference_takes_the_place_of_what_stands_in_its_way() -> None:
    env = package()
    left = {**env.files, "context/files/report.csv/part-0": b"x"}
    assert set(reference_state(env_from_files(left, summary_resources()))) == {"notes.md", "orders.csv", "report.csv"}
    assert in_the_way("a/b.csv", {"a": b"", "a/b.csv/x": b"", "a/c": b"", "ab": b""}) == ["a", "a/b.csv/x"]
