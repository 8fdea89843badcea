"""Proposals for the task by rule: say what the contract says, and nothing against it.

The contract itself is the frozen intent. It is put back only where the package's own copy departs from it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

from rover.diagnose.demands import columns_of, states, states_given
from rover.diagnose.restate import missing, restated, words
from rover.repair.proposals.protocol import Draft, PackageView, Style, suspected
from rover.repair.proposals.wordings import says_the_contract, worded
from rover_store.ids import ComponentName
from rover_store.records import Diagnosis, Finding, GivenValue

_BULLET = re.compile(r"^\s*(?:[-*]|\d+[.)])\s+")


KINDS = frozenset(
    {
        "missing_given", "renamed_deliverable", "wrong_given", "ambiguous_request", "contradiction", "leaked_answer",
        "extra_demand", "missing_input", "misnamed_input",
    }
)  # fmt: skip


class TaskByRule:
    """One edit of the request for all findings that suspect the task."""

    name = "task-rule"
    component: ComponentName = "task"
    style: Style = "rule"
    written_for = KINDS

    def propose(self, view: PackageView, diagnosis: Diagnosis) -> Draft | None:
        text = view.env.instruction
        done: list[str] = []
        for finding in suspected("task", diagnosis):
            rule = _RULES.get(finding.kind)
            if rule is not None:
                text, what = rule(view, text, finding)
                done += [what] if what else []
        if not done:
            return None
        if says_the_contract(view, text) is False:
            # what the edits leave is still not what the contract says: the family's words for it are
            text = worded(view, text) or text
        return draft(view, text, "; ".join(dict.fromkeys(done)))


def draft(view: PackageView, text: str, rationale: str) -> Draft | None:
    """The task with this request, and the contract as it is meant."""
    files = {**view.component("task"), "instruction.md": text.encode()}
    if view.contract != view.env.contract:
        files["contract.json"] = view.contract.dump()
        rationale += "; and put the contract back as it is meant"
    if files == view.component("task"):
        return None
    return Draft(component="task", files=files, rationale=rationale, writes=("file:task/instruction.md",))


Edit = tuple[str, str]


# --- one rule for each kind ------------------------------------------------------------------------------
def _missing(view: PackageView, text: str, finding: Finding) -> Edit:
    subject, value = str(finding.details.get("subject", "")), finding.details.get("value")
    if finding.details.get("stated_in", "instruction") != "instruction" and value is not None:
        return f"{text.rstrip()}\n\nThe value {subject} is {words(value)}.\n", f"state the value of {subject}"
    givens = [g for g in view.contract.givens if g.name == subject]
    if not givens and value is not None and _outvoted(view, str(value)):
        return text, f"leave the request, as {words(str(value))} is not what is meant"
    if givens:
        return restated(text, view.contract, givens), f"state the value of {subject} again"
    if value is not None and not states(text, value):
        return f"{text.rstrip()}\n\nIt also has to hold {words(str(value))}.\n", f"name {value}"
    return _whole(view, text, finding)


def _renamed(view: PackageView, text: str, finding: Finding) -> Edit:
    found = finding.details.get("found")
    path = str(finding.details.get("path") or finding.details.get("subject", ""))
    if _outvoted(view, path):
        return text, f"leave the request, as {path} is not what is meant"
    if found and path and str(found) in text and not states(text, path):
        return text.replace(str(found), path), f"ask for {path}, as the contract does"
    return _whole(view, text, finding)


def _wrong(view: PackageView, text: str, finding: Finding) -> Edit:
    """Another value than the contract's: the contract's, where the other one stands for it.

    Where the package's own copy of the contract is at odds with what is meant, the request is right as it is.
    """
    found, value = finding.details.get("found"), finding.details.get("value")
    given = _given(view, finding)
    if given is not None and given.value != value and states_given(text, view.contract, given):
        return text, f"leave the request, which states {words(given.value)} as it is meant"
    if found is None or value is None:
        return _whole(view, text, finding)
    columns = columns_of(view.contract, given.name) if given else ()
    new = text
    for line in _clauses(text):
        if (not columns or any(states(line, c) for c in columns)) and states(line, found):
            new = new.replace(line, _exchanged(line, found, value))
    if new == text:
        return _whole(view, text, finding)
    return new, f"say {words(value)}, as the contract does"


def _double(view: PackageView, text: str, finding: Finding) -> Edit:
    """Two readings of one thing: the sentence with the reading that is not the contract's goes."""
    found, value = finding.details.get("found"), finding.details.get("value")
    if found is not None:
        for clause in _clauses(text):
            if states(clause, found) and not (value is not None and states(clause, value)):
                return _without(text, clause), f"take out that it is {words(found)}"
        both = [c for c in _clauses(text) if states(c, found)]
        if both and value is not None:
            cut = re.sub(rf"\s*\(?\b(?:or|and)\s+{re.escape(words(found))}\)?", "", both[0])
            if cut != both[0]:
                return text.replace(both[0], cut), f"say only {words(value)}"
    return _whole(view, text, finding)


