"""What alternative solvers share: the request as a skeleton in which names and quoted values are numbered.

Written apart from the demonstrators' desk: it classifies a sentence by key words and takes the names by position,
where the desk matches whole sentences. Both must come to the same reading of a sound request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from rover.policy.protocol import PolicyFailure, PolicyView
from rover_store.records import Call, ToolCall

_QUOTED = re.compile(r'`(?P<name>[^`]*)`|"(?P<text>[^"]*)"')
_STEP = re.compile(r"(?m)^\s*(?:-|\d+\.)\s+")
#: comparison -> how a request may put it; tried in this order
_COMPARISONS = (
    ("le", ("on or before", "no later than", "at most", "no more than")),
    ("ge", ("on or after", "no earlier than", "at least", "no less than")),
    ("lt", ("earlier than", "before", "less than", "below")),
    ("gt", ("later than", "after", "more than", "above")),
    ("ne", ("differs from", "is not")),
    ("contains", ("contains",)),
    ("eq", ("equals", "is")),
)


@dataclass(frozen=True, slots=True)
class Clause:
    """One sentence of the skeleton: `N3` for the third name, `V0` for the first quoted value."""

    text: str
    names: tuple[str, ...]
    values: tuple[str, ...]

    def has(self, *words: str) -> bool:
        return any(w in self.text.lower() for w in words)

    def own_names(self, text: str | None = None) -> list[str]:
        """Names in order of appearance."""
        return [self.names[int(n)] for n in re.findall(r"⟨N(\d+)⟩", self.text if text is None else text)]

    def place(self) -> tuple[tuple[str | None, str], list[str]]:
        """The table that the clause names (sheet, path), and its other names in order."""
        found = re.search(r"sheet ⟨N(\d+)⟩ of ⟨N(\d+)⟩", self.text)
        if found:
            rest = self.text.replace(found.group(), "")
            return (self.names[int(found[1])], self.names[int(found[2])]), self.own_names(rest)
        names = self.own_names()
        files = [n for n in names if re.search(r"\.(csv|tsv|xlsx|json|jsonl|md|txt)$", n)]
        if len(files) != 1:
            raise PolicyFailure(f"no single file in: {self.text}")
        names.remove(files[0])
        return (None, files[0]), names


def outline(instruction: str) -> list[Clause]:
    """The sentences of a request that name something."""
    names: list[str] = []
    values: list[str] = []

    def number(found: re.Match[str]) -> str:
        kind, store = ("N", names) if found["name"] is not None else ("V", values)
        store.append(found["name"] if kind == "N" else found["text"])
        return f"⟨{kind}{len(store) - 1}⟩"

    skeleton = _STEP.sub("", _QUOTED.sub(number, instruction))
    if "`" in skeleton or '"' in skeleton:
        raise PolicyFailure("a name or value in the request is not closed")
    parts = re.split(r"\.(?:\s+|$)|\n+", skeleton)
    return [Clause(" ".join(p.split()), tuple(names), tuple(values)) for p in parts if "⟨N" in p]


def comparisons(clause: Clause, text: str) -> list[dict[str, Any]]:
    """The conditions in a piece of a clause. PolicyFailure where a value is missing."""
    out = []
    for piece in re.split(r" and (?=⟨N)", text):
        subject = re.search(r"⟨N(\d+)⟩ (.*)", piece)
        if not subject:
            raise PolicyFailure(f"no column in the condition {piece!r}")
        said = subject[2]
        column = clause.names[int(subject[1])]
        if re.search(r"is (not )?empty", said):
            out.append({"column": column, "op": "not_null" if "not empty" in said else "is_null", "value": ""})
            continue
        op = next((o for o, words in _COMPARISONS if any(said.startswith((f"is {w} ", f"{w} ")) for w in words)), None)
        operand = re.search(r"⟨V(\d+)⟩|(?<![\w⟨])(\d{4}-\d\d-\d\d|-?\d+(?:\.\d+)?)$", said)
        if op is None or operand is None:
            raise PolicyFailure(f"no value to compare {column} with: {said!r}")
        quoted = operand[1] is not None
        raw = clause.values[int(operand[1])] if quoted else operand[2]
        kind = "text" if quoted else "date" if re.fullmatch(r"\d{4}-\d\d-\d\d", raw) else "number"
        out.append({"column": column, "op": op, "value": raw, "kind": kind})
    return out


def ask(view: PolicyView, count: int, tool: str, **arguments: Any) -> Generator[ToolCall, Call, str]:
    """One tool call; its output."""
    if tool not in {t.name for t in view.tools}:
        raise PolicyFailure(f"no tool {tool} is offered, and this solver has no other way")
    done = yield ToolCall(id=f"a{count}", tool=tool, arguments={k: v for k, v in arguments.items() if v is not None})
    if done.status == "error":
        raise PolicyFailure(f"{tool} did not work: {done.output[:300]}")
    return done.output


def stdout(printed: str) -> Any:
    """The JSON that a script printed, out of what the shell tool says."""
    try:
        return json.loads(json.loads(printed)["stdout"])
    except (ValueError, KeyError, TypeError):
        raise PolicyFailure(f"the script printed no result: {printed[:200]}") from None
