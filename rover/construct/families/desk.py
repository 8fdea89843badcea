"""What demonstrators share: reading the request sentence by sentence, and calling tools until a table is read.

A sentence that no pattern fits is a PolicyFailure that quotes it: a request with a hole is not guessed at.
Alternative solvers share none of this.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any

from rover.policy.protocol import PolicyFailure, PolicyView
from rover_store.records import Call, ToolCall

PAGE = 5000
#: what stands for an empty cell in a column of numbers or dates
MARKS = ("na", "n/a", "nan", "null")

NAME = r"`([^`]+)`"
_NUMBER = r"-?\d+(?:\.\d+)?"
_DATE = r"\d{4}-\d{2}-\d{2}"
VALUE = rf'"[^"]*"|{_DATE}|{_NUMBER}'
#: phrase -> operator; a longer phrase comes before one that it contains
_PHRASES: tuple[tuple[str, str], ...] = (
    ("is on or before", "le"), ("is no later than", "le"), ("is at most", "le"), ("is no more than", "le"),
    ("is on or after", "ge"), ("is no earlier than", "ge"), ("is at least", "ge"), ("is no less than", "ge"),
    ("is earlier than", "lt"), ("is before", "lt"), ("is less than", "lt"), ("is below", "lt"),
    ("is later than", "gt"), ("is after", "gt"), ("is more than", "gt"), ("is above", "gt"),
    ("differs from", "ne"), ("is not", "ne"), ("equals", "eq"), ("contains", "contains"), ("is", "eq"),
)  # fmt: skip
_CONDITION = re.compile(rf"{NAME} (?:(is not empty|is empty)|({'|'.join(p for p, _ in _PHRASES)}) ({VALUE}))")


@dataclass(frozen=True, slots=True)
class Test:
    """A condition as read from the request."""

    __test__ = False  # not a test case

    column: str
    op: str
    value: str = ""
    kind: str = "text"

    def holds(self, row: dict[str, Any]) -> bool:
        cell = clean(row.get(self.column))
        empty = cell is None or cell == ""
        if self.op in ("is_null", "not_null"):
            return empty == (self.op == "is_null")
        if empty or (self.kind != "text" and str(cell).strip().lower() in MARKS):
            return False
        if self.op == "contains":
            return self.value in str(cell)
        left, right = (str(cell), self.value) if self.kind != "number" else (decimal(cell), Decimal(self.value))
        if self.kind == "date":
            left = str(cell)[:10]
        results = {"eq": left == right, "ne": left != right}
        if self.op in results:
            return results[self.op]
        return {"lt": left < right, "le": left <= right, "gt": left > right, "ge": left >= right}[self.op]  # type: ignore[operator]


def clean(cell: Any) -> Any:
    """Text without surrounding white space; other cells as they are."""
    return cell.strip() if isinstance(cell, str) else cell


def decimal(cell: Any) -> Decimal:
    """A cell as an exact number. PolicyFailure where it is none."""
    try:
        return Decimal(str(cell).strip().replace(",", ""))
    except InvalidOperation:
        raise PolicyFailure(f"not a number: {cell!r}") from None


def rounded(value: Decimal, decimals: int | None) -> int | float:
    """Half away from zero; whole numbers without a fraction."""
    if decimals is not None:
        value = value.quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_HALF_UP)
    return int(value) if value == value.to_integral_value() else float(value)


def condition(text: str) -> Test:
    """One condition. PolicyFailure where the text holds none."""
    found = _CONDITION.fullmatch(text.strip())
    if not found:
        raise PolicyFailure(f"cannot read the condition: {text.strip()!r}")
    column, emptiness, phrase, raw = found.groups()
    if emptiness:
        return Test(column, "is_null" if emptiness == "is empty" else "not_null")
    kind = "text" if raw.startswith('"') else "date" if re.fullmatch(_DATE, raw) else "number"
    return Test(column, dict(_PHRASES)[phrase], raw.strip('"'), kind)


def conditions(text: str) -> tuple[Test, ...]:
    """Conditions joined by `and`."""
    return tuple(condition(part) for part in split_outside(text, r"\s+and\s+"))


def names_in(text: str) -> tuple[str, ...]:
    """All names in backticks, in order."""
    return tuple(re.findall(NAME, text))


def sentences(instruction: str) -> list[str]:
    """The request as sentences without bullets and numbers; a full stop in a name or value ends none."""
    out: list[str] = []
    for line in instruction.splitlines():
        line = re.sub(r"^\s*(?:[-*]|\d+\.)\s+", "", line).strip()
        out += [s.strip() for s in split_outside(line, r"(?<=[.:;])\s+") if s.strip()]
    return [s.rstrip(".:;").strip() for s in out]


def split_outside(text: str, pattern: str) -> list[str]:
    """Split where `pattern` matches outside backticks and double quotes."""
    hidden: list[str] = []

    def hide(found: re.Match[str]) -> str:
        hidden.append(found.group())
        return f"\x00{len(hidden) - 1}\x01"

    masked = re.sub(r"`[^`]*`|\"[^\"]*\"", hide, text)
    return [re.sub(r"\x00(\d+)\x01", lambda m: hidden[int(m[1])], p) for p in re.split(pattern, masked)]


Reader = Callable[[re.Match[str]], None]


def read_all(instruction: str, grammar: list[tuple[str, Reader]], ignore: tuple[str, ...]) -> None:
    """Give each sentence to the first pattern that fits it whole. `ignore`: patterns of sentences without a step."""
    for sentence in sentences(instruction):
        if any(re.fullmatch(p, sentence) for p in ignore):
            continue
        for pattern, reader in grammar:
            found = re.fullmatch(pattern, sentence)
            if found:
                reader(found)
                break
        else:
            raise PolicyFailure(f"cannot read the sentence: {sentence!r}")


@dataclass(slots=True)
class Desk:
    """The tools of one rollout, with numbered calls."""

    view: PolicyView
    count: int = 0

    def use(self, tool: str, **arguments: Any) -> Generator[ToolCall, Call, str]:
        """One call; its output. PolicyFailure where the tool is not offered or the call fails."""
        if not self.view.offers(tool):
            raise PolicyFailure(f"the tool {tool} is needed and not offered")
        self.count += 1
        given = {k: v for k, v in arguments.items() if v is not None}
        result = yield ToolCall(id=f"c{self.count}", tool=tool, arguments=given)
        if result.status != "ok":
            raise PolicyFailure(f"{tool} failed: {result.output[:300]}")
        if result.truncated and tool != "read_table":  # a page of a table says so too
            raise PolicyFailure(f"{tool} gave more than the harness shows")
        return result.output

    def table(
        self, path: str, sheet: str | None = None, columns: tuple[str, ...] = ()
    ) -> Generator[ToolCall, Call, list[dict[str, Any]]]:
        """All rows of a table (only `columns` where given), page by page."""
        rows: list[dict[str, Any]] = []
        while True:
            text = yield from self.use(
                "read_table", path=path, sheet=sheet, columns=list(columns) or None,
                offset=len(rows) or None, limit=PAGE,
            )  # fmt: skip
            page = parse(text)
            rows += [dict(zip(page["columns"], row, strict=False)) for row in page["rows"]]
            if not page["rows"] or len(rows) >= page["total"]:
                return rows


def parse(text: str) -> dict[str, Any]:
    """A tool's JSON output."""
    try:
        found = json.loads(text)
    except ValueError:
        raise PolicyFailure(f"the tool's output is not JSON: {text[:80]!r}") from None
    if not isinstance(found, dict):
        raise PolicyFailure("the tool's output is not a JSON object")
    return found
