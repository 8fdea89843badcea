"""A tokenizer's chat template, and what it can do: found out by trying it on small conversations.

The template is asked for text alone; ids are made elsewhere, piece by piece, so that ids once given never change.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

from rover_store.errors import UsageError
from rover_train.render.protocol import Message, Offer

#: a template that writes the date of the day writes this one, so that equal conversations give equal text
_DAY = "{%- macro strftime_now(format) -%}{{- '2024-07-26' if '%Y-' in format else '26 Jul 2024' -}}{%- endmacro -%}"
_SPACE = re.compile(r"\s*")
_ASK, _SAY, _SHOWN = "Ask7", "Say7", "Shown7"


class Chat:
    """One chat template. UsageError where there is none, or where it cannot carry a conversation with tools."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        template: Any = getattr(tokenizer, "chat_template", None)
        self._template = _DAY + template if isinstance(template, str) and "strftime_now" in template else None
        if not template:
            raise UsageError(
                "the tokenizer has no chat template",
                hint="set tokenizer.chat_template, or put a chat_template.jinja into the model's folder",
            )
        self.end = self._end()

    def text(self, messages: list[Message], *, offer: Offer | None = None, prompt: bool = False) -> str:
        """The conversation as the template has it; with `prompt`, up to where the assistant begins."""
        try:
            return str(
                self._tokenizer.apply_chat_template(
                    messages,
                    tools=(offer.schemas or None) if offer else None,
                    tokenize=False,
                    add_generation_prompt=prompt,
                    chat_template=self._template,
                )
            )
        except Exception as error:  # a template runs code of its own and may raise anything
            first = " ".join(str(error).split()) or type(error).__name__
            raise UsageError(f"the chat template refuses this conversation: {first[:200]}") from None

    def behind(self, prompt: str, said: str, text: str) -> str | None:
        """What follows an assistant turn in `text`: `prompt`, then `said`, then the turn's end, then that. None where
        the text does not go so. White space is no matter: many templates trim what was said."""
        if not text.startswith(prompt):
            return None
        at = len(prompt)
        for word in (*said.split(), self.end.strip()):
            at = _space_ends(text, at)
            if not text.startswith(word, at):
                return None
            at += len(word)
        kept = self.end[len(self.end.rstrip()) :]
        return text[at:].removeprefix(kept)

    # --- what the template can do ------------------------------------------------------------------------
    def _end(self) -> str:
        """What stands behind the text of an assistant turn."""
        before, at, behind = self.text([_user(_ASK), _assistant(_SAY)]).rpartition(_SAY)
        if not at or _ASK not in before:
            raise UsageError("the chat template does not show what the assistant said")
        return behind

    @cached_property
    def has_system(self) -> bool:
        """Whether a system message is shown."""
        return self._shows([{"role": "system", "content": _SHOWN}, _user(_ASK)])

    @cached_property
    def has_tool_role(self) -> bool:
        """Whether messages of role `tool` are shown."""
        return self._shows([_user(_ASK), _assistant(_SAY), _tool(_SHOWN)])

    @cached_property
    def joins_tools(self) -> bool:
        """Whether the results of one turn have to go into one message."""
        return not self._shows([_user(_ASK), _assistant(_SAY), _tool(_ASK), _tool(_SHOWN)])

    def shows_calls_as(self, opening: str) -> bool:
        """Whether the template itself shows tools and writes calls in the form that begins so."""
        call = {"id": "call00000", "type": "function", "function": {"name": _SHOWN, "arguments": {}}}
        schema = {"type": "function", "function": {"name": _SHOWN, "description": "", "parameters": {"type": "object"}}}
        said = {"role": "assistant", "content": "", "tool_calls": [call]}
        try:
            text = self.text([_user(_ASK), said], offer=Offer([schema]))
        except UsageError:
            return False
        return text.count(_SHOWN) > 1 and opening in text.partition(_ASK)[2]

    def _shows(self, messages: list[Message]) -> bool:
        try:
            return _SHOWN in self.text(messages)
        except UsageError:
            return False


def _space_ends(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def _tool(text: str) -> Message:
    return {"role": "tool", "content": text}