def _ruled_out(view: PackageView, text: str, finding: Finding) -> Edit:
    """What the request rules out and the contract demands: the sentence goes."""
    path = str(finding.details.get("path") or finding.details.get("subject", ""))
    said = finding.details.get("found")
    for clause in _clauses(text):
        if isinstance(said, str) and said and said in clause:
            return _without(text, clause), "take out what contradicts the contract"
    forbids = re.compile(r"(?i)\b(?:do not|don't|never|must not|leave|untouched|unchanged|as it is)\b")
    for clause in _clauses(text):
        if path and states(clause, path) and forbids.search(clause):
            return _without(text, clause), f"take out that {path} is to be left alone"
    return _whole(view, text, finding)


def _told(view: PackageView, text: str, finding: Finding) -> Edit:
    if str(finding.details.get("path") or finding.details.get("subject")) != "instruction":
        return text, ""
    sample = str(finding.details.get("sample", ""))
    lines = [line for line in text.splitlines() if not sample or sample.lower() not in line.lower()]
    if sample and len(lines) < len(text.splitlines()):
        return "\n".join(lines) + "\n", "take the answer out of the request"
    return _whole(view, text, finding)


def _whole(view: PackageView, text: str, finding: Finding) -> Edit:
    """The family's words for the contract; where there are none, what is missing is said in a sentence."""
    found = worded(view, text)
    if found is not None and found != text:
        return found, "say what the contract says, in the words of its family"
    lacking = missing(text, view.contract)
    if lacking:
        return restated(text, view.contract, lacking), f"state {', '.join(g.name for g in lacking)}"
    return text, ""


_RULES: dict[str, Callable[[PackageView, str, Finding], Edit]] = {
    "missing_given": _missing,
    "renamed_deliverable": _renamed,
    "wrong_given": _wrong,
    "ambiguous_request": _double,
    "contradiction": _ruled_out,
    "leaked_answer": _told,
    "extra_demand": _whole,
    "missing_input": _whole,
    "misnamed_input": _whole,
}


# --- text ------------------------------------------------------------------------------------------------
def _given(view: PackageView, finding: Finding) -> GivenValue | None:
    name = finding.details.get("subject")
    return next((g for g in view.contract.givens if g.name == name), None)


def _outvoted(view: PackageView, name: str) -> bool:
    """Whether only the package's own copy of the contract knows a name, and what is meant does not."""
    word = json.dumps(name, ensure_ascii=False).encode()
    return word in view.env.contract.dump() and word not in view.contract.dump()


def _clauses(text: str) -> Iterator[str]:
    """Sentences as they stand in the text, without the marks of a list."""
    for line in text.splitlines():
        plain = _BULLET.sub("", line)
        yield from (s.strip() for s in re.split(r"(?<=[.;])\s+", plain) if s.strip())


def _exchanged(clause: str, found: object, value: object) -> str:
    """One value in the place of another, in whatever form it is written."""
    for form in dict.fromkeys((words(found), str(found))):  # type: ignore[arg-type]
        new = re.sub(rf"(?<![\w.]){re.escape(form)}(?!\w|\.\d)", lambda _: words(value), clause)  # type: ignore[arg-type]
        if new != clause:
            return new
    return clause


def _without(text: str, clause: str) -> str:
    """The text without one sentence; a line that held nothing else goes with it."""
    out = []
    for line in text.splitlines():
        if clause in line:
            rest = line.replace(clause, "").rstrip()
            if not _BULLET.sub("", rest + " ").strip():
                continue
            line = re.sub(r"\s{2,}", " ", rest)
        out.append(line)
    return "\n".join(out).rstrip() + "\n"
