"""Reads a Dockerfile into instructions: directives, continued lines, comments, flags, JSON forms, heredocs.

Nothing is run and nothing is built. What cannot be read is said with its line.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rover_store.errors import PackageError

MOST_BYTES = 1 << 20
MOST_LINES = 20_000
#: no image has as many layers
MOST_INSTRUCTIONS = 1_000
#: characters that the variables of one text may stand for: each may name others twice, and a few lines any amount
MOST_VALUE = 32 << 10

_DIRECTIVE = re.compile(r"#\s*([a-zA-Z][a-zA-Z0-9_-]*)\s*=\s*(.+?)\s*$")
_FLAG = re.compile(r"--([a-zA-Z][a-zA-Z0-9_-]*)(?:=(\S*))?(?:\s+|$)")
_HEREDOC = re.compile(r"(?:^|\s)\d*<<(-?)\s*(['\"]?)([A-Za-z_][A-Za-z0-9_.]*)\2")
#: instructions after which a heredoc may stand
_WITH_HEREDOC = frozenset({"RUN", "COPY", "ADD"})
KNOWN = frozenset(
    (
        "ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "MAINTAINER",
        "ONBUILD", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Heredoc:
    """A document that stands in the file. `literal`: no variable in it is replaced."""

    name: str
    text: str
    literal: bool


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: its line, name in capitals, flags, and the rest of its text on one line."""

    line: int
    name: str
    text: str
    flags: tuple[tuple[str, str], ...] = ()
    heredocs: tuple[Heredoc, ...] = ()

    def flag(self, name: str) -> str:
        return dict(self.flags).get(name, "")

    def words(self) -> list[str] | None:
        """The words of its JSON form; None where it has none."""
        if not self.text.startswith("["):
            return None
        try:
            found = json.loads(self.text)
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, list) and all(isinstance(w, str) for w in found) else None


@dataclass(frozen=True, slots=True)
class Dockerfile:
    """The instructions of a file, and the letter that escapes in it."""

    instructions: tuple[Instruction, ...]
    escape: str = "\\"


def read(data: bytes, file: str = "environment/Dockerfile") -> Dockerfile:
    """PackageError for a file that builds nothing."""
    if len(data) > MOST_BYTES or data.count(b"\n") > MOST_LINES:
        raise PackageError(file, "", f"is larger than {MOST_BYTES >> 20} MB or {MOST_LINES} lines")
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise PackageError(file, "", f"is not UTF-8 at byte {error.start}") from None
    escape = _escape(lines)
    found = tuple(_instructions(lines, escape, file))
    if len(found) > MOST_INSTRUCTIONS:
        raise PackageError(file, "", f"holds more than {MOST_INSTRUCTIONS} instructions")
    if not any(one.name == "FROM" for one in found):
        raise PackageError(file, "", "builds nothing: there is no FROM")
    return Dockerfile(found, escape)


def _escape(lines: list[str]) -> str:
    """The escape directive. Directives stand at the very top."""
    for line in lines:
        match = _DIRECTIVE.fullmatch(line.strip())
        if match is None:
            return "\\"
        if match[1].lower() == "escape" and match[2] in ("\\", "`"):
            return match[2]
    return "\\"


def _instructions(lines: list[str], escape: str, file: str) -> Iterator[Instruction]:
    at = 0
    while at < len(lines):
        if not lines[at].strip() or lines[at].lstrip().startswith("#"):
            at += 1
            continue
        first = at
        text, at = _joined(lines, at, escape)
        name, _, rest = text.strip().partition(" ") if " " in text.strip() else text.strip().partition("\t")
        name, rest = name.upper(), rest.strip()
        if name not in KNOWN:
            raise PackageError(file, f"line {first + 1}", f"{name[:40]!r} is no instruction")
        flags, rest = _flags(rest)
        heredocs: tuple[Heredoc, ...] = ()
        if name in _WITH_HEREDOC and not rest.startswith("["):
            heredocs, at = _heredocs(rest, lines, at, file)
        yield Instruction(first + 1, name, rest, flags, heredocs)


def _joined(lines: list[str], at: int, escape: str) -> tuple[str, int]:
    """A line with the ones that continue it; comments and empty lines among them fall out."""
    parts: list[str] = []
    while at < len(lines):
        line = lines[at]
        at += 1
        if parts and (not line.strip() or line.lstrip().startswith("#")):
            continue
        stripped = line.rstrip()
        if stripped.endswith(escape):
            parts.append(stripped[: -len(escape)])
            continue
        parts.append(line)
        break
    return "".join(parts), at


def _flags(text: str) -> tuple[tuple[tuple[str, str], ...], str]:
    found = []
    while match := _FLAG.match(text):
        found.append((match[1], match[2] if match[2] is not None else "true"))
        text = text[match.end() :]
    return tuple(found), text


def _heredocs(text: str, lines: list[str], at: int, file: str) -> tuple[tuple[Heredoc, ...], int]:
    out = []
    for match in _HEREDOC.finditer(text):
        begin, body = at, []
        while True:
            if at >= len(lines):
                raise PackageError(file, f"line {begin}", f"the text up to {match[3]!r} does not end")
            line = lines[at].lstrip("\t") if match[1] else lines[at]
            at += 1
            if line == match[3]:
                break
            body.append(line + "\n")
        out.append(Heredoc(match[3], "".join(body), bool(match[2])))
    return tuple(out), at


_VARIABLE = re.compile(r"(?P<escaped>\\\$)|\$(?:\{(?P<braced>\w+)(?::?(?P<op>[-+?])(?P<word>[^}]*))?\}|(?P<bare>\w+))")


def replaced(text: str, variables: Mapping[str, str], escape: str = "\\") -> tuple[str, bool]:
    """The text with variables replaced, and whether all of them were known. PackageError where it grows too large."""
    whole = True
    grown = 0

    def value(match: re.Match[str]) -> str:
        nonlocal grown
        found = one(match)
        grown += len(found)
        if grown > MOST_VALUE:
            raise PackageError("environment/Dockerfile", "", f"its variables stand for more than {MOST_VALUE >> 10} KB")
        return found

    def one(match: re.Match[str]) -> str:
        nonlocal whole
        if match["escaped"]:
            return "$"
        name = match["braced"] or match["bare"]
        known = variables.get(name)
        if match["op"] == "-":
            return known or match["word"]
        if match["op"] == "+":
            return match["word"] if known else ""
        if known is None:
            whole = False
        return known or ""

    return _VARIABLE.sub(value, text if escape == "\\" else text.replace(f"{escape}$", "\\$")), whole


def split(text: str, escape: str = "\\") -> list[str]:
    """The words of a line, quotes taken off. What does not balance is split at blanks."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = ""
    lexer.escape = escape
    try:
        return list(lexer)
    except ValueError:
        return text.split()


def pairs(text: str, escape: str = "\\") -> list[tuple[str, str]]:
    """NAME=value words of ENV, ARG or LABEL; the old form `ENV NAME value` too."""
    name, _, rest = text.partition(" ")
    if "=" not in name:
        return [(name, rest.strip())] if name else []
    return [(key, value) for key, _, value in (word.partition("=") for word in split(text, escape))]
