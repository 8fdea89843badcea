"""Small packages for tests of the store: valid records, content that a test chooses.

`new_store(folder)` makes a store whose clock counts up from a fixed second, `add(store, name, ...)` commits one
package with the default edges, `edit(store, name, {path: bytes})` changes files of it without touching its edges.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from itertools import count
from pathlib import Path

from rover_store.commits import AUTHOR, encode_commit
from rover_store.graph import DEFAULT
from rover_store.names import COMPONENTS
from rover_store.packs import COMMIT
from rover_store.records import Context, Contract, Edge, Harness, Package, ResourceRef, Task, Verifier
from rover_store.store import Store
from rover_store.trees import EXECUTABLE, FOLDER, LINK, SUBMODULE, TreeItem
from rover_store.write import Transaction

START = 1_700_000_000


def new_store(folder: Path) -> Store:
    ticks = count(START)
    return Store.init(folder, clock=lambda: next(ticks))


def package_files(name: str, text: str = "Do it.", resources: Mapping[str, str] | None = None) -> dict[str, bytes]:
    """Files of a package but package.json, which needs the ids."""
    refs = tuple(ResourceRef(name=r.partition("/")[2], tree=t) for r, t in (resources or {}).items())
    return {
        "context/context.json": Context(resources=refs).dump(),
        "context/files/data.csv": f"a,b\n{len(name)},2\n".encode(),
        "task/task.json": Task(title=name).dump(),
        "task/instruction.md": text.encode(),
        "task/contract.json": Contract().dump(),
        "harness/harness.json": Harness(tools=("read_file",)).dump(),
        "verifier/verifier.json": Verifier(criteria=()).dump(),
        "verifier/checks/main.py": b"def ok(ev):\n    return 1.0\n",
    }


def package_tree(tx: Transaction, name: str, files: Mapping[str, bytes], resources: Mapping[str, str]) -> str:
    tree = tx.tree(files)
    ids = {c: tx.list_tree(tree)[c].id for c in COMPONENTS}
    edges = [Edge(source="context", target=f"resources/{r}", version=t) for r, t in resources.items()]
    edges += [Edge(source=c, target=t, version=ids[t]) for c in COMPONENTS for t in DEFAULT[c]]
    return tx.edit_tree(tree, {"package.json": Package(name=name, title=name.title(), edges=tuple(edges)).dump()})


def add(store: Store, name: str, text: str = "Do it.", resources: Mapping[str, bytes] | None = None) -> str:
    """Commit a package, bound to resources given as name -> bytes of their only file."""
    with store.write(f"add {name}") as tx:
        trees = {r: tx.tree({"resource.json": b"{}\n", "files/data.csv": d}) for r, d in (resources or {}).items()}
        for resource, tree in trees.items():
            tx.set_resource(resource, tree)
        tx.set_package(name, package_tree(tx, name, package_files(name, text, trees), trees))
        return tx.commit(f"Add {name}")


def edit(store: Store, name: str, files: Mapping[str, bytes | None], message: str = "") -> str:
    with store.write(f"edit {name}") as tx:
        tx.set_package(name, tx.edit_tree(store.package(name).tree, files))
        return tx.commit(message or f"Edit {name}")


def folder_item(tree: str) -> TreeItem:
    return TreeItem(FOLDER, tree)


def git(folder: Path, *arguments: str) -> str:
    """Output of real git, which must succeed. No configuration of the machine is read."""
    environment = {
        "PATH": "/usr/bin:/bin", "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Other", "GIT_AUTHOR_EMAIL": "other@example.org",
        "GIT_COMMITTER_NAME": "Other", "GIT_COMMITTER_EMAIL": "other@example.org",
    }  # fmt: skip
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=environment, check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def odd_commit(store: Store) -> str:
    """A commit on HEAD that another git could make: entries where no package and no resource lies."""
    head = store.commit("HEAD")
    one = folder_item(store.package("one").tree)
    with store.write() as tx:
        blob, empty = tx.blob(b"x"), folder_item(tx.tree({}))
        edits = {
            "packages/0/0/0/one": one, "packages/README": TreeItem(LINK, blob),
            "packages/0/module": TreeItem(SUBMODULE, "1" * 40), "resources/odd/x/a.txt": TreeItem(EXECUTABLE, blob),
            "resources/list": TreeItem(EXECUTABLE, blob), "empty": empty,
        }  # fmt: skip
        root = tx.edit_tree(head.tree, edits)
        made = tx.add(COMMIT, encode_commit(root, [head.id], "Odd", AUTHOR, 1_700_000_000))
        tx.promote("main", made, expect=head.id)
    return made
