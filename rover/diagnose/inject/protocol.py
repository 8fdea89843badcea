"""What an injector is, and what it gives back."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from rover.rollout.env import Env
from rover.sandbox.protocol import Files
from rover_store.errors import UsageError
from rover_store.ids import COMPONENTS, ComponentName

Components = tuple[ComponentName, ...]
#: findings that a right diagnosis comes to: (kind, component at fault)
Expects = tuple[tuple[str, ComponentName], ...]
Masks = tuple[int, ...]

#: bit of each component in a mask
C, T, H, V = 1, 2, 4, 8


class Truth(NamedTuple):
    """What is so of one injection: the choices that it made included."""

    expects: Expects
    components: Components
    right: Masks
    fixable: bool


@dataclass(frozen=True, slots=True)
class Damage:
    """A package after the break: changed files (None: deleted) and whole trees of changed resources.

    Where the injector had a choice, `expects`, `components` and `right` say what holds of the choice it made.
    """

    files: Mapping[str, bytes | None]
    #: what was done, for the command's output; never stored
    note: str
    resources: Mapping[str, Files] = field(default_factory=dict)
    #: other packages that are bound to the changed resources get them too
    siblings: bool = False
    #: resources that are left out of what is stored: nobody has them any more
    gone: tuple[str, ...] = ()
    expects: Expects | None = None
    components: Components | None = None
    right: Masks | None = None

    def applied(self, files: Files) -> dict[str, bytes]:
        """The package's files after the break."""
        out = {**files, **{path: data for path, data in self.files.items() if data is not None}}
        return {path: out[path] for path in sorted(out) if self.files.get(path, b"") is not None}

    def and_then(self, other: Damage) -> Damage:
        """This, then the other one, which was made for the package that this one leaves."""
        return Damage(
            files={**self.files, **other.files},
            note=f"{self.note}; {other.note}",
            resources={**self.resources, **other.resources},
            siblings=self.siblings or other.siblings,
            gone=tuple(dict.fromkeys([*self.gone, *other.gone])),
        )


@runtime_checkable
class Injector(Protocol):
    """One kind of defect."""

    kind: str
    #: one sentence: what it breaks
    summary: str
    #: one sentence: which repairs are right
    repair: str
    expects: Expects
    #: components at fault
    components: Components
    #: combinations of components that repair it rightly, as masks; none where nothing does
    right: Masks
    #: whether what is left of the package holds enough to repair it
    fixable: bool

    def inject(self, env: Env, seed: int) -> Damage:
        """Break the package. Unfit where it offers no hold for this kind."""


class Unfit(UsageError):
    """The package offers no hold for this kind of defect."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(f"cannot inject {kind}: {reason}", hint="`rover inject --list` shows all kinds")


def truth(how: Injector, damage: Damage) -> Truth:
    """What is so of this damage: the injector's word, except where the damage knows better."""
    return Truth(
        how.expects if damage.expects is None else damage.expects,
        how.components if damage.components is None else damage.components,
        how.right if damage.right is None else damage.right,
        how.fixable,
    )


def mask_of(components: Iterable[str]) -> int:
    """The components as a mask."""
    wanted = set(components)
    return sum(1 << number for number, name in enumerate(COMPONENTS) if name in wanted)


def rng_for(kind: str, seed: int) -> random.Random:
    """The only source of chance of an injection."""
    return random.Random(f"{kind}:{seed}")
