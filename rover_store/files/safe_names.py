"""Names that a file of a package may have: on its way in from a folder, and on its way out to one.

A name is refused where some file system, or git, could take it for another one, or where it cannot be typed.
"""

from __future__ import annotations

import unicodedata

#: what a folder of a Linux file system can hold
NAME_BYTES = 255


def refusal(name: str) -> str:
    """Why no file or folder may have this name; empty where it may."""
    if name in ("", ".", ".."):
        return f"{name!r} is no name"
    if "/" in name or "\0" in name:
        return "the name has a slash or a NUL"
    if "\\" in name:
        return "the name has a backslash"
    try:
        raw = name.encode()
    except UnicodeEncodeError:
        return "the name is not UTF-8"
    if len(raw) > NAME_BYTES:
        return f"the name is longer than {NAME_BYTES} bytes"
    if any(unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in name):
        return "the name has a control character or a line break"
    if _git_name(name):
        return "a git folder cannot be part of a package; remove it"
    return ""


def folded(name: str) -> str:
    """Equal for names that a file system without case, or one that composes letters, takes for one."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def shown(path: str) -> str:
    """A path for a message: on one line, bytes that are not UTF-8 as escapes, not longer than a line."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if any(unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in text):
        text = repr(text)
    return text if len(text) <= 160 else f"{text[:80]}...{text[-40:]}"


def _git_name(name: str) -> bool:
    """Names that some file system takes for `.git` (git refuses them too)."""
    plain = "".join(c for c in name if unicodedata.category(c) != "Cf").rstrip(". ").casefold()
    return plain in (".git", "git~1") or plain.startswith(".git:")
