"""The tool loop: one policy, one box, one rollout; what comes out is a trajectory, whatever went wrong.

Error model. The policy's faults end the rollout as `policy_error`: a budget used up, no plan, call after call
that no tool takes. Faults of the sandbox, of a model server or of this loop end it as `infra_error`. A tool
that refuses or fails is an output, and the rollout goes on. Only an interrupt, or `Stopped`, leaves `play`.

The clock is passed in; what it says bounds the rollout and is never stored.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rover.harness import manifest as m
from rover.harness import mcp
from rover.harness.arguments import unstorable
from rover.harness.manifest import Manifest
from rover.harness.mcp.servers import Servers
from rover.harness.tools.specs import WRITERS, argument_error, offered
from rover.policy.protocol import MALFORMED, Action, OutOfTime, Policy, PolicyFailure, PolicyView, Session, ToolSpec
from rover.sandbox.protocol import Sandbox
from rover_store.errors import HarnessError, ProviderError, RoverError, SandboxError
from rover_store.records import Call, Harness, Limits, RolloutKey, ToolCall, Trajectory, Turn, Usage
from rover_store.trees import tree_id

Clock = Callable[[], float]
End = Literal["completed", "policy_error", "infra_error"]

#: so many calls in a row that no tool takes end a rollout
MALFORMED_IN_A_ROW = 20


class Stopped(Exception):  # a request from outside, not an error
    """The caller asked to stop; the rollout is dropped."""


@dataclass(frozen=True, slots=True)
class Job:
    """What one rollout runs on. `start` is the workspace that the box holds when it begins."""

    key: RolloutKey
    package: str
    instruction: str
    harness: Harness
    start: Manifest
    start_tree: str
    #: paths of the deliverables; handed to attackers alone
    targets: tuple[str, ...] = ()
    #: files that the harness brings for its tool servers
    carried: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Played:
    """A rollout as it was played: the record, the trees of its turns, and the bytes that no start file holds."""

    trajectory: Trajectory
    trees: dict[str, Manifest]
    blobs: dict[str, bytes]
    end: Manifest
    #: an infra_error since an agent was killed, by whom nobody knows for certain
    killed: bool = False


def play(
    box: Sandbox,
    policy: Policy,
    job: Job,
    *,
    clock: Clock,
    stop: Callable[[], bool] = lambda: False,
    opened: Callable[[Session], None] = lambda session: None,
) -> Played:
    """Run one rollout in a box that holds the start state.

    `stop` is asked between turns; `opened` gets the session, so that a caller can close it from elsewhere.
    """
    return _Rollout(box, job, clock, stop).run(policy, opened)


class _OutOfBudget(PolicyFailure):
    """A budget is used up."""


class _Rollout:
    """The state of one rollout while it is played."""

    def __init__(self, box: Sandbox, job: Job, clock: Clock, stop: Callable[[], bool]) -> None:
        self.box = box
        self.job = job
        self.clock = clock
        self.stop = stop
        self.budget = job.key.budget
        self.ends_at = clock() + self.budget.seconds
        self.now = job.start
        self.tree = job.start_tree
        self.trees: dict[str, Manifest] = {job.start_tree: job.start}
        self.blobs: dict[str, bytes] = {}
        self.irregular: dict[str, str] = {}
        self.turns: list[Turn] = []
        self.usage = Usage()
        self.malformed = 0
        self.servers: Servers | None = None
        self.names = job.harness.tools  # of all tools offered

    def run(self, policy: Policy, opened: Callable[[Session], None]) -> Played:
        tools = offered(self.job.harness.tools)
        session: Session | None = None
        try:
            tools += self._serve()
            self.names = tuple(tool.name for tool in tools)
            view = PolicyView(self.job.instruction, tools, self.job.targets if policy.attacker else ())
            session = policy.start(view, self.job.key.seed)
            opened(session)
            message = self._turns(session)
            return self._played("completed", message=message)
        except PolicyFailure as error:
            return self._played("policy_error", error=str(error))
        except (SandboxError, ProviderError, HarnessError) as error:
            return self._played("infra_error", error=f"{type(error).__name__}: {error.message}")
        except Stopped:
            raise
        except Exception as error:  # a fault of a policy's code or of ours is never the agent's failure
            return self._played("infra_error", error=f"HarnessError: {_described(error)}")
        finally:
            if self.servers is not None:
                self.servers.close()
            if session is not None:
                session.close()

    def _serve(self) -> tuple[ToolSpec, ...]:
        """Start the harness's tool servers, where it has any, and say what they offer. The budget begins after it."""
        if not mcp.started(self.job.harness):
            return ()
        self.servers = Servers(self.box, self.job.harness, self.job.carried, self.budget.seconds)
        self._snapshot()  # what they write as they start is no call's doing
        self.ends_at = self.clock() + self.budget.seconds
        return self.servers.specs

    def _turns(self, session: Session) -> str:
        """Play turns until the policy is done; its last message."""
        results: tuple[Call, ...] = ()
        while True:
            if self.stop():
                raise Stopped
            try:
                action = session.act(results, deadline_s=self._left())
            except OutOfTime:
                raise self._out_of_seconds() from None
            self._count(action.usage)
            message = _storable_text(action.message)
            if not action.calls:
                self._settle()
                self._record(action, message, ())
                return message
            if len(self.turns) >= self.budget.turns:
                raise _OutOfBudget(f"the budget of {self.budget.turns} turns is used up")
            results = self._play_calls(action, message)

    def _settle(self) -> None:
        """Let tool servers end before the end state is taken: some write only then."""
        if self.servers is not None:
            self.servers.end()
            self._snapshot()

    def _play_calls(self, action: Action, message: str) -> tuple[Call, ...]:
        done: list[Call] = []
        try:
            for call in action.calls:
                done.append(self._call(call))
                self._left()
        finally:
            self._record(action, message, tuple(done))
        return tuple(done)

    def _record(self, action: Action, message: str, calls: tuple[Call, ...]) -> None:
        turn = Turn(
            index=len(self.turns), message=message, calls=calls, tree=self.tree, usage=action.usage,
            tokens=action.tokens,
        )  # fmt: skip
        self.turns.append(turn)

    def _left(self) -> float:
        left = self.ends_at - self.clock()
        if left <= 0:
            raise self._out_of_seconds()
        return left

    def _out_of_seconds(self) -> _OutOfBudget:
        return _OutOfBudget(f"the budget of {self.budget.seconds:g} seconds is used up")

    def _count(self, used: Usage) -> None:
        self.usage = Usage(
            prompt_tokens=self.usage.prompt_tokens + used.prompt_tokens,
            completion_tokens=self.usage.completion_tokens + used.completion_tokens,
        )
        if self.usage.prompt_tokens + self.usage.completion_tokens > self.budget.tokens:
            raise _OutOfBudget(f"the budget of {self.budget.tokens} tokens is used up")

    # --- one call ----------------------------------------------------------------------------------------
    def _call(self, call: ToolCall) -> Call:
        call, problem = self._checked(call)
        if problem:
            self.malformed += 1
            if self.malformed >= MALFORMED_IN_A_ROW:
                raise PolicyFailure(f"{self.malformed} malformed calls in a row, the last: {problem}")
            return Call(id=call.id, tool=call.tool, arguments=call.arguments, status="error", output=problem)
        self.malformed = 0
        before = self.now
        limits = self._limits()
        served = self._served(call.tool)
        if served is not None:
            answer = self._ask(served, call, limits)
        else:
            answer = self._shell(call, limits) if call.tool == "shell" else self._tool(call, limits)
        if served is not None or call.tool in WRITERS:
            self._snapshot()
        changed = m.changes(before, self.now)
        paths = {a.path for a in changed}
        again = tuple(m.artifact(p, self.now) for p in answer["writes"] if p in self.now and p not in paths)
        return Call(
            id=call.id,
            tool=call.tool,
            arguments=call.arguments,
            status=answer["status"],
            output=answer["output"],
            truncated=answer["truncated"],
            reads=tuple(m.artifact(p, before) for p in answer["reads"] if p in before),
            writes=changed + again,
        )

    def _checked(self, call: ToolCall) -> tuple[ToolCall, str]:
        """The call as it can be stored, and why no tool takes it (empty where one does)."""
        clean = ToolCall(id=_storable_text(call.id), tool=_storable_text(call.tool), arguments=call.arguments)
        problem = unstorable(call.arguments)
        if problem:
            return clean.model_copy(update={"arguments": {}}), problem
        served = self._served(call.tool)
        if served is None and call.tool not in self.job.harness.tools:
            return clean, f"no tool is called {clean.tool!r}; offered: {', '.join(self.names)}"
        if MALFORMED in call.arguments:
            return clean, f"{call.tool}: the arguments are not a JSON object"
        check = argument_error if served is None else served.argument_error
        problem = check(call.tool, call.arguments)
        return clean, f"{call.tool}: bad arguments: {problem}" if problem else ""

    def _served(self, tool: str) -> Servers | None:
        """The servers, where the tool is one of theirs."""
        return self.servers if self.servers is not None and tool in self.servers else None

    def _limits(self) -> Limits:
        limits = self.job.harness.limits
        left = self._left()
        return limits if left >= limits.wall_s else limits.model_copy(update={"wall_s": left})

    def _tool(self, call: ToolCall, limits: Limits) -> dict[str, Any]:
        payload = {"tool": call.tool, "arguments": call.arguments, "output_bytes": limits.output_bytes}
        result = self.box.call(_entry(call.arguments), payload, limits=limits)
        if result.breach == "cancelled":
            raise SandboxError("the box was closed meanwhile")
        if result.error or not isinstance(result.value, dict):
            # a workspace that no tool can cope with is the policy's doing: an output, not an infra_error
            reason = f"limit reached: {result.breach}" if result.breach else result.error or "no answer"
            output = _storable_text(f"{call.tool} failed: {reason}")
            return {"status": "error", "output": output, "truncated": False, "reads": [], "writes": []}
        return result.value

    def _ask(self, servers: Servers, call: ToolCall, limits: Limits) -> dict[str, Any]:
        """Call a server's tool. It reads the files that its arguments name; what it writes is seen afterwards."""
        answer = servers.call(call.tool, call.arguments, limits)
        reads = sorted({path for path in map(_path, _texts(call.arguments)) if path in self.now})
        return {**answer, "output": _storable_text(answer["output"]), "reads": reads, "writes": []}

    def _shell(self, call: ToolCall, limits: Limits) -> dict[str, Any]:
        command = call.arguments["command"]
        if "\0" in command:
            output, status, truncated = "shell: a command cannot hold a NUL byte", "error", False
        else:
            argv, stdin = _shell_words(command)
            done = self.box.run(argv, stdin=stdin, limits=limits)
            if done.breach == "cancelled":
                raise SandboxError("the box was closed meanwhile")
            said: dict[str, Any] = {
                "exit_code": done.exit_code,
                "stdout": done.stdout.decode("utf-8", "replace"),
                "stderr": done.stderr.decode("utf-8", "replace"),
            }
            if done.breach:
                said["limit"] = done.breach
            output = json.dumps(said, ensure_ascii=False)
            status = "ok" if done.exit_code == 0 and not done.breach else "error"
            truncated = done.breach == "output"
        reads = list(m.named_in(command, self.now))
        return {"status": status, "output": output, "truncated": truncated, "reads": reads, "writes": []}

    def _snapshot(self) -> None:
        snapshot = self.box.snapshot()
        self.blobs.update(snapshot.new)
        now, self.irregular = m.of_snapshot(snapshot)
        if now != self.now:
            self.now = now
            self.tree = tree_id(now)
            self.trees[self.tree] = now

    def _played(self, end: End, *, message: str = "", error: str = "") -> Played:
        trajectory = Trajectory(
            key=self.job.key,
            package=self.job.package,
            start=self.job.start_tree,
            turns=tuple(self.turns),
            final_message=message,
            end=end,
            error=_storable_text(error)[:2000],
            usage=self.usage,
            irregular=self.irregular or None,
        )
        return Played(trajectory, self.trees, self.blobs, self.now)


