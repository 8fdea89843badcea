"""Bytes to text and back without loss: the encoding and byte order mark are found, kept and written again."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from rover.harness.tools.paths import ToolError

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True, slots=True)
class Text:
    """A file's text with what is needed to write it back."""

    text: str
    encoding: str
    mark: bytes = b""

    def encode(self, path: str, text: str) -> bytes:
        """`text` in this file's encoding. ToolError where a character has no form in it."""
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            bad = text[error.start]
            raise ToolError(f"{path}: {bad!r} cannot be written in the file's encoding, {self.encoding}") from None


def decode(data: bytes) -> Text:
    """UTF-8, UTF-16 with a mark, else Windows-1252, else Latin-1: every byte string decodes."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return Text(data[len(mark) :].decode(encoding), encoding, mark)
            except UnicodeDecodeError:
                break
    for encoding in ("utf-8", "cp1252"):
        try:
            return Text(data.decode(encoding), encoding)
        except UnicodeDecodeError:
            continue
    return Text(data.decode("latin-1"), "latin-1")
