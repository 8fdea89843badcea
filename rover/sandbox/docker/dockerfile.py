"""What a Dockerfile wants from outside its folder, read before anything is built: an engine would fetch it unasked."""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

from rover_store.errors import SandboxError

_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::?-([^}]*))?\}|(\w+))")


class Wants(NamedTuple):
    """Images that must be there, and addresses that would be downloaded."""

    images: tuple[str, ...]
    addresses: tuple[str, ...]


def wants(text: str) -> Wants:
    """SandboxError for a Dockerfile that builds nothing, or whose images cannot be told from it."""
    images: dict[str, None] = {}
    addresses: list[str] = []
    stages: set[str] = set()
    values: dict[str, str] = {}
    count = 0
    for word, rest in _instructions(text):
        if word == "ARG" and not count:
            values |= {name: value for name, sign, value in [rest.partition("=")] if sign}
        elif word == "FROM":
            parts = [part for part in rest.split() if not part.startswith("--")]
            if not parts:
                raise SandboxError("the Dockerfile has a FROM without an image")
            _add(images, _filled(parts[0], values), stages, count)
            if len(parts) == 3 and parts[1].upper() == "AS":
                stages.add(parts[2].lower())
            count += 1
        elif word in ("COPY", "ADD"):
            for part in _words(rest):
                if part.startswith("--from="):
                    _add(images, _filled(part.removeprefix("--from="), values), stages, count)
                elif word == "ADD" and re.match(r"(https?|git|ftp)[:@]|git@", part):
                    addresses.append(part)
    if not count:
        raise SandboxError("the Dockerfile builds nothing: it has no FROM")
    return Wants(tuple(images), tuple(addresses))


def _add(images: dict[str, None], name: str, stages: set[str], count: int) -> None:
    if name.lower() not in stages and name != "scratch" and not (name.isdigit() and int(name) < count):
        images[name] = None


def _instructions(text: str) -> list[tuple[str, str]]:
    """Each instruction as its name and the rest, with continued lines joined."""
    found, held = [], ""
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line.endswith("\\"):
            held += line[:-1] + " "
            continue
        word, _, rest = (held + line).strip().partition(" ")
        held = ""
        found.append((word.upper(), rest.strip()))
    return found


def _filled(name: str, values: dict[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        found = values.get(match[1] or match[3], match[2])
        if found is None:
            raise SandboxError(f"the Dockerfile's image {name} depends on an argument that has no default")
        return found.strip("\"'")

    return _VARIABLE.sub(value, name)


def _words(rest: str) -> list[str]:
    try:
        return shlex.split(rest.replace("[", " ").replace("]", " ").replace(",", " "))
    except ValueError:
        return rest.split()
