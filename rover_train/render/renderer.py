"""The renderer: a tokenizer, its chat template and a dialect, put together into ids.

Ids are made once and never again: an opening, then for every turn what the policy wrote (as sampled) and what
stands between it and the next. The text of each piece is what the template adds to the text before it.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from functools import cache, cached_property
from importlib import resources
from typing import Any, Literal

from rover.policy.protocol import Action, PolicyFailure, PolicyView
from rover_store.errors import UsageError
from rover_store.records import Call, ToolCall, Trajectory
from rover_train.render.chat import Chat
from rover_train.render.codec import Codec
from rover_train.render.dialogue import Dialogue
from rover_train.render.drift import DoesNotFit, TemplateDrift
from rover_train.render.protocol import Dialect, Message, Offer
from rover_train.render.thinking import CLOSE, OPEN
from rover_train.rows import Row

SYSTEM = """\
You work in a folder of files, through the tools alone. Paths are relative to that folder.
Do what the request asks, and nothing else: leave every other file as it is.
When everything is done, answer with a short final message and no tool call."""


@cache
def chat_template(name: str = "plain") -> str:
    """A chat template of ours. `plain`: one special token a role (<|user|>, <|assistant|>, <|tool|>, <|system|>)
    and <|end|> behind what the assistant wrote."""
    return (resources.files("rover_train.render") / "templates" / f"{name}.jinja").read_text("utf-8").strip()


def is_plain(template: str | None) -> bool:
    """Whether a template is that of the plain dialect. What it refuses is no part of its form: a model that was made
    with a template which refused less is rendered the same."""
    return template is not None and _form(template) == _form(chat_template())


def _form(template: str) -> list[str]:
    return [line for line in template.splitlines() if "raise_exception(" not in line]


class Renderer:
    """Conversations to ids. `window`: tokens that the model sees at once. `observation_tokens`: tokens of one tool
    output. `turn_tokens`: room kept for the turn that comes next. `system`: system message; None or "": ours for the
    dialect `json`, none for `plain`. `drift`: what happens where the template rewrites earlier text: TemplateDrift,
    or a new row."""

    def __init__(
        self,
        tokenizer: Any,
        dialect: Dialect,
        *,
        window: int,
        observation_tokens: int,
        system: str | None = None,
        turn_tokens: int = 1,
        drift: Literal["error", "split"] = "error",
    ) -> None:
        self.dialect = dialect
        self.window = window
        self.observation_tokens = observation_tokens
        self.turn_tokens = turn_tokens
        self.drift = drift
        self.codec = Codec(tokenizer)
        self.chat = Chat(tokenizer)
        #: our own template adds each message without a look at the others, which saves rendering all of them
        self.local = is_plain(getattr(tokenizer, "chat_template", None))
        self._system = system if system else (SYSTEM if dialect.name == "json" else "")
        self._native = self.chat.shows_calls_as("<tool_call>")
        self.stop, self.lead, self.rest = self._stop()
        eos = getattr(tokenizer, "eos_token_id", None)
        self.stop_id = self.codec.special[self.stop]
        #: ids that end a turn: the template's end of turn, and the tokenizer's own end of text
        self.stop_ids = frozenset({self.stop_id} | ({int(eos)} if isinstance(eos, int) else set()))

    @property
    def id(self) -> str:
        """Names all that decides what a policy sees and how it is read; part of a policy's id."""
        template = hashlib.sha256(str(self.codec.tokenizer.chat_template).encode()).hexdigest()[:12]
        parts = [self.dialect.name, str(self.window), str(self.observation_tokens), str(self.turn_tokens), self.drift]
        return ":".join([*parts, template, hashlib.sha256(self._system.encode()).hexdigest()[:12]])

    # --- what samplers call ------------------------------------------------------------------------------
    def dialogue(self, view: PolicyView) -> Dialogue:
        """One rollout's conversation, which keeps its rows."""
        return Dialogue(self, view)

    def opening(self, view: PolicyView) -> list[int]:
        """The prompt, up to where the assistant begins."""
        messages, offer = self.begin(view)
        return self.codec.encode(self.chat.text(messages, offer=offer, prompt=True))

    def read(self, ids: Sequence[int], turn: int) -> Action:
        """What a sampled turn asks for; never raises."""
        return self.dialect.read(self.thought() + self.said(ids), turn)

    def between(self, ids: Sequence[int], results: tuple[Call, ...]) -> list[int]:
        """What follows a sampled turn, as far as that turn alone decides it: the rest of its end, observations, and
        the start of the next turn. `Dialogue` also sees templates that look further back."""
        new = self.observations(results)
        if self.local:
            return self.ending(ids, self.chat.text(new, prompt=True))
        ask: Message = {"role": "user", "content": "?"}
        prompt = self.chat.text([ask], prompt=True)
        text = self.chat.text([ask, self.message(ids), *new], prompt=True)
        return self.ending(ids, self.follow(0, prompt, ids, text))

    def demonstration(self, view: PolicyView, trajectory: Trajectory) -> tuple[Row, ...]:
        """The rows of a recorded rollout: the ids that a rollout of the same text would have had, loss on what the
        policy wrote. DoesNotFit where a turn is longer than the window."""
        dialogue = self.dialogue(view)
        results: tuple[Call, ...] = ()
        for number, turn in enumerate(trajectory.turns):
            last = number + 1 == len(trajectory.turns)
            message = turn.message or (trajectory.final_message if last and not turn.calls else "")
            calls = tuple(ToolCall(id=c.id, tool=c.tool, arguments=c.arguments) for c in turn.calls)
            try:
                dialogue.open_turn(results)
            except PolicyFailure:
                raise DoesNotFit(number, len(dialogue.ids), self.window) from None
            dialogue.write(self.turn_ids(calls, message))
            results = turn.calls
        return dialogue.rows(package=trajectory.package)

    def check(self) -> None:
        """Try a conversation of three turns. TemplateDrift where the template rewrites even that."""
        if self.drift == "split":
            return
        dialogue = self.dialogue(PolicyView("Do it.", ()))
        results: tuple[Call, ...] = ()
        with contextlib.suppress(PolicyFailure, DoesNotFit):  # a window too small even for this shows in use
            for turn in range(3):
                dialogue.open_turn(results)
                call = ToolCall(id="x", tool="list_files", arguments={"path": f"part {turn}"})
                dialogue.write(self.turn_ids((call,), ""))
                results = (Call(id="x", tool="list_files", arguments=call.arguments, output="{}"),)

    # --- pieces ------------------------------------------------------------------------------------------
    def begin(self, view: PolicyView) -> tuple[list[Message], Offer]:
        """The messages before the first turn, and the tools as the template gets them."""
        offer = self.dialect.tools(view)
        system = self._system
        if not self._native:
            system = "\n\n".join(filter(None, (system, offer.text)))
            offer = Offer()
        system, ask = self.codec.harmless(system), self.codec.harmless(view.instruction)
        if self.dialect.name == "plain":
            ask = " " + ask
        if not system:
            return [{"role": "user", "content": ask}], offer
        if not self.chat.has_system:
            return [{"role": "user", "content": f"{system}\n\n{ask}"}], offer
        return [{"role": "system", "content": system}, {"role": "user", "content": ask}], offer

    def observations(self, results: tuple[Call, ...]) -> list[Message]:
        """The results of one turn as messages that the template takes, each cut to its budget."""
        shown = [self._cut(str(message["content"])) for message in self.dialect.show(results)]
        if self.chat.has_tool_role and not self.chat.joins_tools:
            return [{"role": "tool", "content": text} for text in shown]
        if self.chat.has_tool_role:
            return [{"role": "tool", "content": "\n".join(shown)}]
        wrapped = "\n".join(f"<tool_response>\n{text}\n</tool_response>" for text in shown)
        return [{"role": "user", "content": wrapped}]

    def message(self, ids: Sequence[int]) -> Message:
        """A sampled turn as the template gets it."""
        said = self.said(ids)
        return {"role": "assistant", "content": said if self.local else (self.thought() + said).strip()}

    def follow(self, turn: int, prompt: str, ids: Sequence[int], text: str) -> str:
        """What stands in `text` behind the prompt and the turn written there. TemplateDrift where they do not."""
        said = self.said(ids)
        behind = self.chat.behind(prompt, said, text)
        if behind is None:
            raise TemplateDrift(turn, prompt + said + self.chat.end, text)
        return behind

    def ending(self, ids: Sequence[int], added: str) -> list[int]:
        """Ids of the added text behind a sampled turn; its end too, where the turn was cut before it."""
        head = [] if ids and ids[-1] == self.stop_id else [self.stop_id]
        return head + self.codec.encode(self.rest + added, after=self.stop)

    def said(self, ids: Sequence[int]) -> str:
        """The text of a sampled turn, without its end."""
        written = list(ids[:-1] if ids and ids[-1] in self.stop_ids else ids)
        text = self.codec.decode(written) if written else ""
        return text.removesuffix(self.lead) if self.lead else text

    def turn_text(self, calls: tuple[ToolCall, ...], message: str) -> str:
        """A turn as a policy writes it: where the prompt opens the thinking, it is closed first."""
        return (f"{CLOSE}\n\n" if self.thought() else "") + self.dialect.write(calls, message) + self.lead

    def turn_ids(self, calls: tuple[ToolCall, ...], message: str) -> list[int]:
        """Its ids, with the end of the turn."""
        return [*self.codec.encode_written(self.turn_text(calls, message), after=self.stop), self.stop_id]

    def thought(self) -> str:
        """The opening tag of thinking, where the template's prompt already holds it."""
        return OPEN if self._prompt_thinks else ""

    # --- found out once ----------------------------------------------------------------------------------
    @cached_property
    def _prompt_thinks(self) -> bool:
        return self.chat.text([{"role": "user", "content": "?"}], prompt=True).rstrip().endswith(OPEN)

    def _stop(self) -> tuple[str, str, str]:
        """The special token that ends a turn, the text before it, and the text behind it."""
        end = self.chat.end
        found = sorted((end.index(name), -len(name), name) for name in self.codec.special if name and name in end)
        if not found:
            raise UsageError(
                "the chat template ends an assistant turn without a special token, so no turn would ever end",
                hint="a template such as ChatML closes each turn with a token of its own",
            )
        at, _, name = found[0]
        return name, end[:at], end[at + len(name) :]

    def _cut(self, text: str) -> str:
        return self.codec.clipped(self.codec.harmless(text), self.observation_tokens, self.dialect.cut)
