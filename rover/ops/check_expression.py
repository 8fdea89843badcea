"""What `rover bisect PACKAGE --check` asks of a version, as an expression.

    finding:KIND          bad where a diagnosis confirms such a finding
    probe:NAME            bad where that probe confirms any finding
    verdict:sound         good where the diagnosis ends like this
    passes:POLICY         good where at least half of the policy's rollouts pass
    score:POLICY>=0.75    good where their mean score fits; also > <= < ==
    accepts:reference     good where the verifier accepts it; also an alternative by its id
    rejects:null:echo     good where the verifier rejects it; also start, and a negative by its id

`not` before it turns good and bad round.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from rover_store.errors import NotFound, UsageError

Kind = Literal["finding", "probe", "verdict", "passes", "score", "accepts", "rejects"]
KINDS: tuple[Kind, ...] = ("finding", "probe", "verdict", "passes", "score", "accepts", "rejects")
VERDICTS = ("sound", "environment", "agent", "infrastructure", "undecided")

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, "<=": operator.le, "==": operator.eq, ">": operator.gt, "<": operator.lt,
}  # fmt: skip
_BOUND = re.compile(r"(?P<name>.+?)\s*(?P<op>>=|<=|==|>|<)\s*(?P<value>\d+(?:\.\d+)?)")


@dataclass(frozen=True, slots=True)
class Check:
    """A parsed expression. `name` is what stands behind the colon; `op` and `bound` belong to a score."""

    kind: Kind
    name: str
    negated: bool = False
    op: str = ""
    bound: float = 0.0

    @property
    def diagnoses(self) -> bool:
        """Whether it takes a diagnosis, which looks at more than the four components."""
        return self.kind in ("finding", "probe", "verdict")

    def fits(self, score: float) -> bool:
        return _OPERATORS[self.op](round(score, 9), self.bound)


def parse(text: str) -> Check:
    """UsageError in one line where the text is no expression, or names a kind, probe or verdict that is none."""
    said = " ".join(text.split())
    negated = said.startswith("not ")
    kind, colon, name = said.removeprefix("not ").partition(":")
    if kind not in KINDS or not colon or not name.strip():
        hint = f"KIND:NAME, with KIND one of {', '.join(KINDS)}"
        raise UsageError(f"--check {text!r} is not an expression", hint=hint)
    check = Check(kind, name.strip(), negated)
    if kind == "score":
        return _score(text, check)
    _known(check)
    return check


def _score(text: str, check: Check) -> Check:
    found = _BOUND.fullmatch(check.name)
    if found is None:
        raise UsageError(f"--check {text!r}: a score is compared, as in score:solver>=0.75")
    return Check("score", found["name"], check.negated, found["op"], float(found["value"]))


def _known(check: Check) -> None:
    """The names that are known before any package is read."""
    if check.kind == "finding":
        from rover.diagnose.kinds import KINDS as FINDINGS

        _one_of("kind of finding", check.name, tuple(k.name for k in FINDINGS))
    elif check.kind == "probe":
        from rover.diagnose.registry import probes

        _one_of("probe", check.name, tuple(p.name for p in probes()))
    elif check.kind == "verdict":
        _one_of("verdict", check.name, VERDICTS)
    elif check.kind in ("passes", "rejects") and check.name.startswith("null:"):
        from rover.policy.registry import get_policy

        get_policy(check.name)


def _one_of(what: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise NotFound(what, name, hint=f"known: {', '.join(known)}")
