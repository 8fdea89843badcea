"""Each gate on small candidates of the hand-made package: what it lets pass, and what it holds against one."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO

import pytest
from packages import ORDERS, REPORT, runtime, solution, solution_calls, summary_package, summary_resources

from rover.policy.scripted import ScriptedPolicy
from rover.repair import fcr
from rover.repair.candidates import Builder, Parent, freeze
from rover.repair.conflicts import conflict
from rover.repair.gates.boundary import boundary_kept, contradictions
from rover.repair.gates.intent import intent_kept
from rover.repair.gates.resolved import disagreements, resolved
from rover.repair.gates.siblings import siblings_hold
from rover.repair.gates.sound import dropped_cases, verifier_sound
from rover.repair.intent import Intent, last_admitted
from rover.repair.oracle import ContractUnanswerable, Oracle, state_of
from rover.repair.proposals.protocol import Draft
from rover.repair.replay import Replay, actors
from rover.repair.trial import Trial
from rover.repair.trials import NobodyToAsk, Trials
from rover.rollout.engine import Engine
from rover.rollout.env import Env, env_from_files, tree_of
from rover.rollout.records import RolloutRequest
from rover_store.errors import PackageError
from rover_store.ids import COMPONENTS
from rover_store.records import Admission, Anchors, Finding

FINDING = Finding(probe="cases", kind="lax_verifier", message="a negative is accepted", components=("verifier",))
SOLVER = solution()
CARELESS = ScriptedPolicy([(solution_calls()[0],)], "Done.")


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    kind = runtime()
    with Engine(kind) as engine:
        yield engine
    kind.close()


def env(files: dict[str, bytes | None] | None = None, orders: bytes = ORDERS) -> Env:
    """The package with some files changed or deleted, on other orders if asked."""
    resources = {"files/orders": {**summary_resources()["files/orders"], "files/orders.csv": orders}}
    out = {**summary_package(), **(files or {})}
    return env_from_files({p: d for p, d in out.items() if d is not None}, resources)


def component(of: Env, name: str) -> dict[str, bytes]:
    head = name + "/"
    return {p.removeprefix(head): d for p, d in of.files.items() if p.startswith(head)}


def lax() -> Env:
    source = summary_package()["verifier/checks/main.py"]
    total = b"def report_total(ev):\n"
    assert total in source
    return env({"verifier/checks/main.py": source.replace(total, total + b"    return 1.0\n")})


def intent() -> Intent:
    sound = env()
    return Intent(sound.contract, sound.instruction, "admission", "c" * 40, dict(sound.start))


def trial(engine: Engine, candidate: Env, parent: Env | None = None) -> Trial:
    built = Builder(Parent("c" * 40, candidate.package, {candidate.package: candidate}), [], lambda e: e.verifier_files)
    cast = actors(candidate, parent or candidate, [SOLVER, CARELESS])
    return Trial(built.control(), intent(), Replay(engine, "case"), cast)


# --- (a) -------------------------------------------------------------------------------------------------
def test_resolved(engine: Engine) -> None:
    found = resolved(trial(engine, env()), [FINDING])
    assert found.passed, found.reason
    assert found.evidence


def test_the_finding_is_still_there(engine: Engine) -> None:
    found = resolved(trial(engine, lax()), [FINDING])
    assert not found.passed
    assert found.reason.startswith("still there")


def test_oracle_and_verifier_part(engine: Engine) -> None:
    source = summary_package()["verifier/checks/main.py"].replace(b'"total", tolerance=0.01', b'"total", tolerance=-1')
    found = resolved(trial(engine, env({"verifier/checks/main.py": source})), [])
    assert not found.passed
    assert "total: the contract holds and the verifier gives 0.00" in found.reason


def test_nobody_solves_it(engine: Engine) -> None:
    one = trial(engine, env())
    one.cast = [a for a in one.cast if a.policy is not SOLVER]
    found = resolved(one, [])
    assert not found.passed
    assert "on seed 0 both judges accept no run" in found.reason


def test_an_attacker_that_passes(engine: Engine) -> None:
    source = b"".join(
        b"def %s(ev):\n    return 1.0\n" % name.encode()
        for name in ("report_format", "report_rows", "report_orders", "report_total", "sources_kept", "nothing_else")
    )
    found = [reason for reason, _ in disagreements(trial(engine, env({"verifier/checks/main.py": source})))]
    assert "null:nothing:1: an attacker passes" in found


# --- (b) -------------------------------------------------------------------------------------------------
def test_intent_is_kept(engine: Engine) -> None:
    one = trial(engine, env())
    assert intent_kept(one, one, [FINDING], replayed=True).passed


def test_inputs_may_not_shrink(engine: Engine) -> None:
    parent = trial(engine, env())
    shorter = trial(engine, env(orders=b"\n".join(ORDERS.split(b"\n")[:3]) + b"\n"))
    found = intent_kept(shorter, parent, [FINDING], replayed=False)
    assert "orders.csv lost 4 lines" in found.reason
    without = trial(engine, env({"context/files/notes.md": None}))
    assert "notes.md is gone" in intent_kept(without, parent, [FINDING], replayed=False).reason


def book(rows: int) -> bytes:
    from openpyxl import Workbook

    out = BytesIO()
    made = Workbook()
    for row in [("a", "b"), *((n, "x" * n) for n in range(rows))]:
        made.active.append(row)  # type: ignore[union-attr]
    made.save(out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("path", "before", "after", "said"),
    [
        ("more/list.json", b'[{"a": 1}, {"a": 2}]', b'[{"a": 1}]', "lost 1 values"),
        ("more/book.xlsx", book(9), book(7), "lost 2 rows"),
        ("more/book.xlsx", book(7), book(9), ""),
        ("more/wide.csv", b"a;b;c\n1;2;3\n", b"a;c\n1;3\n", "lost 1 columns"),
        ("more/wide.csv", b"a;b\r\n1;2\r\n\r\n", b"a;b\n1;2\n", ""),
    ],
)
def test_inputs_are_measured_by_what_they_hold(
    engine: Engine, path: str, before: bytes, after: bytes, said: str
) -> None:
    parent, now = (trial(engine, env({f"context/files/{path}": data})) for data in (before, after))
    found = intent_kept(now, parent, [FINDING], replayed=False)
    assert found.passed == (not said)
    assert said in found.reason


def test_a_leak_s_name_frees_no_other_file(engine: Engine) -> None:
    leak = Finding(
        probe="leaks", kind="leaked_answer", message="a leak", components=("context",), evidence=("old/notes.md",)
    )
    parent = trial(engine, env())
    without = trial(engine, env({"context/files/notes.md": None}))
    assert "notes.md is gone" in intent_kept(without, parent, [leak], replayed=False).reason
    guess = leak.model_copy(update={"evidence": ("notes.md",), "status": "hypothesis"})
    assert not intent_kept(without, parent, [guess], replayed=False).passed


def test_the_rules_of_evaluation_are_frozen(engine: Engine) -> None:
    verifier = env().verifier
    mark = verifier.model_copy(update={"pass_weight": 0.5})
    soft = tuple(c.model_copy(update={"critical": False}) for c in verifier.criteria)
    said = []
    for loose in (mark, verifier.model_copy(update={"criteria": soft})):
        one = trial(engine, env({"verifier/verifier.json": loose.dump()}))
        one.intent = last_admitted_of(env())
        found = intent_kept(one, one, [FINDING], replayed=False)
        assert not found.passed
        said.append(found.reason)
    assert said == ["the pass mark is 0.5 instead of 0.75", "no criterion of sources is critical any more"]


def last_admitted_of(one: Env) -> Intent:
    ids = {c: one.component_id(c) for c in COMPONENTS}
    record = one.record.model_copy(update={"admission": Admission(components=ids, cases=9, digest="d")})
    found = last_admitted([("c" * 40, env_from_files({**one.files, "package.json": record.dump()}, one.resources))])
    assert found is not None
    return found


def test_a_leak_may_be_taken_out(engine: Engine) -> None:
    leaking = trial(engine, env({"context/files/old/report_final.csv": REPORT}))
    where = ("old/report_final.csv",)
    leak = Finding(probe="leaks", kind="leaked_answer", message="a leak", components=("context",), evidence=where)
    assert intent_kept(trial(engine, env()), leaking, [leak], replayed=False).passed


def test_weak_policies_may_not_gain(engine: Engine) -> None:
    parent = trial(engine, env())
    easier = trial(engine, env({"context/files/report.csv": REPORT}))
    found = intent_kept(easier, parent, [FINDING], replayed=True)
    assert not found.passed
    assert "satisfies the contract" in found.reason


def test_the_shortest_known_solution(engine: Engine) -> None:
    quick = ScriptedPolicy([(solution_calls()[1],)], "Wrote report.csv.")
    lengths = []
    for policies in ([SOLVER], [SOLVER, quick], [CARELESS]):
        one = trial(engine, env())
        one.cast = actors(one.env, one.env, policies)
        lengths.append(one.shortest())
    assert lengths == [2, 1, None]


# --- (c) -------------------------------------------------------------------------------------------------
def test_boundary(engine: Engine) -> None:
    assert boundary_kept(trial(engine, env())).passed
    for path, data in (
        ("old/report_final.csv", REPORT),
        ("old/report.txt", REPORT.replace(b"\n", b"\r\n") + b"(checked)\n"),
        ("mail.md", b"For the record: East 1 310.1, North 2 219.8\nNorth 2 219.75\nSouth 2 125.75\nWest 1 1,200.00\n"),
    ):
        found = boundary_kept(trial(engine, env({f"context/files/{path}": data})))
        assert not found.passed, path
        assert path in found.reason


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"task/instruction.md": b"Summarise orders.csv.\n"}, "the request does not name report.csv"),
        ({"verifier/checks/main.py": None}, "checks/main.py is missing"),
        ({"verifier/anchors.json": b'{"anchors": []}'}, "anchor totals is missing"),
    ],
)
def test_contradictions(files: dict[str, bytes | None], said: str) -> None:
    assert any(said in line for line in contradictions(env(files)))


def test_unscored_and_unasked() -> None:
    verifier = env().verifier
    cut = verifier.model_copy(update={"criteria": verifier.criteria[1:]})
    more = verifier.criteria[0].model_copy(update={"id": "x", "requirement": "x", "paths": ("log.txt",)})
    found = list(contradictions(env({"verifier/verifier.json": cut.dump()})))
    assert found == [f"no criterion scores {verifier.criteria[0].requirement}"]
    added = verifier.model_copy(update={"criteria": (*verifier.criteria, more)})
    found = list(contradictions(env({"verifier/verifier.json": added.dump()})))
    assert any("which the contract does not demand" in f for f in found)
    assert any("reads log.txt, which nobody asks for" in f for f in found)
    assert list(contradictions(env())) == []


# --- (d) -------------------------------------------------------------------------------------------------
def test_verifier_sound(engine: Engine) -> None:
    assert verifier_sound(trial(engine, env()), env()).passed
    found = verifier_sound(trial(engine, lax()), env())
    assert not found.passed
    assert "accepts the negative wrong-total" in found.reason


def test_a_verifier_may_not_let_through_more_than_the_contract(engine: Engine) -> None:
    """Every calibration case and every slip is further off than this."""
    source = summary_package()["verifier/checks/main.py"]
    wider = source.replace(b'"total", tolerance=0.01', b'"total", tolerance=0.5')
    assert wider != source
    found = verifier_sound(trial(engine, env({"verifier/checks/main.py": wider})), env())
    assert not found.passed
    assert "accepts work that breaks total by a little (report.csv, moved by 0.1)" in found.reason
    same = source + b"\n# another comment\n"
    assert verifier_sound(trial(engine, env({"verifier/checks/main.py": same})), env()).passed


def test_cases_may_not_be_dropped() -> None:
    cases = env().cases
    fewer = cases.model_copy(update={"negatives": cases.negatives[1:], "states": ()})
    after = env({"verifier/cases/cases.json": fewer.dump()})
    gone = list(dropped_cases(env(), after, intent()))
    assert gone == [f"the case {cases.negatives[0].id} was dropped", "the alternative semicolons was dropped"]
    assert list(dropped_cases(env(), env(), intent())) == []
    first, other = cases.negatives[0], cases.alternatives[0]
    moved = cases.model_copy(
        update={
            "negatives": (first.model_copy(update={"path": "new.csv"}), *cases.negatives[1:]),
            "alternatives": (other.model_copy(update={"path": "new.csv"}), *cases.alternatives[1:]),
        }
    )
    assert list(dropped_cases(env(), env({"verifier/cases/cases.json": moved.dump()}), intent())) == []
    weaker = first.model_copy(update={"op": "delete" if first.op != "delete" else "empty"})
    eased = cases.model_copy(update={"negatives": (weaker, *cases.negatives[1:])})
    gone = list(dropped_cases(env(), env({"verifier/cases/cases.json": eased.dump()}), intent()))
    assert gone == [f"the case {first.id} was dropped"]


# --- (e) -------------------------------------------------------------------------------------------------
def test_siblings(engine: Engine) -> None:
    other = env_from_files(summary_package("other-summary"), summary_resources())
    parent = Parent("c" * 40, "order-summary", {"order-summary": env(), "other-summary": other})
    twice = b"".join(b"2%s\n" % line[1:] for line in ORDERS.splitlines()[1:])  # every order again, by another id
    more = {**summary_resources()["files/orders"], "files/orders.csv": ORDERS + twice}
    proposal = freeze(Draft("context", component(env(), "context"), {"files/orders": more}))
    report = b"region,orders,total\nEast,2,620.20\nNorth,4,439.50\nSouth,4,251.50\nWest,2,2400.00\n"

    def rebuild(of: Env) -> dict[str, bytes]:
        anchors = of.anchors.model_dump(mode="json")
        rows = anchors["anchors"][0]["value"]["rows"]
        anchors["anchors"][0]["value"]["rows"] = [[r[0], r[1] * 2, r[2] * 2] for r in rows]
        changed = {"anchors.json": Anchors.model_validate(anchors).dump(), "reference/files/report.csv": report}
        return {**of.verifier_files, **changed, "cases/semicolons/files/report.csv": report.replace(b",", b";")}

    built = Builder(parent, [proposal], rebuild).build(1)
    assert set(built.siblings) == {"other-summary"}
    assert {"resources/files/orders", "order-summary/context", "other-summary/context"} <= built.expansion.changed
    one = Trial(built, intent(), Replay(engine, "case"), actors(built.env, built.env, [SOLVER]))
    found = siblings_hold(one, parent)
    # the model writes what the old orders gave; the sibling's verifier, rebuilt, no longer accepts that
    assert not found.passed
    assert "other-summary: scripted:" in found.reason
    assert "goes from passed to failed" in found.reason
    alone = Trial(Builder(parent, [], lambda e: e.verifier_files).control(), intent(), Replay(engine, "case"), ())
    assert siblings_hold(alone, parent).passed


# --- together ------------------------------------------------------------------------------------------------
def test_trials_stop_at_the_first_failing_gate(engine: Engine) -> None:
    broken = lax()
    parent = Parent("c" * 40, broken.package, {broken.package: broken})
    good = freeze(Draft("verifier", component(env(), "verifier"), rationale="as it was"))
    bad = freeze(Draft("task", {**component(broken, "task"), "instruction.md": b"Do it.\n"}))
    builder = Builder(parent, [good, bad], lambda e: e.verifier_files)
    built = {0: builder.control(), **{m: builder.build(m) for m in (2, 8, 10)}}
    trials = Trials(parent, intent(), [FINDING], Replay(engine, "case"), built, models=[SOLVER])
    run = fcr.select([b.option for b in built.values()], trials.evaluate)
    assert run.selected is not None
    assert run.selected.mask == 8
    assert not trials.gates[0][-1].passed
    assert [g.gate for g in trials.gates[8]] == ["intent", "boundary", "resolved", "verifier", "siblings"]
    assert all(g.passed for g in trials.gates[8])


def test_nobody_to_ask(engine: Engine) -> None:
    parent = Parent("c" * 40, "order-summary", {"order-summary": env()})
    builder = Builder(parent, [], lambda e: e.verifier_files)
    trials = Trials(parent, intent(), [FINDING], Replay(engine, "case"), {0: builder.control()})
    with pytest.raises(NobodyToAsk, match="no solver"):
        trials.evaluate(builder.control().option)


def test_a_candidate_that_nobody_can_be_asked_about_does_not_pass(engine: Engine) -> None:
    """What was recorded on the parent's task says nothing of another task; lazy and exhaustive agree on that."""
    broken = lax()
    played = engine.rollouts([RolloutRequest(broken, SOLVER, 1)])[0].trajectory
    parent = Parent("c" * 40, broken.package, {broken.package: broken})
    good = freeze(Draft("verifier", component(env(), "verifier")))
    text = env().instruction.replace("Change no", "Please change no").encode()
    other = freeze(Draft("task", {**component(broken, "task"), "instruction.md": text}))
    builder = Builder(parent, [good, other], lambda e: e.verifier_files)
    built = {0: builder.control(), **{m: builder.build(m) for m in (2, 8, 10)}}
    for lazy in (True, False):
        trials = Trials(
            parent, intent(), [FINDING], Replay(engine, "case"), built, recorded=[played], thorough=not lazy
        )
        run = fcr.select([b.option for b in built.values()], trials.evaluate, lazy=lazy)
        assert run.selected is not None
        assert run.selected.mask == 8
    assert trials.undecided == [2, 10]
    assert "no solver" in trials.gates[2][0].reason


