"""Proposals for the context by rule: bind again, call by its name, take out, convert back, mark as editable."""

from __future__ import annotations

from collections.abc import Callable

from rover.repair.proposals.context_edit import ContextEdit, bind_recorded, find_missing, from_environment
from rover.repair.proposals.protocol import Draft, PackageView, Style, suspected
from rover.repair.proposals.recorded import bring_back
from rover.repair.proposals.units import as_the_contract_says
from rover_store.ids import ComponentName
from rover_store.records import Diagnosis, Finding

KINDS = frozenset(
    {
        "missing_input", "misnamed_input", "changed_data", "stale_anchor", "conflicting_copies", "wrong_unit",
        "leaked_answer", "verifier_readable", "goal_at_start", "leftover_output", "protected_target", "missing_given",
        "wrong_given", "ambiguous_request", "contradiction",
    }
)  # fmt: skip


class ContextByRule:
    """One edit of the context for all findings that suspect it."""

    name = "context-rule"
    component: ComponentName = "context"
    style: Style = "rule"
    written_for = KINDS

    def propose(self, view: PackageView, diagnosis: Diagnosis) -> Draft | None:
        edit = ContextEdit(view)
        for finding in suspected("context", diagnosis):
            rule = _RULES.get(finding.kind)
            if rule is not None:
                rule(edit, finding)
        return edit.draft()


def about(finding: Finding) -> tuple[str, ...]:
    """The files that a finding is about, as its details name them."""
    details = finding.details
    paths = [str(p) for p in details.get("paths", [])]
    single = [str(details[k]) for k in ("path", "subject") if details.get(k)]
    return tuple(dict.fromkeys([*single, *paths]))


# --- one rule for each kind ------------------------------------------------------------------------------
def _missing_input(edit: ContextEdit, finding: Finding) -> None:
    bound = {f"{r.kind}/{r.name}" for r in edit.record.resources}
    bind_recorded(edit, lambda name: name not in bound)
    now = edit.start()
    for path in about(finding):
        if path not in now and not find_missing(edit, path):
            from_environment(edit, path)


def _misnamed(edit: ContextEdit, finding: Finding) -> None:
    bind_recorded(edit)
    bring_back(edit, about(finding)[:1])
    found = finding.details.get("found")
    for path in about(finding)[:1]:
        if found and path not in edit.start():
            edit.rename(str(found), path)


def _changed_data(edit: ContextEdit, finding: Finding) -> None:
    """What is recorded, where it can be had; else what the contract calls otherwise under the contract's name."""
    bind_recorded(edit)
    bring_back(edit, edit.sources)
    if not edit.done:
        _unit(edit, finding)


def _copies(edit: ContextEdit, finding: Finding) -> None:
    """The copy that the contract does not read goes; between two that it reads, the recorded version decides."""
    found = finding.details.get("found")
    named = (*about(finding), *([found] if isinstance(found, str) else []))
    spare = [p for p in named if p not in edit.needed and p in edit.start()]
    bind_recorded(edit)
    bring_back(edit, edit.sources)
    for path in dict.fromkeys(spare):
        edit.take_out(path, "which says something else than the file that the contract names")


def _unit(edit: ContextEdit, finding: Finding) -> None:
    before = len(edit.done)
    bind_recorded(edit)
    bring_back(edit, edit.sources)
    for path in (p for p in (*about(finding), *edit.sources) if p in edit.sources):
        now = edit.start()
        if len(edit.done) == before and path in now:
            column = finding.details.get("column")
            data = as_the_contract_says(edit.view.contract, path, now[path], str(column) if column else None)
            if data is not None:
                edit.put(path, data, f"write the values of {path} as the contract says")


def _shown(edit: ContextEdit, finding: Finding) -> None:
    for path in about(finding):
        edit.take_out(path, "which shows what the policy is to find out")


def _readable(edit: ContextEdit, finding: Finding) -> None:
    for path in about(finding):
        edit.take_out(path, "which is the verifier's")


def _left_over(edit: ContextEdit, finding: Finding) -> None:
    places = [d.path for d in edit.view.contract.deliverables if not d.in_place]
    for path in (*about(finding), *edit.start()):
        if path in about(finding) or any(_in_the_way(path, place) for place in places):
            edit.take_out(path, "which is left over from an earlier run")
    bind_recorded(edit)
    bring_back(edit, edit.needed)


def _in_the_way(path: str, place: str) -> bool:
    """Whether a file stands where the deliverable has to go, as itself, its folder or a file in it."""
    return path == place or path.startswith(place + "/") or place.startswith(path + "/")


def _protected(edit: ContextEdit, finding: Finding) -> None:
    for deliverable in edit.view.contract.deliverables:
        if deliverable.in_place:
            edit.allow(deliverable.path)


def _from_record(edit: ContextEdit, finding: Finding) -> None:
    """What a file should state stands there in the recorded version, if that is another one."""
    where = str(finding.details.get("stated_in", ""))
    holder = edit.holder(where)
    if where in ("", "instruction"):
        return
    name = f"{holder.kind}/{holder.name}" if holder else ""
    bind_recorded(edit, lambda n: not name or n == name)


_RULES: dict[str, Callable[[ContextEdit, Finding], None]] = {
    "missing_input": _missing_input,
    "misnamed_input": _misnamed,
    "changed_data": _changed_data,
    "stale_anchor": _changed_data,
    "conflicting_copies": _copies,
    "wrong_unit": _unit,
    "leaked_answer": _shown,
    "verifier_readable": _readable,
    "goal_at_start": _left_over,
    "leftover_output": _left_over,
    "protected_target": _protected,
    "missing_given": _from_record,
    "wrong_given": _from_record,
    "ambiguous_request": _from_record,
    "contradiction": _from_record,
}

