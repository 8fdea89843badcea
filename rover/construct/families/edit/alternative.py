"""A second solver of the edit family: another parser, one script in the shell that rewrites the file.

The script writes the table in its own form (quoting, line ends, indentation). In a workbook it finds the cells, and
a tool sets them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from typing import Any

from rover.construct.families.outline import Clause, ask, comparisons, outline, stdout
from rover.construct.families.script import command
from rover.policy.protocol import PolicyFailure, PolicyView
from rover_store.records import Call, ToolCall

_BODY = r"""
rows = load(task["path"], task["sheet"])
member = task["member"]
if member:
    there = [r for r in load(member["path"], member["sheet"]) if keep(r, member["tests"])]
    known = {same(r[member["other"]]).strip() for r in there if not empty(r[member["other"]])}
column, value = task["column"], task["value"]
if column not in rows[0]:
    sys.exit("no column " + column)
hits = []
for i, r in enumerate(rows):
    mine = None if not member or empty(r[member["column"]]) else same(r[member["column"]]).strip()
    if keep(r, task["tests"]) and (not member or mine in known):
        hits.append(i)
        r[column] = value
path = task["path"]
if path.endswith((".csv", ".tsv")):
    with open(path, encoding="utf-8-sig", newline="") as f:
        mark = "\t" if path.endswith(".tsv") else ","
        header = next(csv.reader(f, delimiter=mark))
    with open(path, "w", encoding="utf-8", newline="") as f:
        writer = csv.writer(f, delimiter=mark, lineterminator="\r\n")
        writer.writerow(header)
        writer.writerows([r[c] for c in header] for r in rows)
elif path.endswith((".json", ".jsonl")):
    with open(path, "w", encoding="utf-8") as f:
        if path.endswith(".jsonl"):
            f.writelines(json.dumps(r, ensure_ascii=False) + "\n" for r in rows)
        else:
            json.dump(rows, f, indent=1, ensure_ascii=False)
names = list(rows[0])
print(json.dumps({"hits": hits, "column": names.index(column)}))
"""


def understand(instruction: str) -> dict[str, Any]:
    """The request as a task for the script. PolicyFailure where something needed is not said."""
    task: dict[str, Any] = {"tests": [], "member": None}
    for clause in outline(instruction):
        _take(clause, task)
    if "path" not in task or "column" not in task:
        raise PolicyFailure("the request does not say what to set in which table")
    if not task["tests"] and not task["member"]:
        raise PolicyFailure("the request does not say in which rows")
    return task


def _take(clause: Clause, task: dict[str, Any]) -> None:
    text = clause.text
    if clause.has("only if its"):
        head, _, tail = text.partition(", among the rows there where ")
        (sheet, path), pair = Clause(head, clause.names, clause.values).place()
        tests = comparisons(clause, tail) if tail else []
        task["member"] = {"column": pair[0], "other": pair[1], "sheet": sheet, "path": path, "tests": tests}
    elif clause.has("the rows where", "the rows in which"):
        task["tests"] += comparisons(clause, text[text.index("⟨N") :])
    elif clause.has("these rows"):
        quoted, bare = re.search(r"⟨V(\d+)⟩", text), re.search(r"(?<![\w⟨.])(-?\d+(?:\.\d+)?)(?![\w⟩.])", text)
        if not quoted and not bare:
            raise PolicyFailure(f"no value to set: {text}")
        task["column"] = clause.own_names()[0]
        task["value"] = clause.values[int(quoted[1])] if quoted else json.loads(bare[1])  # type: ignore[index]
    elif clause.has("edit", "work directly"):
        (task["sheet"], task["path"]), _ = clause.place()
    else:
        raise PolicyFailure(f"not understood: {text}")


def plan(view: PolicyView, seed: int) -> Generator[ToolCall, Call, str]:
    """One script; a workbook's cells are then set by tool."""
    task = understand(view.instruction)
    printed = yield from ask(view, 1, "shell", command=command(task, _BODY))
    if task["path"].endswith(".xlsx"):
        told = stdout(printed)
        letter = chr(65 + told["column"]) if told["column"] < 26 else "A" + chr(65 + told["column"] - 26)
        cells = {f"{letter}{i + 2}": task["value"] for i in told["hits"]}
        yield from ask(view, 2, "edit_workbook", path=task["path"], sheet=task["sheet"], cells=cells)
    return "Done."
