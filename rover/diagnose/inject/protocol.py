"""What an injector is, and what it gives back."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from rover.rollout.env import Env
from rover.sandbox.protocol import Files
from rover_store.errors import UsageError
from rover_store.ids import ComponentName


@dataclass(frozen=True, slots=True)
class Damage:
    """A package after the break: changed files (None: deleted) and whole trees of changed resources."""

    files: Mapping[str, bytes | None]
    #: what was done, for the command's output; never stored
    note: str
    resources: Mapping[str, Files] = field(default_factory=dict)

    def applied(self, files: Files) -> dict[str, bytes]:
        """The package's files after the break."""
        out = {**files, **{path: data for path, data in self.files.items() if data is not None}}
        return {path: out[path] for path in sorted(out) if self.files.get(path, b"") is not None}

    def and_then(self, other: Damage) -> Damage:
        return Damage(
            files={**self.files, **other.files},
            note=f"{self.note}; {other.note}",
            resources={**self.resources, **other.resources},
        )


@runtime_checkable
class Injector(Protocol):
    """One kind of defect."""

    kind: str
    #: one sentence: what it breaks
    summary: str
    #: one sentence: which repairs are right
    repair: str
    #: findings that a diagnosis should come to: (kind, component at fault)
    expects: tuple[tuple[str, ComponentName], ...]

    def inject(self, env: Env, seed: int) -> Damage:
        """Break the package. Unfit where it offers no hold for this kind."""


class Unfit(UsageError):
    """The package offers no hold for this kind of defect."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(f"cannot inject {kind}: {reason}", hint="`rover inject --list` shows all kinds")


def rng_for(kind: str, seed: int) -> random.Random:
    """The only source of chance of an injection."""
    return random.Random(f"{kind}:{seed}")
