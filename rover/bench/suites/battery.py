"""The battery of a base package: end states whose worth is known before anything is broken.

They are made of the sound package: the reference, other valid forms of it, mutations that break one requirement
each, what solvers, careless solvers and attackers leave, an untouched and an emptied workspace. The truth of a state
is what the sound verifier and the oracle agree on, requirement by requirement; where they differ, nothing is held.
No probe of `rover.diagnose` is asked: whether a package is broken must not rest on what is to be measured.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rover.construct import cases
from rover.construct.calibrate import alternative_state, mutants
from rover.construct.families.registry import family
from rover.construct.reference import solver
from rover.diagnose.judged import requirement_scores
from rover.policy.null import NULL_POLICIES
from rover.policy.protocol import Policy
from rover.policy.registry import get_policy
from rover.policy.slip import SLIPS, Slip, SlipKind
from rover.policy.solver import Role
from rover.repair.oracle import ContractUnanswerable, Oracle, State, state_after, state_of
from rover.repair.trial import verifier_accepts
from rover.rollout.engine import Engine
from rover.rollout.env import Env, reference_state
from rover.rollout.records import RolloutRequest
from rover.sandbox.protocol import Files
from rover_store.ids import digest
from rover_store.records import Verdict

ROLES: tuple[Role, ...] = ("demonstrator", "alternative")
#: the other solver's slips that the battery holds too
_ALSO: tuple[SlipKind, ...] = ("drop_row", "perturb_number")


class Unsound(Exception):
    """A built package that cannot serve as a base: one of its own runs says that it is not sound."""


@dataclass(frozen=True, slots=True)
class Sample:
    """An end state and its worth: requirement -> satisfied, and whether the sound verifier lets it pass."""

    id: str
    state: State
    truth: Mapping[str, bool]
    passed: bool

    @property
    def right(self) -> bool:
        return all(self.truth.values())

    def laid(self, start: Files) -> dict[str, bytes]:
        """The end state over a start, which may be another than the one it was made on."""
        gone = set(self.state.removed)
        return dict(sorted((p, d) for p, d in {**start, **self.state.changed}.items() if p not in gone))


@dataclass(frozen=True, slots=True)
class Battery:
    """All samples of one base, in a fixed order. `left_out`: states on which verifier and oracle differ."""

    samples: tuple[Sample, ...]
    left_out: int = 0

    def dump(self) -> dict[str, Any]:
        """As plain JSON."""
        rows = [
            {
                "id": s.id,
                "changed": {p: base64.b64encode(d).decode() for p, d in s.state.changed.items()},
                "removed": list(s.state.removed),
                "message": s.state.message,
                "truth": dict(s.truth),
                "passed": s.passed,
            }
            for s in self.samples
        ]
        return {"samples": rows, "left_out": self.left_out}

    @classmethod
    def load(cls, value: dict[str, Any]) -> Battery:
        """From what `dump` gave."""
        samples = tuple(
            Sample(
                row["id"],
                State(
                    {p: base64.b64decode(d) for p, d in row["changed"].items()},
                    tuple(row["removed"]),
                    message=row["message"],
                ),
                row["truth"],
                row["passed"],
            )
            for row in value["samples"]
        )
        return cls(samples, value["left_out"])


def battery(engine: Engine, env: Env, seed: int) -> Battery:
    """Make the battery of a package that was just built. Unsound where its own runs say otherwise."""
    states: dict[str, tuple[str, State]] = {}
    for name, state in [*_stored(engine, env, seed), *_ran(engine, env, seed)]:
        if not state.links:
            states.setdefault(state.key, (name, state))
    named = list(states.values())
    verdicts = engine.grade_states([(env, laid(env.start, s), s.message) for _, s in named])
    try:
        opinions = Oracle(engine, env.contract, env.start).judge([s for _, s in named])
    except ContractUnanswerable as error:
        raise Unsound(f"the contract has no answer: {error}") from None
    samples, left_out = [], 0
    for (name, state), verdict, opinion in zip(named, verdicts, opinions, strict=True):
        truth = _agreed(verdict, opinion.satisfied)
        if name == "reference" and (truth is None or not all(truth.values())):
            raise Unsound("verifier and oracle do not both accept the reference")
        if truth is None:
            left_out += 1
            continue
        samples.append(Sample(name, state, truth, verdict.outcome == "passed"))
    return Battery(tuple(samples), left_out)


def laid(start: Files, state: State) -> dict[str, bytes]:
    """A whole end state."""
    return Sample("", state, {}, False).laid(start)


def _agreed(verdict: Verdict, satisfied: Mapping[str, bool]) -> dict[str, bool] | None:
    """What verifier and oracle agree on; None where they differ on the whole, or nothing could be said."""
    if verdict.outcome in ("infra_error", "verifier_error"):
        return None
    scores = requirement_scores(verdict)
    agreed = {r: ok for r, ok in sorted(satisfied.items()) if (scores.get(r, 1.0) == 1.0) == ok}
    if verifier_accepts(verdict) != all(satisfied.values()) or all(agreed.values()) != all(satisfied.values()):
        return None
    return agreed


def _stored(engine: Engine, env: Env, seed: int) -> Iterator[tuple[str, State]]:
    """States that need no policy."""
    start, reference, message = env.start, reference_state(env), env.reference.final_message
    yield "reference", state_of(start, reference, message)
    for name in env.cases.states:
        yield f"state:{name}", state_of(start, *alternative_state(env, name))
    rng = random.Random(seed)
    rules = [
        *env.cases.alternatives,
        *cases.alternatives(env.contract, rng, prefix="form-"),
        *env.cases.negatives,
        *cases.negatives(env.contract, rng, prefix="break-"),
    ]
    for rule, made in zip(rules, mutants(engine, env, rules, seed % (1 << 32)), strict=True):
        if not isinstance(made, str):
            yield f"rule:{rule.id}", state_of(start, made, message)
    yield from _forms(start, reference, message)
    yield "start", State({})
    yield "emptied", State({}, tuple(sorted(start)))
    yield "nothing else", State(
        {p: d for p, d in reference.items() if start.get(p) != d},
        tuple(sorted(set(start) & set(reference))),
        message=message,
    )


def _forms(start: Files, reference: Files, message: str) -> Iterator[tuple[str, State]]:
    """Other spellings of the reference's text files. Whether they are right is for verifier and oracle to say."""
    texts = {p: d for p, d in reference.items() if start.get(p) != d and not p.endswith(".xlsx")}
    for name, change in _SPELLINGS:
        changed = {p: change(d) for p, d in texts.items()}
        if any(changed[p] != texts[p] for p in texts):
            yield f"form:{name}", state_of(start, {**reference, **changed}, message)
    if message:
        yield "form:no message", state_of(start, reference)


