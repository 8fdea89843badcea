"""The config section `render`: how a rollout becomes tokens."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rover_train.section import Section


class RenderSettings(Section):
    """How instructions, tool calls and observations are written for the model."""

    dialect: Literal["auto", "json", "plain"] = "auto"
    """Form of tool calls: `json` as most open models know it, `plain` for small models; `auto`: the model's own."""
    window: int = Field(4096, ge=64, le=10**9)
    """Tokens that the model sees at once; a rollout that outgrows it is split into rows."""
    observation_tokens: int = Field(512, ge=16, le=10**9)
    """Tokens of one tool output; what is beyond is cut, with a mark."""
    system: str = ""
    """System message; empty: rover's own."""
    drift: Literal["error", "split"] = "error"
    """Where a chat template rewrites earlier text (such as thinking): stop, or go on in a new row."""
