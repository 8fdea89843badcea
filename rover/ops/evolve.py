"""Evolution: run, diagnose, repair, re-admit, and again, until there is nothing left to repair.

Each generation has a branch, evolve/N, that begins where the one before ended, with one commit for each repair; it
holds the record of the admission test that the repaired package passed anew. The user's own branch moves at no time,
but at the end where that was asked for. What was run is kept as evidence, what was decided in the journal of the run:
the same call goes on where it was interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rover.ops.generations import Generation, Journal, Run, Score, Treated
from rover.ops.promote import EVOLVE, promote
from rover.ops.repair import RepairRequest, repair_with
from rover.ops.run import RunRequest, policy_of, run
from rover.repair.fcr import letters
from rover.repair.history import siblings
from rover.repair.intent import is_admitted
from rover.rollout.engine import Engine
from rover.rollout.env import load_env
from rover_store.cases import case_json
from rover_store.errors import HarnessError, NotFound, PackageError, ProviderError, SandboxError, UsageError
from rover_store.history.ancestry import first_parents
from rover_store.ids import digest
from rover_store.records import Repair

if TYPE_CHECKING:
    from rover.policy.protocol import Policy
    from rover.sandbox.protocol import Runtime
    from rover_store.layout import PackageEntry
    from rover_store.store import Store

#: (generation, what is done, how many packages of it are done, of how many)
Tell = Callable[[int, str, int, int], None]
#: outcomes that say something of a task; errors of sandbox and verifier leave the count
_COUNTED = ("passed", "failed", "policy_error")
#: so many packages in a row that the infrastructure fails end a run: the server or the sandbox is gone
GIVE_UP = 3
#: verdicts that another look may change though nothing of the package did
_OPEN = ("infrastructure", "unreadable")


@dataclass(frozen=True)
class EvolveRequest:
    """What to evolve and how. `attempts`: rollouts of the policy for each package; None is no bound."""

    pattern: str = "*"
    generations: int = 3
    policy: str = "solver"
    attempts: int = 1
    seed: int = 0
    max_rollouts: int | None = None
    max_tokens: int | None = None
    promote: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    models: Sequence[Policy] = ()  # replayed in repairs
    command: str = "evolve"


@dataclass(frozen=True)
class EvolveReport:
    """The run as it ended. `promoted`: the commit that the user's branch moved to. `resumed`: it had begun before."""

    run: Run
    promoted: str = ""
    resumed: bool = False
    not_promoted: str = ""  # why it was asked for and not done


def evolve(
    store: Store,
    runtime: Runtime,
    request: EvolveRequest,
    *,
    workers: int = 1,
    tell: Tell = lambda generation, what, done, total: None,
) -> EvolveReport:
    """Evolve the packages of the current branch.

    UsageError for a detached HEAD, a glob without packages, bounds of zero, and a policy that fits no package.
    """
    branch = _checked(store, request)
    start = store.resolve("HEAD")
    name = digest([branch, start, request.pattern, request.policy, request.attempts, request.seed])[:12]
    journal = Journal(store, name)
    with journal.held():
        known = journal.read()
        state = known or Run(name, branch, start)
        _Evolution(store, runtime, request, journal, state, workers, tell).go()
        promoted, why = _promoted(store, request, state)
    return EvolveReport(state, promoted, known is not None, why)


def _checked(store: Store, request: EvolveRequest) -> str:
    """The branch it begins on."""
    branch = store.current_branch()
    if branch is None:
        raise UsageError("HEAD is detached; switch to the branch that is to be evolved")
    for option, bound in (
        ("--generations", request.generations), ("--max-rollouts", request.max_rollouts),
        ("--max-tokens", request.max_tokens), ("-k", request.attempts),
    ):  # fmt: skip
        if bound is not None and bound < 1:
            raise UsageError(f"{option} must be at least 1")
    fitting(store, request, "HEAD")
    return branch


def fitting(store: Store, request: EvolveRequest, commit: str) -> tuple[list[str], dict[str, str]]:
    """Packages that can be read and that the policy makes sense for; and the others, with why not."""
    entries = store.packages(commit, request.pattern)
    if not entries:
        raise UsageError(f"no package of {commit} matches {request.pattern!r}", hint="`rover list` shows all names")
    asked = RunRequest(request.pattern, request.policy, options=dict(request.options))
    fit: list[str] = []
    unfit: dict[str, str] = {}
    for entry in entries:
        try:
            load_env(store, entry.tree)
            policy_of(store, entry, asked)
            fit.append(entry.name)
        except (PackageError, UsageError) as error:
            unfit[entry.name] = error.message
    if not fit:
        raise UsageError(f"{request.policy} fits no package: {next(iter(unfit.values()))}")
    return fit, unfit


