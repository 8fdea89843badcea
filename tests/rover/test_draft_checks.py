"""What is no component of this package is refused in one line; what a draft says of itself is held against it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
from packages import summary_package, summary_resources

from rover.repair.proposals.check import changes, honest, refusal
from rover.repair.proposals.guard import guarded
from rover.repair.proposals.protocol import Draft, PackageView, Style
from rover.repair.proposals.registry import propose
from rover.repair.proposals.styles import propose_styles
from rover.rollout.env import env_from_files, tree_of
from rover_store.errors import SandboxError
from rover_store.ids import ComponentName
from rover_store.records import (
    Context,
    Criterion,
    Deliverable,
    Diagnosis,
    Finding,
    Harness,
    Requirement,
    Resource,
    ResourceRef,
    Verifier,
)
from rover_store.records.contract import FormatRule


def view() -> PackageView:
    env = env_from_files(summary_package(), summary_resources())
    return PackageView(env.package, "0" * 40, env.tree, env, env.files, env.resources)


def diagnosis(*kinds: str, component: ComponentName = "harness") -> Diagnosis:
    found = tuple(Finding(probe="p", kind=k, message=k, components=(component,)) for k in kinds)
    return Diagnosis(package="order-summary", tree="0" * 40, verdict="environment", findings=found)


def draft(component: ComponentName = "harness", **files: bytes | None) -> Draft:
    """The component as it is, with changed files (None: gone). `a__b_c` stands for the path a/b.c."""
    now = view().component(component)
    named = {k.replace("__", "/").replace("_", "."): v for k, v in files.items()}
    new = {**now, **named}
    return Draft(component, {p: d for p, d in new.items() if d is not None})


def with_files(component: ComponentName, more: dict[str, bytes]) -> Draft:
    return Draft(component, {**view().component(component), **more})


THEIRS = {
    "deliverables": (Deliverable(id="other", path="o.csv", type="csv"),),
    "requirements": (Requirement(id="x", statement="x", rule=FormatRule(), deliverable="other"),),
}


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (with_files("harness", {"../task/instruction.md": b"x"}), "outside its component"),
        (with_files("harness", {"/etc/passwd": b"x"}), "outside its component"),
        (with_files("context", {"files/a\\b": b"x"}), "outside its component"),
        (with_files("context", {"files/.git/config": b"x"}), "outside its component"),
        (with_files("harness", {"notes.md": b"x"}), "has no place in a package"),
        (with_files("context", {"files/a": b"x", "files/a/b": b"y"}), "a file and a folder"),
        (draft(harness_json=b"{"), "harness/harness.json: not valid JSON"),
        (draft(harness_json=None), "harness/harness.json: missing"),
        (draft("verifier", verifier_json=b'{"criteria": "all"}'), "verifier/verifier.json"),
        (with_files("context", {"files/big": b"0" * (5 << 20)}), "bytes, the present version"),
        (with_files("context", {f"files/{n}": b"" for n in range(300)}), "files, the present version"),
        (replace(draft(), resources={"files/orders": {}}), "only a context proposal"),
        (replace(draft("context"), resources={"files/other": {}}), "its context.json does not list"),
        (replace(draft("context"), resources={"files/orders": {"files/x": b""}}), "has no resource.json"),
        (
            replace(draft("context"), resources={"files/orders": {"resource.json": Resource(name="ore").dump()}}),
            "carries the resource ore",
        ),
        (
            replace(draft("context"), resources={"files/orders": {"resource.json": b"{}", "../x": b""}}),
            "outside the resource",
        ),
        (draft("context", context_json=Context(files=()).dump()), "another package's context"),
        (
            draft("verifier", verifier_json=Verifier(
                criteria=(Criterion(id="a", requirement="theirs", check="checks/main.py:a"),)).dump()
            ),
            "another package's verifier",
        ),
        (
            draft("task", contract_json=view().env.contract.model_copy(update=THEIRS).dump()),
            "another package's task",
        ),
    ],
)  # fmt: skip
def test_what_is_no_component_of_this_package_is_refused_in_one_line(made: Draft, said: str) -> None:
    found = refusal(view(), made.component, made)
    assert said in found
    assert "\n" not in found


def test_a_proposer_of_another_component_is_refused() -> None:
    assert "instead of verifier" in refusal(view(), "verifier", draft())
    assert refusal(view(), "harness", draft()) == ""


def test_a_lie_about_writes_is_replaced_by_the_truth() -> None:
    more = Harness(tools=(*view().env.harness.tools, "edit_workbook"))
    lying = replace(draft(harness_json=more.dump()), writes=("tool:call_a_friend", "path:gone.csv", "nonsense"))
    told = honest(view(), lying)
    assert told.writes == ("file:harness/harness.json", "tool:edit_workbook")
    assert "path:gone.csv" in told.rationale
    assert told.style == "rule"


def test_what_changes_nothing_is_told_apart() -> None:
    seen = view()
    assert not changes(seen, draft())
    assert changes(seen, draft(harness_json=Harness(tools=()).dump()))
    same = replace(draft("context"), resources=dict(seen.env.resources))
    assert not changes(seen, same)


def test_a_resource_and_its_context_go_together() -> None:
    new = {"resource.json": Resource(name="orders").dump(), "files/orders.csv": b"order_id\n1\n"}
    context = view().env.context.model_copy(update={"resources": (ResourceRef(name="orders", tree=tree_of(new)),)})
    made = replace(draft("context", context_json=context.dump()), resources={"files/orders": new})
    assert refusal(view(), "context", made) == ""
    assert "path:orders.csv" in honest(view(), made).writes


# --- proposers that misbehave --------------------------------------------------------------------------------
class Odd:
    """A proposer of another distribution."""

    name = "odd"
    component: ComponentName = "harness"
    style: Style = "rule"
    written_for: frozenset[str] = frozenset()
    seconds = 0.2

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work

    def propose(self, view: PackageView, diagnosis: Diagnosis) -> Draft | None:
        found: Draft | None = self.work()
        return found


def raising(error: BaseException) -> Callable[[], Any]:
    def work() -> Any:
        raise error

    return work


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (raising(RuntimeError("two\nlines")), "odd: it crashes: RuntimeError: two lines"),
        (raising(RecursionError()), "odd: it crashes: RecursionError"),
        (lambda: "a draft", "odd: it gives a str, not a draft"),
        (lambda: time.sleep(2), "odd: no answer within 0.2 s"),
        (lambda: with_files("harness", {"../x": b""}), "odd: it writes outside its component"),
    ],
)
def test_a_proposer_that_misbehaves_proposes_nothing(work: Callable[[], Any], said: str) -> None:
    told: list[str] = []
    found = propose(view(), diagnosis("budget_too_small"), more=(Odd(work),), tell=told.append)
    assert [d.proposer for d in found] == ["harness-rule"]
    first = propose(view(), diagnosis("nothing_known"), more=(Odd(work),), tell=told.append)
    assert [d.proposer for d in first] == ["harness-again"]
    assert any(line.startswith(said) for line in told)


def test_a_fault_of_the_sandbox_is_no_proposer_s() -> None:
    with pytest.raises(SandboxError, match="no box"):
        guarded(Odd(raising(SandboxError("no box"))), view(), diagnosis("x"))


# --- styles and kinds left out -------------------------------------------------------------------------------
def test_a_kind_left_out_leaves_re_derivation() -> None:
    found = diagnosis("budget_too_small")
    assert [d.style for d in propose(view(), found)] == ["rule"]
    assert [d.style for d in propose(view(), found, without=frozenset({"budget_too_small"}))] == ["rederive"]


def test_products_of_styles_are_bounded_and_the_rest_is_told() -> None:
    def another(number: int, component: ComponentName) -> Odd:
        limits = {"harness.json": Harness(tools=("shell",), network="none", sandbox=f"s{number}").dump()}
        texts = {"instruction.md": f"Do it, number {number}: report.csv.\n".encode()}
        odd = Odd(lambda: with_files(component, limits if component == "harness" else texts))
        odd.component, odd.name = component, f"odd-{component}-{number}"
        return odd

    more = [another(n, c) for n in range(5) for c in ("harness", "task")]  # type: ignore[arg-type]
    products = propose_styles(view(), diagnosis("nothing_known"), 9, more=more)
    assert len(products.sets) == 16
    assert products.left_out == 5 * 6 - 16
    assert [d.component for d in products.sets[0]] == ["task", "harness"]
    assert len({tuple(d.rationale + str(d.files) for d in s) for s in products.sets}) == 16
    assert propose_styles(view(), diagnosis("nothing_known"), 1).sets[0][0].proposer == "harness-again"
    assert propose_styles(view(), diagnosis(), 4) == ([], 0)


def test_a_view_gives_no_way_to_a_store() -> None:
    """Everything in it is data, an engine, or a function of one question."""
    allowed = {"name", "commit", "tree", "env", "files", "resources", "siblings", "engine", "history", "read", "intent",
               "present", "neighbours", "precedents"}  # fmt: skip
    assert {f.name for f in fields(PackageView)} == allowed
    assert not any("store" in f.name or "audit" in f.name or "proposal" in f.name for f in fields(PackageView))
