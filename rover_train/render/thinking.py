"""What a model thinks aloud: part of its tokens, never of what it asks for."""

from __future__ import annotations

import re

OPEN, CLOSE = "<think>", "</think>"
_THINKING = re.compile(r"\s*<think>.*?(?:</think>|\Z)[\r\n]*", re.DOTALL)


def without_thinking(text: str) -> str:
    """The text behind the thinking at its start. Thinking that never ends takes the rest of the turn.

    Only the start counts: further on, the tags may be content that the model writes.
    """
    while (found := _THINKING.match(text)) is not None:
        text = text[found.end() :]
    return text
