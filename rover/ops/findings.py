"""What a check says of a package: findings with a level and a place, whatever they come from.

    error      shown by a run, a grading or the records themselves
    warning    looks wrong, and nothing that ran has shown it; or says where a package cannot be used
    note       may be meant, or was not borne out by what ran
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from rover.construct.calibrate import Row
from rover.construct.references import Problem
from rover.diagnose.kinds import kind
from rover_store.ids import ComponentName
from rover_store.records import Finding

Level = Literal["error", "warning", "note"]
LEVELS: tuple[Level, ...] = get_args(Level)

#: kinds that may well be meant
HINTS = frozenset({"stale", "same_score", "unpinned_package"})
#: what a run of the solution and of the tests would have shown, had it been so
_BORNE_OUT = frozenset({"missing_input", "renamed_deliverable", "extra_demand", "verifier_crash", "budget_too_small"})
_BY_FOLDER: dict[str, ComponentName] = {
    "context": "context", "task": "task", "harness": "harness", "verifier": "verifier",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Said:
    """One finding as a check reports it. `case` is what a table calls its place, where it is no file."""

    finding: Finding
    level: Level
    file: str = ""
    line: int | None = None
    case: str = ""

    @property
    def component(self) -> ComponentName:
        return self.finding.components[0]


def level_of(finding: Finding, *, solved: bool = False) -> Level:
    """The level of a finding. `solved`: the package's own solution ran, and its tests passed it."""
    if finding.kind in HINTS:
        return "note"
    if finding.status == "hypothesis":
        return "note" if solved and finding.kind in _BORNE_OUT else "warning"
    return "warning" if kind(finding.kind).mild else "error"


def of_problem(problem: Problem) -> Finding:
    """A record that does not fit, as a finding."""
    file, field, reason = problem
    component = _BY_FOLDER.get(file.partition("/")[0], "task")
    return Finding(
        probe="records", kind="broken_record", message=f"{field}: {reason}" if field else reason,
        components=(component,), evidence=(file,), details={"subject": f"{file} {field}", "file": file, "field": field},
    )  # fmt: skip


def of_row(row: Row) -> Finding:
    """A calibration case that came out wrong, as a finding."""
    name, components = _kind_of(row)
    case = row.case if row.case == row.kind else f"{row.kind} {row.case}"
    details: dict[str, object] = {"subject": row.case, "cases": [row.case], "observed": row.observed}
    if row.kind == "attacker":
        details |= {"attackers": [row.case]}
    return Finding(
        probe="calibration", kind=name, message=f"{case} is {row.observed}, not {row.expected}: {row.reason}",
        components=components, requirement=row.requirement, evidence=(row.rollout,) if row.rollout else (),
        details=details,
    )  # fmt: skip


def _kind_of(row: Row) -> tuple[str, tuple[ComponentName, ...]]:
    if row.observed == "error":
        if row.reason.startswith("infra_error"):
            return "cannot_run", ("harness",)
        if row.reason.startswith("graded twice"):
            return "flaky_verifier", ("verifier",)
        if row.reason.startswith("verifier_error"):
            return "verifier_crash", ("verifier",)
        if row.kind == "reference":
            return "unsound_reference", ("verifier", "context")
        return "broken_case", ("verifier",)
    if row.observed == "accepted":
        return "lax_verifier", (("verifier", "context") if row.kind == "start" else ("verifier",))
    return "strict_verifier", ("verifier",)
