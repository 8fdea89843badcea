"""Mutations of whole files."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from rover.verify.mutate.state import Change, Nothing, State

Arguments = Mapping[str, Any]


def delete(state: State, path: str, arguments: Arguments, rng: random.Random) -> Change:
    state.read(path)
    return {path: None}


def empty(state: State, path: str, arguments: Arguments, rng: random.Random) -> Change:
    if not state.read(path):
        raise Nothing(f"{path} is empty already")
    return {path: b""}


def touch(state: State, path: str, arguments: Arguments, rng: random.Random) -> Change:
    """One byte more than before."""
    return {path: state.read(path) + b"\n"}


def revert(state: State, path: str, arguments: Arguments, rng: random.Random) -> Change:
    """The file as it was at the start; gone if it was not there."""
    now = state.read(path)
    was = state.start.read(path) if state.start is not None and state.start.exists(path) else None
    if now == was:
        raise Nothing(f"{path} is as it was at the start")
    return {path: was}


def extra_file(state: State, path: str, arguments: Arguments, rng: random.Random) -> Change:
    """A file that nobody asked for."""
    path = path or "scratch.txt"
    stem, dot, ending = path.rpartition(".")
    number = 1
    while state.exists(path):
        number += 1
        path = f"{stem or ending}-{number}{dot}{ending if stem else ''}"
    return {path: str(arguments.get("text", "left over\n")).encode()}


def trailing_newline(state: State, path: str, arguments: Arguments, rng: random.Random) -> Change:
    """One line end more at the end of a text file; none where there were several."""
    data = state.read(path)
    if data.endswith((b"\n\n", b"\r\n\r\n")):
        return {path: data.rstrip(b"\r\n") + b"\n"}
    return {path: data + (b"\r\n" if b"\r\n" in data else b"\n")}


def rewrite_xlsx(state: State, path: str, arguments: Arguments, rng: random.Random) -> Change:
    """The same workbook, written by another hand: other view and widths, equal cells."""
    from rover.harness.tools.workbooks import save
    from rover.verify.checklib.read import workbook

    state.read(path)
    book = workbook(state.at(path))
    for sheet in book.worksheets:
        sheet.sheet_view.zoomScale = 90 if sheet.sheet_view.zoomScale != 90 else 110
        sheet.column_dimensions["A"].width = 21
    return {path: save(book)}
