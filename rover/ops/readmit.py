"""Re-admission: repaired packages take the admission test again, on cases that their verifier never saw."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rover.construct.admission import admit
from rover.construct.families.protocol import Dropped
from rover.construct.families.registry import installed
from rover.rollout.env import load_env
from rover_store.ids import digest
from rover_store.records import Admission

if TYPE_CHECKING:
    from rover.rollout.engine import Engine
    from rover_store.store import Store


@dataclass(frozen=True, slots=True)
class Readmitted:
    """Who passed, who was refused and why, and the commit that says so. Packages without a family are in neither."""

    admitted: tuple[str, ...]
    refused: dict[str, str]
    commit: str


def readmit(
    store: Store, engine: Engine, branch: str, names: Sequence[str], seed: int, *, command: str = "",
    tell: Callable[[str, int], None] = lambda name, number: None,
) -> Readmitted:  # fmt: skip
    """Hold the test for each package of a branch; one commit stamps those that passed."""
    rev = f"refs/heads/{branch}"
    passed: dict[str, tuple[str, Admission]] = {}
    refused: dict[str, str] = {}
    for number, name in enumerate(names):
        tell(name, number)
        entry = store.package(name, rev)
        env = load_env(store, entry.tree)
        family = installed(env.record.family)
        if family is None:
            continue

        version = sorted(entry.components.items())  # the stamp itself is in none of them

        def streams(stream: str, version: list[tuple[str, str]] = version) -> random.Random:
            return random.Random(int(digest(["readmit", seed, version, stream])[:15], 16))

        found = admit(engine, family, env, streams)
        if isinstance(found, Dropped):
            refused[name] = found.reason
        else:
            passed[name] = entry.tree, found
    commit = _stamp(store, branch, passed, command) if passed else ""
    return Readmitted(tuple(passed), refused, commit)


def _stamp(store: Store, branch: str, passed: dict[str, tuple[str, Admission]], command: str) -> str:
    count = f"{len(passed)} repaired package{'' if len(passed) == 1 else 's'}"
    with store.write(command or "readmit") as tx:
        for name, (tree, admission) in sorted(passed.items()):
            record = load_env(store, tree).record.model_copy(update={"admission": admission})
            tx.set_package(name, tx.edit_tree(tree, {"package.json": record.dump()}))
        body = "\n".join(f"- {name}: right on {a.cases} new cases" for name, (_, a) in sorted(passed.items()))
        return tx.commit(f"Admit {count} again\n\n{body}", branch=branch)
