"""Playing a program: its command lives in the box, its requests to a model are turns; a trajectory comes out.

At each request the workspace is looked at while the program waits (its processes are held still), so that a turn has
the tree that its calls led to. One request is served at a time.

Error model, that of the loop: a budget used up, an agent that ends badly without a last word, or that breaks a limit,
is a `policy_error`, graded as it stands. So is a signal that ends the agent or its relay, which anything in the box may
send. All but SIGKILL: what could send that to either is closed (see relay.guard), so it came from outside, and is an
`infra_error`, as are the box, a model server, and a program that cannot even be started. Once a budget is used up the
agent is told so, asked to end, and ended.
"""

from __future__ import annotations

import base64
import contextlib
import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

from rover.harness import manifest as m
from rover.harness import mcp
from rover.harness.live import Gone, LiveAgent
from rover.harness.loop import Clock, End, Job, Played, Stopped
from rover.harness.manifest import Manifest
from rover.harness.relay.frames import Message
from rover.harness.transcript import Transcript, acts
from rover.policy import wire
from rover.policy.completion import Answer
from rover.policy.gateway import Gateway
from rover.policy.program import ProgramPolicy
from rover.policy.protocol import Action, OutOfTime, PolicyFailure, Session
from rover.policy.wire import Asked, Refused, Response
from rover.sandbox.protocol import Completed, Sandbox
from rover_store.errors import HarnessError, ProviderError, RoverError, SandboxError
from rover_store.records import Call, ProgramExit, Trajectory, Usage
from rover_store.trees import tree_id

#: what a program finds in a folder of its own
INSTRUCTION, SERVERS, CARRIED = "instruction.md", "mcp.json", "mcp"
#: what a program finds in place of the key, which never enters the box
KEY = "rover"
#: requests that are refused, beyond so many the agent is ended; seconds between looks at the clock
MOST_REFUSED, TICK = 200, 0.1
#: seconds beyond the budget that the command itself may last: to be told, and to end
OVERTIME = 15.0
#: seconds that an agent and its relay get to end
ENDING_S = 6.0
#: characters of what it printed last that are recorded, and that may stand for its last message
TAIL, LAST_MESSAGE = 4000, 4000
_SIGKILL = 9
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")


def play_program(
    box: Sandbox,
    policy: ProgramPolicy,
    job: Job,
    *,
    clock: Clock,
    stop: Callable[[], bool] = lambda: False,
    opened: Callable[[Session], None] = lambda session: None,
) -> Played:
    """Run one rollout of a program in a box that holds the start state. As `loop.play` otherwise."""
    rollout = _Rollout(box, policy, job, clock, stop)
    try:
        return rollout.run(opened)
    except Stopped:
        raise
    except Exception as error:  # not even its record could be made; the others of its run are not to be lost with it
        return rollout.unrecorded(error)


class _OutOfBudget(PolicyFailure):
    """A budget is used up."""


class _Killed(SandboxError):
    """The agent was ended by SIGKILL."""


