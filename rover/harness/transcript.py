"""What an agent program did, as turns: told from its requests, the model's answers, and the trees in between.

A turn is one answer of the model. Its calls are the answer's tool calls; where an agent acts by text, the commands in
its code blocks, as calls of `bash`, or else the whole text as one of `text`. What came of a call is what a later
request says of it. A change of the workspace belongs to the call that names the path, else to the turn's last one.
Nobody sees from outside whether a call failed: the status is `ok` unless the arguments were broken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rover.harness import manifest as m
from rover.harness.arguments import unstorable
from rover.harness.manifest import Manifest
from rover.policy.completion import Answer
from rover.policy.protocol import MALFORMED
from rover.policy.wire import text_of
from rover_store.records import Artifact, Call, Turn, TurnTokens, Usage

#: tools that no harness offers: a command in a text, a text that is answered, and the program itself
BASH, TEXT, PROGRAM = "bash", "text", "program"
#: characters of all that is recorded of one call's output
MOST_OUTPUT = 1 << 20
#: what stands between names in a command
_WORDS = re.compile(r"[\s/'\"|&;<>()`$={},:]+")
_RESULTS = ("tool", "function")
_BLOCK = re.compile(r"^```(?:bash|sh|shell|console|[\w-]*_bash_command)[ \t]*\n(.*?)\n?```", re.DOTALL | re.MULTILINE)


@dataclass(slots=True)
class _Call:
    id: str
    tool: str
    arguments: dict[str, Any]
    output: str | None = None
    writes: list[Artifact] = field(default_factory=list)
    reads: tuple[Artifact, ...] = ()
    told: bool = True  # its result comes as that of a tool; else as an answer to the text it stood in

    def texts(self) -> str:
        return "\n".join(_texts(self.arguments))


@dataclass(slots=True)
class _Turn:
    message: str
    calls: list[_Call]
    usage: Usage
    tokens: TurnTokens | None
    tree: str = ""
    closed: bool = False


class Transcript:
    """The turns of one rollout, as they become known."""

    def __init__(self, start: Manifest, tree: str, output_bytes: int) -> None:
        self._now = start
        self._tree = tree
        self._most = min(output_bytes, MOST_OUTPUT)
        self._turns: list[_Turn] = []
        self._answers = 0

    def __len__(self) -> int:
        """How often the model answered."""
        return self._answers

    @property
    def last_words(self) -> str:
        """What the last turn said, where it was its last word: it called nothing."""
        last = self._turns[-1] if self._turns else None
        return last.message if last is not None and not any(c.tool != PROGRAM for c in last.calls) else ""

    def answered(self, answer: Answer, tokens: TurnTokens | None) -> None:
        """A new turn."""
        text = _clean(answer.text)
        calls = [_Call(_clean(c.id), _clean(c.tool), _stored(c.arguments)) for c in answer.calls]
        if not calls:
            at = len(self._turns)
            calls = [_said(f"block-{at}-{n}", BASH, {"command": block}) for n, block in enumerate(_blocks(text))]
        self._turns.append(_Turn(text, calls, answer.usage, tokens))
        self._answers += 1

    def asked(self, messages: list[dict[str, Any]]) -> None:
        """A request: what it says of earlier calls."""
        last = next((n for n in reversed(range(len(messages))) if messages[n].get("role") == "assistant"), -1)
        told: dict[str, list[str]] = {}
        strange: list[str] = []
        known = {call.id for turn in self._turns for call in turn.calls}
        for number, message in enumerate(messages):
            if message.get("role") in _RESULTS:
                text, name = text_of(message.get("content")), message.get("tool_call_id")
                if isinstance(name, str) and name in known:
                    told.setdefault(name, []).append(text)
                elif number > last:
                    strange.append(text)
        self._told(told, strange)
        if last >= 0:
            said = text_of(messages[last].get("content")).strip()
            after = [x for x in messages[last + 1 :] if x.get("role") not in _RESULTS]
            self._replied(said, "\n".join(text_of(x.get("content")) for x in after))

    def reached(self, now: Manifest, tree: str) -> None:
        """The workspace as it stands before the next turn, or at the end: what changed since is the last turn's."""
        changed = m.changes(self._now, now)
        if changed and not self._turns:
            self._turns.append(_Turn("", [], Usage(), None))  # the program itself, before it asks for anything
        if self._turns:
            turn = self._turns[-1]
            for call in turn.calls if not turn.closed else ():
                call.reads = tuple(m.artifact(p, self._now) for p in m.named_in(call.texts(), self._now))
            if changed:
                self._share_out(turn, changed)
            turn.tree, turn.closed = tree, True
        self._now, self._tree = now, tree

    def ran(self, arguments: Mapping[str, Any], output: str) -> None:
        """The program as a whole, where it never had an answer of a model: one turn."""
        if self._answers:
            return
        if not self._turns:
            self._turns.append(_Turn("", [], Usage(), None, self._tree, True))
        turn = self._turns[0]
        if not turn.calls:
            turn.calls.append(_said(PROGRAM, PROGRAM, {}))
        turn.calls[0].arguments, turn.calls[0].output = dict(arguments), _clean(output)

    def turns(self) -> tuple[Turn, ...]:
        """The turns as they are recorded."""
        return tuple(
            Turn(
                index=n,
                message=turn.message,
                calls=tuple(self._call(call) for call in turn.calls),
                tree=turn.tree or self._tree,
                usage=turn.usage,
                tokens=turn.tokens,
            )
            for n, turn in enumerate(self._turns)
        )

    def _call(self, call: _Call) -> Call:
        output = call.output or ""
        return Call(
            id=call.id,
            tool=call.tool,
            arguments=call.arguments,
            status="error" if MALFORMED in call.arguments else "ok",
            output=output[: self._most],
            truncated=len(output) > self._most,
            reads=call.reads,
            writes=tuple(call.writes),
        )

    def _told(self, told: Mapping[str, list[str]], strange: list[str]) -> None:
        """Results of calls, by id. Some servers give an id more than once: the last result is of the last such call.
        Those with ids that are not ours are of the last turn, in its order."""
        for name, texts in told.items():
            calls = [call for turn in self._turns for call in turn.calls if call.id == name]
            for call, text in zip(reversed(calls), reversed(texts), strict=False):
                if call.output is None:
                    call.output = _clean(text)
        if strange and self._turns:
            waiting = [c for c in self._turns[-1].calls if c.output is None and c.told]
            for call, text in zip(waiting, strange, strict=False):
                call.output = _clean(text)

    def _replied(self, said: str, reply: str) -> None:
        """The answer to a text: of the last turn that said this and has none yet."""
        if not reply:
            return
        for turn in reversed(self._turns):
            if turn.message.strip() != said or any(c.output is not None for c in turn.calls):
                continue
            if not turn.calls:
                turn.calls.append(_said(f"text-{self._turns.index(turn)}", TEXT, {}))
            if not turn.calls[-1].told and turn.calls[-1].tool != PROGRAM:
                turn.calls[-1].output = _clean(reply)
            return

    def _share_out(self, turn: _Turn, changed: tuple[Artifact, ...]) -> None:
        if not turn.calls:
            turn.calls.append(_said(PROGRAM, PROGRAM, {}))
        for artifact in changed:
            name = artifact.path.rpartition("/")[2]
            words = [call for call in turn.calls if name in _WORDS.split(call.texts())]
            naming = words or [call for call in turn.calls if name in call.texts()]
            (naming or turn.calls)[-1].writes.append(artifact)


def _said(name: str, tool: str, arguments: dict[str, Any]) -> _Call:
    """A call that is none of the model's protocol."""
    return _Call(name, tool, arguments, told=False)


def acts(answer: Answer) -> bool:
    """Whether an answer calls something."""
    return bool(answer.calls or _blocks(answer.text))


def _blocks(text: str) -> list[str]:
    return [block for block in _BLOCK.findall(text) if block.strip()]


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict | list):
        return [text for inner in (value.values() if isinstance(value, dict) else value) for text in _texts(inner)]
    return []


def _stored(arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments as a record carries them; what it cannot carry is no JSON object, and is told as what it is."""
    problem = unstorable(arguments)
    return {MALFORMED: problem} if problem else arguments


def _clean(text: str) -> str:
    """Text without what UTF-8 cannot carry."""
    return text.encode("utf-8", "replace").decode("utf-8")
