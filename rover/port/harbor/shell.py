"""What scripts say of what they need, read and never run: the network, root, nothing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

#: commands that leave nothing behind which a sandbox would miss
_HARMLESS = frozenset({"mkdir", "chmod", "chown", "true", ":", "cd", "echo", "useradd", "groupadd", "adduser", "set"})
_ROOT = frozenset({"apt-get", "apt", "apk", "yum", "dnf", "pacman", "sudo", "useradd", "service", "systemctl"})
#: characters of a line: a splitter takes as long as a word has letters, squared
MOST_LINE = 64 << 10
_FETCH = re.compile(
    r"""(?:^|[\s;&|(`])(?:
        (?:apt-get|apt|apk|yum|dnf|pacman|zypper|brew|conda|mamba)\s
      | (?:curl|wget)\s
      | git\s+(?:clone|fetch|pull)\b
      | (?:pip3?|uv\s+pip|python3?\s+-m\s+pip)\s+(?:-\S+\s+)*(?:install|download)\b
      | uv\s+(?:tool\s+install|add|sync|run\s+--with)\b | uvx\s
      | (?:npm|pnpm|yarn)\s+(?:i|ci|install|add)\b | npx\s
      | (?:cargo|go)\s+(?:install|get)\b | gem\s+install\b | go\s+mod\s+download\b
    )""",
    re.VERBOSE,
)
_LOCAL = re.compile(r"--no-index\b|--offline\b|--download-only\b|(?:https?://)?(?:localhost|127\.0\.0\.1)\b")


def lines(script: str) -> Iterator[tuple[int, str]]:
    """The lines of a script with those that continue them; comments left out, documents in it too."""
    pending, start, ends = "", 1, ""
    for number, raw in enumerate(script.splitlines(), 1):
        if ends:
            ends = "" if raw.strip() == ends else ends
            continue
        if not pending:
            if raw.lstrip().startswith("#") or not raw.strip():
                continue
            start = number
        if raw.rstrip().endswith("\\"):
            pending += raw.rstrip()[:-1] + " "
            continue
        whole, pending = pending + raw, ""
        document = re.search(r"<<-?\s*(['\"]?)(\w+)\1", whole)
        ends = document[2] if document else ""
        yield start, whole.strip()
    if pending:
        yield start, pending.strip()


def commands(line: str) -> list[list[str]]:
    """The simple commands of a line, as words. Empty where its quotes do not balance, or nobody wrote it."""
    if len(line) > MOST_LINE:
        return []
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    out: list[list[str]] = [[]]
    try:
        for token in lexer:
            if set(token) <= set(";&|"):
                out.append([])
            else:
                out[-1].append(token)
    except ValueError:
        return []
    return [words for words in out if words]


def is_harmless(script: str) -> bool:
    """Whether a script makes folders, users and modes alone."""
    for _, line in lines(script):
        found = commands(line)
        if not found or any(words[0] not in _HARMLESS or ">" in "".join(words) for words in found):
            return False
    return True


def fetching(script: str) -> list[tuple[int, str]]:
    """The lines that fetch from a network."""
    return [(n, line) for n, line in lines(script) if _FETCH.search(line) and not _LOCAL.search(line)]


def as_root(script: str) -> list[tuple[int, str]]:
    """The lines that only root can run."""
    return [(n, line) for n, line in lines(script) if any(words[0] in _ROOT for words in commands(line))]


def shown(line: str) -> str:
    return line if len(line) <= 60 else f"{line[:57]}..."
