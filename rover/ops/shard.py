"""One part of n: work that several machines of one kind share, without a word between them.

A part is chosen by content alone. All attempts of one piece of work (context, task and harness; the verifier is no
input of a rollout) go round the parts, beginning at a part that the digest of the piece gives: packages with equal
rollouts meet in one part, every rollout is in exactly one, and neither more packages nor more attempts move any.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rover_store.errors import UsageError
from rover_store.ids import digest

#: more machines than this are a slip of the finger
MOST = 10_000
_FORM = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")


@dataclass(frozen=True, slots=True)
class Shard:
    """Part `number` of `of`, counted from 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """What `2/3` says. UsageError."""
        found = _FORM.fullmatch(text)
        if found is None:
            raise UsageError(f"--shard {text!r} is not a part as 2/3", hint="the second of three: --shard 2/3")
        number, of = int(found[1]), int(found[2])
        if not 1 <= number <= of <= MOST:
            raise UsageError(f"--shard {text}: parts are counted from 1/n to n/n, n at most {MOST}")
        return cls(number, of)

    def takes(self, piece: str, attempt: int = 0) -> bool:
        """Whether an attempt (from 0) at a piece of work, named by its digest, is in this part."""
        return (int(piece[:15], 16) + attempt) % self.of == self.number - 1

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def piece(components: Mapping[str, str], name: str) -> str:
    """Digest of what the rollouts of a package depend on; of its name where a component is missing."""
    ids = [components.get(c) for c in ("context", "task", "harness")]
    return digest(ids if all(ids) else name)
