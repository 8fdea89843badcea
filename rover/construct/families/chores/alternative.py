"""A second solver of chores: another parser; reads whole files as text and writes whole files."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from rover.construct.families.outline import Clause, ask, outline
from rover.policy.protocol import PolicyFailure, PolicyView
from rover_store.records import Call, ToolCall

Rows = list[dict[str, str]]


@dataclass(slots=True)
class Papers:
    """The files read so far, and what is to be written."""

    view: PolicyView
    count: int = 0
    read: dict[str, Rows] = field(default_factory=dict)

    def rows(self, path: str) -> Generator[ToolCall, Call, Rows]:
        if path not in self.read:
            self.count += 1
            text = yield from ask(self.view, self.count, "read_file", path=path)
            self.read[path] = list(csv.DictReader(io.StringIO(text)))
        return self.read[path]

    def save(self, path: str, rows: Rows) -> Generator[ToolCall, Call, None]:
        out = io.StringIO()
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        self.count += 1
        yield from ask(self.view, self.count, "write_file", path=path, content=out.getvalue())


def understand(instruction: str) -> list[dict[str, Any]]:
    """The request as jobs. PolicyFailure where something needed is not said."""
    jobs = [_job(clause) for clause in outline(instruction)]
    if not jobs:
        raise PolicyFailure("nothing is asked for")
    return jobs


def _job(clause: Clause) -> dict[str, Any]:
    names = clause.own_names()
    paths = [n for n in names if n.endswith(".csv")]
    others = [n for n in names if not n.endswith(".csv")]
    quoted = [clause.values[int(n)] for n in re.findall(r"⟨V(\d+)⟩", clause.text)]
    looked = clause.has("of its")
    job: dict[str, Any] = {"lookup": None}
    if clause.has("set"):
        row = re.search(r" is (-?\d+) to", clause.text)
        told = re.search(r" to (?:⟨V(\d+)⟩|(-?\d+))$", clause.text)
        if not row or len(others) < 2 or not (told or looked):
            raise PolicyFailure(f"not understood: {clause.text}")
        job |= {"kind": "edit", "path": paths[0], "column": others[0], "key": others[1], "row": row[1]}
        job["value"] = "" if told is None else clause.values[int(told[1])] if told[1] is not None else told[2]
        lead = others[2:]
    elif clause.has("the rows of") and quoted and len(paths) >= 2:
        job |= {"kind": "report", "source": paths[0], "path": paths[-1], "wanted": quoted[0]}
        at = clause.text.index("the rows of")
        condition = re.search(r"where ⟨N(\d+)⟩ is", clause.text)
        if not condition:
            raise PolicyFailure(f"no condition in: {clause.text}")
        job["by"] = clause.names[int(condition[1])]
        told_names = [n for n in (clause.own_names(clause.text[:at]) or others[1:]) if not n.endswith(".csv")]
        job["key"], job["value"] = told_names[0], told_names[1]
        lead = told_names[1:]
    else:
        raise PolicyFailure(f"not understood: {clause.text}")
    if looked:
        place = paths[1]
        job["lookup"] = {"path": place, "value": lead[0], "key": lead[1]}
    return job


def plan(view: PolicyView, seed: int) -> Generator[ToolCall, Call, str]:
    """Edits first, then the reports; each file is written once."""
    papers = Papers(view)
    edited: dict[str, Rows] = {}
    jobs = understand(view.instruction)
    for job in (j for j in jobs if j["kind"] == "edit"):
        rows = yield from papers.rows(job["path"])
        edited[job["path"]] = rows
        hits = [r for r in rows if r.get(job["key"]) == job["row"]]
        if not hits or job["column"] not in hits[0]:
            raise PolicyFailure(f"{job['path']} has no such cell")
        for r in hits:
            r[job["column"]] = (yield from _found(papers, job["lookup"], r)) if job["lookup"] else job["value"]
    for path, rows in edited.items():
        yield from papers.save(path, rows)
    for job in (j for j in jobs if j["kind"] == "report"):
        rows = yield from papers.rows(job["source"])
        out: Rows = []
        for r in reversed([r for r in rows if r.get(job["by"]) == job["wanted"]]):
            value = (yield from _found(papers, job["lookup"], r)) if job["lookup"] else r[job["value"]]
            out.append({job["key"]: r[job["key"]], job["value"]: value})
        if not out:
            raise PolicyFailure(f"no row of {job['source']} is meant")
        yield from papers.save(job["path"], out)
    return "Done."


def _found(papers: Papers, lookup: dict[str, str], row: dict[str, str]) -> Generator[ToolCall, Call, str]:
    rows = yield from papers.rows(lookup["path"])
    hits = [r[lookup["value"]] for r in rows if r[lookup["key"]] == row[lookup["key"]]]
    if len(hits) != 1:
        raise PolicyFailure(f"{len(hits)} rows of {lookup['path']} are meant")
    return hits[0]
