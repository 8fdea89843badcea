"""An edit taken over from one component into another: the same lines replaced by the same lines, or nothing.

A file that is the same before the edit becomes what the edit made of it. In another text each changed block has to
stand once, with its neighbouring lines or without; in another record (JSON) each changed field has to hold the old
value. What fits nowhere, or at two places, is not taken over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Any

Files = Mapping[str, bytes]
_MISSING = object()


def applied(before: Files, after: Files, mine: Files) -> dict[str, bytes] | None:
    """My files with the edit made in them; None where a part of it does not fit."""
    out = dict(mine)
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        if old == new:
            continue
        found = _file(path, old, new, mine.get(path))
        if found is _MISSING:
            return None
        out.pop(path, None)
        if found is not None:
            out[path] = found  # type: ignore[assignment]
    return out


def _file(path: str, old: bytes | None, new: bytes | None, mine: bytes | None) -> object:
    if mine == old:
        return new
    if mine is None or old is None or new is None:
        return mine if mine == new else _MISSING
    try:
        texts = [data.decode("utf-8") for data in (old, new, mine)]
    except UnicodeDecodeError:
        return _MISSING
    if path.endswith(".json"):
        return _record(*texts)
    found = _text(*texts)
    return _MISSING if found is None else found.encode()


def _text(old: str, new: str, mine: str) -> str | None:
    """Each changed block of lines, looked up in my text with a line of context, then without."""
    a, b = old.splitlines(keepends=True), new.splitlines(keepends=True)
    out = mine
    for tag, i, j, k, n in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        for around in (1, 0):
            start, end = max(0, i - around), min(len(a), j + around)
            was = "".join(a[start:end])
            becomes = "".join(a[start:i]) + "".join(b[k:n]) + "".join(a[j:end])
            if was and out.count(was) == 1:
                out = out.replace(was, becomes)
                break
        else:
            return None
    return out


def _record(old: str, new: str, mine: str) -> object:
    try:
        a, b, c = json.loads(old), json.loads(new), json.loads(mine)
    except ValueError:
        return _MISSING
    merged = _value(a, b, c)
    if merged is _MISSING:
        return _MISSING
    return (json.dumps(merged, indent=2, ensure_ascii=False) + "\n").encode()


def _value(old: Any, new: Any, mine: Any) -> Any:
    """My value with the change from old to new; _MISSING where it does not fit."""
    if old == new:
        return mine
    if mine == old:
        return new
    if not (isinstance(old, dict) and isinstance(new, dict) and isinstance(mine, dict)):
        return _listed(old, new, mine)
    out = dict(mine)
    for key in {**old, **new}:
        before, after = old.get(key, _MISSING), new.get(key, _MISSING)
        if before is after or before == after:
            continue
        if before is _MISSING:
            if mine.get(key, after) != after:
                return _MISSING
            out[key] = after
        elif after is _MISSING:
            if mine.get(key, before) != before:
                return _MISSING
            out.pop(key, None)
        else:
            found = _value(before, after, mine.get(key, _MISSING)) if key in mine else _MISSING
            if found is _MISSING:
                return _MISSING
            out[key] = found
    return out


def _listed(old: Any, new: Any, mine: Any) -> Any:
    """A list of plain values that gained or lost some: mine gains and loses the same."""
    if not all(isinstance(v, list) and all(isinstance(i, str) for i in v) for v in (old, new, mine)):
        return _MISSING
    lost, gained = [i for i in old if i not in new], [i for i in new if i not in old]
    if any(i not in mine for i in lost):
        return _MISSING
    return [i for i in mine if i not in lost] + [i for i in gained if i not in mine]
