"""Several defects in one package: each is made in what the one before left."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TypeVar

from rover.diagnose.inject.protocol import Components, Damage, Expects, Injector, Masks, truth
from rover.rollout.env import Env, env_from_files

JOINT = "+"

X = TypeVar("X")


class Composed:
    """Two or more kinds together, named like `missing_given+tool_removed`."""

    def __init__(self, parts: Sequence[Injector]) -> None:
        self.parts = tuple(parts)
        self.kind = JOINT.join(p.kind for p in self.parts)
        self.summary = "; ".join(p.summary for p in self.parts)
        self.repair = "together: " + "; ".join(p.repair for p in self.parts)
        self.expects: Expects = _once([e for p in self.parts for e in p.expects])
        self.components: Components = _once([c for p in self.parts for c in p.components])
        self.right: Masks = together([p.right for p in self.parts])
        self.fixable = all(p.fixable for p in self.parts)

    def inject(self, env: Env, seed: int) -> Damage:
        """Unfit where one of the parts is."""
        total: Damage | None = None
        truths = []
        for part in self.parts:
            damage = part.inject(env, seed)
            truths.append(truth(part, damage))
            total = damage if total is None else total.and_then(damage)
            files = damage.applied(env.files)
            env = env_from_files(files, {**env.resources, **damage.resources})
        assert total is not None
        return Damage(
            files=total.files,
            note=total.note,
            resources=total.resources,
            siblings=total.siblings,
            gone=total.gone,
            expects=_once([e for t in truths for e in t.expects]),
            components=_once([c for t in truths for c in t.components]),
            right=together([t.right for t in truths]),
        )


def compose(*kinds: Injector) -> Composed:
    """The kinds as one, in this order."""
    return Composed(kinds)


def together(rights: Sequence[Masks]) -> Masks:
    """Masks that repair all of several defects rightly: one way for each, joined."""
    found = {sum(1 << b for b in range(4) if any(m >> b & 1 for m in ways)) for ways in product(*rights)}
    return tuple(sorted(found))


def _once(items: Sequence[X]) -> tuple[X, ...]:
    return tuple(dict.fromkeys(items))
