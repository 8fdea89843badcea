"""What is a cause and what is only its consequence.

Probes report what they see one by one, so one defect shows several times: a request that lacks a number makes the
solvers fail as well. A symptom that a confirmed cause explains becomes evidence of that cause; one that nothing
explains stays a finding. A cause explains a symptom where it reaches: a wrong expected value what is said of the
requirements that are held against it, and no more, so that a second defect beside it is still seen.
"""

from __future__ import annotations

from collections.abc import Iterable

from rover.diagnose.demands import asked, givens_used
from rover.rollout.env import Env
from rover_store.records import Contract, Finding

_REQUEST = frozenset({"missing_given", "wrong_given", "ambiguous_request", "renamed_deliverable", "contradiction"})
_HARNESS = frozenset({"tool_removed", "budget_too_small", "limits_too_tight"})
_DATA = frozenset({"changed_data", "wrong_unit", "conflicting_copies", "leftover_output", "goal_at_start"})
_GONE = frozenset({"missing_input", "misnamed_input"})
_EXPECTED = frozenset({"wrong_anchor", "stale_anchor", "missing_anchor"})
_CHECKS = frozenset({"extra_demand", "verifier_crash", "flaky_verifier", "impossible_checks", "protected_target"})
#: causes whose checks may fall over what they find
_CRASHING = frozenset({"missing_anchor", "verifier_crash", "wrong_anchor", "misnamed_input", "impossible_checks"})
#: causes that keep a solver from a result which the verifier accepts
BLOCKING = _REQUEST | _HARNESS | _DATA | _GONE | _EXPECTED | _CHECKS
#: causes that make the verifier judge by something else than the contract on the present files says
MISJUDGING = _DATA | _GONE | _EXPECTED | _CHECKS | {"renamed_deliverable", "unsound_reference", "wrong_given"}

#: (probe, kind) of findings that may be mere consequences
SYMPTOMS = frozenset(
    {
        ("replay", "unsolvable"), ("replay", "failed_write"), ("replay", "strict_verifier"),
        ("independent", "strict_verifier"), ("reference", "strict_verifier"), ("reference", "unsound_reference"),
        ("cases", "strict_verifier"), ("cases", "lax_verifier"), ("cases", "verifier_crash"),
        ("attackers", "lax_verifier"), ("attackers", "leaked_answer"), ("start", "lax_verifier"),
        ("agreement", "lax_verifier"), ("agreement", "strict_verifier"), ("agreement", "unsolvable"),
        ("agreement", "unsound_reference"), ("agreement", "leaked_answer"),
        ("reading", "missing_given"), ("reading", "wrong_given"), ("reading", "ambiguous_request"),
        ("reference", "verifier_crash"), ("start", "verifier_crash"), ("attackers", "verifier_crash"),
        ("recorded", "verifier_crash"), ("possible", "impossible_checks"),
    }
)  # fmt: skip
#: symptoms that are causes of others where nothing explains them
_FIRST = frozenset(
    {
        ("agreement", "unsound_reference"), ("agreement", "strict_verifier"), ("agreement", "lax_verifier"),
        ("possible", "impossible_checks"), ("reading", "missing_given"), ("reading", "wrong_given"),
        ("reading", "ambiguous_request"), ("agreement", "leaked_answer"), ("attackers", "leaked_answer"),
        ("reference", "verifier_crash"), ("start", "verifier_crash"), ("attackers", "verifier_crash"),
        ("recorded", "verifier_crash"), ("cases", "verifier_crash"),
    }
)  # fmt: skip
#: kind -> kinds that say the same of the same subject less exactly
EXACTER: dict[str, frozenset[str]] = {
    "wrong_given": frozenset({"missing_given"}),
    "wrong_unit": frozenset({"missing_given", "wrong_given", "changed_data", "wrong_anchor", "stale_anchor"}),
    "misnamed_input": frozenset({"missing_input"}),
    "conflicting_copies": frozenset({"changed_data", "stale_anchor"}),
    "stale_anchor": frozenset({"changed_data", "wrong_anchor"}),
    "leftover_output": frozenset({"leaked_answer", "changed_data", "stale_anchor"}),
    "goal_at_start": frozenset({"leftover_output", "leaked_answer", "changed_data", "stale_anchor"}),
    "verifier_readable": frozenset({"leaked_answer"}),
    "protected_target": frozenset({"impossible_checks"}),
}


