"""Relation-aware expansion: which files lie in a workspace beside those that the task needs.

Distractors are files that really relate to the needed ones (shared keys, included values), so that a worker has to
tell them apart; only where these run out are they taken at random. All of them are protected.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from rover.construct.config import BuildConfig
from rover.construct.profile import Profile
from rover_store.records import ContextFile

#: larger files are not put beside a task that does not need them
MOST_BYTES = 1 << 20


def expand(
    profile: Profile,
    needed: Mapping[str, str],
    rng: random.Random,
    config: BuildConfig,
    *,
    editable: tuple[str, ...] = (),
    starters: Mapping[str, str] | None = None,
) -> tuple[ContextFile, ...]:
    """The files of the workspace, sorted by path.

    `needed` and `starters` map paths to what the file is for; starters are made by the family, not in the profile.
    """
    count = round(config.distractor_ratio * len(needed))
    near = [p for path in needed for p in profile.neighbours(path)] if config.expansion else []
    others = [f.path for f in profile.files]
    rng.shuffle(others)
    pool = [p for p in dict.fromkeys((*near, *others)) if p not in needed and profile.file(p).size <= MOST_BYTES]
    files = [
        ContextFile(path=p, access="editable" if p in editable else "protected", role="input", meaning=meaning)
        for p, meaning in needed.items()
    ]
    files += [
        ContextFile(path=p, access="editable" if p in editable else "protected", role="starter", meaning=meaning)
        for p, meaning in (starters or {}).items()
    ]
    files += [ContextFile(path=p, role="distractor", meaning="not needed") for p in pool[:count]]
    return tuple(sorted(files, key=lambda f: f.path))