_SPELLINGS = (
    ("crlf", lambda d: d.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")),
    ("upper case", bytes.upper),
    ("no last newline", lambda d: d.rstrip(b"\n")),
    ("byte order mark", lambda d: b"\xef\xbb\xbf" + d),
    ("blank line", lambda d: d + b"\n\n"),
)


def _ran(engine: Engine, env: Env, seed: int) -> Iterator[tuple[str, State]]:
    """What policies leave. Unsound where a solver does not solve it."""
    kind = family(env.record.family or "")
    careful: list[tuple[str, Policy]] = [(f"solver:{role}", solver(kind, role)) for role in ROLES]
    careless = [("demonstrator", slip) for slip in SLIPS] + [("alternative", slip) for slip in _ALSO]
    slips: list[tuple[str, Policy]] = [
        (f"solver:{role}+{slip}", solver(kind, role, Slip(slip))) for role, slip in careless  # type: ignore[arg-type]
    ]
    attackers = [(f"null:{name}", get_policy(f"null:{name}")) for name in NULL_POLICIES]
    cast = [*careful, *slips, *attackers]
    requests = [RolloutRequest(env, policy, sown(seed, name)) for name, policy in cast]
    results = engine.rollouts(requests)
    for (name, _), result in zip(cast, results, strict=True):
        end = result.trajectory.end
        if name in dict(careful) and end != "completed":
            raise Unsound(f"{name} ends with {end}: {result.trajectory.error}")
        if end == "completed":
            yield name, state_after(env.start, result)


def sown(*parts: object) -> int:
    """A seed of the parts, in 60 bits."""
    return int(digest(list(map(str, parts)))[:15], 16)


def order(samples: Sequence[Sample], touched: frozenset[str]) -> list[Sample]:
    """The samples, those that tell most about some requirements first: right ones and sharp breaks in turn."""
    right = [s for s in samples if s.right]
    wrong = sorted(
        (s for s in samples if not s.right),
        key=lambda s: (not any(not s.truth.get(r, True) for r in touched), sum(not ok for ok in s.truth.values())),
    )
    out: list[Sample] = []
    while right or wrong:
        out += right[:2]
        out += wrong[:2]
        right, wrong = right[2:], wrong[2:]
    return out
