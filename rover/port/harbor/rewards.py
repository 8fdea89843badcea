"""Under which keys a task's tests give rewards, as far as their text says: they are not run to find out.

Each key is one requirement, which the task's own tests alone can judge, and one criterion.
"""

from __future__ import annotations

import re

from rover.port.harbor.config import Config
from rover.port.harbor.tree import Tree
from rover_store.records import Contract, Criterion, Requirement
from rover_store.records.contract import ProgramRule

#: the key of a bare number
REWARD = "reward"
MOST_KEYS = 50
_OBJECT = re.compile(r"\{((?:\\?[\"'][\w .:/-]+\\?[\"']\s*:\s*[^{}\"',]+,?\s*)+)\}")
_KEY = re.compile(r"\\?[\"']([\w .:/-]+?)\\?[\"']\s*:")
#: how near an object has to stand to the name of the file that it is written to
_NEAR = 400


def keys_of(tree: Tree, config: Config) -> tuple[tuple[str, ...], str]:
    """The keys, and what they were read from; empty where it is the usual bare number."""
    for number, step in enumerate(config.get("steps") or ()):
        if isinstance(step.get("min_reward"), dict) and step["min_reward"]:
            return tuple(sorted(step["min_reward"])), f"task.toml: steps.{number}.min_reward"
    for path, item in tree.items():
        if not path.startswith("tests/") or len(item.data) > 1 << 20 or b"reward.json" not in item.data:
            continue
        text = item.data.decode("utf-8", "replace")
        found = _near(text)
        if found and found != (REWARD,):
            return found, path
    return (REWARD,), ""


def _near(text: str) -> tuple[str, ...]:
    """Keys of the object that is nearest to where the file is named."""
    places = [m.start() for m in re.finditer(r"reward\.json", text)]
    best: tuple[int, tuple[str, ...]] = (_NEAR, ())
    for match in _OBJECT.finditer(text):
        gap = min(min(abs(match.start() - p), abs(match.end() - p)) for p in places)
        keys = tuple(dict.fromkeys(m[1] for m in _KEY.finditer(match[1])))
        if gap < best[0] and len(keys) <= MOST_KEYS:
            best = (gap, keys)
    return best[1]


def contract(keys: tuple[str, ...]) -> Contract:
    """One requirement a key."""
    needed = tuple(
        Requirement(
            id=key,
            statement=f"the task's own tests give 1 as {key!r}",
            rule=ProgramRule(key=key),
            weight=_weight(key, keys),
        )
        for key in keys
    )
    return Contract(requirements=needed)


def criteria(keys: tuple[str, ...]) -> tuple[Criterion, ...]:
    """One criterion a key."""
    return tuple(
        Criterion(
            id=key, requirement=key, layer="state", evidence="state_difference", check="program",
            weight=_weight(key, keys),
        )
        for key in keys
    )  # fmt: skip


def _weight(key: str, keys: tuple[str, ...]) -> float:
    """Where there is a `reward`, that is the reward; the others are told, and do not count."""
    return 1.0 if key == REWARD or REWARD not in keys else 0.0
