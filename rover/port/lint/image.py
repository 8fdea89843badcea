"""Images without a digest; what building, testing and solving fetch, install and do as root."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rover.port.harbor import shell
from rover.port.harbor.config import environments
from rover.port.harbor.dockerfile import Dockerfile, pairs, read, replaced, split
from rover.port.lint.task import TOML, ForeignTask, component_of, finding, part_of
from rover_store.errors import PackageError
from rover_store.ids import ComponentName
from rover_store.records import Finding

_INSTALL = re.compile(
    r"(?:pip3?|uv\s+pip|python3?\s+-m\s+pip)\s+(?:-\S+\s+)*install\s+(?P<pip>[^;&|]*)|uv\s+tool\s+install\s+(?P<tool>[^;&|]*)"
    r"|(?:npm|pnpm|yarn)\s+(?:i|install|add)\s+(?P<npm>[^;&|]*)|--with\s+(?P<with>\S+)"
)
_TAKES_VALUE = frozenset({
    "-r", "-c", "-i", "-t", "-e", "--requirement", "--constraint", "--index-url", "--extra-index-url", "--target",
    "--find-links", "-f", "--editable", "--python", "--prefix", "--timeout", "--retries",
})  # fmt: skip
_PINNED = re.compile(r"==|@|===|\.whl|\.txt|\.tar|[/$]|^\.+$|^git\+")
_PYTHON_NET = re.compile(r"urlopen\(|requests\.(?:get|post|put|head)\(|httpx\.\w+\(|socket\.create_connection\(")
#: a longer script is generated, or data
MOST_SCRIPT = 200_000
_URL = re.compile(r"https?://(?!localhost\b|127\.|\[::1\]|0\.0\.0\.0)[\w.-]+")


def images(task: ForeignTask) -> Iterator[Finding]:
    """Every image that is named, without its digest."""
    for where, one in _places(task):
        image = one.get("docker_image")
        if isinstance(image, str) and image and "@sha256:" not in image:
            line = task.setting(where, "docker_image")
            yield _unpinned(image, TOML, line)
    for path in sorted(task.files):
        if path.rpartition("/")[2] == "Dockerfile":
            yield from _bases(task, path)


def fetches(task: ForeignTask) -> Iterator[Finding]:
    """What is fetched from a network, by building the image, by tests and by the solution."""
    for path, number, script in _scripts(task):
        for at, text in shell.fetching(script):
            component = component_of(path)
            what = "its image cannot be built" if part_of(path) == "environment" else f"{part_of(path)} cannot run"
            message = f"`{shell.shown(text)}` fetches from a network, without which {what}"
            yield finding("fetches", "needs_network", message, component, path, number + at - 1,
                          subject=f"{path} {shell.shown(text)}", confirmed=True)  # fmt: skip
    for path in sorted(task.files):
        if path.rpartition("/")[2] == "Dockerfile":
            yield from _added(task, path)
    for path, text in task.below("tests", "solution"):
        if path.endswith(".py"):
            for number, line in enumerate(text.splitlines(), 1):
                if _PYTHON_NET.search(line) and _URL.search(line):
                    message = f"`{shell.shown(line.strip())}` asks a server"
                    yield finding("fetches", "needs_network", message, component_of(path), path, number,
                                  subject=f"{path} {shell.shown(line.strip())}")  # fmt: skip


def installs(task: ForeignTask) -> Iterator[Finding]:
    """Packages that are installed without a version."""
    for path, number, script in _scripts(task):
        for line, text in shell.lines(script):
            for name in unpinned(text):
                message = f"{name} is installed without a version"
                yield finding("installs", "unpinned_package", message, component_of(path), path, number + line - 1,
                              subject=f"{path} {name}", confirmed=True, value=name)  # fmt: skip


def root(task: ForeignTask) -> Iterator[Finding]:
    """What tests and solution do as root, and users that are root."""
    for path, number, script in _scripts(task):
        if part_of(path) == "environment":
            continue  # an image is built by root, wherever it is
        for line, text in shell.as_root(script):
            message = f"`{shell.shown(text)}` needs root"
            yield finding("root", "needs_root", message, component_of(path), path, number + line - 1,
                          subject=f"{path} {shell.shown(text)}", confirmed=True)  # fmt: skip
    for section in ("agent", "verifier"):
        user = (task.config.get(section) or {}).get("user")
        if user in ("root", "0", 0):
            component: ComponentName = "verifier" if section == "verifier" else "harness"
            yield finding("root", "needs_root", f"{section}.user is {user!r}", component, TOML,
                          task.setting(section, "user"), subject=f"{section}.user", confirmed=True)  # fmt: skip


def unpinned(line: str) -> Iterator[str]:
    """Names of what a command installs without a version."""
    for match in _INSTALL.finditer(line):
        if (given := match["with"]) is not None:
            words = given.strip("'\"").split(",")
        else:
            words = split(match["pip"] or match["tool"] or match["npm"] or "")
        skip = False
        for word in words:
            if skip or word.startswith("-") or word in (">", "2>&1") or ">" in word[:1]:
                skip = word in _TAKES_VALUE and not skip
                continue
            name = re.split(r"[<>=!~;\[]", word)[0]
            if name and not _PINNED.search(word.removeprefix("@")) and re.fullmatch(r"@?[\w.-]+", name):
                yield name


def _places(task: ForeignTask) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        yield from environments(dict(task.config))
    except (AttributeError, TypeError, KeyError):
        return


def _bases(task: ForeignTask, path: str) -> Iterator[Finding]:
    """The FROM lines of a Dockerfile that name neither a digest nor an earlier stage."""
    found = _dockerfile(task, path)
    stages: set[str] = set()
    given: dict[str, str] = {}
    for one in found.instructions if found is not None else ():
        if one.name == "ARG" and not stages:
            given |= dict(pairs(one.text))
        if one.name != "FROM":
            continue
        words = split(replaced(one.text, given)[0])
        base = words[0] if words else ""
        if base and base != "scratch" and base.lower() not in stages and "@sha256:" not in base and "$" not in base:
            yield _unpinned(base, path, one.line)
        stages.add(words[2].lower() if len(words) == 3 and words[1].lower() == "as" else f"stage {one.line}")


def _added(task: ForeignTask, path: str) -> Iterator[Finding]:
    """What ADD takes from a server."""
    found = _dockerfile(task, path)
    for one in found.instructions if found is not None else ():
        if one.name == "ADD" and re.match(r"(?:https?|ftp|git|ssh)://|git@", one.text):
            said = f"ADD {' '.join(one.text.split())[:60]}"
            message = f"`{said}` fetches from a network, without which its image cannot be built"
            yield finding("fetches", "needs_network", message, component_of(path), path, one.line,
                          subject=f"{path} {said}", confirmed=True)  # fmt: skip


def _unpinned(image: str, file: str, line: int | None) -> Finding:
    message = f"the image {image} is not pinned by its digest"
    component: ComponentName = "verifier" if part_of(file) == "tests" else "context"
    return finding("images", "unpinned_image", message, component, file, line,
                   subject=f"{file} {image}", confirmed=True, value=image)  # fmt: skip


def _scripts(task: ForeignTask) -> Iterator[tuple[str, int, str]]:
    """Path, first line and text of every script: shell files, and what a Dockerfile runs."""
    for path, text in task.below("tests", "solution", "environment", "workdir"):
        if path.endswith(".sh") and len(text) <= MOST_SCRIPT:
            yield path, 1, text
        elif path.rpartition("/")[2] == "Dockerfile":
            found = _dockerfile(task, path)
            for one in found.instructions if found is not None else ():
                if one.name == "RUN":
                    inside = "\n".join(h.text for h in one.heredocs)
                    yield path, one.line, inside or " ".join(one.words() or (one.text,))


def _dockerfile(task: ForeignTask, path: str) -> Dockerfile | None:
    try:
        return read(task.files[path], path)
    except PackageError:
        return None
