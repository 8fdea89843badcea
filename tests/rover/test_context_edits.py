"""Edits of a context: recorded content is known again, resources are forked where others hold them in peace."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

import pytest
from packages import ORDERS, summary_package, summary_resources

from rover.repair.proposals.check import honest, refusal, replaced
from rover.repair.proposals.protocol import Draft, Files, Neighbour, PackageView
from rover.repair.proposals.rederive import ContextAgain
from rover.repair.proposals.registry import propose
from rover.repair.proposals.rules_context import ContextByRule
from rover.repair.proposals.units import as_the_contract_says
from rover.rollout.env import Env, env_from_files, tree_of
from rover_store.errors import NotFound
from rover_store.records import Context, ContextFile, Diagnosis, Finding, Package, Resource, ResourceRef, SourceFile

RESOURCE = summary_resources()["files/orders"]
WHOLE = tree_of(RESOURCE)


def package(
    orders: bytes = ORDERS, path: str = "orders.csv", *, own: Mapping[str, bytes] | None = None, mount: str = ""
) -> Env:
    """The package bound to another version of its resource, with recorded digests and more files of its own."""
    content: Files = {"resource.json": RESOURCE["resource.json"], f"files/{path}": orders}
    files = dict(summary_package())
    context = Context.load(files["context/context.json"], "context.json")
    ref = ResourceRef(name="orders", tree=tree_of(content), mount=mount)
    listed = tuple(ContextFile(path=p, role="distractor") for p in own or {})
    files["context/context.json"] = context.model_copy(
        update={"resources": (ref,), "files": (*context.files, *listed)}
    ).dump()
    files |= {f"context/files/{p}": d for p, d in (own or {}).items()}
    record = Package.load(files["package.json"], "package.json")
    made = record.provenance.model_copy(
        update={
            "builder": "summarise",
            "sources": (SourceFile(path="orders.csv", sha256=hashlib.sha256(ORDERS).hexdigest()),),
        }
    )
    files["package.json"] = record.model_copy(update={"provenance": made}).dump()
    return env_from_files(files, {"files/orders": content})


def view_of(env: Env, known: Mapping[str, Files] | None = None, **more: object) -> PackageView:
    def read(tree: str) -> Files:
        if known is None or tree not in known:
            raise NotFound("tree", tree)
        return known[tree]

    seen = PackageView(env.package, "0" * 40, env.tree, env, env.files, env.resources, read=read)
    return replace(seen, **more)  # type: ignore[arg-type]


def diagnosis(kind: str, **details: object) -> Diagnosis:
    found = Finding(probe="p", kind=kind, message=kind, components=("context",), details=dict(details))
    return Diagnosis(package="order-summary", tree="0" * 40, verdict="environment", findings=(found,))


def start_after(view: PackageView, draft: Draft | None) -> Files:
    assert draft is not None
    assert refusal(view, "context", draft) == ""
    honest(view, draft)
    return replaced(view, draft).start


# --- recorded content ----------------------------------------------------------------------------------------
def other(column: str, change: object) -> bytes:
    head, *rows = ORDERS.decode().splitlines()
    at = head.split(",").index(column)
    out = [head]
    for row in rows:
        cells = row.split(",")
        cells[at] = change(cells[at])  # type: ignore[operator]
        out.append(",".join(cells))
    return ("\n".join(out) + "\n").encode()


def cents(cell: str) -> str:
    return str(round(float(cell) * 100))


def day_first(cell: str) -> str:
    return "/".join(reversed(cell.split("-")))


@pytest.mark.parametrize(
    "broken",
    [
        other("amount", cents),
        other("amount", lambda c: f"{c} EUR"),
        other("amount", lambda c: f"~{c}"),
        other("day", day_first),
        other("day", lambda c: c.replace("-", "")),
        ORDERS.replace(b"amount", b"Amount.", 1),
        ORDERS.replace(b"region", b"Region1", 1),
    ],
)
@pytest.mark.parametrize("kind", ["wrong_unit", "changed_data"])
def test_a_table_spelled_otherwise_becomes_the_recorded_one(broken: bytes, kind: str) -> None:
    """No version of it is left anywhere: the digest alone tells which way back is right."""
    env = package(broken)
    view = view_of(env)
    draft = ContextByRule().propose(view, diagnosis(kind, subject="orders.csv", path="orders.csv"))
    assert start_after(view, draft)["orders.csv"] == ORDERS
    assert start_after(view, ContextAgain().propose(view, diagnosis("unheard_of")))["orders.csv"] == ORDERS


def test_a_file_under_another_name_is_known_again() -> None:
    view = view_of(package(path="orders_2023.csv"))
    found = diagnosis("misnamed_input", subject="orders.csv", path="orders.csv", found="orders_2023.csv")
    after = start_after(view, ContextByRule().propose(view, found))
    assert after["orders.csv"] == ORDERS
    assert "orders_2023.csv" not in after
    again = start_after(view, ContextAgain().propose(view, diagnosis("unheard_of")))
    assert again == after


def test_a_resource_that_was_hung_up_elsewhere_is_put_back() -> None:
    env = package(mount="archive")
    view = view_of(env)
    found = diagnosis("misnamed_input", subject="orders.csv", path="orders.csv", found="archive/orders.csv")
    draft = ContextByRule().propose(view, found)
    assert start_after(view, draft)["orders.csv"] == ORDERS
    assert draft is not None
    assert draft.resources == {}  # the resource itself is as it was


def test_of_two_copies_the_recorded_one_stays() -> None:
    env = package(ORDERS.replace(b"80.00", b"81.00"), own={"old/orders.csv": ORDERS})
    view = view_of(env)
    found = diagnosis("conflicting_copies", subject="orders.csv", path="orders.csv", paths=["old/orders.csv"])
    after = start_after(view, ContextByRule().propose(view, found))
    assert after["orders.csv"] == ORDERS
    assert "old/orders.csv" not in after


def test_a_lost_file_is_found_among_the_resources_of_the_revision() -> None:
    env = package()
    files = {p: d for p, d in env.files.items() if p != "package.json"}
    files["context/context.json"] = env.context.model_copy(update={"resources": ()}).dump()
    record = env.record.model_copy(update={"edges": tuple(e for e in env.record.edges if e.source != "context")})
    lost = env_from_files({**files, "package.json": record.dump()}, {})
    view = view_of(lost, {WHOLE: RESOURCE}, present={"files/orders": WHOLE})
    found = diagnosis("missing_input", subject="orders.csv", path="orders.csv")
    assert start_after(view, ContextByRule().propose(view, found))["orders.csv"] == ORDERS


def test_a_lost_file_is_taken_from_what_the_image_is_built_from_and_never_from_the_tests() -> None:
    env = package()
    found = diagnosis("missing_input", subject="prices.csv", path="prices.csv")

    def after(beside: str) -> Draft | None:
        return ContextByRule().propose(view_of(env_from_files({**env.files, beside: b"a\n"}, env.resources)), found)

    brought = after("context/environment/data/prices.csv")
    assert brought is not None
    assert brought.files["files/prices.csv"] == b"a\n"
    kept = after("verifier/tests/prices.csv")
    assert kept is None or "files/prices.csv" not in kept.files


def test_what_nobody_can_tell_is_left_as_it_is() -> None:
    """A date that may be read both ways, a number with no unit: without the recorded bytes there is no guess."""
    view = view_of(package())
    contract = view.contract
    for column, cells in (("day", ("01/02/2024", "03/04/2024")), ("amount", ("1", "2"))):
        data = f"{column}\n" + "\n".join(cells) + "\n"
        assert as_the_contract_says(contract, "orders.csv", data.encode(), column) is None
    plain = as_the_contract_says(contract, "orders.csv", b'amount\n"1.234,50"\n"2,75"\n', "amount")
    assert plain == b"amount\n1234.50\n2.75\n"
    assert as_the_contract_says(contract, "orders.csv", b"day\n01/02/2024\n31/02/2024\n", "day") == (
        b"day\n2024-02-01\n2024-02-31\n"
    )
    assert as_the_contract_says(contract, "orders.xlsx", b"PK", "day") is None


# --- excess --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "path"),
    [("leaked_answer", "old/report.csv"), ("verifier_readable", "checks/main.py"), ("leftover_output", "report.csv")],
)
def test_what_does_not_belong_there_is_taken_out(kind: str, path: str) -> None:
    view = view_of(package(own={path: b"region,orders,total\n"}))
    for draft in (
        ContextByRule().propose(view, diagnosis(kind, subject=path, path=path)),
        ContextAgain().propose(view, diagnosis("unheard_of")),
    ):
        after = start_after(view, draft)
        assert path not in after
        assert "notes.md" in after  # protected by the contract, though no source
        assert path not in {f.path for f in replaced(view, draft).context.files}  # type: ignore[arg-type]


def test_a_source_is_never_taken_out() -> None:
    view = view_of(package())
    assert ContextByRule().propose(view, diagnosis("leaked_answer", subject="orders.csv", path="orders.csv")) is None


def test_pieces_in_the_place_of_a_deliverable_go() -> None:
    view = view_of(package(own={"report.csv/part-0": b"x"}))
    found = diagnosis("leftover_output", subject="report.csv", path="report.csv")
    assert "report.csv/part-0" not in start_after(view, ContextByRule().propose(view, found))


# --- shared resources ----------------------------------------------------------------------------------------
BROKEN = other("amount", cents)
BAD = tree_of({"resource.json": RESOURCE["resource.json"], "files/orders.csv": BROKEN})


@pytest.mark.parametrize(
    ("neighbour", "name"),
    [
        (Neighbour(BAD, WHOLE), "files/orders"),  # it has the finding too: one repair for both
        (Neighbour(WHOLE, WHOLE), "files/orders"),  # it is bound to what this package should be bound to
        (Neighbour(BAD, BAD), f"files/orders-{''}"),  # it was built on this version and works: a fork
    ],
)
def test_what_others_hold_in_peace_is_forked(neighbour: Neighbour, name: str) -> None:
    env = package(BROKEN)
    seen = view_of(env, {WHOLE: RESOURCE}, neighbours=lambda resource: {"another": neighbour})
    draft = ContextByRule().propose(seen, diagnosis("changed_data", subject="orders.csv", path="orders.csv"))
    assert draft is not None
    (bound,) = draft.resources
    assert bound.startswith(name)
    assert (bound == "files/orders") == (name == "files/orders")
    assert Resource.load(draft.resources[bound]["resource.json"], "r").name == bound.partition("/")[2]
    assert start_after(seen, draft)["orders.csv"] == ORDERS


def test_the_leak_in_a_shared_resource_is_unbound_for_this_package_alone() -> None:
    env = package(own={})
    extra: Files = {"resource.json": Resource(name="hints").dump(), "files/hints.md": b"North 2 219.75\n"}
    refs = (*env.context.resources, ResourceRef(name="hints", tree=tree_of(extra)))
    files = {**env.files, "context/context.json": env.context.model_copy(update={"resources": refs}).dump()}
    leaky = env_from_files(files, {**env.resources, "files/hints": extra})
    seen = view_of(leaky, neighbours=lambda resource: {"another": Neighbour(tree_of(extra), tree_of(extra))})
    found = diagnosis("leaked_answer", subject="hints.md", path="hints.md")
    (draft,) = propose(seen, found)
    assert draft.resources == {}
    assert "hints.md" not in start_after(seen, draft)
