"""A second solver of the summarise family: another parser, one script in the shell, another form of the table.

Rows come in reverse order where no order is asked, columns in reverse, numbers with one more decimal: all of it
the same answer.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Any

from rover.construct.families.outline import Clause, ask, comparisons, outline, stdout
from rover.construct.families.script import command
from rover.policy.protocol import PolicyFailure, PolicyView
from rover_store.records import Call, ToolCall

_BODY = r"""
rows = load(task["path"], task["sheet"])
for j in task["joins"]:
    right = {}
    for r in load(j["path"], j["sheet"]):
        if not empty(r.get(j["right"])):
            right.setdefault(same(r[j["right"]]), []).append(r)
    pairs = [(r, p) for r in rows for p in right.get(same(r[j["left"]]), ())]
    rows = [{**r, **{k: v for k, v in p.items() if k not in r}} for r, p in pairs]
rows = [r for r in rows if keep(r, task["tests"])]
groups = {}
for r in rows:
    groups.setdefault(tuple(r[g] for g in task["groups"]), []).append(r)
result = []
for key, members in groups.items():
    line = dict(zip(task["groups"], key))
    for m in task["measures"]:
        if m["fn"] == "count":
            line[m["name"]] = len(members)
            continue
        cells = [r[m["column"]] for r in members if not empty(r[m["column"]])]
        if m["fn"] == "count_distinct":
            line[m["name"]] = len(set(map(str, cells)))
            continue
        cells = [num(c) for c in cells if str(c).strip().lower() not in ("na", "n/a", "nan", "null")]
        if not cells:
            line[m["name"]] = None
            continue
        total = sum(cells)
        line[m["name"]] = {"sum": total, "mean": total / len(cells), "min": min(cells), "max": max(cells)}[m["fn"]]
    result.append(line)
shown = [{k: float(v) if isinstance(v, Fraction) else v for k, v in r.items()} for r in result]
result = [r for r, plain in zip(result, shown) if keep(plain, task["floor"])]
result.reverse()
if task["order"]:
    column, down = task["order"]
    numeric = all(not isinstance(r[column], str) for r in result)
    result.sort(key=lambda r: r[column] if numeric else str(r[column]), reverse=down)
places = {m["name"]: m["places"] for m in task["measures"]}
table = [[spell(r[c], places.get(c)) for c in task["columns"]] for r in result]
path = task["output"]
if path.endswith((".csv", ".tsv")):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as f:
        writer = csv.writer(f, delimiter="\t" if path.endswith(".tsv") else ",", quoting=csv.QUOTE_ALL)
        writer.writerow(task["columns"])
        writer.writerows(table)
    print("rows:", len(table))
else:
    plain = [
        [float(x) if isinstance(r[c], Fraction) else x for c, x in zip(task["columns"], line)]
        for r, line in zip(result, table)
    ]
    if path.endswith(".json"):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            json.dump([dict(zip(task["columns"], line)) for line in plain], f, indent=4)
        print("rows:", len(plain))
    else:
        print(json.dumps(plain))
"""


def understand(instruction: str) -> dict[str, Any]:
    """The request as a task for the script. PolicyFailure where something needed is not said."""
    task: dict[str, Any] = {"joins": [], "tests": [], "floor": [], "measures": [], "order": None}
    for clause in outline(instruction):
        _take(clause, task)
    for part, what in (("path", "start"), ("groups", "grouping"), ("output", "target"), ("columns", "columns")):
        if not task.get(part):
            raise PolicyFailure(f"the request does not say: {what}")
    if not task["measures"]:
        raise PolicyFailure("the request asks for no measure")
    return task


def _take(clause: Clause, task: dict[str, Any]) -> None:
    text = clause.text
    low = text.lower()
    if clause.has("with the columns", "has the columns"):
        head, _, tail = re.split(r"(with the columns|has the columns)", text)
        (task["output_sheet"], task["output"]), _ = Clause(head, clause.names, clause.values).place()
        task["columns"] = list(reversed(clause.own_names(tail)))
    elif low.startswith(("join", "look up", "add the columns")):
        (sheet, path), pair = clause.place()
        if len(pair) != 2:
            raise PolicyFailure(f"a join needs two columns: {text}")
        task["joins"].append({"sheet": sheet, "path": path, "left": pair[0], "right": pair[1]})
    elif low.startswith(("sort", "order")):
        task["order"] = (clause.own_names()[0], clause.has("largest first", "descending"))
    elif low.startswith(("of the result", "in the end keep a group")):
        task["floor"] = comparisons(clause, text[text.index("⟨N") :])
    elif clause.has("rows where", "rows count where", "rows in which"):
        task["tests"] += comparisons(clause, text[text.index("⟨N") :])
    elif clause.has("one row for each", "group them by"):
        task["groups"] = clause.own_names()
    elif low.startswith(("start from", "the rows come from", "take the rows of")):
        (task["sheet"], task["path"]), _ = clause.place()
    elif re.search(r"number of|sum of|average of|smallest|largest", low):
        task["measures"].append(_measure(clause))
    elif re.search(r"⟨N\d+⟩", text):
        raise PolicyFailure(f"not understood: {text}")


def _measure(clause: Clause) -> dict[str, Any]:
    names = clause.own_names()
    words = (
        ("different values", "count_distinct"), ("number of rows", "count"), ("sum of", "sum"),
        ("average of", "mean"), ("smallest", "min"), ("largest", "max"),
    )  # fmt: skip
    fn = next(f for w, f in words if w in clause.text)
    places = re.search(r"to (\d+) decimal", clause.text)
    if len(names) != (1 if fn == "count" else 2):
        raise PolicyFailure(f"not a measure: {clause.text}")
    return {"name": names[0], "fn": fn, "column": names[-1], "places": int(places[1]) if places else None}


def plan(view: PolicyView, seed: int) -> Generator[ToolCall, Call, str]:
    """One script; a workbook is then written by tool from what the script printed."""
    task = understand(view.instruction)
    printed = yield from ask(view, 1, "shell", command=command(task, _BODY))
    path = task["output"]
    if path.endswith(".xlsx"):
        rows = stdout(printed)
        yield from ask(
            view, 2, "write_table", path=path, sheet=task["output_sheet"], columns=task["columns"], rows=rows
        )
    return f"The table is in {path}."