class _Handle:
    """What a caller may close from elsewhere."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def act(self, results: tuple[Call, ...], *, deadline_s: float) -> Action:
        raise HarnessError("a program is not asked turn by turn")

    def close(self) -> None:
        self._gateway.close()


class _Rollout:
    """The state of one rollout while it is played."""

    def __init__(
        self, box: Sandbox, policy: ProgramPolicy, job: Job, clock: Clock, stop: Callable[[], bool]
    ) -> None:
        self.box = box
        self.policy = policy
        self.job = job
        self.clock = clock
        self.stop = stop
        self.budget = job.key.budget
        self.ends_at = clock() + self.budget.seconds
        self.now: Manifest = job.start
        self.trees: dict[str, Manifest] = {job.start_tree: job.start}
        self.tree = job.start_tree
        self.blobs: dict[str, bytes] = {}
        self.irregular: dict[str, str] = {}
        self.script = Transcript(job.start, job.start_tree, job.harness.limits.output_bytes)
        self.usage = Usage()
        self.refused = self.listed = 0
        self.exit: dict[str, Any] | None = None  # how the program ended, as the relay tells it
        self.done: Completed | None = None
        self.gateway = policy.gateway(job.key.seed)

    def run(self, opened: Callable[[Session], None]) -> Played:
        opened(_Handle(self.gateway))
        try:
            self._live()
            return self._played("completed", message=self._last_message())
        except PolicyFailure as error:
            return self._played("policy_error", error=str(error), message=self.script.last_words)
        except (SandboxError, ProviderError, HarnessError) as error:
            if self.stop():
                raise Stopped from None
            name = "SandboxError" if isinstance(error, _Killed) else type(error).__name__
            played = self._played("infra_error", error=f"{name}: {error.message}")
            return replace(played, killed=isinstance(error, _Killed))
        except Stopped:
            raise
        except Exception as error:  # a fault of ours is never the agent's failure
            said = error.message if isinstance(error, RoverError) else str(error)
            return self._played("infra_error", error=f"HarnessError: {type(error).__name__}: {said}")
        finally:
            self.gateway.close()

    def unrecorded(self, error: Exception) -> Played:
        """An infra_error without what was recorded."""
        said = _storable(f"HarnessError: {type(error).__name__}: {error}")[:2000]
        key, start = self.job.key, self.job.start_tree
        told = Trajectory(
            key=key, package=self.job.package, start=start, turns=(), final_message="", end="infra_error", error=said
        )
        return Played(told, {start: self.job.start}, {}, self.job.start)

    # --- the program's life --------------------------------------------------------------------------------------
    def _live(self) -> None:
        """Run it to its end; raises what became of it, where it is no good end."""
        limits = self.policy.limits(self.job.harness.limits, self.budget.seconds + OVERTIME)
        live = LiveAgent(self.box, self._config(), limits, ended=self.gateway.close)
        failure: PolicyFailure | None = None
        try:
            try:
                self._serve(live)
            except PolicyFailure as error:
                failure = error
                self._end(live, str(error))
            self.done = live.result()
        finally:
            live.close()
        if self.done.breach == "cancelled" and self.stop():
            raise Stopped
        if not live.lost:
            self._look()
        if failure is not None:
            raise failure
        self._judge(self.done)

    def _serve(self, live: LiveAgent) -> None:
        """Answer its requests until it has ended. PolicyFailure where it has to be ended."""
        while True:
            if self.stop():
                raise Stopped
            if self._left() <= 0:
                raise self._out_of_seconds()
            try:
                heard = live.hear(TICK)
            except Gone:
                if live.wait(TICK):
                    return
                continue
            if heard is not None:
                self._hear(live, heard)

    def _hear(self, live: LiveAgent, heard: Message) -> None:
        number = heard.head.get("id")
        if type(number) is not int:
            self._note_exit(heard)
        else:
            failure: PolicyFailure | None = None
            try:
                response = self._respond(heard)
            except PolicyFailure as error:
                failure, response = error, wire.refusal(403, str(error), "insufficient_quota")
            except ProviderError:
                if live.over():  # it ended meanwhile, and took its request along
                    return
                raise
            with contextlib.suppress(Gone):  # how its command ended says why
                live.answer(number, response.status, response.kind, response.body)
            if failure is not None:
                raise failure

    def _note_exit(self, heard: Message) -> None:
        end = heard.head.get("exit")
        if isinstance(end, dict):
            self.exit = end

    def _end(self, live: LiveAgent, reason: str) -> None:
        """End it: asked first, then killed by its relay, then with its box."""
        live.stop()
        ends = time.monotonic() + ENDING_S
        while time.monotonic() < ends and not live.over():
            try:
                heard = live.hear(TICK)
                number = heard.head.get("id") if heard is not None else None
                if type(number) is int:
                    over = wire.refusal(403, reason, "insufficient_quota")
                    live.answer(number, over.status, over.kind, over.body)
                elif heard is not None:
                    self._note_exit(heard)
            except Gone:
                live.wait(TICK)
        if not live.over():
            self._look()  # the relay does not obey: what stands there now is what there is
            live.close()

    # --- one request ---------------------------------------------------------------------------------------------
    def _respond(self, heard: Message) -> Response:
        try:
            asked = wire.read(str(heard.head.get("method")), str(heard.head.get("path")), heard.body)
            if asked is None:
                self.listed += 1
                if self.listed > MOST_REFUSED:
                    raise Refused(429, "the list of models does not change")
                return wire.models(self.policy.model)
            return self._turn(asked)
        except Refused as error:
            self.refused += 1
            if self.refused > MOST_REFUSED:
                raise PolicyFailure(f"{self.refused} requests that are none, the last: {error.message}") from None
            return wire.refusal(error.status, error.message, error.code)

    def _turn(self, asked: Asked) -> Response:
        """One turn: what the last one led to, and what the model says now."""
        self._look()
        self.script.asked(asked.messages)
        answer, body = self._asked(asked)
        self._count(answer.usage)
        if len(self.script) >= self.budget.turns and acts(answer):  # one more may be its last word, as in the loop
            raise self._out_of_turns()
        self.script.answered(answer, self.gateway.tokens_of(answer))
        return wire.answered(asked, body)

    def _asked(self, asked: Asked) -> tuple[Answer, bytes]:
        """The model's answer, where there are turns and seconds left for one."""
        if len(self.script) > self.budget.turns:
            raise self._out_of_turns()
        left = self._left()
        if left <= 0:
            raise self._out_of_seconds()
        try:
            return self.gateway.ask(asked, left, self.budget.seconds)
        except OutOfTime:
            raise self._out_of_seconds() from None

    def _count(self, used: Usage) -> None:
        self.usage = Usage(
            prompt_tokens=self.usage.prompt_tokens + used.prompt_tokens,
            completion_tokens=self.usage.completion_tokens + used.completion_tokens,
        )
        if self.usage.prompt_tokens + self.usage.completion_tokens > self.budget.tokens:
            raise _OutOfBudget(f"the budget of {self.budget.tokens} tokens is used up")

    def _look(self) -> None:
        """The workspace as it stands."""
        snapshot = self.box.snapshot()
        self.blobs.update(snapshot.new)
        now, self.irregular = m.of_snapshot(snapshot)
        if now != self.now:
            self.now, self.tree = now, tree_id(now)
            self.trees[self.tree] = now
        self.script.reached(self.now, self.tree)

    def _left(self) -> float:
        return self.ends_at - self.clock()

    def _out_of_seconds(self) -> _OutOfBudget:
        return _OutOfBudget(f"the budget of {self.budget.seconds:g} seconds is used up")

    def _out_of_turns(self) -> _OutOfBudget:
        return _OutOfBudget(f"the budget of {self.budget.turns} turns is used up")

    # --- its end -------------------------------------------------------------------------------------------------
    def _judge(self, done: Completed) -> None:
        """Raise where it did not end well."""
        if done.breach == "cancelled":
            raise SandboxError("the box was closed meanwhile")
        if done.breach is not None:
            raise PolicyFailure(f"limit reached: {done.breach}")
        end = self.exit
        if end is None:
            self._relay_died(done)
        if "failed" in end:
            where = "" if end.get("relay") else "the program cannot be started: "
            raise HarnessError(f"{where}{str(end['failed'])[:500]}")
        code, number = end.get("code"), end.get("signal")
        if number == _SIGKILL:
            raise _Killed("the agent was killed from outside")
        if code == 0 or self.script.last_words:
            return
        if self.gateway.unfit:
            raise ProviderError(f"{self.policy.server} refuses what the agent asks: {self.gateway.unfit}")
        how = f"exit code {code}" if number is None else f"signal {number}"
        said = " ".join(_plain(done.stderr or done.stdout).split())[-300:]
        raise PolicyFailure(f"the agent ended with {how}{': ' + said if said else ''}")

    def _relay_died(self, done: Completed) -> NoReturn:
        if done.exit_code == 128 + _SIGKILL:
            raise SandboxError("the agent's relay was killed from outside")
        if done.exit_code is not None and done.exit_code > 128:
            raise PolicyFailure(f"the agent's relay was ended by signal {done.exit_code - 128}")
        said = " ".join(_plain(done.stderr).split())[-300:]
        if done.exit_code == 127:
            raise HarnessError(f"an agent needs python3 in its box: {said}")
        raise HarnessError(f"the agent's relay ended with exit code {done.exit_code}: {said}")

    def _last_message(self) -> str:
        printed = _plain(self.done.stdout).strip() if self.done is not None else ""
        return self.script.last_words or printed[-LAST_MESSAGE:]

    def _played(self, end: End, *, message: str = "", error: str = "") -> Played:
        printed = (_plain(self.done.stdout), _plain(self.done.stderr)) if self.done is not None else ("", "")
        if self.done is not None:
            self.script.ran({"argv": list(self.policy.spec.argv)}, printed[0][-TAIL:])
        code = (self.exit or {}).get("code")
        trajectory = Trajectory(
            key=self.job.key,
            package=self.job.package,
            start=self.job.start_tree,
            turns=self.script.turns(),
            final_message=_storable(message),
            end=end,
            error=_storable(error)[:2000],
            usage=self.usage,
            irregular=self.irregular or None,
            program=ProgramExit(
                exit_code=code if type(code) is int else None,
                stdout=printed[0][-TAIL:],
                stderr=printed[1][-TAIL:],
                models=tuple(_storable(name) for name in self.gateway.models),
                refused=self.refused,
            ),
        )
        trajectory.dump()  # what cannot be stored is to be found here, not when all is written
        return Played(trajectory, self.trees, self.blobs, self.now)

    # --- its start -----------------------------------------------------------------------------------------------
    def _config(self) -> dict[str, Any]:
        """What the relay is told."""
        spec, agent, model = self.policy.spec, self.policy.agent, self.policy.model
        marks = "\n".join([*spec.argv, *spec.env.values()])
        piped = "{instruction}" not in marks and "{instruction_file}" not in marks
        files = {INSTRUCTION: _file(self.job.instruction.encode())}
        env = {
            "OPENAI_BASE_URL": "{base_url}",
            "OPENAI_API_BASE": "{base_url}",
            "OPENAI_API_KEY": KEY,
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
            "ROVER_MODEL": model,
            "ROVER_INSTRUCTION": f"{{scratch}}/{INSTRUCTION}",
        }
        if mcp.started(self.job.harness):
            folder = f"{{scratch}}/{CARRIED}"
            files[SERVERS] = [mcp.config(mcp.started(self.job.harness), folder).decode(), False]
            for path, data in self.job.carried.items():
                files[f"{CARRIED}/{path}"] = _file(data, m.is_script(data))
            env |= {mcp.CONFIG_VARIABLE: f"{{scratch}}/{SERVERS}", mcp.FOLDER_VARIABLE: folder}
        return {
            "files": files,
            "argv": list(spec.argv),
            "env": {**env, **spec.env},
            "path": list(agent.path) if agent else [],
            "stdin": INSTRUCTION if piped else "",
            "paths": {
                "{instruction_file}": f"{{scratch}}/{INSTRUCTION}",
                mcp.CONFIG_MARK: f"{{scratch}}/{SERVERS}",
            },
            "fill": {
                "{instruction}": self.job.instruction,
                "{model}": model,
                "{agent}": agent.at if agent else "",
            },
        }


def _file(data: bytes, program: bool = False) -> list[Any]:
    return [base64.b64encode(data).decode(), program]


def _plain(data: bytes) -> str:
    """What a program printed, as text without the colours of a terminal."""
    return _storable(_ESCAPES.sub("", data.decode("utf-8", "replace")).replace("\r\n", "\n").replace("\0", ""))


def _storable(text: str) -> str:
    """Text without what UTF-8 cannot carry."""
    return text.encode("utf-8", "replace").decode("utf-8")