def explained(findings: Iterable[Finding], env: Env | None = None) -> tuple[Finding, ...]:
    """Findings without the symptoms that a confirmed cause explains, and without the same thing said twice.

    Causes keep the order of the probes; the evidence of an explained symptom is added to those that explain it.
    """
    exact = _exact(tuple(findings))
    causes = [f for f in exact if f.status == "confirmed" and (f.probe, f.kind) not in SYMPTOMS]
    evidence: dict[int, list[str]] = {}
    kept: dict[int, Finding] = {at: f for at, f in enumerate(exact) if (f.probe, f.kind) not in SYMPTOMS}
    # what is a symptom of nothing here may itself be what others come from
    for tier in (_FIRST, frozenset(SYMPTOMS) - _FIRST):
        for at, finding in enumerate(exact):
            if (finding.probe, finding.kind) not in tier:
                continue
            reasons = [c for c in causes if explains(c, finding)]
            left = _left(finding, reasons, env)
            if left is not None:
                kept[at] = left
                continue
            for cause in reasons:
                if cause.kind != "flaky_verifier":  # on which states it shows is chance
                    evidence.setdefault(id(cause), []).extend(finding.evidence)
        causes += [kept[at] for at, f in enumerate(exact) if at in kept and (f.probe, f.kind) in tier & _FIRST]
    return _said_once([_with(kept[at], evidence.get(id(kept[at]), [])) for at in sorted(kept)])


def explains(cause: Finding, symptom: Finding) -> bool:
    """Whether a cause of this kind can have such a symptom at all; `reach` says of which requirements."""
    kind, probe = cause.kind, symptom.probe
    if cause.probe == "agreement" and kind == symptom.kind:  # it saw the same states, and more
        return kind in ("strict_verifier", "lax_verifier") and probe != "agreement"
    if probe == "reading":
        return _at(cause) == "task"
    if symptom.kind == "verifier_crash":
        return kind in _CRASHING or (kind in _GONE | _DATA and probe != "start")
    if symptom.kind in ("unsolvable", "failed_write"):
        told = kind == "leaked_answer" and _at(cause) == "task"
        guarded = kind == "protected_target" and _at(cause) != "verifier"
        return told or guarded or kind in BLOCKING - _EXPECTED - _CHECKS
    if symptom.kind == "leaked_answer":
        return kind in ("leaked_answer", "verifier_readable", "goal_at_start", "leftover_output")
    if symptom.kind == "lax_verifier":
        if probe in ("attackers", "start"):
            return kind in ("goal_at_start", "weak_pass_mark", "flaky_verifier")
        blind = kind in ("unscored_requirement", "missing_anchor", "flaky_verifier", "goal_at_start")
        return blind or (kind in MISJUDGING - _CHECKS and probe in ("agreement", "cases"))
    if probe in ("replay", "independent"):
        return kind in BLOCKING or kind == "unsound_reference"
    return kind in MISJUDGING or (probe == "possible" and kind in BLOCKING)


