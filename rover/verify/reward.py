"""What a verifier's program says: reward.json before reward.txt, read strictly.

A reward is a flat object of numbers in [0, 1], or one such number, which is called `reward`. Nothing else is one:
what cannot be believed is a fault of the verifier, in plain words, and never 0.
"""

from __future__ import annotations

import json
import re
from typing import Any

from rover.sandbox.protocol import Files, Snapshot
from rover_store.ids import blob_id

JSON, TEXT = "reward.json", "reward.txt"
#: what a bare number is called
BARE = "reward"
MOST_BYTES = 64 << 10
#: decimals of a mean, where reward.txt gives the mean of what reward.json says
NEAR = 1e-6

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class NoReward(Exception):  # a fact about a verifier, not an error of rover
    """What was written is no reward, or nothing was."""


def rewards_of(snapshot: Snapshot, folder: str, start: Files) -> dict[str, float]:
    """The rewards that lie in `folder` of a workspace, by key. NoReward says why there are none.

    `start`: what lay in the workspace before. None of it lay in `folder`, but a reward may hold the same bytes as a
    file elsewhere, and a snapshot brings along only what is new.
    """
    objects = _read(snapshot, f"{folder}/{JSON}", JSON, start)
    text = _read(snapshot, f"{folder}/{TEXT}", TEXT, start)
    if objects is None and text is None:
        raise NoReward(f"wrote neither {JSON} nor {TEXT}")
    if objects is None:
        assert text is not None
        return {BARE: number(text)}
    found = parse(objects)
    if text is not None:
        _agree(found, number(text))
    return found


def parse(data: bytes) -> dict[str, float]:
    """The rewards of a reward.json."""
    try:
        value = json.loads(_text(data, JSON), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise NoReward(f"{JSON} is not valid JSON ({str(error)[:80]})") from None
    if not isinstance(value, dict):
        raise NoReward(f"{JSON} holds {_shown(value)}, not an object of numbers")
    if not value:
        raise NoReward(f"{JSON} holds no reward")
    return {key: _in_range(one, f"{JSON}: {key[:60]!r}") for key, one in value.items()}


def number(data: bytes) -> float:
    """The reward of a reward.txt."""
    text = _text(data, TEXT).strip()
    if not _NUMBER.fullmatch(text):
        raise NoReward(f"{TEXT} holds {_shown(text)}, not a number")
    return _in_range(float(text), TEXT)


def _read(snapshot: Snapshot, path: str, name: str, start: Files) -> bytes | None:
    """The bytes of one file; None where there is none."""
    if path in snapshot.refused:
        raise NoReward(f"{name} is no plain file: {snapshot.refused[path]}")
    entry = snapshot.entries.get(path)
    if entry is None:
        if any(other.startswith(path + "/") for other in snapshot.entries):
            raise NoReward(f"{name} is a folder")
        return None
    if entry.kind == "link":
        raise NoReward(f"{name} is a link, not a file")
    if entry.size > MOST_BYTES:
        raise NoReward(f"{name} is too large ({entry.size} bytes, at most {MOST_BYTES})")
    if entry.size == 0:
        raise NoReward(f"{name} is empty")
    data = snapshot.new.get(entry.blob)
    if data is None:
        alike = (d for d in start.values() if len(d) == entry.size)
        data = next((d for d in alike if blob_id(d) == entry.blob), None)
    if data is None:
        raise NoReward(f"{name} cannot be read")
    return data


def _text(data: bytes, name: str) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NoReward(f"{name} is not UTF-8 (byte {error.start})") from None
    if not text.strip():
        raise NoReward(f"{name} is empty")
    return text


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out:
            raise NoReward(f"{JSON} holds {key[:60]!r} twice")
        out[key] = value
    return out


def _in_range(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NoReward(f"{where} is {_shown(value)}, not a number")
    if not 0 <= value <= 1:  # so NaN is refused as well
        raise NoReward(f"{where} is {_shown(value)}, not in [0, 1]")
    return float(value) or 0.0


def _agree(found: dict[str, float], text: float) -> None:
    """A bare number beside an object is one of its values by the name `reward`, its only one, or their mean."""
    said = found[BARE] if BARE in found else sum(found.values()) / len(found)
    if abs(said - text) > NEAR:
        raise NoReward(f"{JSON} says {said:g} and {TEXT} says {text:g}")


def _shown(value: Any) -> str:
    """A value that is no reward, short and in one line."""
    if isinstance(value, float | int) and not isinstance(value, bool):
        return f"{value:g}" if isinstance(value, float) else str(value)[:40]
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return json.dumps(value)[:80]
