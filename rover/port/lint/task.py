"""A task as its author knows it: files by their paths in its folder, lines of text, settings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rover.port.harbor import config as configs
from rover.port.harbor.restore import restore
from rover.port.lint.forms import masked
from rover.rollout.env import Env
from rover.sandbox.protocol import Files
from rover_store.errors import PackageError
from rover_store.ids import ComponentName
from rover_store.records import Finding

#: larger files are data, not text that says something
MOST_TEXT = 1 << 20
#: findings of one kind in one file; a generated script would say the same a thousand times
MOST_ALIKE = 20

TOML = configs.FILE
INSTRUCTION = "instruction.md"


@dataclass(frozen=True)
class ForeignTask:
    """One task. `files` are those of the task folder; `env` is the package that was made of them."""

    env: Env
    files: Files
    config: Mapping[str, Any]
    _texts: dict[str, str | None] = field(default_factory=dict, repr=False, compare=False)

    def text(self, path: str) -> str:
        """The text of a file; empty where there is none, or it is none."""
        if path not in self._texts:
            self._texts[path] = _decoded(self.files.get(path, b""))
        return self._texts[path] or ""

    def below(self, *folders: str) -> Iterator[tuple[str, str]]:
        """Path and text of the files in folders of a task (tests, solution, environment), in steps as well."""
        for path in sorted(self.files):
            if part_of(path) in folders and (text := self.text(path)):
                yield path, text

    def line(self, path: str, word: str) -> int | None:
        """The first line of a file that holds a word; None where none does."""
        if not word:
            return None
        lines = self.text(path).splitlines()
        return next((n for n, line in enumerate(lines, 1) if word in line), None)

    def setting(self, section: str, key: str) -> int | None:
        """The line of task.toml on which a setting stands."""
        return toml_line(self.text(TOML), section, key)


def foreign_task(env: Env) -> ForeignTask:
    """The task of a package whose verifier is a program. One that came from no folder has what can be made of it."""
    try:
        files = {path: item.data for path, item in restore(env.files).items()}
        config = configs.parse(files[TOML]) if TOML in files else {}
    except PackageError:
        files, config = {}, {}
    return ForeignTask(env, files, config)


def part_of(path: str) -> str:
    """environment, tests, solution, or the name of a file at the top; of a file of a step, its part there."""
    parts = path.split("/")
    return parts[2] if parts[0] == "steps" and len(parts) > 2 else parts[0]


def component_of(path: str) -> ComponentName:
    """The component that a file of a task goes into. A solution is in none: it shows what the context lacks."""
    part = part_of(path)
    if part == "tests":
        return "verifier"
    return "task" if part.endswith("instruction.md") else "context"


def toml_line(text: str, section: str, key: str) -> int | None:
    """The line of a key in a section of a TOML text (`environment.env`), dotted keys and inline tables too."""
    here, found = "", None
    wanted = f"{section}.{key}" if section else key
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[+\s*([^\]]+?)\s*\]+", line)
        if header and "=" not in line.partition("]")[0]:
            here = re.sub(r"\s*\.\s*|[\"']", lambda m: "." if "." in m[0] else "", header[1])
            continue
        name, equals, value = line.partition("=")
        own = name.strip().strip("\"'")
        full = f"{here}.{own}" if here else own
        if equals and full == wanted:
            return number
        inline = equals and full == section and re.search(rf"(?<![\w-]){re.escape(key)}(?![\w-])", value)
        found = found or (number if inline else None)
    return found


def finding(
    probe: str, kind: str, message: str, component: ComponentName, file: str, line: int | None = None, *,
    subject: str, confirmed: bool = False, **details: Any,
) -> Finding:  # fmt: skip
    """A finding at a place. `subject` tells it from others of its kind and stays when lines move. Secrets fall out."""
    where: dict[str, Any] = {"file": file} | ({"line": line} if line else {})
    return Finding(
        probe=probe,
        kind=kind,
        message=masked(" ".join(message.split())),
        components=(component,),
        status="confirmed" if confirmed else "hypothesis",
        evidence=(file,),
        details={"subject": masked(subject), **where, **details},
    )


def _decoded(data: bytes) -> str | None:
    if len(data) > MOST_TEXT or b"\0" in data[:4096]:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
