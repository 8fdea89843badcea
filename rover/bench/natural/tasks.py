"""Tasks on hand-made workspaces, written in the words of the built-in families, so that their solvers can do them.

Each function takes what a family's builder works with (a summary, an edit, a memo, a reconciliation) and the files
of the workspace, and gives a draft like any other: request, contract, checks, cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from rover.bench.natural.office import stream
from rover.construct import cases
from rover.construct.config import BuildConfig
from rover.construct.families import guards
from rover.construct.families.edit import checks as edit_checks
from rover.construct.families.edit import spec as edits
from rover.construct.families.memo import checks as memo_checks
from rover.construct.families.memo import spec as memos
from rover.construct.families.protocol import Draft
from rover.construct.families.reconcile import checks as reconcile_checks
from rover.construct.families.reconcile import spec as reconciliations
from rover.construct.families.summarise import checks as summary_checks
from rover.construct.families.summarise import spec as summaries
from rover_store.records import ContextFile, Contract
from rover_store.records.contract import CellsRule, EditRule, RowsRule

FamilyName = Literal["summarise", "edit", "memo", "reconcile"]
#: turns that any of these tasks is granted
TURNS = 30


@dataclass(frozen=True, slots=True)
class File:
    """A file of a workspace."""

    path: str
    data: bytes
    meaning: str = ""
    role: Literal["input", "starter", "distractor"] = "input"
    #: may be changed on the way, by whoever does the task
    open: bool = False
    #: a resource that other packages of the workspace are bound to as well
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Sound:
    """A task before anything is wrong with it."""

    workspace: str
    family: FamilyName
    draft: Draft
    #: files that become shared resources
    shared: Mapping[str, bytes] = field(default_factory=dict)


def summary(workspace: str, title: str, opening: str, what: summaries.Summary, files: Iterable[File]) -> Sound:
    """A table joined, kept, grouped and measured into a new file."""
    every = tuple(files)
    listed, own = _listed(every, [what.deliverable.path])
    guard = guards.guards(listed, [what.deliverable.path, *_open(listed)])
    contract = summaries.contract(what, guard)
    about = [r.id for r in contract.requirements if isinstance(r.rule, RowsRule | CellsRule)]
    wanted = dict.fromkeys(about, (summary_checks.ANCHOR,))
    checks = summary_checks.source(contract, guard)
    text = _opened(summaries.request(what, stream(f"{title}:words")), opening)
    tools = ("read_table", "write_table", "shell")
    draft = _draft(title, text, contract, listed, own, tools, wanted, checks)
    return Sound(workspace, "summarise", draft, {f.path: f.data for f in every if f.shared})


def edit(workspace: str, title: str, opening: str, what: edits.Edit, files: Iterable[File]) -> Sound:
    """A table edited in place."""
    listed, own = _listed(files, [what.target.path])
    guard = guards.guards(listed, [what.target.path])
    contract = edits.contract(what, guard)
    wanted = {r.id: (edit_checks.ANCHOR,) for r in contract.requirements if isinstance(r.rule, EditRule)}
    checks = edit_checks.source(contract, guard, what.value)
    text = _opened(edits.request(what, stream(f"{title}:words")), opening)
    tools = ("read_table", "edit_table", "write_table", "shell")
    return Sound(workspace, "edit", _draft(title, text, contract, listed, own, tools, wanted, checks))


def memo(workspace: str, title: str, opening: str, what: memos.Memo, files: Iterable[File]) -> Sound:
    """Figures stated in a text."""
    listed, own = _listed(files, [what.path])
    guard = guards.guards(listed, [what.path])
    contract = memos.contract(what, guard)
    wanted = {f.id: (f.id,) for f in what.figures}
    checks = memo_checks.source(what, guard)
    text = _opened(memos.request(what, stream(f"{title}:words"), gaps=False), opening)
    tools = ("read_table", "write_file", "shell")
    return Sound(workspace, "memo", _draft(title, text, contract, listed, own, tools, wanted, checks))


def reconciliation(
    workspace: str, title: str, opening: str, what: reconciliations.Reconciliation, files: Iterable[File]
) -> Sound:
    """Recorded totals held against their detail."""
    listed, own = _listed(files, [what.path])
    guard = guards.guards(listed, [what.path])
    contract = reconciliations.contract(what, guard)
    wanted = {n: (n,) for n in ("findings", "count", "checked", "largest")}
    checks = reconcile_checks.source(what, contract, guard)
    text = _opened(reconciliations.request(what, stream(f"{title}:words"), gaps=False), opening)
    tools = ("read_table", "write_file", "shell")
    return Sound(workspace, "reconcile", _draft(title, text, contract, listed, own, tools, wanted, checks))


def _listed(files: Iterable[File], targets: list[str]) -> tuple[tuple[ContextFile, ...], dict[str, bytes]]:
    every = sorted(files, key=lambda f: f.path)
    listed = [
        ContextFile.model_validate(
            {
                "path": f.path, "role": f.role, "meaning": f.meaning,
                "access": "editable" if f.open or f.path in targets else "protected",
            }
        )
        for f in every
    ]  # fmt: skip
    return tuple(listed), {f.path: f.data for f in every if not f.shared}


def _open(listed: Iterable[ContextFile]) -> list[str]:
    return [f.path for f in listed if f.access == "editable"]


def _opened(request: str, opening: str) -> str:
    """The request with the office's own words in front."""
    _, _, rest = request.partition("\n\n")
    return f"{opening}\n\n{rest}"


def _draft(
    title: str, text: str, contract: Contract, listed: tuple[ContextFile, ...], own: Mapping[str, bytes],
    tools: tuple[str, ...], anchors: Mapping[str, tuple[str, ...]], checks: str,
) -> Draft:  # fmt: skip
    chance = stream(f"{title}:cases")
    return Draft(
        title=title,
        instruction=text,
        contract=contract,
        files=listed,
        harness=guards.harness(tools, BuildConfig(turns=TURNS), chance),
        criteria=guards.criteria(contract, dict(anchors)),
        checks={"main.py": checks},
        negatives=cases.negatives(contract, chance),
        alternatives=cases.alternatives(contract, chance),
        own=own,
        capabilities=("tables",),
    )
