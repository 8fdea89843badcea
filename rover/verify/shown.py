"""What one criterion is shown, and nothing else: the files that it declares, the message where it scores one.

A criterion of layer `state`, or one that declares neither files nor the message, sees both states whole. What a
criterion does not declare is absent when its check runs. Equal evidence under equal checks is judged once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from rover.sandbox.protocol import Files
from rover_store.ids import blob_id, digest
from rover_store.records import Criterion

#: bytes whose ids are remembered at a time
REMEMBERED = 64 << 20


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under what a check runs: a shift of its clock in seconds, and where its random numbers start."""

    clock: float = 0.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Shown:
    """What a group of criteria is shown. `paths` None: everything."""

    paths: tuple[str, ...] | None
    message: bool

    def files(self, state: Files) -> Files:
        if self.paths is None:
            return state
        return {path: state[path] for path in state if self._has(path)}

    def irregular(self, found: Mapping[str, str]) -> dict[str, str]:
        """Irregular paths that a declared one is, lies below, or holds."""
        if self.paths is None:
            return dict(found)
        return {k: why for k, why in found.items() if self._has(k) or any(p.startswith(k + "/") for p in self.paths)}

    def _has(self, path: str) -> bool:
        return any(path == p or path.startswith(p.rstrip("/") + "/") for p in self.paths or ())


def shown_to(criterion: Criterion) -> Shown:
    """What a criterion declares to read."""
    message = criterion.evidence == "message"
    whole = criterion.layer == "state" or criterion.evidence == "state_difference"
    if whole or not (criterion.paths or message):
        return Shown(None, message)
    return Shown(tuple(sorted(criterion.paths)), message)


def groups(criteria: tuple[Criterion, ...]) -> dict[Shown, list[Criterion]]:
    """Criteria by what they are shown; those of the state first."""
    out: dict[Shown, list[Criterion]] = {}
    for criterion in sorted(criteria, key=lambda c: c.layer != "state"):
        out.setdefault(shown_to(criterion), []).append(criterion)
    return out


def anchors_for(criterion: Criterion, stored: Mapping[str, Any]) -> dict[str, Any]:
    """The anchors that a criterion names; one of layer `state`, which scores what all others leave, sees them all."""
    return {k: v for k, v in stored.items() if k in criterion.anchors or criterion.layer == "state"}


def anchors_of(verifier_files: Files) -> dict[str, Any]:
    """Values of anchors.json by id; none where it cannot be read, which the checks that need one will say."""
    return dict(_anchors(verifier_files.get("anchors.json", b"")))


@lru_cache(maxsize=64)
def _anchors(stored: bytes) -> dict[str, Any]:
    try:
        return {a["id"]: a["value"] for a in json.loads(stored)["anchors"]} if stored else {}
    except (ValueError, LookupError, TypeError):
        return {}


@dataclass
class Memo:
    """Scores by everything that they rest on. A check that failed or ran out of time is asked again."""

    known: dict[str, dict[str, Any]] = field(default_factory=dict)
    hits: int = 0
    _ids: dict[int, tuple[bytes, str]] = field(default_factory=dict)
    _held: int = 0

    def ids(self, files: Files) -> dict[str, str]:
        return {path: self._blob(files[path]) for path in sorted(files)}

    def _blob(self, data: bytes) -> str:
        """The id of a blob; large starts are hashed once, not once a grading."""
        found = self._ids.get(id(data))
        if found is not None and found[0] is data:
            return found[1]
        if self._held > REMEMBERED:
            self._ids, self._held = {}, 0
        name = blob_id(data)
        self._ids[id(data)] = (data, name)
        self._held += len(data)
        return name

    def key(self, criterion: Criterion, anchors: Mapping[str, Any], rests_on: str) -> str:
        """The name of one score. `rests_on` stands for the check files and everything that they are shown."""
        return digest(["score", criterion.id, criterion.check, list(criterion.paths), dict(anchors), rests_on])
