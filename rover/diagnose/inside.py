"""Runs inside a box: where in the files of a workspace can an answer be read?

An answer is a table (`columns`, `rows`); `keys` says how many leading columns only identify a row. A row counts as
readable in a file when one line (or row of a sheet, or JSON object) holds its keys and every one of its values,
exactly, in another spelling (1,234.50 for 1234.5) or rounded. Whether the readable rows are more than chance is
decided here as well, because only here the whole file is at hand: in a file full of numbers a bare number proves
nothing. The files that the answer is derived from are never searched for it.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WARM_FOR = {".xlsx": "openpyxl", ".xlsm": "openpyxl"}
MAX_BYTES = 8 << 20
MAX_ROWS = 400
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w])")
_BESIDE = re.compile(r"docProps/|xl/(?:workbook\.xml|comments|threadedComments|drawings/)")
_TAG = re.compile(r"<[^>]*>")
_SPACE = re.compile(r"\s+")
#: a match that chance gives more often than this is no evidence
CHANCE = 0.002


class Lines:
    """The lines of one file: text in lower case, the numbers in it, and how many numbers the file holds."""

    def __init__(self, rows: list[str]) -> None:
        self.text = [_normal(row) for row in rows]
        self.numbers = [_numbers(row) for row in rows]
        self.population: dict[int, int] = {}
        for number in {n for line in self.numbers for n in line}:
            digits = significant(number)
            self.population[digits] = self.population.get(digits, 0) + 1

    def chance(self, value: float) -> float:
        """How often a number with so many digits stands in the file without meaning anything."""
        digits = significant(value)
        return self.population.get(digits, 0) / (9.0 * 10.0 ** max(digits - 1, 0))


def visible(payload: dict[str, Any]) -> list[dict[str, Any]]:
    """Where answers can be read.

    payload: files (paths to search), texts {name: text}, answers {id: {columns, rows, keys, sources}}.
    """
    root = Path(payload.get("root", "."))
    sources = {s for answer in payload["answers"].values() for s in answer["sources"]}
    bodies: dict[str, Lines] = {name: Lines(text.splitlines()) for name, text in payload["texts"].items()}
    for name in payload["files"]:
        bodies[name] = Lines([name, *_rows(root / name)])  # a name is read as well as what is below it
    columns = {name: _columns(root / name) for name in sorted(sources) if (root / name).is_file()}
    hits = []
    for answer_id, answer in payload["answers"].items():
        for name, lines in bodies.items():
            if name in answer["sources"]:
                continue
            hit = _look(answer, lines, columns)
            if hit is not None:
                hits.append({"answer": answer_id, "file": name, **hit})
    return hits


def significant(value: float) -> int:
    """Significant digits of a number as a person would write it: 1200 -> 2, 12.50 -> 3, 0 -> 0."""
    return len(f"{abs(value):.12g}".replace(".", "").split("e")[0].strip("0"))


def _look(answer: dict[str, Any], lines: Lines, columns: dict[str, list[set[str]]]) -> dict[str, Any] | None:
    keys, rows = int(answer["keys"]), answer["rows"][:MAX_ROWS]
    if not rows:
        return None
    if keys and keys == len(answer["columns"]):
        return _look_for_set(rows, lines, [c for s in answer["sources"] for c in columns.get(s, [])])
    return _look_for_values(rows, keys, lines)


def _look_for_values(rows: list[list[Any]], keys: int, lines: Lines) -> dict[str, Any] | None:
    found = 0
    how = "exact"
    chance = 1.0
    sample = ""
    for row in rows:
        values = [v for v in row[keys:] if v is not None]
        match = _find_row([_normal(str(k)) for k in row[:keys]], values, lines)
        if match is None:
            continue
        found += 1
        spelling, text, odds = match
        how = spelling if spelling != "exact" else how
        chance *= odds
        sample = sample or text
    if found * 2 < len(rows) or chance > CHANCE:
        return None
    return {"how": how, "matched": found, "of": len(rows), "sample": sample[:160]}


def _find_row(keys: list[str], values: list[Any], lines: Lines) -> tuple[str, str, float] | None:
    """Spelling, line and odds by chance of the first line that holds keys and values."""
    for text, numbers in zip(lines.text, lines.numbers, strict=True):
        if not all(_word_in(key, text) for key in keys):
            continue
        odds, spelling = 1.0, "exact"
        for value in values:
            match = _match(value, text, numbers)
            if match is None:
                break
            how, as_found = match
            spelling = how if how != "exact" else spelling
            odds *= _odds(as_found, keys, len(numbers), lines)
        else:
            return (spelling, text, odds) if values else None
    return None


def _odds(value: Any, keys: list[str], beside: int, lines: Lines) -> float:
    if not _is_number(value):
        return 0.3
    if keys:  # only the numbers beside the key could be taken for the value
        return min(1.0, 2 * beside / (9.0 * 10.0 ** max(significant(value) - 1, 0)))
    return min(1.0, lines.chance(float(value)))


def _match(value: Any, text: str, numbers: list[float]) -> tuple[str, Any] | None:
    """The spelling in which a line holds a value, and the value as it stands there: 29.1 says less than 29.08."""
    if not _is_number(value):
        return ("exact", value) if _word_in(_normal(str(value)), text) else None
    wanted = float(value)
    if wanted in numbers:
        plain = f"{wanted:.12g}"
        return ("exact" if plain in text else "normalised"), wanted
    for decimals in (4, 3, 2, 1, 0):
        rounded = round(wanted, decimals)
        if significant(rounded) >= 3 and rounded in numbers:
            return "rounded", rounded
    return None


def _look_for_set(rows: list[list[Any]], lines: Lines, columns: list[set[str]]) -> dict[str, Any] | None:
    """An answer that is a selection of keys is readable where a file names them and hardly any other key."""
    wanted = {_normal(str(row[0])) for row in rows}
    domains = [c for c in columns if wanted <= c]
    if len(wanted) < 2 or not domains:
        return None
    domain = set().union(*domains)
    if len(wanted) * 2 > len(domain):
        return None
    body = "\n".join(lines.text)
    found = {key for key in wanted if _word_in(key, body)}
    if len(found) * 2 < len(wanted) or len(found) < 2:
        return None
    others = sum(1 for key in domain - wanted if _word_in(key, body))
    if others * 4 > len(found):
        return None
    return {"how": "exact", "matched": len(found), "of": len(wanted), "sample": ", ".join(sorted(found))[:160]}


def _rows(path: Path) -> Iterator[str]:
    try:
        if path.stat().st_size > MAX_BYTES:
            return
        if path.suffix.lower() in (".xlsx", ".xlsm"):
            yield from _beside_sheets(path)
            yield from ("\t".join(cells) for cells in _sheet_rows(path))
            return
        text = path.read_bytes().decode("utf-8", "replace")
        yield from text.splitlines()
        if path.suffix.lower() == ".json":
            yield from _objects(json.loads(text))
    except Exception:  # a broken workbook raises whatever its broken part makes zipfile and openpyxl raise
        return


def _beside_sheets(path: Path) -> Iterator[str]:
    """Text of a workbook that stands in no cell: properties, comments, shapes, defined names."""
    import zipfile

    with zipfile.ZipFile(path) as book:
        for part in book.infolist():
            if _BESIDE.match(part.filename) and part.file_size <= MAX_BYTES:
                yield _SPACE.sub(" ", _TAG.sub(" ", book.read(part).decode("utf-8", "replace")))


def _sheet_rows(path: Path) -> Iterator[list[str]]:
    import openpyxl

    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    try:
        for sheet in book.worksheets:
            for row in sheet.iter_rows(values_only=True):
                yield ["" if cell is None else str(cell) for cell in row]
    finally:
        book.close()


def _objects(value: Any) -> Iterator[str]:
    """Each JSON object (or list of plain values) as one line."""
    if isinstance(value, dict):
        plain = [f"{k} {v}" for k, v in value.items() if isinstance(v, str | int | float)]
        if plain:
            yield " ".join(plain)
        for child in value.values():
            yield from _objects(child)
    elif isinstance(value, list):
        plain = [str(v) for v in value if isinstance(v, str | int | float)]
        if plain:
            yield " ".join(plain)
        for child in value:
            yield from _objects(child)


def _columns(path: Path) -> list[set[str]]:
    """The values of each column of a table, in lower case; columns of JSON are the fields of its objects."""
    try:
        suffix = path.suffix.lower()
        if suffix in (".xlsx", ".xlsm"):
            rows = list(_sheet_rows(path))
        elif suffix in (".csv", ".tsv"):
            text = path.read_bytes().decode("utf-8-sig", "replace")
            rows = list(csv.reader(text.splitlines(), delimiter="\t" if suffix == ".tsv" else ","))
        else:
            return [_fields(path)]
        width = max((len(row) for row in rows), default=0)
        return [{_normal(row[i]) for row in rows[1:] if i < len(row) and row[i]} for i in range(width)]
    except (OSError, ValueError, KeyError, csv.Error):
        return []


def _fields(path: Path) -> set[str]:
    text = path.read_bytes().decode("utf-8", "replace")
    return {_normal(part) for part in re.findall(r'"((?:[^"\\]|\\.)*)"|(\d[\d.]*)', text) for part in part if part}


def _normal(text: str) -> str:
    return _SPACE.sub(" ", text).strip().lower()


def _word_in(word: str, text: str) -> bool:
    """Whether `text` holds `word` as a whole: 12 does not stand in 120."""
    if not word:
        return True
    at = text.find(word)
    while at >= 0:
        before = text[at - 1] if at else " "
        behind = text[at + len(word)] if at + len(word) < len(text) else " "
        if not (before.isalnum() and word[0].isalnum()) and not (behind.isalnum() and word[-1].isalnum()):
            return True
        at = text.find(word, at + 1)
    return False


def _numbers(text: str) -> list[float]:
    out = []
    for token in _NUMBER.findall(text):
        try:
            out.append(float(token.replace(",", "")))
        except ValueError:
            continue
    # a comma may separate instead of group: 1,250 in a csv line is two cells
    for token in re.findall(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?![\w])", text):
        out.append(float(token))
    return out


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
