"""One requirement on one end state, as the oracle's rules see it. Runs inside the sandbox, on plain JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rover.diagnose.oracle import files
from rover.diagnose.oracle.files import Grid, fold
from rover.diagnose.oracle.values import kind_of

Json = Mapping[str, Any]
Found = tuple[bool, str]


class Case:
    """One requirement on one end state."""

    def __init__(self, job: Json, requirement: Json) -> None:
        self._job = job
        self.contract: Json = job["contract"]
        self.answers: Json = job["answers"]
        self.message: str = job.get("message", "")
        self.links: list[str] = job.get("links", [])
        self.requirement = requirement
        self.rule: Json = requirement["rule"]
        self.same: Json = self.contract.get("same", {})
        self.start = Path("start")
        self.end = Path("end") / str(job["at"]) if "at" in job else Path("end")

    def other(self, requirement: Json) -> Case:
        """Another requirement on the same end state."""
        return Case(self._job, requirement)

    @property
    def deliverable(self) -> Json:
        wanted = self.requirement.get("deliverable")
        for one in self.contract["deliverables"]:
            if one["id"] == wanted or (wanted is None and len(self.contract["deliverables"]) == 1):
                return dict(one)
        raise LookupError(f"requirement {self.requirement['id']} names no deliverable")

    @property
    def path(self) -> Path:
        return self.end / str(self.deliverable["path"])

    def grid(self) -> Grid:
        return files.grid(self.path, self.deliverable)

    def column(self, name: str) -> Json:
        """The spec of a column; text where the contract has none of that name."""
        found = (c for c in self.deliverable.get("columns", ()) if fold(c["name"]) == fold(name))
        return dict(next(found, {"name": name, "type": "text"}))

    def answer(self, slot: str = "value") -> Json:
        """The derived table of an answer; LookupError where it could not be derived."""
        table = self.answers.get(f"{self.requirement['id']}:{slot}")
        if table is None or "error" in table:
            why = (table or {}).get("error", "it is missing")
            raise LookupError(f"the answer of {self.requirement['id']} cannot be derived: {why}")
        return dict(table)

    def value(self, slot: str = "value") -> Any:
        """A scalar: a given by name, or the only cell of an answer."""
        stated = self.rule[slot]
        if "given" in stated:
            for one in self.contract["givens"]:
                if one["name"] == stated["given"]:
                    return one["value"]
            raise LookupError(f"no given is called {stated['given']}")
        rows = self.answer(slot)["rows"]
        if len(rows) != 1 or len(rows[0]) != 1:
            raise LookupError(f"the answer of {self.requirement['id']} is no single value")
        return rows[0][0]


def spec_for(case: Case, name: str, value: Any) -> Json:
    """The spec of a field; where the contract declares none, the type of its expected value."""
    spec = case.column(name)
    declared = any(fold(c["name"]) == fold(name) for c in case.deliverable.get("columns", ()))
    return spec if declared else {"name": name, "type": kind_of(value)}


def say(value: Any) -> str:
    """A value or a key for a reason, short and in one line."""
    shown = "/".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return re.sub(r"\s+", " ", shown)[:60]
