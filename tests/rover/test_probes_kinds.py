"""Probes of the newer kinds, on a small package: pure ones without a sandbox, the others on one engine."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packages import ORDERS, REPORT, runtime, summary_package, summary_resources

from rover.diagnose.inside_data import copies, rows, spellings, undone
from rover.diagnose.kinds import KINDS, RULES_OUT, kind
from rover.diagnose.probes.fickle import pure
from rover.diagnose.probes.request import in_another_unit, terms
from rover.diagnose.probes.solving import tighter
from rover.diagnose.protocol import ProbeContext
from rover.diagnose.registry import asked, probe, probes
from rover.diagnose.restate import corrected, instead
from rover.rollout.engine import Engine
from rover.rollout.env import Env, env_from_files, tree_of
from rover_store.errors import NotFound
from rover_store.records import (
    ContextFile,
    Contract,
    Criterion,
    Finding,
    Given,
    GivenValue,
    Limits,
    Query,
    Requirement,
    Source,
    Verifier,
)
from rover_store.records.contract import Answer, OrderRule, RowsRule
from rover_store.records.query import Filter, Measure

Files = dict[str, bytes]
CHECKS = "verifier/checks/main.py"


def env_of(changes: dict[str, bytes | None] | None = None, resources: dict[str, Files] | None = None) -> Env:
    files = {**summary_package(), **(changes or {})}
    kept = {p: d for p, d in files.items() if d is not None}
    return env_from_files(kept, {**summary_resources(), **(resources or {})})


def still(env: Env) -> ProbeContext:
    """A context for probes that run nothing."""
    return ProbeContext(env, None)  # type: ignore[arg-type]


def found(name: str, env: Env, engine: Engine | None = None) -> list[tuple[str, str]]:
    ctx = ProbeContext(env, engine) if engine is not None else still(env)
    return [(f.kind, f.components[0]) for f in probe(name).run(ctx)]


def with_limit(op: str = "gt", value: str | float = 100, text: str = "") -> Env:
    """The package whose rows have to meet a condition on `amount`, with a request that says `text` of it."""
    env = env_of()
    query = Query(
        source=Source(path="orders.csv"),
        filters=(Filter(column="amount", op=op, value=Given(given="limit")),),  # type: ignore[arg-type]
        group_by=("region",),
        measures=(Measure(name="orders", fn="count"),),
    )
    more = Requirement(id="large", statement="large ones", rule=RowsRule(value=Answer(answer=query)))
    requirements = (*env.contract.requirements, more)
    givens = (GivenValue(name="limit", value=value, meaning="smallest amount"),)
    contract = env.contract.model_copy(update={"givens": givens, "requirements": requirements})
    request = f"{env.instruction}\n{text}\n"
    return env_of({"task/contract.json": contract.dump(), "task/instruction.md": request.encode()})


# --- kinds -----------------------------------------------------------------------------------------------------
def test_every_kind_that_a_probe_may_find_is_listed() -> None:
    names = [k.name for k in KINDS]
    assert len(set(names)) == len(names)
    assert all(k.summary.endswith(".") for k in KINDS)
    assert {k for p in probes() for k in p.written_for} <= set(names)
    assert set(RULES_OUT) <= set(names)
    said = set()
    for path in (Path(__file__).parents[2] / "rover/diagnose/probes").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "kind" and isinstance(node.value, ast.Constant):
                said.add(node.value.value)
    assert len(said) > 15
    assert said <= set(names)
    with pytest.raises(NotFound):
        kind("bad_luck")


def test_some_probes_know_no_kind_at_all() -> None:
    generic = {p.name for p in probes() if not p.written_for}
    assert {"agreement", "replay", "independent", "start", "reference", "cases", "attackers", "reading"} <= generic


_SAID = "Keep rows where `amount` is more than 100."


# --- the request ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("Keep rows where `amount` is more than 100.", "given_values", []),
        ("Keep rows where `amount` is more than 120.", "given_values", [("wrong_given", "task")]),
        ("Keep rows where `amount` is more than 10000.", "given_values", [("wrong_unit", "task")]),
        ("Keep rows where `amount` is more than 0.1 thousand.", "given_values", [("wrong_unit", "task")]),
        ("Keep rows where `amount` is more than the usual figure.", "given_values", []),  # said by `givens`
        ("Keep rows where `amount` is more than 100.", "two_readings", []),
        (f"{_SAID} For `amount` take 250.", "two_readings", [("ambiguous_request", "task")]),
        (f"{_SAID} Save it as `other.csv`.", "two_readings", [("ambiguous_request", "task")]),
    ],
)  # fmt: skip
def test_what_the_request_says_of_a_value(text: str, name: str, expected: list[tuple[str, str]]) -> None:
    assert found(name, with_limit(text=text)) == expected


def test_a_wrong_value_is_put_right_where_it_stands() -> None:
    text = "Keep rows where `amount` is more than 120 and sort them."
    contract = with_limit().contract
    assert instead(text, contract, contract.givens[0]) == ("120",)
    assert corrected(text, contract, contract.givens[0]) == "Keep rows where `amount` is more than 100 and sort them."


def test_a_value_in_another_unit_or_format_is_told_from_another_value() -> None:
    assert in_another_unit(2.5, "2500")
    assert not in_another_unit(2.5, "3")
    assert in_another_unit("2024-04-03", "03/04/2024")
    assert in_another_unit("2024-04-03", "20240403")
    assert in_another_unit("2024-04-03", "4/3/24")
    assert in_another_unit(2024, "24")
    assert not in_another_unit("2024-04-03", "2024-04-05")


def test_two_directions_are_two_readings() -> None:
    env = env_of()
    need = Requirement(id="order", statement="sorted", rule=OrderRule(column="total"), deliverable="report")
    contract = env.contract.model_copy(update={"requirements": (*env.contract.requirements, need)})
    text = f"{env.instruction} Sort by `total`, smallest first. Sort by `total`, largest first.\n"
    broken = env_of({"task/contract.json": contract.dump(), "task/instruction.md": text.encode()})
    assert found("two_readings", broken) == [("ambiguous_request", "task")]
    assert {"ascending", "descending", "total"} <= terms(text)


@pytest.mark.parametrize("said", ["Use the tool `merge_tables`.", "Write it with `read_workbook` alone."])
def test_a_tool_that_nobody_offers_contradicts_the_harness(said: str) -> None:
    text = env_of().instruction + said
    assert found("named_tools", env_of({"task/instruction.md": text.encode()})) == [("contradiction", "task")]
    assert found("named_tools", env_of()) == []


# --- the workspace -------------------------------------------------------------------------------------------------
def renamed(name: str) -> Env:
    env = env_of()
    resource = {"resource.json": summary_resources()["files/orders"]["resource.json"], f"files/{name}": ORDERS}
    ref = env.context.resources[0].model_copy(update={"tree": tree_of(resource)})
    context = env.context.model_copy(update={"resources": (ref,)})
    return env_of({"context/context.json": context.dump()}, {"files/orders": resource})


def test_an_input_under_another_name_is_misnamed() -> None:
    findings = probe("names").run(still(renamed("Orders_2023.csv")))
    assert [(f.kind, f.details["subject"], f.details["found"]) for f in findings] == [
        ("misnamed_input", "orders.csv", "Orders_2023.csv")
    ]
    assert found("names", renamed("people.csv")) == []
    assert found("names", env_of()) == []


def test_checks_and_expected_values_in_the_workspace_are_readable() -> None:
    env = env_of()
    own = env.verifier_files["checks/main.py"]
    table = env.anchors.anchors[0].value.model_dump_json().replace("{", '{"id": "totals", ', 1)
    for path, data in (("qa/test.py", own), ("qa/part.py", own[len(own) // 3 :]), ("qa/e.json", f"[{table}]".encode())):
        assert found("readable", env_of({f"context/files/{path}": data})) == [("verifier_readable", "context")], path
    assert found("readable", env_of({"context/files/a.json": b'[{"id": "totals", "rows": []}]'})) == []
    assert found("readable", env) == []


@pytest.mark.parametrize("path", ["report.csv", "report.csv/part-0"])
def test_what_lies_where_the_deliverable_has_to_go_is_left_over(path: str) -> None:
    assert found("leftovers", env_of({f"context/files/{path}": b"x"})) == [("leftover_output", "context")]
    assert found("leftovers", env_of()) == []


def test_a_file_to_be_edited_may_not_be_marked_as_protected() -> None:
    env = env_of()
    first = env.contract.deliverables[0].model_copy(update={"path": "orders.csv", "in_place": True})
    contract = env.contract.model_copy(update={"deliverables": (first,)})
    changes: dict[str, bytes | None] = {"task/contract.json": contract.dump()}
    assert found("marks", env_of(changes)) == [("protected_target", "context")]
    files = (ContextFile(path="orders.csv", access="editable"),)
    open_ = env.context.model_copy(update={"files": files})
    assert found("marks", env_of({**changes, "context/context.json": open_.dump()})) == []


# --- the data ------------------------------------------------------------------------------------------------------
def test_columns_in_another_spelling_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("id,amount,day,plain\n1,\"1.200,5\",03/04/2024,5\n2,\"80,0\",05/04/2024,6\n")
    asked_for = [
        {"path": "a.csv", "sheet": None, "column": c, "sort": s}
        for c, s in (("amount", "number"), ("day", "date"), ("plain", "number"), ("gone", "number"))
    ]
    assert [(one["column"], one["found"]) for one in spellings({"columns": asked_for})] == [
        ("amount", "1.200,5"), ("day", "03/04/2024"),
    ]  # fmt: skip
    assert rows(Path("none.csv"), None) == []


def test_copies_that_disagree_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("orders.csv").write_bytes(ORDERS)
    Path("copy.csv").write_bytes(ORDERS.replace(b"80.00", b"81.00"))
    Path("same.csv").write_bytes(ORDERS)
    Path("other.csv").write_bytes(b"order_id,region,amount,day\n1,a,1,2024-01-01\n2,b,2,2024-01-02\n")
    files = ["orders.csv", "copy.csv", "same.csv", "other.csv"]
    hits = copies({"files": files, "needed": ["orders.csv"]})
    assert [(h["found"], h["column"]) for h in hits] == [("copy.csv", "amount")]


def test_a_factor_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    env = env_of()
    job: dict[str, Any] = {
        "columns": [{"path": "orders.csv", "sheet": None, "column": "amount", "sort": "number"}],
        "queries": {a.id: a.query.model_dump(mode="json") for a in env.anchors.anchors},
        "givens": {},
        "anchors": {a.id: [list(row) for row in a.value.rows] for a in env.anchors.anchors},
    }
    lines = [line.split(b",") for line in ORDERS.splitlines()]
    cents = [lines[0], *([a, b, str(round(float(c) * 100)).encode(), d] for a, b, c, d in lines[1:])]
    Path("orders.csv").write_bytes(b"\n".join(b",".join(line) for line in cents) + b"\n")
    one = undone(job)
    assert one is not None
    assert (one["column"], one["factor"]) == ("amount", 100.0)
    Path("orders.csv").write_bytes(ORDERS.replace(b"80.00", b"81.00"))
    assert undone(job) is None


# --- the harness -----------------------------------------------------------------------------------------------------
def test_limits_are_tight_where_they_are_below_the_usual() -> None:
    assert tighter(Limits()) == []
    assert tighter(Limits(file_bytes=16, memory_bytes=4 << 30)) == ["file_bytes"]


# --- the verifier, run -----------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    box = runtime()
    with Engine(box) as made:
        yield made
    box.close()


def checked(function: str, body: str) -> Env:
    """The package with one more version of a check: the last definition of a name counts."""
    source = env_of().verifier_files["checks/main.py"].decode()
    return env_of({CHECKS: f"{source}\n\ndef {function}(ev):\n{body}".encode()})


def test_checks_that_use_nothing_fickle_are_pure() -> None:
    assert pure(env_of())
    listed = "    return 1.0 if [*ev.end('.').iterdir()] else 0.0\n"
    for body in ("    import os\n    return 1.0\n", "    return float(bool(eval('1')))\n", listed):
        assert not pure(checked("report_rows", body))


_BACKWARDS = (
    "    import os\n    names = os.listdir(ev.end('report.csv').parent)\n"
    "    return (1.0, '') if names == sorted(names, reverse=True) else (0.0, '')\n"
)


def test_a_mark_that_depends_on_the_order_of_files_is_fickle(engine: Engine) -> None:
    env = checked("nothing_else", _BACKWARDS)
    findings = probe("shaken").run(ProbeContext(env, engine))
    assert [(f.kind, f.details["how"], f.details["criteria"]) for f in findings] == [
        ("flaky_verifier", "order", ["clean"])
    ]


def test_a_mark_that_depends_on_the_day_or_the_hash_seed_is_fickle(engine: Engine) -> None:
    day = "    from datetime import date\n    return (1.0, '') if date.today() < date(2027, 3, 1) else (0.0, '')\n"
    findings = probe("shaken").run(ProbeContext(checked("report_rows", day), engine))
    assert [f.details["how"] for f in findings] == ["clock"]
    seed = f"    return (1.0, '') if hash('report') == {_hash_in_box(engine)} else (0.0, '')\n"
    findings = probe("shaken").run(ProbeContext(checked("report_rows", seed), engine))
    assert [f.details["how"] for f in findings] == ["hash"]


def _hash_in_box(engine: Engine) -> int:
    """The hash of a word under the seed of every box."""
    env = checked("report_rows", "    return 0.0, str(hash('report'))\n")
    verdict = engine.grade_state(env, {**env.start, "report.csv": REPORT})
    return int(next(s.reason for s in verdict.scores if s.criterion == "rows"))


def test_a_low_mark_lets_through_what_the_verifier_itself_sees(engine: Engine) -> None:
    verifier = env_of().verifier
    low = verifier.model_copy(update={"pass_weight": 0.2})
    env = env_of({"verifier/verifier.json": low.dump()})
    assert found("pass_mark", env, engine) == [("weak_pass_mark", "verifier")]


def test_checks_that_exclude_each_other_are_impossible(engine: Engine) -> None:
    body = (
        "    named = rc.has_columns(rc.table(ev.end('report.csv')), ['region'])\n"
        "    return (0.0, 'still named') if named[0] == 1 else 1.0\n"
    )
    env = checked("report_format", body)
    assert found("possible", env, engine) == [("impossible_checks", "verifier")]
    assert found("copied_values", env, engine) == []


def test_a_copied_value_that_differs_is_a_wrong_expected_value(engine: Engine) -> None:
    body = (
        "    have = rc.table(ev.end('report.csv')).column('total')\n    want = [310.1, 219.75, 125.75, 1300.0]\n"
        "    return (1.0, '') if sorted(map(rc.number, have)) == sorted(want) else (0.0, 'not as listed')\n"
    )
    assert found("copied_values", checked("report_total", body), engine) == [("wrong_anchor", "verifier")]


def test_a_check_that_looks_for_an_old_name_is_named(engine: Engine) -> None:
    body = "    return (1.0, '') if ev.start('orders_2023.csv').is_file() else (0.0, 'orders_2023.csv is missing')\n"
    assert found("old_names", checked("report_rows", body), engine) == [("misnamed_input", "verifier")]


def test_a_guard_that_forbids_the_deliverable(engine: Engine) -> None:
    env = checked("nothing_else", "    return rc.no_extra(ev, [])\n")
    assert found("guarded", env, engine) == [("protected_target", "verifier")]


@pytest.mark.parametrize(
    ("function", "body", "kind_"),
    [
        ("report_total", "    return 1.0, 'taken for right'\n", "lax_verifier"),
        ("report_total", "    return 0.0, 'never good enough'\n", "strict_verifier"),
    ],
)
def test_where_verifier_and_contract_part_the_verifier_is_blamed(
    engine: Engine, function: str, body: str, kind_: str
) -> None:
    findings = probe("agreement").run(ProbeContext(checked(function, body), engine))
    assert [(f.kind, f.components, f.requirement) for f in findings] == [(kind_, ("verifier",), "total")]
    assert findings[0].evidence
    assert findings[0].excludes


def test_a_reference_that_lacks_a_write_and_a_goal_that_holds_already(engine: Engine) -> None:
    env = env_of({"context/files/report.csv": REPORT})
    assert ("goal_at_start", "context") in found("agreement", env, engine)


def test_a_contract_without_an_answer_is_said(engine: Engine) -> None:
    env = renamed("people.csv")
    assert found("agreement", env, engine) == [("unsolvable", "context")]


# --- probes that break -----------------------------------------------------------------------------------------------
class Broken:
    """A probe that falls over its own feet."""

    name = "broken"
    written_for = frozenset[str]()
    cost = 0

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        raise RecursionError("too deep")


def test_a_probe_that_crashes_is_no_finding() -> None:
    assert asked(Broken(), still(env_of())) == ((), "RecursionError: too deep")


def test_a_hostile_verifier_does_not_crash_a_probe(engine: Engine) -> None:
    criteria = (Criterion(id="x", requirement="nobody's", check="checks/../../etc:passwd", weight=1.0),)
    env = env_of({"verifier/verifier.json": Verifier(criteria=criteria).dump(), CHECKS: b"\xff\xfe not python"})
    broken = {p.name: asked(p, ProbeContext(env, engine))[1] for p in probes() if p.cost <= 1}
    assert {name: why for name, why in broken.items() if why} == {}
    assert ("extra_demand", "verifier") in found("coverage", env)


def test_an_empty_contract_breaks_nothing(engine: Engine) -> None:
    ctx = ProbeContext(env_of({"task/contract.json": Contract().dump()}), engine)
    assert {p.name: why for p in probes() if p.cost <= 1 and (why := asked(p, ctx)[1])} == {}
