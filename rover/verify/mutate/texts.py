"""Mutations of written text: the figure near a label changes or goes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from typing import Any

from rover.verify.checklib.prose import DATE, FIGURE
from rover.verify.checklib.read import decode
from rover.verify.checklib.values import is_empty, plain
from rover.verify.mutate.state import Change, Nothing, State
from rover.verify.mutate.values import other

Arguments = Mapping[str, Any]
_ITEM = re.compile(r"\s*(?:[-+*•|#]|\d+[.)]\s)")  # a line that begins something of its own
_MARK = re.compile(r"^\s*(?:[-+*•]|\d+[.)])\s+")


def change_figure(state: State, path: str, arguments: Arguments, rng: random.Random) -> Change:
    """Every figure of the lines that hold the label is another one; or `value` where that is given."""
    delta = float(arguments["delta"]) if "delta" in arguments else None
    return _edit(state, path, arguments, lambda found: plain(other(found, delta)))


def drop_figure(state: State, path: str, arguments: Arguments, rng: random.Random) -> Change:
    """The figures of the lines that hold the label are gone."""
    return _edit(state, path, arguments, lambda found: "")


def drop_mention(state: State, path: str, arguments: Arguments, rng: random.Random) -> Change:
    """The words of `text` stand nowhere any more; of a path also its file name."""
    text = decode(state.read(path), path)
    words = [str(arguments["text"]), str(arguments["text"]).rsplit("/", 1)[-1]]
    left = re.sub("|".join(map(re.escape, words)), "a file", text, flags=re.I)
    if left == text:
        raise Nothing(f"{path} does not mention {words[0]!r}")
    return {path: left.encode()}


def _edit(state: State, path: str, arguments: Arguments, new: Callable[[str], str]) -> Change:
    """Change what stands near `label`: the value `was` where it is named (text, a date), else every figure."""
    label, was = str(arguments["label"]), arguments.get("was")
    lines = decode(state.read(path), path).split("\n")
    pattern = re.compile(r"[\s*_`]+".join(map(re.escape, label.split())), re.I)
    touched, carry = 0, False
    for i, line in enumerate(lines):
        m = pattern.search(line)
        if not m and (not carry or not line.strip() or _ITEM.match(line)):
            carry = False
            continue
        before, after = (line[: m.start()], line[m.end() :]) if m else ("", line)
        kept = m.group(0) if m else ""
        one, two = (_replace(part, was, new) for part in (before, after))
        carry = m is not None and (one, two) == (before, after) and not re.search(r"[.!?|]\s*$", line)
        if (one, two) != (before, after):
            lines[i] = one + kept + two
            touched += 1
    if not touched and is_empty(was):
        touched = _words_after(lines, pattern)
    if not touched:
        raise Nothing(f"nothing stands near {label!r}")
    return {path: "\n".join(lines).encode()}


def _words_after(lines: list[str], pattern: re.Pattern[str]) -> int:
    """Where no figure stands near the label: the words after it become `unknown`."""
    touched = 0
    for i, line in enumerate(lines):
        m = pattern.search(line)
        if m and (rest := re.match(r"([^\w]*)(\w.*?)([.!?|]?\s*)$", line[m.end() :])):
            lines[i] = f"{line[: m.end()]}{rest[1]}unknown{rest[3]}"
            touched += 1
    return touched


def _replace(part: str, was: Any, new: Callable[[str], str]) -> str:
    if not is_empty(was):
        return re.sub(rf"(?<!\w){re.escape(plain(was))}(?!\w)", lambda m: new(m.group(0)), part, flags=re.I)
    spared = [*(m.span() for m in DATE.finditer(part)), *(m.span() for m in _MARK.finditer(part))]

    def change(m: re.Match[str]) -> str:
        inside = any(a < m.end() and m.start() < b for a, b in spared)
        return m.group(0) if inside else new(m.group(0))

    return FIGURE.sub(change, part)
