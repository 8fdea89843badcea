"""Who proposes, and in what order: rules, re-derivation, history, a model, haste. At most one draft a component.

Other distributions add proposers as `rover.proposers` entry points (a class without arguments). What a proposer
hands over is checked before anyone sees it; one that crashes, hangs or hands over what is no component proposes
nothing, and the reason is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import entry_points

from rover.repair.proposals.check import honest, refusal
from rover.repair.proposals.guard import guarded
from rover.repair.proposals.hasty import Hasty
from rover.repair.proposals.history import FromHistory, FromSibling
from rover.repair.proposals.programs import TaskOfProgram, VerifierOfProgram
from rover.repair.proposals.protocol import Draft, PackageView, Proposer, Style
from rover.repair.proposals.rederive import ContextAgain, HarnessAgain, TaskAgain, VerifierAgain
from rover.repair.proposals.rules_context import ContextByRule
from rover.repair.proposals.rules_harness import HarnessByRule
from rover.repair.proposals.rules_task import TaskByRule
from rover.repair.proposals.rules_verifier import VerifierByRule
from rover_store.errors import UsageError
from rover_store.ids import COMPONENTS, ComponentName
from rover_store.records import Diagnosis

GROUP = "rover.proposers"
#: the order in which styles are asked; `hasty` only where more than one style is asked for
STYLES: tuple[Style, ...] = ("rule", "rederive", "history", "model", "hasty")
#: products of styles that one repair tries
MOST_PRODUCTS = 16

#: rules for verifiers that are programs, and those that make a component fit a contract which describes the task
_OF_PROGRAMS = frozenset({"task-program", "verifier-program"})
_OF_CONTRACTS = frozenset(
    {"task-rule", "verifier-rule", "context-again", "task-again", "harness-again", "verifier-again", "hasty"}
)

Tell = Callable[[str], None]


def proposers(*, history: bool = True, more: Sequence[Proposer] = ()) -> tuple[Proposer, ...]:
    """All proposers in the order in which they are asked. `more`: those that need settings, such as models."""
    found: list[Proposer] = [
        ContextByRule(), TaskByRule(), HarnessByRule(), VerifierByRule(), TaskOfProgram(), VerifierOfProgram(),
        ContextAgain(), TaskAgain(), HarnessAgain(), VerifierAgain(), Hasty(),
    ]  # fmt: skip
    for point in sorted(entry_points(group=GROUP), key=lambda p: p.name):
        made = point.load()()
        if not isinstance(made, Proposer):
            raise UsageError(f"the entry point {GROUP}:{point.name} gives no proposer")
        found.append(made)
    if history:  # what was, here or in a sibling
        found += [kind(component) for component in COMPONENTS for kind in (FromHistory, FromSibling)]
    return tuple(sorted([*found, *more], key=lambda p: STYLES.index(p.style)))


def propose(
    view: PackageView,
    diagnosis: Diagnosis,
    *,
    history: bool = True,
    without: frozenset[str] = frozenset(),
    more: Sequence[Proposer] = (),
    tell: Tell | None = None,
) -> tuple[Draft, ...]:
    """At most one draft for each component, in the order C, T, H, V: the first that changes something.

    `history` False leaves out what would merely take back an edit. `without`: kinds of findings whose rules are off.
    """
    chosen = drafts(view, diagnosis, 1, asked(view, history, more, hasty=False), without, tell)
    return tuple(found[0] for found in chosen.values())


def asked(view: PackageView, history: bool, more: Sequence[Proposer], *, hasty: bool) -> tuple[Proposer, ...]:
    found = proposers(history=history, more=more)
    program = view.env.verifier.program is not None
    return tuple(p for p in found if (hasty or p.style != "hasty") and _fits(p, program))


def _fits(proposer: Proposer, program: bool) -> bool:
    """Whether a proposer of ours knows what to do where the verifier is a program, or is not."""
    if proposer.name in _OF_PROGRAMS:
        return program
    return not (program and proposer.name in _OF_CONTRACTS)


def drafts(
    view: PackageView,
    diagnosis: Diagnosis,
    most: int,
    order: Iterable[Proposer],
    without: frozenset[str],
    tell: Tell | None,
) -> dict[ComponentName, list[Draft]]:
    """Up to `most` different drafts for each component, in the order of styles."""
    rest = tuple(f for f in diagnosis.findings if f.kind not in without)
    narrowed = diagnosis.model_copy(update={"findings": rest})
    chosen: dict[ComponentName, list[Draft]] = {component: [] for component in COMPONENTS}
    for proposer in order:
        mine = chosen[proposer.component]
        if len(mine) == most:
            continue
        made, problem = guarded(proposer, view, narrowed if proposer.written_for else diagnosis)
        problem = problem or (refusal(view, proposer.component, made) if made is not None else "")
        if problem and tell is not None:
            tell(f"{proposer.name}: {problem}")
        if made is None or problem or any(_same(made, other) for other in mine):
            continue
        mine.append(honest(view, made, proposer))
    return {component: found for component, found in chosen.items() if found}


def _same(one: Draft, other: Draft) -> bool:
    return dict(one.files) == dict(other.files) and dict(one.resources) == dict(other.resources)
