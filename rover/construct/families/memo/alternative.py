"""A second solver of the memo family: another parser, one script in the shell, a table instead of a list.

Figures come in reverse order, with thousands separated, in a Markdown table; sources are a numbered list.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Any

from rover.construct.families.outline import Clause, ask, comparisons, outline
from rover.construct.families.script import command
from rover.policy.protocol import PolicyFailure, PolicyView
from rover_store.records import Call, ToolCall

_BODY = r"""
def bare(x):
    return x is None or str(x).strip().lower() in ("", "na", "n/a", "nan", "null")

def column(row, name):
    if name not in row:
        sys.exit("no column " + name)
    return row[name]

def grouped(text):
    sign, body = ("-", text[1:]) if text.startswith("-") else ("", text)
    whole, dot, rest = body.partition(".")
    return sign + f"{int(whole):,}" + dot + rest

def told(x, places):
    if places is None:
        exact = Decimal(x.numerator) / Decimal(x.denominator)
        return grouped(format(exact, "f"))
    return grouped(spell(x, places))

def work_out(f):
    rows = [r for r in load(f["path"], f["sheet"]) if keep(r, f["tests"])]
    p = f["partner"]
    if p:
        there = [r for r in load(p["path"], p["sheet"]) if keep(r, p["tests"])]
        keys = {same(column(r, p["right"])).strip() for r in there if not empty(r[p["right"]])}
        rows = [r for r in rows if same(column(r, p["left"])).strip() in keys]
    kind, names = f["fn"], f["names"]
    if kind == "count":
        return f"{len(rows):,}"
    if kind == "different":
        return str(len({str(column(r, names[0])).strip() for r in rows if not empty(column(r, names[0]))}))
    if kind in ("most rows", "largest sum"):
        score = {}
        for r in rows:
            g = str(column(r, names[0])).strip()
            plus = 1 if kind == "most rows" else 0 if bare(column(r, names[1])) else num(r[names[1]])
            score[g] = score.get(g, 0) + plus
        return sorted(score, key=lambda g: -score[g])[0] if score else ""
    cells = [column(r, names[0]) for r in rows]
    cells = [c for c in cells if not bare(c)]
    if not cells:
        return ""
    if kind in ("earliest", "latest"):
        days = sorted(day(c) for c in cells)
        return days[0] if kind == "earliest" else days[-1]
    numbers = [num(c) for c in cells]
    total = sum(numbers)
    found = {"sum": total, "average": total / len(numbers), "smallest": min(numbers), "largest": max(numbers)}
    return told(found[kind], f["places"])

lines = ["Figures asked for", "=================", "", "| Figure | Value |", "| --- | ---: |"]
for f in reversed(task["figures"]):
    value = work_out(f)
    if not value:
        sys.exit("nothing to state for " + f["label"])
    lines.append("| **%s** | %s |" % (f["label"], value))
lines += ["", "They were taken from these files.", ""]
lines += ["%d. %s" % (i, path) for i, path in enumerate(task["files"], 1)]
os.makedirs(os.path.dirname(task["output"]) or ".", exist_ok=True)
with open(task["output"], "w", encoding="utf-8") as out:
    out.write("\n".join(lines) + "\n")
print("figures:", len(task["figures"]))
"""
_KINDS = (
    ("number of rows", "count"), ("different values", "different"), ("most rows", "most rows"),
    ("largest sum", "largest sum"), ("sum of", "sum"), ("average", "average"), ("smallest", "smallest"),
    ("largest", "largest"), ("earliest", "earliest"), ("latest", "latest"),
)  # fmt: skip


def understand(instruction: str) -> dict[str, Any]:
    """The request as a task for the script. PolicyFailure where something needed is not said."""
    task: dict[str, Any] = {"figures": [], "output": ""}
    for clause in outline(instruction):
        if "memo" in clause.text.lower() and "⟨V" not in clause.text:
            task["output"] = next((n for n in clause.own_names() if n.endswith((".md", ".txt"))), "")
        elif re.match(r"(?:State|Under|The figure) ⟨V", clause.text):
            task["figures"].append(_figure(clause))
        else:
            raise PolicyFailure(f"not understood: {clause.text}")
    if not task["output"] or not task["figures"]:
        raise PolicyFailure("the request names no file or no figure")
    files = {f["path"] for f in task["figures"]} | {f["partner"]["path"] for f in task["figures"] if f["partner"]}
    task["files"] = sorted(files, reverse=True)
    return task


def _figure(clause: Clause) -> dict[str, Any]:
    label = re.search(r"⟨V(\d+)⟩", clause.text)
    body, _, tests = clause.text.partition("counting only rows where ")
    partner = None
    if "rows whose" in clause.text:
        where = clause.text.index("rows whose")
        partner = _partner(_part(clause, clause.text[where:]))
        body = body[: body.index("rows whose")] if "rows whose" in body else body
        tests = tests.partition(", and of these")[0]
    head = _part(clause, body)
    (sheet, path), names = head.place()
    fn = next((kind for phrase, kind in _KINDS if phrase in body), None)
    if label is None or fn is None or (fn != "count" and not names):
        raise PolicyFailure(f"not a figure: {clause.text}")
    places = re.search(r"rounded to (\d+) decimal", body)
    return {
        "label": clause.values[int(label[1])], "fn": fn, "names": names, "path": path, "sheet": sheet,
        "places": int(places[1]) if places else None, "partner": partner,
        "tests": comparisons(clause, tests) if tests else [],
    }  # fmt: skip


def _partner(clause: Clause) -> dict[str, Any]:
    head, _, tests = clause.text.partition(" among the rows there where ")
    (sheet, path), names = _part(clause, head).place()
    if len(names) != 2:
        raise PolicyFailure(f"a partner needs two columns: {clause.text}")
    found = comparisons(clause, tests) if tests else []
    return {"left": names[0], "right": names[1], "path": path, "sheet": sheet, "tests": found}


def _part(clause: Clause, text: str) -> Clause:
    return Clause(text, clause.names, clause.values)


def plan(view: PolicyView, seed: int) -> Generator[ToolCall, Call, str]:
    """One script that works everything out and writes the memo."""
    task = understand(view.instruction)
    printed = yield from ask(view, 1, "shell", command=command(task, _BODY))
    if "figures:" not in printed:
        raise PolicyFailure(f"the script did not finish: {printed[:300]}")
    return f"See {task['output']}."