def _promoted(store: Store, request: EvolveRequest, state: Run) -> tuple[str, str]:
    if not request.promote:
        return "", ""
    last = next((g for g in reversed(state.generations) if g.head), None)
    if last is None or last.head == state.start:
        return "", "nothing changed"
    try:
        return promote(store, last.branch, command=request.command).commit, ""
    except (UsageError, NotFound) as error:
        return "", error.message


@dataclass
class _Evolution:
    store: Store
    runtime: Runtime
    request: EvolveRequest
    journal: Journal
    state: Run
    workers: int
    tell: Tell
    broken: int = 0  # packages in a row that the infrastructure failed

    def go(self) -> None:
        """Generation after generation, until a rule stops it."""
        if self.state.stopped and not self._may_go_on():
            return
        self.state.stopped = ""
        while not self.state.stopped:
            generation = self._begun()
            if generation is None:
                self.state.stopped = f"{self.request.generations} generations are done"
            elif spent := self._generation(generation):
                self.state.stopped = spent
            else:
                self.state.stopped = _rule(generation)
            self.journal.write(self.state)

    def _may_go_on(self) -> bool:
        """Whether what stopped it was a bound that may be wider by now."""
        return self.state.stopped.startswith("the budget") or self.state.stopped.endswith("generations are done")

    def _begun(self) -> Generation | None:
        """The generation that is under way, or the next one; None where all are done."""
        made = self.state.generations
        if made and not made[-1].head:
            return made[-1]
        if len(made) >= self.request.generations:
            return None
        made.append(Generation(len(made) + 1, _free(self.store), self.state.head))
        if len(made) > 1:
            made[-1].before = dict(made[-2].after)
        self.journal.write(self.state)
        return made[-1]

    def _generation(self, now: Generation) -> str:
        """All steps of one generation that are not done yet. Returns which budget is spent, empty where none is."""
        self._branch(now)
        now.before = now.before or self._run(now, now.base)
        self.journal.write(self.state)
        spent = self._treat(now)
        if not spent:
            tip = self.store.branches()[now.branch]
            now.after = dict(now.before) if tip == now.base else self._run(now, tip)
            now.head = tip
        self.journal.write(self.state)
        return spent

    def _branch(self, now: Generation) -> None:
        """Its branch, made where it is not there yet. Another run may have taken the name meanwhile."""
        there = self.store.branches().get(now.branch)
        if now.made and there is None:
            raise NotFound("branch", now.branch, hint="`rover undo` brings it back; this generation stands on it")
        if now.made:
            return
        if there not in (None, now.base):
            now.branch, there = _free(self.store), None
            self.journal.write(self.state)
        if there is None:
            self.store.create_branch(now.branch, now.base, command=self.request.command)
        now.made = True
        self.journal.write(self.state)

    # --- run ---------------------------------------------------------------------------------------------
    def _run(self, now: Generation, commit: str) -> dict[str, Score]:
        """The policy on every package that it fits, at a commit."""
        fit, self.state.unfit = fitting(self.store, self.request, commit)
        asked = RunRequest(
            self.request.pattern, self.request.policy, self.request.attempts, self.request.seed, commit,
            options=dict(self.request.options), names=frozenset(fit),
        )  # fmt: skip
        report = run(
            self.store, self.runtime, asked, workers=self.workers,
            told=lambda row, done, total: self.tell(now.number, f"run {row.package}", done, total),
        )  # fmt: skip
        now.rollouts_run += len(report.rows) - report.reused
        now.rollouts_reused += report.reused
        now.tokens += sum(row.tokens for row in report.rows if not row.reused)
        out = {}
        for name in fit:
            outcomes = [r.outcome for r in report.rows if r.package == name and r.outcome in _COUNTED]
            out[name] = Score(outcomes.count("passed"), len(outcomes))
        return out

    # --- diagnose and repair -----------------------------------------------------------------------------
    def _treat(self, now: Generation) -> str:
        """Diagnose and repair every package, one after the other: a repair may change what the next one shares."""
        entries = self.store.packages(_ref(now), self.request.pattern)
        with Engine(self.runtime, self.store.evidence, self.workers) as engine:
            for number, entry in enumerate(entries):
                if entry.name in now.treated:
                    continue
                self.tell(now.number, f"diagnose {entry.name}", number, len(entries))
                done = self._carried(now, entry) or self._landed(now, entry.name)
                if done is None:
                    if spent := self._spent():
                        return spent
                    done = self._repaired(now, entry.name, engine)
                now.treated[entry.name] = done
                self.journal.write(self.state)
        return ""

    def _carried(self, now: Generation, entry: PackageEntry) -> Treated | None:
        """What the last generation found, where nothing that it looked at has changed.

        A defect that could not be repaired is looked at again once a package changed that shares a resource: its
        repair may be proposed here too.
        """
        if now.number == 1:
            return None
        last = self.state.generations[now.number - 2]
        before = last.treated.get(entry.name)
        if before is None or before.repaired or before.verdict in _OPEN:
            return None
        if before.tree != self._seen(entry.name, _ref(now)):
            return None
        if before.triggered and set(last.changed) & self._beside(entry, now):
            return None
        return replace(before, carried=True)

    def _beside(self, entry: PackageEntry, now: Generation) -> set[str]:
        """Packages that share a resource with this one."""
        env = load_env(self.store, entry.tree)
        found = siblings(self.store, entry.name, env.resources, _ref(now))
        return {name for names in found.values() for name in names}

    def _landed(self, now: Generation, name: str) -> Treated | None:
        """A repair that was committed before an interrupt, and not yet written down."""
        cases = self.store.cases()
        for commit in first_parents(self.store, _ref(now)):
            if commit.id == now.base:
                return None
            case = commit.trailers.get("Rover-Case", "")
            if case in cases:
                record = Repair.load(case_json(self.store, case, cases[case]), f"case {case}")
                if record.package == name and record.promoted == commit.id:
                    return self._admitted(now, treated(self._seen(name, record.parent), record, case))
        return None

    def _seen(self, name: str, rev: str) -> str:
        """A package as a diagnosis sees it: its tree, and the resources that it binds."""
        entry = self.store.package(name, rev)
        present = self.store.resources(rev)
        try:
            bound = [f"{r.kind}/{r.name}" for r in load_env(self.store, entry.tree).context.resources]
        except PackageError:
            bound = []
        return digest([entry.tree, [[r, present.get(r, "")] for r in sorted(bound)]])

    def _repaired(self, now: Generation, name: str, engine: Engine) -> Treated:
        seen = self._seen(name, _ref(now))
        request = RepairRequest(
            name, seed=self.request.seed, models=self.request.models, command=self.request.command, branch=now.branch
        )
        try:
            report = repair_with(
                self.store, engine, request, lambda text: self.tell(now.number, f"repair {name}: {text}", 0, 0)
            )
        except PackageError as error:
            return Treated(name, seen, "unreadable", "kept", error.message)
        except (SandboxError, ProviderError, HarnessError) as error:
            self.broken += 1
            if self.broken >= GIVE_UP:
                raise
            return Treated(name, seen, "infrastructure", "undecided", error.message)
        self.broken = 0
        now.rollouts_run += report.rollouts_run
        now.rollouts_reused += report.rollouts_reused
        return self._admitted(now, treated(seen, report.repair, report.case))

    def _admitted(self, now: Generation, done: Treated) -> Treated:
        """The row with whether the repaired package passed the admission test; None where it has none."""
        if not done.repaired:
            return done
        env = load_env(self.store, self.store.package(done.package, _ref(now)).tree)
        return replace(done, admitted=True if is_admitted(env) else None)

    def _spent(self) -> str:
        """Which budget is used; empty where none is."""
        most, tokens = self.request.max_rollouts, self.request.max_tokens
        if most is not None and self.state.rollouts_run >= most:
            return f"the budget is used: {self.state.rollouts_run} rollouts were run, {most} are allowed"
        if tokens is not None and self.state.tokens >= tokens:
            return f"the budget is used: {self.state.tokens} tokens, {tokens} are allowed"
        return ""


