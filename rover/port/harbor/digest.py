"""The digest that Harbor gives a task: sha256 over sorted lines of path and sha256 of each file that it publishes.

As `Packager.compute_content_hash` of harbor 0.25. A task's .gitignore says what is left out, else a list of what
editors and interpreters leave behind; links to folders are not followed. Rules of a .harborignore are Harbor's own: a
task that has one is not judged here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from rover.port.harbor.tree import Tree, ignored

_SINGLE = ("task.toml", "instruction.md", "README.md", "trajectory.json")
_FOLDERS = ("environment/", "tests/", "solution/", "steps/")


def content_digest(tree: Tree) -> str:
    """`sha256:...`; empty where a .harborignore decides."""
    if any(path.rpartition("/")[2] == ".harborignore" for path in tree):
        return ""
    out = _rules(tree)
    outer = hashlib.sha256()
    for path in sorted(path for path in tree if path in _SINGLE or path.startswith(_FOLDERS)):
        if not out(path) and "\0" not in tree[path].link:
            outer.update(f"{path}\0{hashlib.sha256(tree[path].data).hexdigest()}\n".encode())
    return f"sha256:{outer.hexdigest()}"


def _rules(tree: Tree) -> Callable[[str], bool]:
    """Whether a path is left out."""
    if ".gitignore" not in tree:
        return lambda path: any(map(ignored, path.split("/")))
    from dulwich.ignore import IgnoreFilter

    rules = IgnoreFilter(line.encode() for line in tree[".gitignore"].data.decode("utf-8", "replace").splitlines())

    def out(path: str) -> bool:
        parts = path.split("/")
        above = ["/".join(parts[:n]) + "/" for n in range(1, len(parts))]
        return any(rules.is_ignored(one) for one in (*above, path))

    return out
