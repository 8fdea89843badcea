"""The kinds of findings: what a diagnosis may say is wrong, and where that usually lies.

A kind of finding is coarser than what may have been done to a package: two ways to break a request come to one
kind where a repair would not treat them apart. `details` of a finding hold the keys named here; `subject` is
there for each (what the finding is about: a path, a given, an anchor, a column, a criterion) and two findings of one
probe with one kind and one subject are the same finding. Other keys, each with the same meaning wherever it stands:

    value       what the contract says           found       what stands there instead
    path        the one file it is about         paths       several, sorted
    stated_in   `instruction` or a file          tools       tools that any one of would do, or that are lacking
    criterion   id of a criterion                criteria    several
    anchor      id of an anchor                  requirements  ids of requirements
    column      of a table or workbook           turns       turns that a solution takes
    limit       name of a limit or budget        needed      what a solution needs of it
    attackers   names of null attackers          cases       ids of calibration cases
    file        path as the author knows it      line        in that file, counted from 1
"""

from __future__ import annotations

from dataclasses import dataclass

from rover_store.errors import NotFound
from rover_store.ids import ComponentName


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of finding."""

    name: str
    #: one sentence that a person who never saw rover understands
    summary: str
    #: where it usually lies; a finding names its own suspects, the likeliest first
    component: ComponentName
    #: keys of `details` beside `subject`
    details: tuple[str, ...] = ()
    #: says only that something is wrong, which a cause found elsewhere may explain
    symptom: bool = False
    #: a fact that may be meant, or that only says where a package can be used: no defect by itself
    mild: bool = False


KINDS: tuple[Kind, ...] = (
    # --- context
    Kind("missing_input", "A file that the task needs is not in the workspace.", "context", ("path",)),
    Kind(
        "misnamed_input", "A file that the task needs lies in the workspace under another name.", "context",
        ("path", "found"),
    ),
    Kind(
        "changed_data", "The files are no longer those that the expected values were made from, and hold other or "
        "broken values.", "context", ("anchor", "paths"),
    ),
    Kind(
        "conflicting_copies", "Two files of the workspace hold the same records and disagree in a value.", "context",
        ("path", "paths", "column", "value", "found"),
    ),
    Kind(
        "wrong_unit", "A value or date is written in another unit or format than the contract says.", "context",
        ("path", "column", "value", "found", "stated_in"),
    ),
    Kind(
        "leaked_answer", "The answer can be read where the policy looks, outside the data it is derived from.",
        "context", ("path", "anchor", "how", "matched", "of", "attackers"),
    ),
    Kind(
        "verifier_readable", "Checks, expected values or the reference lie in the workspace, open to the policy.",
        "context", ("path", "how"),
    ),
    Kind("goal_at_start", "What the task asks for holds before anything is done.", "context", ("path", "requirements")),
    Kind(
        "leftover_output", "A deliverable, or something made on the way to one, lies in the workspace at the start.",
        "context", ("path",),
    ),
    Kind(
        "protected_target", "A file that the task has edited is marked as protected.", "context",
        ("path", "requirements"),
    ),
    # --- task
    Kind(
        "missing_given", "The request does not state a value, name, column or format that the policy must be told.",
        "task", ("value", "stated_in", "path", "column"),
    ),
    Kind(
        "wrong_given", "The request states another value than contract and verifier go by.", "task",
        ("value", "found", "stated_in"),
    ),
    Kind(
        "ambiguous_request", "The request can be read in two ways: it states two values, names or files for one thing.",
        "task", ("value", "found", "stated_in"),
    ),
    Kind(
        "renamed_deliverable", "Request, contract and verifier do not call a deliverable by one name.", "task",
        ("path", "found", "criterion"),
    ),
    Kind(
        "contradiction", "One thing is demanded and ruled out at once.", "task", ("path", "requirements", "value"),
    ),
    # --- harness
    Kind(
        "tool_removed", "The harness lacks a tool that the task cannot be done without.", "harness", ("tools", "path"),
    ),
    Kind(
        "budget_too_small", "The harness grants fewer turns, tokens or seconds than the task takes.", "harness",
        ("limit", "turns", "needed"),
    ),
    Kind(
        "limits_too_tight", "A limit of the sandbox refuses a write, or cuts off a read, that the task needs.",
        "harness", ("limit", "needed", "path"),
    ),
    # --- verifier
    Kind(
        "wrong_anchor", "An expected value is not what its query gives on the very files it was made from.",
        "verifier", ("anchor", "paths"),
    ),
    Kind(
        "stale_anchor", "The expected values belong to other data or another question than the package holds now.",
        "verifier", ("anchor", "paths"),
    ),
    Kind(
        "missing_anchor", "A criterion reads an expected value that is not there.", "verifier",
        ("anchor", "criterion"),
    ),
    Kind(
        "lax_verifier", "The verifier accepts work that breaks the contract.", "verifier",
        ("requirements", "criteria", "cases", "attackers"),
    ),
    Kind(
        "weak_pass_mark", "The pass mark lets work through that fulfils too little of the contract.", "verifier",
        ("value", "found", "attackers"),
    ),
    Kind(
        "strict_verifier", "The verifier rejects work that fulfils the contract.", "verifier",
        ("requirements", "criteria", "cases"), symptom=True,
    ),
    Kind(
        "impossible_checks", "No output can satisfy all criteria of the verifier together.", "verifier",
        ("requirements", "criteria"),
    ),
    Kind("unscored_requirement", "No criterion scores a demand of the contract.", "verifier", ("requirements",)),
    Kind(
        "extra_demand", "The verifier scores something that the contract does not demand.", "verifier",
        ("criterion", "criteria", "path"),
    ),
    Kind(
        "flaky_verifier", "The verifier gives the same work different marks: by chance, time, order or hash seed.",
        "verifier", ("how", "criteria"),
    ),
    Kind("verifier_crash", "The verifier crashes on work that it should judge.", "verifier", ("criteria", "cases")),
    Kind(
        "unsound_reference", "The reference state was made with refused or missing writes, or does not fulfil the "
        "contract.", "verifier", ("path", "paths", "requirements"),
    ),
    # --- symptoms that name no component by themselves
    Kind("unsolvable", "No solver finds a way to do the task.", "task", (), symptom=True),
    Kind("failed_write", "A write of a solver's run is refused or fails.", "harness", ("path", "tools"), symptom=True),
    # --- what a reader finds in tasks that come from elsewhere, and in records
    Kind("broken_record", "A record cannot be read, or names what is not there.", "task", ("file", "line")),
    Kind(
        "secret_in_settings", "What looks like a secret stands in settings or in an image, where everybody reads it.",
        "context", ("file", "line"),
    ),
    Kind(
        "unpinned_image", "An image is named without its digest, and may be another one tomorrow.", "context",
        ("file", "line", "value"), mild=True,
    ),
    Kind(
        "unpinned_package", "A package is installed without a version, and may be another one tomorrow.", "context",
        ("file", "line", "value"), mild=True,
    ),
    Kind(
        "needs_network", "Something is fetched from a network, which no sandbox gives.", "context", ("file", "line"),
        mild=True,
    ),
    Kind("needs_root", "Something has to run as root.", "context", ("file", "line"), mild=True),
    Kind(
        "cannot_run", "The sandbox at hand does not give what the package needs, so that nothing of it was run.",
        "harness", ("value",), mild=True,
    ),
    # --- hints, hypotheses all
    Kind("stale", "A component was built against another version of what it depends on.", "verifier", ("target",)),
    Kind("same_score", "Every policy gets the same partial score.", "verifier", ("value",)),
    Kind("broken_case", "A calibration case of the verifier cannot be tried.", "verifier", ("cases",)),
)  # fmt: skip


def kind(name: str) -> Kind:
    """The kind of this name. NotFound where there is none."""
    for one in KINDS:
        if one.name == name:
            return one
    raise NotFound("kind of finding", name, hint=f"known: {', '.join(k.name for k in KINDS)}")


_NO_POLICY = "an agent's mistake: no policy could know or do better"
_FIXED_STATES = "an agent's mistake: the verifier was tried on fixed states"
#: kind -> what a confirmed finding of it rules out, where the finding itself says nothing closer
RULES_OUT: dict[str, str] = {
    "missing_input": "an agent's mistake: nobody can read what is not there",
    "misnamed_input": "lost data: the content is there, under another name",
    "changed_data": "a wrong expected value: it belongs to the data as they were",
    "conflicting_copies": _NO_POLICY,
    "wrong_unit": _NO_POLICY,
    "leaked_answer": "skill: who passes may only have read the answer",
    "verifier_readable": "skill: who passes may only have read the checks",
    "goal_at_start": "skill: nothing has to be done",
    "leftover_output": _NO_POLICY,
    "protected_target": _NO_POLICY,
    "missing_given": "an agent's mistake: the request does not tell what the contract needs",
    "wrong_given": "an agent's mistake: the request tells something else than the contract",
    "ambiguous_request": "an agent's mistake: either reading is as good",
    "renamed_deliverable": "an agent's mistake: it was asked for another name",
    "contradiction": _NO_POLICY,
    "tool_removed": "an agent's mistake: nothing that is offered can do it",
    "wrong_anchor": "changed data: the verifier was built on what is there",
    "stale_anchor": "broken data: the rest of the package records the present files",
    "missing_anchor": _FIXED_STATES,
    "lax_verifier": _FIXED_STATES,
    "strict_verifier": _FIXED_STATES,
    "weak_pass_mark": "the checks: each of them judges this work rightly",
    "unscored_requirement": "an agent's mistake: criteria and contract were read alone",
    "extra_demand": "an agent's mistake: criteria and contract were read alone",
    "verifier_crash": _FIXED_STATES,
    "failed_write": "a silent no-op: the refusal is on record",
}