def _ref(now: Generation) -> str:
    return f"refs/heads/{now.branch}"


def treated(seen: str, record: Repair, case: str) -> Treated:
    """A case as a row of its generation."""
    asked = next((g for g in record.confirmation if g.gate == "audit"), None)
    audited = None if asked is None or (asked.passed and not asked.evidence) else asked.passed
    chosen = next((c for c in record.candidates if c.mask == record.selected), None)
    return Treated(
        package=record.package,
        tree=seen,
        verdict=record.diagnosis.verdict,
        outcome=record.outcome,
        reason=record.reason,
        case=record.case if case else "",
        edits=letters(chosen.mask) if chosen else "",
        joint=record.joint,
        changed=chosen.changed if chosen else (),
        audited=audited,
    )


def _rule(now: Generation) -> str:
    """The rule that ends the run after a generation; empty where it goes on."""
    failed = sum(t.verdict == "infrastructure" for t in now.treated.values())
    if not now.triggered and not failed:
        return "no trigger is left"
    if now.head == now.base and not failed:
        return "nothing changed in this generation"
    return ""


def _free(store: Store) -> str:
    """The next number that no branch of an evolution has."""
    numbers = [name.removeprefix(EVOLVE) for name in store.branches() if name.startswith(EVOLVE)]
    return f"{EVOLVE}{1 + max((int(n) for n in numbers if n.isascii() and n.isdigit()), default=0)}"
