"""The digest that Harbor gives a task: sha256 over sorted lines of path and sha256 of each file that it publishes.

Verified against harbor 0.25 (`Packager.compute_content_hash`). A task's own .gitignore decides what is left out, and
.harborignore files what of tests and solution; those rules are Harbor's, read by pathspec there. A task that has either
is not judged here.
"""

from __future__ import annotations

import hashlib

from rover.port.harbor.tree import Tree

_SINGLE = ("task.toml", "instruction.md", "README.md", "trajectory.json")
_FOLDERS = ("environment/", "tests/", "solution/", "steps/")


def content_digest(tree: Tree) -> str:
    """`sha256:...`; empty where ignore rules of the task decide."""
    if ".gitignore" in tree or any(path.rpartition("/")[2] == ".harborignore" for path in tree):
        return ""
    outer = hashlib.sha256()
    for path in sorted(path for path in tree if path in _SINGLE or path.startswith(_FOLDERS)):
        outer.update(f"{path}\0{hashlib.sha256(tree[path].data).hexdigest()}\n".encode())
    return f"sha256:{outer.hexdigest()}"