def test_a_context_is_what_its_id_says() -> None:
    one = env()
    refs = tuple(r.model_copy(update={"tree": "0" * 40}) for r in one.context.resources)
    files = {**component(one, "context"), "context.json": one.context.model_copy(update={"resources": refs}).dump()}
    parent = Parent("c" * 40, one.package, {one.package: one})
    with pytest.raises(PackageError, match="files/orders is not what 000000000000 holds"):
        Builder(parent, [freeze(Draft("context", files))], lambda e: e.verifier_files).build(1)


def test_rollouts_are_shared_where_c_t_and_h_are_equal(engine: Engine) -> None:
    replay = Replay(engine, "another case")
    first, second = (replay.play(one, actors(one, env(), [SOLVER])) for one in (env(), lax()))
    assert [r.result.reused for r in first] == [False] * len(actors(env(), env(), [SOLVER]))
    assert [(r.id, r.result.reused) for r in second] == [(r.id, True) for r in first]


def test_conflicts() -> None:
    parent = env()
    one = freeze(Draft("task", component(parent, "task"), needs=("given:code", "tool:shell"), writes=("path:a=1",)))
    two = freeze(Draft("harness", component(parent, "harness"), writes=("path:a=2", "given:code")))
    three = freeze(Draft("verifier", component(parent, "verifier"), writes=("path:a=1", "given:code")))
    assert conflict([one], parent) == "task needs given:code"
    assert conflict([one, two], parent) == "task and harness write path:a differently"
    assert conflict([one, three], parent) is None


def test_freezing_pins_the_resources() -> None:
    more = {**summary_resources()["files/orders"], "files/extra.csv": b"a\n1\n"}
    frozen = freeze(Draft("context", component(env(), "context"), {"files/orders": more}))
    assert tree_of(more) in frozen.draft.files["context.json"].decode()
    assert frozen.record.resources[0].tree == tree_of(more)
    assert frozen.record.tree != env().context_id


def test_the_oracle_in_a_box(engine: Engine) -> None:
    one = env()
    oracle = Oracle(engine, one.contract, one.start)
    good = state_of(one.start, {**one.start, "report.csv": REPORT})
    bad = state_of(one.start, {**one.start, "report.csv": REPORT.replace(b"1200.00", b"1300.00")})
    first, second, third = oracle.judge([good, bad, state_of(one.start, one.start)])
    assert first.accepts
    assert [r for r, ok in second.satisfied.items() if not ok] == ["total"]
    assert not third.satisfied["format"]
    assert oracle.judge([good])[0] is first
    without = {"notes.md": one.start["notes.md"]}
    with pytest.raises(ContractUnanswerable):
        Oracle(engine, one.contract, without).answers()
