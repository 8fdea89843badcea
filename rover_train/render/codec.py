"""Text to ids and back with one tokenizer: pieces that follow on one another, nothing added, nothing cleaned up."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import Any


class Codec:
    """A transformers tokenizer, narrowed to what rendering needs."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._backend = getattr(tokenizer, "backend_tokenizer", None)
        self.special: dict[str, int] = {
            str(token): int(number)
            for number, token in tokenizer.added_tokens_decoder.items()
            if token.special or number in tokenizer.all_special_ids
        }

    @cached_property
    def size(self) -> int:
        """One more than the largest id."""
        return 1 + int(max(self.tokenizer.get_vocab().values()))

    @cached_property
    def _special_text(self) -> re.Pattern[str] | None:
        return _any_of(self.special)

    @cached_property
    def _control_text(self) -> re.Pattern[str] | None:
        """The special tokens, and what else the template's structure is made of."""
        template = str(getattr(self.tokenizer, "chat_template", ""))
        added = {str(token) for token in self.tokenizer.added_tokens_decoder.values()}
        return _any_of(self.special.keys() | {name for name in added if name in template and not name.isspace()})

    def encode(self, text: str, *, after: str = "") -> list[int]:
        """The ids of a text that stands behind `after`, a special token (tokenizers that mark the start of a text
        with a space do so only at the very start)."""
        if not after:
            return self._ids(text)
        ids = self._ids(after + text)
        return ids[1:] if ids[:1] == [self.special.get(after, -1)] else self._ids(text)

    def encode_written(self, text: str, *, after: str = "") -> list[int]:
        """The ids of what a policy writes: the name of a special token in it is text, not that token."""
        if self._special_text is None or not self._special_text.search(text):
            return self.encode(text, after=after)
        return list(self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True))

    def decode(self, ids: list[int]) -> str:
        if self._backend is not None:
            return str(self._backend.decode(ids, skip_special_tokens=False))
        return str(self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def harmless(self, text: str) -> str:
        """The text of an observation in which names of control tokens are broken by a space, so that no file can end
        a turn or begin another."""
        if self._control_text is None:
            return text
        return self._control_text.sub(lambda found: f"{found.group()[0]} {found.group()[1:]}", text)

    def clipped(self, text: str, budget: int, mark: str) -> str:
        """The text, cut to so many tokens with the mark at its end: at a line's end or a space where one is near."""
        if len(text.encode()) <= budget:  # no token is shorter than a byte
            return text
        ids = self._ids(text)
        if len(ids) <= budget:
            return text
        room = max(1, budget - len(self._ids(mark)))
        kept = self._prefix(text, ids, room)
        for border in ("\n", " "):
            at = kept.rfind(border)
            if at > len(kept) // 2:
                kept = kept[:at]
                break
        return kept + mark

    def _prefix(self, text: str, ids: list[int], count: int) -> str:
        if self._backend is not None:
            offsets = self._backend.encode(text, add_special_tokens=False).offsets
            return text[: offsets[count - 1][1]]
        return self.decode(ids[:count]).rstrip("�")

    def _ids(self, text: str) -> list[int]:
        if self._backend is not None:
            if self._backend.encode_special_tokens:  # the tokenizer keeps what its last caller asked for
                self._backend.encode_special_tokens = False
            return list(self._backend.encode(text, add_special_tokens=False).ids)
        return list(self.tokenizer.encode(text, add_special_tokens=False))


def _any_of(names: Iterable[str]) -> re.Pattern[str] | None:
    found = sorted(filter(None, names), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, found))) if found else None
