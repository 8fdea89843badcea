"""How a difference looks: marks, colours, and the choices of the command line."""

from __future__ import annotations

from dataclasses import dataclass, field

from rover.cli.columns import Colours

MARK = {"added": "+", "removed": "-", "changed": "~", "reordered": "~"}
STYLE = {"added": "new", "removed": "old", "changed": "note", "reordered": "note"}


@dataclass(frozen=True, slots=True)
class Look:
    """How to render. `limit`: lines of one file before the rest is only counted; 0 for all."""

    width: int = 80
    limit: int = 60
    side_by_side: bool = False
    words: bool = False
    #: whether lines of text go on below where they are wider; else they stay whole, for pipes
    wrapped: bool = False
    colours: Colours = field(default_factory=lambda: Colours(False))

    def paint(self, text: str, style: str) -> str:
        return self.colours.paint(text, style)
