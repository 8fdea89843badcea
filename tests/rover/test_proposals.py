"""Proposers: each finding gets an edit that silences the probe which raised it, and nothing but what a rule knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest
from packages import runtime, summary_package, summary_resources

from rover.construct.calibrate import mutant_rows, reference_row, state_rows
from rover.diagnose.diagnosis import diagnose
from rover.diagnose.inject.registry import injector
from rover.diagnose.protocol import ProbeContext
from rover.diagnose.registry import still_there
from rover.repair.proposals.checks import written
from rover.repair.proposals.history import FromHistory
from rover.repair.proposals.protocol import Draft, Earlier, PackageView, Proposer
from rover.repair.proposals.registry import propose, proposers
from rover.repair.proposals.rules_harness import wanted
from rover.repair.proposals.styles import propose_styles
from rover.rollout.engine import Engine
from rover.rollout.env import Env, env_from_files, tree_of
from rover.sandbox.protocol import Files
from rover_store.errors import NotFound
from rover_store.ids import ComponentName
from rover_store.records import (
    Anchors,
    Contract,
    Deliverable,
    Diagnosis,
    Finding,
    Given,
    GivenValue,
    Query,
    Requirement,
    Source,
    Verifier,
)
from rover_store.records.contract import (
    Answer,
    CiteRule,
    Column,
    EditRule,
    FieldRule,
    FigureRule,
    FormatRule,
    OrderRule,
    RecordsRule,
    RestRule,
    RowsRule,
    Rule,
    SetRule,
)
from rover_store.records.query import Filter

CHEAP = ("givens", "inputs", "deliverables", "coverage", "tools", "anchors", "leaks", "reference", "cases")
ORDERS = summary_resources()["files/orders"]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    box = runtime()
    with Engine(box) as made:
        yield made
    box.close()


def broken(kind: str, seed: int) -> Env:
    files = summary_package()
    env = env_from_files(files, summary_resources())
    damage = injector(kind).inject(env, seed)
    return env_from_files(damage.applied(files), {**summary_resources(), **damage.resources})


def view_of(env: Env, engine: Engine | None = None, earlier: Iterable[Earlier] | None = None) -> PackageView:
    def read(tree: str) -> Files:
        if tree != tree_of(ORDERS):
            raise NotFound("tree", tree)
        return ORDERS

    past = None if earlier is None else (lambda component: earlier)
    return PackageView(
        env.package, "0" * 40, env.tree, env, env.files, env.resources, engine=engine, read=read, history=past
    )


def with_draft(env: Env, draft: Draft) -> Env:
    """The package with one component replaced."""
    files = {p: d for p, d in env.files.items() if not p.startswith(f"{draft.component}/")}
    files |= {f"{draft.component}/{p}": d for p, d in draft.files.items()}
    return env_from_files(files, {**env.resources, **draft.resources})


def diagnosis(*findings: Finding) -> Diagnosis:
    return Diagnosis(package="order-summary", tree="0" * 40, verdict="environment", findings=findings)


def finding(kind: str, component: ComponentName, probe: str = "p", **details: object) -> Finding:
    return Finding(probe=probe, kind=kind, message=kind, components=(component,), details=details)


@pytest.mark.parametrize(
    ("kind", "seed", "component"),
    [
        ("missing_input", 0, "context"),
        ("leaked_answer", 0, "context"),
        ("leaked_answer", 1, "context"),
        ("renamed_deliverable", 2, "task"),
        ("renamed_deliverable", 0, "verifier"),
        ("tool_removed", 0, "harness"),
        ("lax_verifier", 0, "verifier"),
        ("strict_verifier", 0, "verifier"),
        ("wrong_anchor", 0, "verifier"),
        ("unscored_requirement", 0, "verifier"),
        ("extra_demand", 0, "verifier"),
        ("flaky_verifier", 0, "verifier"),
        ("changed_data", 0, "context"),
    ],
)
def test_a_proposal_silences_the_probe(engine: Engine, kind: str, seed: int, component: ComponentName) -> None:
    env = broken(kind, seed)
    found = diagnose(ProbeContext(env, engine), only=CHEAP)
    assert found.verdict == "environment"
    drafts = {d.component: d for d in propose(view_of(env, engine), found, history=False)}
    mended = with_draft(env, drafts[component])
    confirmed = [f for f in found.findings if f.status == "confirmed"]
    assert still_there(confirmed, ProbeContext(mended, engine)) == ()
    assert mended.contract == env.contract
    assert drafts[component].rationale


def test_a_joint_defect_gets_a_proposal_on_each_side(engine: Engine) -> None:
    env = broken("leak_and_lax", 0)
    found = diagnose(ProbeContext(env, engine), only=("leaks", "cases"))
    drafts = propose(view_of(env, engine), found)
    assert [d.component for d in drafts] == ["context", "verifier"]
    assert all(p not in drafts[0].files for p in env.files if "notes.txt" in p or "draft.txt" in p)


def test_proposals_are_made_alike_each_time(engine: Engine) -> None:
    env = broken("lax_verifier", 1)
    found = diagnose(ProbeContext(env, engine), only=("cases",))
    assert propose(view_of(env, engine), found) == propose(view_of(env, engine), found)


def test_nothing_is_proposed_for_a_hypothesis() -> None:
    env = env_from_files(summary_package(), summary_resources())
    doubts = [
        finding(kind, "context").model_copy(update={"status": "hypothesis"})
        for kind in ("leaked_answer", "missing_input", "tool_removed", "lax_verifier", "missing_given")
    ]
    assert propose(view_of(env), diagnosis(*doubts)) == ()


def test_each_suspect_is_made_to_fit_the_rest() -> None:
    """A demonstrator that gets nowhere may lack words or room: whoever is suspected proposes, and nobody else."""
    files = {**summary_package(), "task/instruction.md": b"Summarise `orders.csv` into `report.csv`.\n"}
    env = env_from_files(files, summary_resources())
    lost = finding("unsolvable", "task").model_copy(update={"components": ("task", "harness")})
    drafts = {d.component: d for d in propose(view_of(env), diagnosis(lost))}
    assert set(drafts) == {"harness"}  # without a family nobody can tell which words are lacking
    assert with_draft(env, drafts["harness"]).harness.budget.turns == 60


def test_haste_is_only_there_where_styles_are_asked_for() -> None:
    env = env_from_files(summary_package(), summary_resources())
    strict = diagnosis(finding("strict_verifier", "verifier"))
    (draft,) = propose(view_of(env), strict)
    assert (draft.proposer, draft.style) == ("verifier-rule", "rule")
    products = propose_styles(view_of(env), strict, 3)
    assert [s[0].style for s in products.sets] == ["rule", "hasty"]  # nothing more to derive without an engine
    assert products.sets[0] == (draft,)
    loose = with_draft(env, products.sets[1][0]).verifier
    assert {c.id for c in loose.criteria if not c.weight} == {"format", "rows", "orders", "total"}


def test_a_file_that_nobody_can_read_is_not_bound_again() -> None:
    env = broken("missing_input", 0)
    blind = PackageView(env.package, "0" * 40, env.tree, env, env.files, env.resources)
    drafts = propose(blind, diagnosis(finding("missing_input", "context", subject="orders.csv")))
    assert "context" not in {d.component for d in drafts}


def test_tools_that_a_solver_needs_come_before_those_that_might_do() -> None:
    static = finding("tool_removed", "harness", "tools", tools=["write_table", "write_file"])
    seen = finding("tool_removed", "harness", "needed_tools", tools=["shell"])
    assert wanted(diagnosis(static)) == ["write_table"]
    assert wanted(diagnosis(static, seen)) == ["shell"]


def test_a_budget_grows_with_what_was_needed() -> None:
    env = env_from_files(summary_package(), summary_resources())
    small = diagnosis(finding("budget_too_small", "harness", turns=40))
    (draft, *_) = propose(view_of(env), small)
    assert with_draft(env, draft).harness.budget.turns == 80


def test_history_offers_the_last_admitted_version_of_a_suspect() -> None:
    env = env_from_files(summary_package(), summary_resources())
    old = {"task.json": b"{}", "instruction.md": b"old"}
    newer = Earlier("c2" * 20, "2" * 40, {"instruction.md": b"newer"}, False)
    versions = (newer, Earlier("c1" * 20, "1" * 40, old, True))
    found = diagnosis(finding("unsolvable", "task"))
    seen = view_of(env, earlier=versions)
    draft = FromHistory("task").propose(seen, found)
    assert draft is not None
    assert (draft.files, draft.source) == (old, "history")
    assert FromHistory("context").propose(seen, found) is None  # no suspect
    assert FromHistory("task").propose(view_of(env), found) is None  # history is off
    assert all(d.source != "history" for d in propose(seen, found, history=False))


def test_an_earlier_context_brings_the_resources_that_it_was_bound_to() -> None:
    env = env_from_files(summary_package(), summary_resources())
    (ref,) = env.context.resources
    then = ref.model_copy(update={"tree": "7" * 40})
    files = {"context.json": env.context.model_copy(update={"resources": (then,)}).dump()}
    content = {"resource.json": b"{}", "files/orders.csv": b"a\n"}
    seen = replace(view_of(env, earlier=(Earlier("c1" * 20, "1" * 40, files, True),)), read={then.tree: content}.get)
    draft = FromHistory("context").propose(seen, diagnosis(finding("changed_data", "context")))
    assert draft is not None
    assert draft.resources == {"files/orders": content}


def test_every_proposer_is_one() -> None:
    assert all(isinstance(p, Proposer) for p in proposers())
    assert len({p.name for p in proposers()}) == len(proposers()) == 19


# --- checks from a contract ----------------------------------------------------------------------------------
def test_checks_from_a_contract_judge_like_a_person_s(engine: Engine) -> None:
    env = env_from_files(summary_package(), summary_resources())
    new = written(env.contract, env.verifier, env.anchors)
    files = {p: d for p, d in env.files.items() if not p.startswith("verifier/checks/")}
    files |= {"verifier/verifier.json": new.verifier.dump(), "verifier/checks/main.py": new.source.encode()}
    again = env_from_files(files, summary_resources())
    rules = (*again.cases.negatives, *again.cases.alternatives)
    rows = [reference_row(engine, again), *state_rows(engine, again), *mutant_rows(engine, again, rules, 0)]
    assert [r.case for r in rows if not r.ok] == []
    assert [c.id for c in new.verifier.criteria] == ["format", "rows", "orders", "total", "sources", "clean"]
    assert set(new.queries) == {"totals"}  # the anchor keeps its id


@pytest.mark.parametrize("in_place", [False, True])
def test_the_form_of_a_json_list_is_that_of_a_table(in_place: bool) -> None:
    column = Column(name="x", type="number")
    listing = Deliverable(id="t", path="a.json", type="json", columns=(column,), key=("id",), in_place=in_place)
    rule: Rule = RestRule() if in_place else OrderRule(column="x")
    needs = [Requirement(id=r.kind, statement=r.kind, rule=r, deliverable="t") for r in (FormatRule(), rule)]
    contract = Contract(deliverables=(listing,), requirements=tuple(needs))
    source = written(contract, Verifier(criteria=()), Anchors()).source
    assert "rc.has_columns(found, ['x']" in source
    assert "json_object" not in source


def every_rule() -> Contract:
    limit = Given(given="limit")
    rows = Query(source=Source(path="a.csv"), filters=(Filter(column="x", op="gt", value=limit),), select=("id",))
    one, column = Answer(answer=rows), Column(name="x", type="number", tolerance=0.5)
    table = Deliverable(id="t", path="a.csv", type="csv", columns=(column,), key=("id",), in_place=True)
    report = Deliverable(id="j", path="r.json", type="json", columns=(Column(name="n", type="integer"),))
    memo = Deliverable(id="m", path="m.md", type="markdown")
    rules: list[tuple[str, Rule]] = [
        ("t", FormatRule()), ("t", RowsRule(value=one)), ("t", OrderRule(column="x", descending=True)),
        ("t", EditRule(column="x", rows=one, value=limit)), ("t", RestRule()),
        ("j", FormatRule()), ("j", FieldRule(field="n", value=limit)), ("j", SetRule(field="ids", value=one)),
        ("j", RecordsRule(field="all", key=("id",), columns=(column,), value=one)),
        ("m", FormatRule()), ("m", FigureRule(label="Limit", value=limit)), ("m", CiteRule(paths=("a.csv",))),
    ]  # fmt: skip
    needs = [Requirement(id=f"r-{n}", statement=r.kind, rule=r, deliverable=d) for n, (d, r) in enumerate(rules)]
    return Contract(
        givens=(GivenValue(name="limit", value=3),), deliverables=(table, report, memo), requirements=tuple(needs)
    )


def test_each_kind_of_rule_has_a_check() -> None:
    contract = every_rule()
    made = written(contract, Verifier(criteria=()), Anchors())
    compile(made.source, "checks/main.py", "exec")
    assert made.source.count("def check_r_") == len(contract.requirements)
    assert [c.requirement for c in made.verifier.criteria] == [r.id for r in contract.requirements]
    assert len(made.queries) == 1  # five answers, one query, one anchor
    for call in ("edited(", "rest_unchanged(", "set_is(", "records_match(", "field_is(", "figure_near(", "cites("):
        assert f"rc.{call}" in made.source
    assert "edits={'x': ev.anchor('r-1-0')}" in made.source
