"""Probes of packages whose verifier is a program. The task's own solution is run, and its work held against request,
workspace and tests; what is found is confirmed by a run or by a grading."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rover.construct.solved import demanded
from rover.diagnose.probes.fickle import fickle
from rover.diagnose.probes.workspace import alike_in
from rover.diagnose.program_names import Odd, odd_names
from rover.diagnose.protocol import ProbeContext
from rover.diagnose.runs import Run, with_room
from rover.policy.named import below, named_paths
from rover.policy.solution import SCRIPT, WHERE
from rover.rollout.env import Env, env_from_files
from rover.rollout.records import EndState
from rover.sandbox.protocol import Files
from rover_store.ids import ComponentName, blob_id
from rover_store.records import Finding
from rover_store.records.components import ContextFile

#: shorter content is found twice by chance
LEAST = 40
#: gradings of one state, the first included
REPEATS = 3
#: files of the start that are tried without
MOST_TRIED = 8
_GONE = re.compile(
    r"No such file or directory: ['\"]([^'\"\n]+)['\"]|(?:^|[\s:'\"])([\w.@+/-]+)['\"]?: No such file or directory"
    r"|cannot (?:open|access|stat) ['\"]?([\w.@+/-]+)|can't open file ['\"]([^'\"\n]+)['\"]",
    re.MULTILINE,
)
_LIMITS = {
    "wall": "wall_s", "cpu": "cpu_s", "memory": "memory_bytes", "disk": "disk_bytes", "output": "output_bytes",
}  # fmt: skip


class _OfPrograms:
    """A probe that has nothing to say of other packages."""

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        return self.found(ctx) if ctx.env.verifier.program is not None else ()

    def found(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        raise NotImplementedError


class OwnSolution(_OfPrograms):
    """The program can judge the work of the package's own solution."""

    name = "own_solution"
    written_for = frozenset({"verifier_crash"})
    cost = 2

    def found(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        run = ctx.runs.demonstrator
        if run is None or run.verdict.outcome != "verifier_error":
            return ()
        text = f"the verifier gives no mark on the work of the package's own solution: {run.verdict.reason[:200]}"
        return (_finding(self.name, "verifier_crash", text, ("verifier",), run.id, subject="reward"),)


class SolutionInputs(_OfPrograms):
    """Every file of the workspace that the solution reads is there."""

    name = "solution_inputs"
    written_for = frozenset({"missing_input", "misnamed_input"})
    cost = 2

    def found(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        run, env = ctx.runs.demonstrator, ctx.env
        if run is None:
            return ()
        out = []
        for path in missing_inputs(env, _failures(run)):
            like = alike_in(env, path)
            what = f"it lies there as {like}" if like else "it is not in the workspace"
            text = f"the package's own solution fails, since it reads {path}: {what}"
            kind = "misnamed_input" if like else "missing_input"
            found = _finding(self.name, kind, text, ("context", "task"), run.id, subject=path, path=path)
            out.append(found.model_copy(update={"details": {**found.details, "found": like}}) if like else found)
        return tuple(out)


class SolutionRoom(_OfPrograms):
    """The limits leave room for the package's own solution."""

    name = "solution_room"
    written_for = frozenset({"limits_too_tight", "budget_too_small"})
    cost = 2

    def found(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        run = ctx.runs.demonstrator
        if run is None or run.verdict.outcome == "infra_error":
            return ()
        limit = next((name for name in _LIMITS if f'"limit": "{name}"' in _failures(run)), "")
        if run.end == "completed" and not limit:
            return ()
        wide = ctx.runs.solve(with_room(ctx.env))
        if wide is None or wide.end != "completed" or _failures(wide):
            return ()
        ids = (run.id, wide.id)
        if limit:
            text = f"the package's own solution breaks the limit on {limit}, and comes to its end where there is more"
            details = {"subject": limit, "limit": _LIMITS[limit]}
            return (_finding(self.name, "limits_too_tight", text, ("harness",), *ids, **details),)
        text = f"the package's own solution does not come to its end within the budget: {run.error[:120]}"
        return (_finding(self.name, "budget_too_small", text, ("harness",), *ids, subject="budget", limit="seconds"),)


class DeliverableNames(_OfPrograms):
    """Request, solution and tests call the files that are to be made by one name."""

    name = "deliverable_names"
    written_for = frozenset({"renamed_deliverable", "missing_given", "unsound_reference"})
    cost = 2

    def found(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        run = ctx.runs.demonstrator
        if run is None or run.end != "completed" or run.verdict.outcome == "infra_error":
            return ()
        names = odd_names(ctx.env, dict(run.result.end))
        return tuple(f for odd in names for f in self._finding(ctx, run, odd))

    def _finding(self, ctx: ProbeContext, run: Run, odd: Odd) -> Iterator[Finding]:
        passed, end = run.verdict.outcome == "passed", run.result.end
        if odd.who == "task" and passed and not _passes(ctx, _moved(end, odd.path, odd.found)):
            text = f"the request asks for {odd.found}; solution and tests have {odd.path}, and reject the other name"
            yield self._named("renamed_deliverable", text, ("task", "verifier"), run, odd)
        elif odd.who == "unsaid" and passed and not _passes(ctx, _moved(end, odd.path, f"{odd.path}.other")):
            text = f"the request does not say where the result has to go: solution and tests have {odd.path}"
            found = self._named("missing_given", text, ("task",), run, odd)
            yield found.model_copy(update={"details": {**found.details, "value": odd.path, "stated_in": "instruction"}})
        elif odd.who == "verifier" and not passed and _passes(ctx, end.changed({odd.found: end.manifest[odd.path]})):
            text = f"the tests read {odd.found}; request and solution have {odd.path}"
            yield self._named("renamed_deliverable", text, ("verifier", "task"), run, odd)
        elif odd.who == "solution" and not passed:
            text = f"the solution writes {odd.found}; request and tests have {odd.path}"
            yield self._named("unsound_reference", text, ("verifier",), run, odd)

    def _named(
        self, kind: str, text: str, components: tuple[ComponentName, ...], run: Run, odd: Odd
    ) -> Finding:
        return _finding(
            self.name, kind, text, components, run.id, subject=odd.path, path=odd.path, found=odd.found
        )


class LeftOver(_OfPrograms):
    """What is to be made is not there yet: the start does not pass for a file that the solution makes by itself."""

    name = "left_over"
    written_for = frozenset({"leftover_output"})
    cost = 2

    def found(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        env = ctx.env
        if ctx.runs.start_verdict.outcome != "passed":
            return ()
        named = [p for p in named_paths(env.instruction, env.workdir) if f"context/files/{p}" in env.files]
        for path in named[:MOST_TRIED]:
            if _passes(ctx, {p: d for p, d in env.start.items() if p != path}):
                continue
            again = ctx.runs.solve(without(env, path))
            if again is not None and again.verdict.outcome == "passed" and path in again.result.end:
                text = f"{path}, which is to be made, lies in the workspace already, and passes as it is"
                return (
                    _finding(self.name, "leftover_output", text, ("context",), again.id, subject=path, path=path),
                )
        return ()


class AnswerInView(_OfPrograms):
    """What the solution finds out stands in no file that the request does not point to; nor do solution and tests."""

    name = "answer_in_view"
    written_for = frozenset({"leaked_answer", "verifier_readable"})
    cost = 2

    def found(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        env, run = ctx.env, ctx.runs.demonstrator
        out = []
        scripts = dict(_scripts(env))
        for path, data in env.start.items():
            if (own := scripts.get(blob_id(data))) is not None:
                text = f"{path} is open to the policy and is the same as {own}"
                out.append(_finding(self.name, "verifier_readable", text, ("context",), path, subject=path, path=path))
        if run is None or run.end != "completed":
            return tuple(out)
        end = dict(run.result.end)
        named = set(named_paths(env.instruction, env.workdir))
        answers = {p: _bare(end[p]) for p in demanded(env, end) if p not in env.start}
        for path, data in env.start.items():
            body = _bare(data) if path not in named else b""
            held = next((p for p, answer in answers.items() if len(answer) >= LEAST and answer in body), "")
            if held:
                text = f"{path} holds what {held} is to say"
                found = _finding(self.name, "leaked_answer", text, ("context",), run.id, subject=path, path=path)
                out.append(found)
        return tuple(out)


class GradedAgain(_OfPrograms):
    """Graded again, start and solution get the same marks."""

    name = "graded_again"
    written_for = frozenset({"flaky_verifier"})
    cost = 2

    def found(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        states = [ctx.env.start]
        if (run := ctx.runs.demonstrator) is not None and run.end == "completed":
            states.append(run.result.end)
        for state in states:
            grade = ctx.engine.grade_state
            seen = [grade(ctx.env, state), *(grade(ctx.env, state, fresh=True) for _ in range(REPEATS - 1))]
            marks = [{s.criterion: s.score for s in v.scores if s.status == "scored"} for v in seen]
            moved = sorted({c for mark in marks for c, score in mark.items() if any(m.get(c) != score for m in marks)})
            if moved:
                return (fickle(self.name, ctx.env, "chance", moved),)
        return ()


def missing_inputs(env: Env, said: str) -> list[str]:
    """Files of the workspace that a failed run looked for and that are not there."""
    words = [next(g for g in groups if g) for groups in _GONE.findall(said)]
    known = set(named_paths(env.instruction, env.workdir))
    script = env.files.get(f"{WHERE}{SCRIPT}", b"").decode("utf-8", "replace")
    out = []
    for word in words:
        path = below(word, env.workdir) if word.startswith("/") else word.removeprefix("./")
        if path and path not in env.start and not path.startswith("../") and (path in known or path in script):
            out.append(path)
    return list(dict.fromkeys(out))


def without(env: Env, path: str) -> Env:
    """The package without one file of its own workspace."""
    listed: tuple[ContextFile, ...] = tuple(f for f in env.context.files if f.path != path)
    context = env.context.model_copy(update={"files": listed})
    files = {p: d for p, d in env.files.items() if p != f"context/files/{path}"}
    return env_from_files({**files, "context/context.json": context.dump()}, env.resources)


def _passes(ctx: ProbeContext, state: Files) -> bool:
    return ctx.engine.grade_state(ctx.env, state).outcome == "passed"


def _moved(end: EndState, old: str, new: str) -> EndState:
    return end.changed({old: None, new: end.manifest[old]})


def _failures(run: Run) -> str:
    """What the calls that failed said, a line each."""
    calls = [c for turn in run.result.trajectory.turns for c in turn.calls if c.status == "error"]
    return "\n".join(c.output.replace("\\n", "\n").replace('\\"', '"') for c in calls)


def _scripts(env: Env) -> Iterator[tuple[str, str]]:
    """Blob and name of each script of the tests and of the solution."""
    assert env.verifier.program is not None
    folder = f"verifier/{env.verifier.program.files.strip('/')}/"
    for path, data in env.files.items():
        if path.startswith((folder, WHERE)) and path.endswith((".sh", ".py")) and len(data.strip()) >= LEAST:
            yield blob_id(data), path


def _bare(data: bytes) -> bytes:
    return b" ".join(data.split())


def _finding(
    probe: str, kind: str, text: str, components: tuple[ComponentName, ...], *evidence: str, **details: object
) -> Finding:
    return Finding(
        probe=probe, kind=kind, message=text, components=components, evidence=evidence, details=dict(details)
    )
