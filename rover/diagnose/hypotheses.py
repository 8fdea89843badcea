"""Hypotheses of a model: what it would look into, as typed findings that confirm nothing and overrule nobody.

A model sees request, contract, criteria, the list of files and what the probes found, and names kinds from the list of
kinds. Its answer is read as data: an unknown kind or component is left out, a claim without words too. Every finding
is a hypothesis; the verdict rests on the others alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rover.diagnose.kinds import KINDS
from rover_store.ids import COMPONENTS, ComponentName
from rover_store.records import Diagnosis, Finding

if TYPE_CHECKING:
    from rover.rollout.env import Env

#: tokens that question and answer may take together
TOKENS = 20_000
#: characters of one text in the question
MOST_CHARS = 6_000
#: hypotheses of one answer that are taken
MOST = 8

SYSTEM = (
    "You look for defects in a task package for office agents: context C (files), task T (request and contract), "
    "harness H (tools and budget), verifier V (criteria and checks). Deterministic probes have looked already. Name "
    "what they may have missed, and only what the texts show. Answer with one JSON object: "
    '{"hypotheses": [{"kind", "component", "why", "subject"}]}, at most 8, an empty list where nothing is wrong.'
)


class Answers(Protocol):
    """A model, or a recording of one."""

    model: str

    def ask(self, system: str, question: str, tokens: int) -> Any:
        """An object with the answer as `text`. Raises where there is none."""


class _Claim(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    kind: Annotated[str, Field(max_length=60)]
    component: ComponentName
    why: Annotated[str, Field(min_length=1, max_length=2000)]
    subject: Annotated[str, Field(max_length=200)] = ""


class _Claims(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    hypotheses: list[dict[str, Any]] = []


def with_hypotheses(env: Env, found: Diagnosis, model: Answers) -> Diagnosis:
    """The diagnosis with what a model would look into beside it. What it says of known findings adds nothing."""
    said = model.ask(SYSTEM, question(env, found), TOKENS)
    known = {(f.kind, f.components[0]) for f in found.findings}
    new = [f for f in read(str(said.text), model.model) if (f.kind, f.components[0]) not in known]
    return found.model_copy(update={"findings": (*found.findings, *new)})


def read(text: str, model: str) -> tuple[Finding, ...]:
    """The usable claims of an answer; nothing where it is no JSON object of claims."""
    start, end = text.find("{"), text.rfind("}")
    try:
        claims = _Claims.model_validate(json.loads(text[start : end + 1]))
    except (ValueError, ValidationError, RecursionError):
        return ()
    names = {k.name for k in KINDS}
    out = []
    for raw in claims.hypotheses[:MOST]:
        try:
            claim = _Claim.model_validate(raw)
        except ValidationError:
            continue
        if claim.kind in names:
            out.append(_finding(claim, model))
    return tuple(out)


def question(env: Env, found: Diagnosis) -> str:
    """What the model is shown, in a fixed order. No reference, no anchor, no calibration case."""
    parts = [
        "Kinds: " + "; ".join(f"{k.name}: {k.summary}" for k in KINDS),
        "Components: " + ", ".join(COMPONENTS),
        "Request:\n" + _cut(env.instruction),
        "Contract:\n" + _cut(env.contract.dump().decode()),
        "Criteria:\n" + _cut("\n".join(_criteria(env))),
        "Checks:\n" + _cut("\n".join(_checks(env))),
        "Files:\n" + _cut("\n".join(f"{path} ({len(data)} bytes)" for path, data in env.start.items())),
        f"Tools: {', '.join(env.harness.tools)}; turns: {env.harness.budget.turns}",
        "Found by the probes:\n" + "\n".join(f"{f.kind} ({f.status}): {f.message}" for f in found.findings),
    ]
    return "\n\n".join(parts)


def _criteria(env: Env) -> Iterable[str]:
    for c in env.verifier.criteria:
        yield f"{c.id} scores {c.requirement}, weight {c.weight:g}{', critical' if c.critical else ''}, {c.check}"


def _checks(env: Env) -> Iterable[str]:
    for path, data in env.verifier_files.items():
        if path.startswith("checks/"):
            yield f"# {path}\n{data.decode('utf-8', 'replace')}"


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]}\n[cut]"


def _finding(claim: _Claim, model: str) -> Finding:
    return Finding(
        probe=f"model:{model}"[:80],
        kind=claim.kind,
        message=" ".join(claim.why.split())[:300],
        components=(claim.component,),
        status="hypothesis",
        details={"subject": claim.subject or claim.kind},
    )
