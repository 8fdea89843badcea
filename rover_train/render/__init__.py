"""Rendering: conversations to token ids, with the loss mask and the turn of every token.

Who needs what:

- A sampler keeps one `Dialogue` a rollout (`Renderer.dialogue(view)`): it holds the ids of the present row, takes
  sampled turns, appends observations, and says when a row has to start afresh (window or template drift).
- A sampler that wants no state calls `Renderer.opening`, `.read` and `.between`: the same ids while a row lasts.
- SFT calls `Renderer.demonstration`, which drives the same `Dialogue`.
- `dialect(name)` gives the text form of calls and observations: `plain` for small models, `json` for all others.

Dialects need no torch and no tokenizer; the renderer is given a tokenizer and imports neither.
"""

from __future__ import annotations

from rover_train.render.dialects import DIALECTS, dialect
from rover_train.render.dialogue import Dialogue
from rover_train.render.drift import DoesNotFit, TemplateDrift
from rover_train.render.protocol import Dialect, Message
from rover_train.render.renderer import Renderer, chat_template, is_plain

__all__ = [
    "DIALECTS",
    "Dialect",
    "Dialogue",
    "DoesNotFit",
    "Message",
    "Renderer",
    "TemplateDrift",
    "chat_template",
    "dialect",
    "is_plain",
]
