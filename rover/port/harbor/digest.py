"""The digest that Harbor gives a task: sha256 over sorted lines of path and sha256 of each file that it publishes.

As `Packager.compute_content_hash` of harbor 0.25. A task's .gitignore says what is left out, else a list of what
editors and interpreters leave behind; links to folders are not followed. Rules of a .harborignore are Harbor's own: a
task that has one is not judged here, nor one with more rules than can be.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from rover.port.harbor.gitignore import left_out, rules_of
from rover.port.harbor.tree import Tree, ignored

_SINGLE = ("task.toml", "instruction.md", "README.md", "trajectory.json")
_FOLDERS = ("environment/", "tests/", "solution/", "steps/")


def content_digest(tree: Tree) -> str:
    """`sha256:...`; empty where its rules decide, and cannot be judged."""
    if any(path.rpartition("/")[2] == ".harborignore" for path in tree):
        return ""
    paths = sorted(path for path in tree if path in _SINGLE or path.startswith(_FOLDERS))
    out = _left_out(tree, paths)
    if out is None:
        return ""
    outer = hashlib.sha256()
    for path in paths:
        if path not in out and "\0" not in tree[path].link:
            outer.update(f"{path}\0{hashlib.sha256(tree[path].data).hexdigest()}\n".encode())
    return f"sha256:{outer.hexdigest()}"


def _left_out(tree: Tree, paths: Iterable[str]) -> set[str] | None:
    if ".gitignore" not in tree:
        return {path for path in paths if any(map(ignored, path.split("/")))}
    rules = rules_of(tree[".gitignore"].data.decode("utf-8", "replace"))
    return None if rules is None else left_out(rules, paths)
