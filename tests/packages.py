"""A small package made by hand, for any test that needs a whole one: summarise orders by region into a csv.

`summary_package()` gives the package's files as stored (path -> bytes), `summary_resources()` the files of the
resource it is bound to (give both to `rover.rollout.env.env_from_files`). The task: `report.csv` with one row a
region: region, orders (a count) and total (EUR, within 0.01), leaving `orders.csv` and `notes.md` alone.

    REPORT               the right report.csv, as the reference holds it
    solution_calls()     tool calls that solve it, for a scripted policy
    runtime()            bubblewrap where it works, else the local runtime; close it
    with_checks(source)  the package with another checks/main.py, and one criterion for each function named

Everything is fixed: equal calls give equal bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rover.policy.scripted import ScriptedPolicy
from rover.rollout.env import below, tree_of
from rover.sandbox.protocol import Runtime
from rover_store.records import (
    Anchor,
    Anchors,
    Cases,
    Context,
    ContextFile,
    Contract,
    Criterion,
    Deliverable,
    Edge,
    Harness,
    Mutation,
    Package,
    Query,
    Reference,
    Requirement,
    Resource,
    ResourceRef,
    Source,
    StateFile,
    Table,
    Task,
    ToolCall,
    Verifier,
)
from rover_store.records.contract import (
    Answer,
    CellsRule,
    Column,
    FormatRule,
    NoExtraRule,
    ProtectedRule,
    RowsRule,
)
from rover_store.records.query import Measure

Files = dict[str, bytes]

ORDERS = b"""order_id,region,amount,day
1001,North,120.50,2024-01-05
1002,South,80.00,2024-01-06
1003,North,99.25,2024-01-07
1004,West,1200.00,2024-01-09
1005,South,45.75,2024-02-01
1006,East,310.10,2024-02-02
"""
NOTES = b"# Notes\n\nAmounts are in EUR. Nothing here is to be changed.\n"
REPORT = b"""region,orders,total
East,1,310.10
North,2,219.75
South,2,125.75
West,1,1200.00
"""
INSTRUCTION = """Summarise the file `orders.csv` into a new file `report.csv`.

Write one row for each region, with the columns `region`, `orders` (how many orders the region has) and `total`
(the sum of `amount`, in EUR, within 0.01). Change no other file.
"""

CHECKS = '''"""Checks of the order summary."""

import rover_checks as rc

KEY = ["region"]


def report_format(ev):
    return rc.has_columns(rc.table(ev.end("report.csv")), ["region", "orders", "total"])


def report_rows(ev):
    return rc.rows_match(rc.table(ev.end("report.csv")), ev.anchor("totals"), KEY)


def report_orders(ev):
    return rc.cells_match(rc.table(ev.end("report.csv")), ev.anchor("totals"), KEY, "orders", kind="integer")


def report_total(ev):
    return rc.cells_match(
        rc.table(ev.end("report.csv")), ev.anchor("totals"), KEY, "total", tolerance=0.01, kind="number"
    )


def sources_kept(ev):
    return rc.protected(ev, ["orders.csv", "notes.md"])


def nothing_else(ev):
    return rc.no_extra(ev, ["report.csv"])
'''

TOOLS = (
    "list_files", "read_file", "write_file", "delete_file", "read_table", "write_table", "edit_table", "shell",
)  # fmt: skip


def query() -> Query:
    """Orders and their sum for each region."""
    return Query(
        source=Source(path="orders.csv"),
        group_by=("region",),
        measures=(Measure(name="orders", fn="count"), Measure(name="total", fn="sum", column="amount", decimals=2)),
    )


def contract() -> Contract:
    answer = Answer(answer=query())
    about = {"deliverable": "report"}
    return Contract(
        deliverables=(
            Deliverable(
                id="report",
                path="report.csv",
                type="csv",
                key=("region",),
                columns=(
                    Column(name="region", type="text", meaning="region of the orders"),
                    Column(name="orders", type="integer", meaning="number of orders"),
                    Column(name="total", type="number", meaning="sum of amount", unit="EUR", tolerance=0.01),
                ),
            ),
        ),
        requirements=(
            Requirement(id="format", statement="report.csv has the columns", rule=FormatRule(), **about),
            Requirement(id="rows", statement="one row a region", rule=RowsRule(value=answer), **about),
            Requirement(id="orders", statement="counted", rule=CellsRule(column="orders", value=answer), **about),
            Requirement(
                id="total", statement="summed", rule=CellsRule(column="total", value=answer), weight=2.0, **about
            ),
            Requirement(
                id="sources",
                statement="orders.csv and notes.md stay as they are",
                role="constraint",
                rule=ProtectedRule(paths=("orders.csv", "notes.md")),
                critical=True,
            ),
            Requirement(id="clean", statement="no other file", role="invariant", rule=NoExtraRule()),
        ),
    )


def criteria() -> tuple[Criterion, ...]:
    report = ("report.csv",)
    return (
        Criterion(
            id="sources", requirement="sources", layer="state", evidence="state_difference", critical=True,
            paths=("orders.csv", "notes.md"), check="checks/main.py:sources_kept",
        ),
        Criterion(
            id="clean", requirement="clean", layer="state", evidence="state_difference", progress=False,
            check="checks/main.py:nothing_else",
        ),
        Criterion(id="format", requirement="format", paths=report, check="checks/main.py:report_format"),
        Criterion(
            id="rows", requirement="rows", paths=report, anchors=("totals",), check="checks/main.py:report_rows"
        ),
        Criterion(
            id="orders", requirement="orders", paths=report, anchors=("totals",), check="checks/main.py:report_orders"
        ),
        Criterion(
            id="total", requirement="total", paths=report, anchors=("totals",), weight=2.0,
            check="checks/main.py:report_total",
        ),
    )  # fmt: skip


def anchors() -> Anchors:
    rows = (("East", 1, 310.1), ("North", 2, 219.75), ("South", 2, 125.75), ("West", 1, 1200.0))
    value = Table(columns=("region", "orders", "total"), rows=rows)
    return Anchors(anchors=(Anchor(id="totals", query=query(), value=value),))


def cases() -> Cases:
    at = {"path": "report.csv"}
    return Cases(
        negatives=(
            Mutation(id="no-report", requirement="format", op="delete", **at),
            Mutation(id="lost-column", requirement="format", op="drop_column", arguments={"column": "total"}, **at),
            Mutation(id="lost-row", requirement="rows", op="drop_row", **at),
            Mutation(id="double-row", requirement="rows", op="duplicate_row", **at),
            Mutation(id="wrong-count", requirement="orders", op="change_cell", arguments={"column": "orders"}, **at),
            Mutation(id="wrong-total", requirement="total", op="change_cell", arguments={"column": "total"}, **at),
            Mutation(id="touched", requirement="sources", op="touch", path="orders.csv"),
            Mutation(id="left-over", requirement="clean", op="extra_file", path="scratch.txt"),
        ),
        alternatives=(
            Mutation(id="any-order", op="shuffle_rows", **at),
            Mutation(id="any-columns", op="reorder_columns", **at),
            Mutation(id="any-numbers", op="reformat_numbers", **at),
            Mutation(id="more-columns", op="extra_column", **at),
            Mutation(id="new-line", op="trailing_newline", **at),
        ),
        states=("semicolons",),
    )


def summary_resources() -> Mapping[str, Files]:
    """The shared resource: "files/orders" -> the files of its tree."""
    return {"files/orders": {"resource.json": Resource(name="orders").dump(), "files/orders.csv": ORDERS}}


def summary_package(name: str = "order-summary") -> Files:
    """The package's files as stored, edges included."""
    resource = tree_of(summary_resources()["files/orders"])
    files: Files = {
        "context/context.json": Context(
            files=(
                ContextFile(path="orders.csv", meaning="orders, one a row"),
                ContextFile(path="notes.md", role="distractor", meaning="remarks"),
            ),
            resources=(ResourceRef(name="orders", tree=resource),),
            clock="2024-03-01",
        ).dump(),
        "context/files/notes.md": NOTES,
        "task/task.json": Task(title="Summarise orders by region").dump(),
        "task/instruction.md": INSTRUCTION.encode(),
        "task/contract.json": contract().dump(),
        "harness/harness.json": Harness(tools=TOOLS).dump(),
        "verifier/verifier.json": Verifier(criteria=criteria()).dump(),
        "verifier/checks/main.py": CHECKS.encode(),
        "verifier/anchors.json": anchors().dump(),
        "verifier/reference/reference.json": Reference(
            changes=(StateFile(path="report.csv"),), final_message="Wrote report.csv."
        ).dump(),
        "verifier/reference/files/report.csv": REPORT,
        "verifier/cases/cases.json": cases().dump(),
        "verifier/cases/semicolons/files/report.csv": REPORT.replace(b",", b";"),
    }
    return _with_record(files, name, resource)


