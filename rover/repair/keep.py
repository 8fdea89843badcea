"""A case in git: one candidate commit for each combination, one case commit that holds them, and the promotion.

All of it is one transaction. The case commit is the one kind with more than two parents: the head and every
candidate; its tree has case.json and the frozen proposals beside the packages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rover.repair import fcr
from rover.repair.candidates import Built, Frozen, Parent
from rover.repair.case import Lattice
from rover.repair.words import case_message
from rover_store.records import Repair
from rover_store.refs import CASES, HEADS

if TYPE_CHECKING:
    from rover_store.store import Store
    from rover_store.write import Transaction


def keep(
    store: Store,
    parent: Parent,
    lattice: Lattice,
    proposals: Sequence[Frozen],
    repair: Repair,
    *,
    branch: str | None,
    command: str,
    review: str = "",
) -> tuple[Repair, str]:
    """Write the case; with a branch, promote the choice as well. Returns the record as stored and the case commit.

    `review` names a branch on which the choice is left instead, for a person to look at.

    LostRace where the branch is no longer at the parent: nothing is written then.
    """
    with store.write(command) as tx:
        commits = {
            mask: _candidate(tx, parent, lattice.case, built) for mask, built in sorted(lattice.built.items()) if mask
        }
        promoted = commits[repair.selected] if branch is not None and repair.selected else None
        candidates = tuple(
            c.model_copy(update={"commit": commits[c.mask]}) if c.mask in commits else c for c in repair.candidates
        )
        stored = repair.model_copy(update={"candidates": candidates, "promoted": promoted})
        files = {"case.json": stored.dump()}
        for proposal in proposals:
            head = f"proposals/{proposal.record.component}"
            files.update({f"{head}/{p}": d for p, d in proposal.draft.files.items()})
        case = tx.detached_commit(
            case_message(stored),
            base=parent.commit,
            files=files,
            parents=(parent.commit, *commits.values()),
            trailers={"Rover-Case": lattice.case},
        )
        ref = CASES + lattice.case
        tx.set_ref(ref, case, expect=tx.ref(ref))
        if review and repair.selected:
            tx.move_ref(HEADS + review, tx.ref(HEADS + review), commits[repair.selected])
        if promoted is not None and branch is not None:
            tx.promote(branch, promoted, expect=parent.commit)
    return stored, case


def _candidate(tx: Transaction, parent: Parent, case: str, built: Built) -> str:
    changed = ", ".join(sorted(built.expansion.changed))
    letters = fcr.letters(built.mask)
    trailers = {
        "Rover-Case": case,
        "Rover-Mask": str(built.mask),
        "Rover-Changed": changed,
        "Rover-Rebuilt": ", ".join(sorted(built.expansion.rebuilt)) or "-",
    }
    return tx.detached_commit(
        f"Repair {parent.name}: {letters}\n\nChanges {changed}.",
        base=parent.commit,
        packages={name: tx.tree(files) for name, files in sorted(built.packages.items())},
        resources={name: tx.tree(files) for name, files in sorted(built.resources.items())},
        parents=(parent.commit,),
        trailers=trailers,
    )
