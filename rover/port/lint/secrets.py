"""What looks like a secret in settings, images and scripts. No value is ever repeated, in no message and no key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from rover.port.harbor.config import environments
from rover.port.harbor.dockerfile import pairs, read
from rover.port.lint.forms import kind_of
from rover.port.lint.task import TOML, ForeignTask, component_of, finding
from rover_store.errors import PackageError
from rover_store.ids import ComponentName
from rover_store.records import Finding

_NAME = re.compile(r"(?i)(?:^|[_-])(?:api[_-]?key|secret|token|passw(?:or)?d|credential|private[_-]?key)s?(?:$|[_-])")
#: values that protect nothing
_PLAIN = re.compile(
    r"(?i)^(?:|\$.*|.*\$\{.*\}.*|<.*>|x+|\*+|none|null|true|false|\d{1,4}|(?:test|dummy|fake|change[-_ ]?me|example"
    r"|placeholder|your[-_ ]|secret|password|token|postgres|root|admin).*)$"
)
_SECTIONS = ("agent", "verifier", "solution")
MOST_PER_FILE = 5


def secrets(task: ForeignTask) -> Iterator[Finding]:
    """Values in settings and images whose name or form says that they are secret; known forms in any text."""
    for section, name, value in _variables(task):
        yield from _value(section, name, value, TOML, task.setting(section, name), _component(section))
    for path in sorted(task.files):
        if path.rpartition("/")[2] == "Dockerfile":
            yield from _of_image(task, path)
    for path in sorted(task.files):
        if path != TOML and path.rpartition("/")[2] != "Dockerfile":
            yield from _of_text(task, path)


def _variables(task: ForeignTask) -> Iterator[tuple[str, str, str]]:
    """Section, name and value of every variable in task.toml."""
    tables: list[tuple[str, Any]] = []
    with suppress(AttributeError, TypeError, KeyError):
        tables += [(f"{where}.env", one.get("env")) for where, one in environments(dict(task.config))]
    tables += [(f"{s}.env", (task.config.get(s) or {}).get("env")) for s in _SECTIONS if _table(task.config.get(s))]
    for section, table in tables:
        for name, value in table.items() if isinstance(table, dict) else ():
            if isinstance(value, str):
                yield section, name, value


def _table(value: Any) -> bool:
    return value is None or isinstance(value, dict)


def _of_image(task: ForeignTask, path: str) -> Iterator[Finding]:
    try:
        found = read(task.files[path], path)
    except PackageError:
        return
    for one in found.instructions:
        if one.name in ("ENV", "ARG"):
            for name, value in pairs(one.text, found.escape):
                yield from _value(one.name, name, value, path, one.line, component_of(path))
        elif known := kind_of(one.text):
            yield _found(known, f"{one.name} in line", path, one.line, component_of(path), f"{path} {one.name} {known}")


def _of_text(task: ForeignTask, path: str) -> Iterator[Finding]:
    text = task.text(path)
    count = 0
    for number, line in enumerate(text.splitlines(), 1) if text and kind_of(text) else ():
        if known := kind_of(line):
            yield _found(known, "a text", path, number, component_of(path), f"{path} {known} {count}")
            count += 1
            if count == MOST_PER_FILE:
                return


def _value(
    section: str, name: str, value: str, file: str, line: int | None, component: ComponentName
) -> Iterator[Finding]:
    known = kind_of(value)
    if known:
        yield _found(known, f"{section}.{name}", file, line, component, f"{file} {section}.{name}")
    elif _NAME.search(name) and not _PLAIN.match(value) and len(value) >= 8:
        message = f"{section}.{name} holds a value, and its name says that it is secret ({len(value)} characters)"
        subject = f"{file} {section}.{name}"
        yield finding("secrets", "secret_in_settings", message, component, file, line, subject=subject)


def _found(known: str, where: str, file: str, line: int | None, component: ComponentName, subject: str) -> Finding:
    message = f"{where} holds what has the form of {known}"
    return finding("secrets", "secret_in_settings", message, component, file, line, subject=subject, confirmed=True)


def _component(section: str) -> ComponentName:
    return "harness" if section.startswith("agent") else "verifier" if section != "environment.env" else "context"