def _entry(arguments: dict[str, Any]) -> str:
    """Where a tool runs: calls on workbooks come from a process that has openpyxl imported."""
    book = str(arguments.get("path", "")).lower().endswith((".xlsx", ".xlsm"))
    return "rover.harness.inside_books:tool" if book else "rover.harness.inside:tool"


def _storable_text(text: str) -> str:
    """Text without what UTF-8 cannot carry."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _texts(value: Any) -> Iterator[str]:
    """Every text in the arguments of a call, which are not nested deeply."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def _path(text: str) -> str:
    """A text as a path in the workspace, if it is one."""
    return posixpath.normpath(text.removeprefix("/w/"))


def _described(error: Exception) -> str:
    if isinstance(error, RoverError):
        return f"{type(error).__name__}: {error.message}"
    return f"{type(error).__name__}: {error}"


#: the kernel takes no longer argument (128 KiB with its end); a longer command goes through a file
_LONGEST_ARGUMENT = 100_000
_FROM_FILE = 'f=$(mktemp) && cat > "$f" && exec sh "$f" < /dev/null'


def _shell_words(command: str) -> tuple[list[str], bytes]:
    """How a shell command is started: its words and its standard input."""
    data = command.encode("utf-8", "surrogateescape")
    if len(data) <= _LONGEST_ARGUMENT:
        return ["sh", "-c", command], b""
    return ["sh", "-c", _FROM_FILE], data