def reach(cause: Finding, env: Env) -> frozenset[str] | None:
    """Requirements that a cause touches; None: all of them, or it cannot be told."""
    contract = env.contract
    details = cause.details
    if cause.kind in ("wrong_given", "missing_given", "wrong_unit") and details.get("stated_in") == "instruction":
        subject = str(details.get("subject", ""))
        users = (r.id for r in contract.requirements if subject in givens_used(Contract(requirements=(r,))))
        return frozenset(users) or None
    named = {str(n) for n in details.get("requirements", [])} | ({cause.requirement} if cause.requirement else set())
    by_id = {c.id: c for c in env.verifier.criteria}
    criteria = [str(c) for c in (*details.get("criteria", []), details.get("criterion"))]
    named |= {by_id[c].requirement for c in criteria if c in by_id}
    if cause.kind in _EXPECTED:
        anchors = {str(details.get(k)) for k in ("anchor", "subject")}
        named |= {c.requirement for c in env.verifier.criteria if anchors & set(c.anchors)}
    if cause.kind in _DATA:
        paths = {str(p) for p in (details.get("path"), details.get("subject"), *details.get("paths", [])) if p}
        named |= {a.requirement.id for a in asked(contract) if paths & set(a.sources)}
    if cause.kind in _DATA | _EXPECTED and named:  # what may be edited rests on which rows are listed
        named |= {r.id for r in contract.requirements if r.rule.kind in ("rest", "edit")}
    if cause.kind in ("extra_demand", "verifier_crash", "renamed_deliverable", "unsound_reference", *_GONE):
        return None
    return frozenset(named) or None


def suspects(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Components that confirmed findings point at first, then those they only suspect."""
    confirmed = [f for f in findings if f.status == "confirmed"]
    first = dict.fromkeys(f.components[0] for f in confirmed)
    return tuple(dict.fromkeys([*first, *(c for f in confirmed for c in f.components)]))


def _at(finding: Finding) -> str:
    return finding.components[0]


def _exact(findings: tuple[Finding, ...]) -> list[Finding]:
    """Without what another finding says more exactly of the same subject."""
    said: set[tuple[str, str]] = set()
    for finding in findings:
        if finding.status == "confirmed":
            for subject in _subjects(finding):
                said |= {(kind, subject) for kind in EXACTER.get(finding.kind, ())}
    return [f for f in findings if not any((f.kind, s) in said for s in _subjects(f))]


def _subjects(finding: Finding) -> set[str]:
    details = finding.details
    named = [details.get("subject"), details.get("path"), *details.get("paths", [])]
    return {str(s) for s in named if s}


def _left(symptom: Finding, reasons: list[Finding], env: Env | None) -> Finding | None:
    """The symptom with what is left of it; None where all of it is explained."""
    if not reasons:
        return symptom
    if symptom.kind in ("verifier_crash", "impossible_checks"):
        return None
    needs = list(map(str, symptom.details.get("requirements", [])))
    needs = needs or ([symptom.requirement] if symptom.requirement else [])
    reached: set[str] = set()
    for cause in reasons:
        mine = reach(cause, env) if env is not None else _plain(cause, symptom)
        if mine is None:
            return None
        reached |= mine
    left = [n for n in needs if n not in reached]
    if not left:  # a symptom that names no requirement is explained by whatever can have it
        return None
    details = {**symptom.details, "requirements": left}
    return symptom.model_copy(update={"requirement": left[0], "details": details})


def _plain(cause: Finding, symptom: Finding) -> set[str] | None:
    """What a cause reaches, as far as the finding itself says."""
    blind = cause.kind in ("unscored_requirement", "missing_anchor") and symptom.kind == "lax_verifier"
    return {cause.requirement} if blind and cause.requirement else None


def _with(finding: Finding, evidence: list[str]) -> Finding:
    if not evidence:
        return finding
    return finding.model_copy(update={"evidence": tuple(dict.fromkeys([*finding.evidence, *evidence]))})


def _said_once(findings: list[Finding]) -> tuple[Finding, ...]:
    """One finding for each kind and subject; static and running probes may see the same tool missing."""
    seen: dict[tuple[str, str, str], Finding] = {}
    for finding in findings:
        key = (finding.probe, finding.kind, str(finding.details.get("subject", finding.message)))
        seen.setdefault(key, finding)
    return tuple(seen.values())
