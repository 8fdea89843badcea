"""Whether a version of a package fulfils a check: by what the evidence holds, and by running where it holds nothing.

Versions that agree in all that the check looks at are judged once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rover.ops.check_expression import Check
from rover.rollout.env import Env, load_env
from rover_store.errors import PackageError, RoverError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rover.policy.protocol import Policy
    from rover.rollout.engine import Engine
    from rover.sandbox.protocol import Runtime
    from rover_store.layout import PackageEntry
    from rover_store.records import Diagnosis, Verdict
    from rover_store.store import Store

By = Literal["evidence", "replay", "reading"]
#: outcomes that say something of the package; the others leave every count
_COUNTED = ("passed", "failed", "policy_error")


class Judged(NamedTuple):
    """What came of one version. `good` None: it cannot be judged. `by` reading: its files were enough to see that."""

    good: bool | None
    by: By
    reason: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class Version:
    """A package at a commit. `resources`: those that it binds, as the revision holds them."""

    commit: str
    entry: PackageEntry
    record: str  # blob of package.json
    resources: tuple[tuple[str, str], ...] = ()

    def key(self, check: Check) -> tuple[Any, ...]:
        """All that the check looks at: two versions with the same key are judged alike."""
        parts = tuple(sorted(self.entry.components.items()))
        return (parts, self.record, self.resources) if check.diagnoses else (parts,)


@dataclass
class Judge:
    """Judges versions by one check. A context manager: a sandbox is opened when the first version needs one."""

    store: Store
    check: Check
    runtime: Callable[[], Runtime]
    seed: int = 0
    workers: int = 1
    options: dict[str, Any] = field(default_factory=dict)
    known: dict[tuple[Any, ...], Judged] = field(default_factory=dict)
    #: probes that raised the finding where it was seen first: others need not be asked of it again
    askers: tuple[str, ...] = ()
    _opened: list[Engine] = field(default_factory=list)

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *error: object) -> None:
        for engine in self._opened:
            engine.close()

    def __call__(self, version: Version) -> Judged:
        key = version.key(self.check)
        if key not in self.known:
            self.known[key] = self._turned(self._judge(version))
        return self.known[key]

    @property
    def engine(self) -> Engine:
        from rover.rollout.engine import Engine

        if not self._opened:
            self._opened.append(Engine(self.runtime(), self.store.evidence, self.workers))
        return self._opened[0]

    def _turned(self, found: Judged) -> Judged:
        return found._replace(good=not found.good) if self.check.negated and found.good is not None else found

    def _judge(self, version: Version) -> Judged:
        try:
            env = load_env(self.store, version.entry.tree)
        except PackageError as error:
            return Judged(None, "reading", error.message)
        try:
            if self.check.diagnoses:
                return self._by_diagnosis(version, env)
            if self.check.kind in ("passes", "score"):
                return self._by_rollouts(version, env)
            return self._by_case(version, env)
        except PackageError as error:  # records that can be read and do not fit together
            return Judged(None, "replay", error.message)

    # --- findings, probes, verdicts --------------------------------------------------------------------------
    def _by_diagnosis(self, version: Version, env: Env) -> Judged:
        from rover.diagnose.diagnosis import diagnose
        from rover.diagnose.protocol import ProbeContext
        from rover.repair.history import recorded

        known = self._diagnosed.get(version.entry.tree)
        if known is not None:
            self._heard(known)
        if known is not None and (self.check.kind != "probe" or not self._holds(known).good):
            return self._holds(known)
        resources = self.store.resources(version.commit)
        ctx = ProbeContext(env, self.engine, self.seed, resources, recorded(self.store, env))
        only = (self.check.name,) if self.check.kind == "probe" else self.askers
        found = diagnose(ctx, only=only)
        self._heard(found)
        if found.verdict == "infrastructure" and self.check.kind != "verdict":
            return Judged(None, "replay", found.summary)
        return self._holds(found)._replace(by="replay")

    def _heard(self, found: Diagnosis) -> None:
        """Note who raises the finding. A symptom needs a whole diagnosis: another finding may explain it."""
        from rover.diagnose.kinds import kind

        if self.check.kind == "finding" and not self.askers and not kind(self.check.name).symptom:
            raised = [f for f in found.findings if f.status == "confirmed" and f.kind == self.check.name]
            self.askers = tuple(dict.fromkeys(f.probe for f in raised))

    def _holds(self, found: Diagnosis) -> Judged:
        if self.check.kind == "verdict":
            return Judged(found.verdict == self.check.name, "evidence", f"{found.verdict}: {found.summary}")
        wanted = "probe" if self.check.kind == "probe" else "kind"
        all_ = (f for f in found.findings if f.status == "confirmed" and getattr(f, wanted) == self.check.name)
        first = next(all_, None)
        if first is None:
            return Judged(True, "evidence", f"no finding of {self.check.name}")
        return Judged(False, "evidence", f"{first.kind}: {first.message}", first.evidence)

    @cached_property
    def _diagnosed(self) -> dict[str, Diagnosis]:
        """Diagnoses that repair cases hold, by the tree of the package that was examined."""
        from rover_store.cases import case_json
        from rover_store.records import Repair

        out: dict[str, Diagnosis] = {}
        for case, commit in self.store.cases().items():
            try:
                record = Repair.load(case_json(self.store, case, commit), f"case {case}")
            except RoverError:
                continue  # a case that somebody broke is no evidence
            out[record.diagnosis.tree] = record.diagnosis
        return out

    # --- rollouts --------------------------------------------------------------------------------------------
    def _by_rollouts(self, version: Version, env: Env) -> Judged:
        policy, why = self._policy(version)
        verdicts = dict(self._recorded(env, policy))
        by: By = "evidence"
        if not verdicts:
            if policy is None:
                return Judged(None, "reading", why)
            verdicts, by = self._replayed(env, policy, f"run:{self.seed}"), "replay"
        if not verdicts:
            return Judged(None, by, "nothing but errors of sandbox or verifier")
        return self._counted(verdicts, by)

    def _counted(self, verdicts: dict[str, Verdict], by: By) -> Judged:
        ids = tuple(sorted(verdicts))
        count = len(ids)
        if self.check.kind == "passes":
            passed = sum(v.outcome == "passed" for v in verdicts.values())
            return Judged(2 * passed >= count, by, f"{passed} of {count} rollouts passed", ids)
        mean = sum(v.score or 0.0 for v in verdicts.values()) / count
        return Judged(self.check.fits(mean), by, f"score {mean:.3f} over {count} rollouts", ids)

    def _policy(self, version: Version) -> tuple[Policy | None, str]:
        """The policy, or why there is none for this package: what was recorded may still tell."""
        from rover.ops.run import RunRequest, policy_of

        try:
            request = RunRequest(version.entry.name, self.check.name, options=self.options)
            return policy_of(self.store, version.entry, request), ""
        except UsageError as error:
            return None, error.message

    def _recorded(self, env: Env, policy: Policy | None) -> Iterator[tuple[str, Verdict]]:
        """Rollouts of the policy on this context, task and harness that this verifier has graded."""
        spec = self.check.name
        ids = {"context": env.context_id, "task": env.task_id, "harness": env.harness_id}
        for name, trajectory in self.store.evidence.iter_rollouts(**ids):
            who = trajectory.key.policy
            if trajectory.key.budget != env.harness.budget:
                continue  # a diagnosis grants more than the package does
            if who == policy.id if policy else who == spec or who.startswith(f"{spec}:"):
                verdict = self.store.evidence.get_verdict(name, env.verifier_id)
                if verdict is not None and verdict.outcome in _COUNTED:
                    yield name, verdict

    def _replayed(self, env: Env, policy: Policy, purpose: str, number: int = 0) -> dict[str, Verdict]:
        from rover.rollout.records import RolloutRequest, seed_for

        asked = [RolloutRequest(env, policy, seed_for(purpose, policy.id, number))]
        found = self.engine.run(asked)
        return {result.id: verdict for result, verdict in found if verdict.outcome in _COUNTED}

    # --- calibration cases -----------------------------------------------------------------------------------
    def _by_case(self, version: Version, env: Env) -> Judged:
        from rover.construct.calibrate import mutant_rows, reference_row, start_row, state_rows

        name, accepts = self.check.name, self.check.kind == "accepts"
        if name.startswith("null:"):
            return self._by_attacker(env, accepts)
        if name in ("reference", "start"):
            row = reference_row(self.engine, env) if name == "reference" else start_row(self.engine, env)
        else:
            rules = [r for r in (*env.cases.negatives, *env.cases.alternatives) if r.id == name]
            rows = mutant_rows(self.engine, env, rules, self.seed) if rules else []
            rows += [r for r in state_rows(self.engine, env) if r.case == name] if name in env.cases.states else []
            if not rows:
                return Judged(None, "reading", f"has no calibration case {name}")
            row = rows[0]
        if row.observed == "error":
            return Judged(None, "replay", row.reason)
        return Judged((row.observed == "accepted") == accepts, "replay", f"{row.observed}: {row.reason}")

    def _by_attacker(self, env: Env, accepts: bool) -> Judged:
        from rover.policy.registry import get_policy
        from rover.verify.grade import passes

        policy = get_policy(self.check.name)
        verdicts, by = dict(self._recorded(env, policy)), "evidence"
        if not verdicts:
            verdicts, by = self._replayed(env, policy, "calibrate", self.seed), "replay"
        if not verdicts:
            return Judged(None, "replay", "nothing but errors of sandbox or verifier")
        through = [name for name, v in sorted(verdicts.items()) if passes(env.verifier, v.score, v.gate)]
        said = f"{len(through)} of {len(verdicts)} rollouts of {policy.id} are accepted"
        ids = tuple(through or sorted(verdicts))
        return Judged(bool(through) == accepts, "replay" if by == "replay" else "evidence", said, ids)
