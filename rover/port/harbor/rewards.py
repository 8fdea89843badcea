"""Under which keys a task's tests give rewards, as far as their text says: they are not run to find out.

Each key is one requirement, which the task's own tests alone can judge, and one criterion.
"""

from __future__ import annotations

import re
from bisect import bisect_left

from rover.port.harbor.config import Config
from rover.port.harbor.tree import Tree
from rover_store.records import Contract, Criterion, Requirement
from rover_store.records.contract import ProgramRule

#: the key of a bare number
REWARD = "reward"
MOST_KEYS = 50
#: what stands in one pair of braces, and one `"key": value` of it; neither is tried in more than one way
_OBJECT = re.compile(r"\{([^{}]+)\}")
_PAIR = re.compile(r"\s*+\\?[\"']([\w .:/-]++)\\?[\"']\s*+:\s*+[^\"'\s][^\"']*+")
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
        gap = min(_gap(places, match.start()), _gap(places, match.end()))
        if gap < best[0] and (keys := _keys(match[1])):
            best = (gap, keys)
    return best[1]


def _gap(places: list[int], at: int) -> int:
    """How far the nearest of some sorted places is."""
    above = bisect_left(places, at)
    return min(abs(place - at) for place in places[max(above - 1, 0) : above + 1])


def _keys(inner: str) -> tuple[str, ...]:
    """Keys of what is an object of plain values; empty for anything else."""
    pairs = [_PAIR.fullmatch(pair) for pair in inner.split(",", MOST_KEYS + 1) if pair.strip()]
    keys = tuple(dict.fromkeys(pair[1] for pair in pairs if pair is not None))
    return keys if None not in pairs and len(keys) <= MOST_KEYS else ()


def contract(keys: tuple[str, ...]) -> Contract:
    """One requirement a key."""
    counts = _counting(keys)
    needed = tuple(
        Requirement(
            id=key,
            statement=f"the task's own tests give 1 as {key!r}",
            rule=ProgramRule(key=key),
            weight=1.0 if key in counts else 0.0,
        )
        for key in keys
    )
    return Contract(requirements=needed)


def criteria(keys: tuple[str, ...]) -> tuple[Criterion, ...]:
    """One criterion a key."""
    counts = _counting(keys)
    return tuple(
        Criterion(
            id=key, requirement=key, layer="state", evidence="state_difference", check="program",
            weight=1.0 if key in counts else 0.0,
        )
        for key in keys
    )  # fmt: skip


def _counting(keys: tuple[str, ...]) -> frozenset[str]:
    """Where there is a `reward`, that is the reward; the others are told, and do not count."""
    return frozenset({REWARD} if REWARD in keys else keys)
