"""Synthetic suites of any size for the benchmarks of the store: valid packages whose content a seed decides.

Twelve files a package, 98 kB in all: four of them are the same in every package of a group of 64, so that a third of
all files is shared. Every context is bound to a resource that eight packages share and to one of 32 that all do.
`build` keeps a suite in a folder and finds it there again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path

from rover_store.graph import DEFAULT
from rover_store.names import COMPONENTS, ComponentName
from rover_store.records import Context, Contract, Edge, Harness, Package, ResourceRef, Task, Verifier
from rover_store.store import Store
from rover_store.write import Transaction

START = 1_700_000_000
GROUP, BLOCK, HUBS = 8, 64, 32
FILES = 12
Files = dict[str, bytes]
Tick = Callable[[int, int], None]


def name(i: int) -> str:
    return f"case-{i:06}"


class Suite:
    """The files of a suite, by number: the same for the same seed, in any order and on any machine."""

    def __init__(self, packages: int, seed: int = 0) -> None:
        self.packages = packages
        rng = random.Random(f"suite {seed}")
        rows = (f"{rng.randrange(10**9)},{rng.choice(_WORDS)},{rng.random() * 1000:.2f}\n" for _ in range(150_000))
        self._pool = "".join(rows).encode()
        self._seed = seed
        self._fixed = {
            "task/task.json": Task(title="Sum the orders").dump(),
            "task/contract.json": Contract().dump(),
            "harness/harness.json": Harness(tools=("read_file", "write_file", "read_table")).dump(),
            "verifier/verifier.json": Verifier(criteria=()).dump(),
        }

    def resources(self) -> Iterator[tuple[str, Files]]:
        """Resources with their files: the shared ones first, then one for each group."""
        for i in range(min(HUBS, self.packages)):
            yield f"files/hub-{i:02}", {"resource.json": b"{}\n", "files/rates.csv": self._text("hub", i, 4_000)}
        for i in range((self.packages + GROUP - 1) // GROUP):
            yield f"files/group-{i:05}", {"resource.json": b"{}\n", "files/orders.csv": self._text("group", i, 6_000)}

    def bound(self, i: int) -> tuple[str, str]:
        """Resources that the context of a package is bound to."""
        return f"files/group-{i // GROUP:05}", f"files/hub-{i % min(HUBS, self.packages):02}"

    def files(self, i: int, resources: dict[str, str]) -> Files:
        """Files of a package but package.json, which needs the ids; `resources`: name -> tree id."""
        refs = tuple(ResourceRef(name=r.partition("/")[2], tree=resources[r]) for r in self.bound(i))
        block = i // BLOCK
        return {
            **self._fixed,
            "context/context.json": Context(resources=refs).dump(),
            "context/files/notes.md": self._text("notes", i, 9_000),
            "context/files/orders.csv": self._text("orders", i, 44_000),
            "context/files/prices.csv": self._text("prices", block, 20_000),
            "task/instruction.md": f"Sum the orders of case {i}.\n".encode() + self._text("task", i, 1_500),
            "verifier/checks/main.py": b"def ok(ev):\n    return 1.0\n" + b"# " + self._text("check", block, 2_000),
            "verifier/reference/files/totals.csv": self._text("totals", i, 19_000),
        }

    def _text(self, kind: str, i: int, size: int) -> bytes:
        at = random.Random(f"{self._seed} {kind} {i}").randrange(len(self._pool) - size)
        return f"{kind} {i}\n".encode() + self._pool[at : at + size]


_WORDS = ("north", "south", "east", "west", "returned", "shipped", "open", "late", "paid", "due")


def package_record(
    i: int, components: Mapping[ComponentName, str], resources: Mapping[str, str], bound: tuple[str, ...]
) -> bytes:
    """package.json of a package with these component and resource versions."""
    edges = [Edge(source="context", target=f"resources/{r}", version=resources[r]) for r in bound]
    pairs = [(c, t) for c in COMPONENTS for t in COMPONENTS if t in DEFAULT[c]]
    edges += [Edge(source=c, target=t, version=components[t]) for c, t in pairs]
    return Package(name=name(i), title=f"Case {i}", family=f"family-{i % 4}", edges=tuple(edges)).dump()


def put_resources(tx: Transaction, suite: Suite) -> dict[str, str]:
    """Set all resources of a suite. Returns name -> tree id."""
    out = {}
    for resource, files in suite.resources():
        out[resource] = tx.tree(files)
        tx.set_resource(resource, out[resource])
    return out


def put_package(tx: Transaction, i: int, files: Files, resources: dict[str, str], bound: tuple[str, ...]) -> str:
    """Set one package. Returns its tree."""
    tree = tx.tree(files)
    components = {c: tx.list_tree(tree)[c].id for c in COMPONENTS}
    tree = tx.edit_tree(tree, {"package.json": package_record(i, components, resources, bound)})
    tx.set_package(name(i), tree)
    return tree


def build(folder: Path, packages: int, seed: int = 0, tick: Tick | None = None) -> Store:
    """The store of a suite, one commit for all; found again where it was built before."""
    if (folder / ".rover").is_dir():
        store = Store.open(folder, clock=clock())
        if store.refs.head_id() is not None:
            return store
    else:
        folder.mkdir(parents=True, exist_ok=True)
        store = Store.init(folder, clock=clock())
    suite = Suite(packages, seed)
    with store.write(f"import {packages} packages") as tx:
        resources = put_resources(tx, suite)
        for i in range(packages):
            put_package(tx, i, suite.files(i, resources), resources, suite.bound(i))
            if tick is not None and i % 500 == 0:
                tick(i, packages)
        tx.commit(f"Import {packages} packages")
    return store


def clock() -> Callable[[], int]:
    """A clock that counts up from a fixed second."""
    ticks = count(START)
    return lambda: next(ticks)
