"""What goes wrong between a conversation, its template and the window."""

from __future__ import annotations

from rover_store.errors import UsageError


class TemplateDrift(UsageError):
    """A chat template rewrites what stood there before. `turn`: the policy's turn (0-based) behind which it does;
    `where`: the texts on both sides of the place where they part."""

    def __init__(self, turn: int, before: str, after: str) -> None:
        pairs = enumerate(zip(before, after, strict=False))
        at = next((n for n, (a, b) in pairs if a != b), min(len(before), len(after)))
        self.turn = turn
        self.where = (_near(before, at), _near(after, at))
        super().__init__(
            f"the chat template rewrites earlier text after turn {turn}: at character {at} "
            f"{self.where[0]} becomes {self.where[1]}",
            hint="render.drift = \"split\" starts a new row at every such place",
        )


class DoesNotFit(UsageError):
    """A turn that no row can hold, since opening and turn together are longer than the window."""

    def __init__(self, turn: int, tokens: int, window: int) -> None:
        self.turn = turn
        self.tokens = tokens
        self.window = window
        super().__init__(f"turn {turn} needs {tokens} tokens with its opening; the window has {window}")


def _near(text: str, at: int) -> str:
    return repr(text[max(0, at - 20) : at + 20])