def with_checks(source: str, functions: tuple[str, ...], name: str = "order-summary", **criterion: Any) -> Files:
    """The package with one checks/main.py and a criterion of that name for each of its functions."""
    files = summary_package(name)
    criterion = {"anchors": ("totals",), **criterion}
    rules = tuple(Criterion(id=f, requirement="rows", check=f"checks/main.py:{f}", **criterion) for f in functions)
    files["verifier/verifier.json"] = Verifier(criteria=rules).dump()
    files["verifier/checks/main.py"] = source.encode()
    return _with_record(files, name, tree_of(summary_resources()["files/orders"]))


def solution_calls() -> tuple[ToolCall, ...]:
    """Calls that solve the task: read the orders, write the report."""
    rows = [["East", 1, 310.1], ["North", 2, 219.75], ["South", 2, 125.75], ["West", 1, 1200.0]]
    report = {"path": "report.csv", "columns": ["region", "orders", "total"], "rows": rows}
    return (
        ToolCall(id="1", tool="read_table", arguments={"path": "orders.csv"}),
        ToolCall(id="2", tool="write_table", arguments=report),
    )


def solution() -> ScriptedPolicy:
    """A policy that solves the task of `summary_package`, one call a turn."""
    return ScriptedPolicy([(call,) for call in solution_calls()], "Wrote report.csv.")


def _with_record(files: Files, name: str, resource: str) -> Files:
    ids = {c: tree_of(below(files, f"{c}/")) for c in ("context", "task", "harness", "verifier")}
    edges = [Edge(source="context", target="resources/files/orders", version=resource)]
    edges += [Edge(source=s, target="context", version=ids["context"]) for s in ("task", "harness", "verifier")]
    edges += [Edge(source="verifier", target=t, version=ids[t]) for t in ("task", "harness")]
    record = Package(name=name, title="Summarise orders by region", workspace="shop", edges=tuple(edges))
    return dict(sorted({**files, "package.json": record.dump()}.items()))


def runtime() -> Runtime:
    """A runtime for tests: bubblewrap where this machine allows it, else the plain local one."""
    from rover.sandbox.bubblewrap import BubblewrapRuntime
    from rover.sandbox.local import LocalRuntime

    confined = BubblewrapRuntime()
    if confined.probe().works:
        return confined
    confined.close()
    return LocalRuntime()
