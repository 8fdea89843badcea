"""A second solver of the reconcile family: another parser, one script in the shell, another form of the findings.

Members and fields come in alphabetical order, findings from the largest difference down, all on one line.
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

def tidy(x):
    return int(x) if x.denominator == 1 else float(x)

def nearest(x, places):
    if places is None:
        return x
    scaled = abs(x) * 10**places
    whole = Fraction((2 * scaled.numerator + scaled.denominator) // (2 * scaled.denominator), 10**places)
    return -whole if x < 0 else whole

names = {}
if task["lookup"]:
    for p in load(task["lookup"]["path"], task["lookup"]["sheet"]):
        names[same(p[task["lookup"]["right"]]).strip()] = p[task["group"]]
added = {}
for row in load(task["path"], task["sheet"]):
    if not keep(row, task["tests"]) or bare(row[task["amount"]]):
        continue
    if task["lookup"]:
        own = same(row[task["lookup"]["left"]]).strip()
        if own not in names:
            continue
        group = names[own]
    else:
        group = row[task["group"]]
    group = same(group).strip()
    added[group] = added.get(group, 0) + num(row[task["amount"]])
found, count = [], 0
for row in load(task["totals"], task["totals_sheet"]):
    count += 1
    group = same(row[task["group"]]).strip()
    if group in added:
        recorded, computed = num(row[task["recorded"]]), nearest(added[group], task["places"])
        if abs(recorded - computed) > Fraction(task["tolerance"]):
            found.append((abs(recorded - computed), row[task["group"]], recorded, computed))
found.sort(key=lambda f: f[0], reverse=True)
members = [{task["group"]: g, task["recorded"]: tidy(r), task["computed"]: tidy(c), task["difference"]: tidy(r - c)}
           for _, g, r, c in found]
out = {task["findings"]: members, task["checked"]: count, task["count"]: len(found),
       task["largest"]: found[0][1] if found else None}
os.makedirs(os.path.dirname(task["output"]) or ".", exist_ok=True)
with open(task["output"], "w", encoding="utf-8") as f:
    json.dump(out, f, sort_keys=True)
print("differ:", len(found))
"""
_NEEDED = (
    "path", "amount", "group", "totals", "recorded", "tolerance", "output", "findings", "computed", "difference",
    "checked", "count", "largest",
)  # fmt: skip


def understand(instruction: str) -> dict[str, Any]:
    """The request as a task for the script. PolicyFailure where something needed is not said."""
    task: dict[str, Any] = {"lookup": None, "tests": [], "places": None}
    for clause in outline(instruction):
        _take(clause, task)
    missing = [part for part in _NEEDED if part not in task]
    if missing:
        raise PolicyFailure(f"the request does not say: {', '.join(missing)}")
    return task


def _take(clause: Clause, task: dict[str, Any]) -> None:
    text, low = clause.text, clause.text.lower()
    if "json object" in low:
        first = clause.own_names()[0]
        if not first.endswith(".json"):
            raise PolicyFailure(f"the request names no file for the findings: {text}")
        task["output"] = first
    elif "detail row" in low and ("match" in low or "equals its" in low):
        _lookup(clause, task)
    elif "detail rows count where" in low or "only the detail rows where" in low:
        task["tests"] += comparisons(clause, text[text.index("⟨N") :])
    elif "sum of" in low or low.startswith("add up"):
        _sum(clause, task)
    elif "detail rows" in low:
        (task["sheet"], task["path"]), _ = clause.place()
    elif re.search(r"recorded totals? (?:of|are in)", low):
        _totals(clause, task)
    elif re.search(r"more than \d|up to \d", low):
        task["tolerance"] = re.findall(r"(?:more than|up to) (\d+(?:\.\d+)?)", text)[0]
    elif " minus " in low:
        task["computed"], task["difference"] = clause.own_names()[:2]
    elif "list" in low:
        task["findings"] = clause.own_names()[0]
    elif "largest" in low:
        task["largest"] = clause.own_names()[0]
    elif "differ" in low:
        task["count"] = clause.own_names()[0]
    elif "recorded" in low:
        task["checked"] = clause.own_names()[0]
    else:
        raise PolicyFailure(f"not understood: {text}")


def _lookup(clause: Clause, task: dict[str, Any]) -> None:
    (sheet, path), names = clause.place()
    if len(names) != 3:
        raise PolicyFailure(f"a lookup needs a group and two keys: {clause.text}")
    left, right = (names[2], names[1]) if "equals its" in clause.text else (names[1], names[2])
    task["lookup"] = {"sheet": sheet, "path": path, "left": left, "right": right}


def _sum(clause: Clause, task: dict[str, Any]) -> None:
    names = clause.own_names()
    if len(names) != 2:
        raise PolicyFailure(f"a sum needs an amount and a group: {clause.text}")
    task["amount"], task["group"] = names if clause.text.lower().startswith("add up") else reversed(names)
    places = re.search(r"to (\d+) decimal", clause.text)
    task["places"] = int(places[1]) if places else None


def _totals(clause: Clause, task: dict[str, Any]) -> None:
    (task["totals_sheet"], task["totals"]), names = clause.place()
    if len(names) != 2:
        raise PolicyFailure(f"totals need a group and a column: {clause.text}")
    task["recorded"] = names[1] if "which has" in clause.text else names[0]


def plan(view: PolicyView, seed: int) -> Generator[ToolCall, Call, str]:
    """One script that reads, compares and writes."""
    task = understand(view.instruction)
    printed = yield from ask(view, 1, "shell", command=command(task, _BODY))
    if "differ:" not in printed:
        raise PolicyFailure(f"the script did not finish: {printed[:300]}")
    return f"The totals are checked; see {task['output']}."
