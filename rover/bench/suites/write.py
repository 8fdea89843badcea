"""Writing a suite: one root commit a case, sealed audits, the agents' rollouts, and the manifest's cases.

No message, trailer, name or time in the store tells one case from another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rover.bench.suites.bases import Base
from rover.bench.suites.decoys import play
from rover.bench.suites.manifest import Case, Manifest
from rover.bench.suites.parallel import Pool
from rover.diagnose.inject.protocol import Damage
from rover.rollout.engine import Engine
from rover.rollout.env import load_env, tree_of
from rover.sandbox.protocol import Files
from rover_store.commits import AUTHOR
from rover_store.ids import digest
from rover_store.records import Context
from rover_store.store import Store
from rover_store.write import Transaction

#: the time of every commit of a suite: 2026-01-01
TIME = 1767225600
CONTEXT = "context/context.json"


@dataclass(frozen=True, slots=True)
class Written:
    """A case and what is done to its base; a decoy has no damage."""

    case: Case
    base: Base
    damage: Damage | None


def write_store(
    pool: Pool, folder: Path, manifest: Manifest, cases: Sequence[Written], bases: Sequence[Base], siblings: int
) -> Manifest:
    """Make the store in a folder and return the manifest with every case's commit."""
    folder.mkdir(parents=True, exist_ok=True)
    store = Store.init(folder, clock=lambda: TIME)
    beside = [_siblings(w, bases, siblings, cases) for w in cases]
    used = {b.name: b for w, some in zip(cases, beside, strict=True) for b in (w.base, *some)}
    store.sealed.append_all({name: base.audit for name, base in sorted(used.items())})
    with store.write("suite") as tx:
        made = [_commit(tx, w, some, manifest.history) for w, some in zip(cases, beside, strict=True)]
        tx.move_head(f"refs/heads/{made[0].branch}")
    _evidence(pool, store, made)
    return manifest.model_copy(update={"cases": tuple(made)})


def _commit(tx: Transaction, written: Written, siblings: Sequence[Base], history: bool) -> Case:
    """One case's commit, and its parent where the suite has a history."""
    case, base, damage = written.case, written.base, written.damage
    parents: tuple[str, ...] = ()
    if history:
        _place(tx, base.env.files, base.env.resources, base, siblings, {})
        parents = (_committed(tx, case, f"Add {base.name}", ()),)
    files, replaced, gone = _after(base, damage, history)
    held = {n: f for n, f in {**base.env.resources, **replaced}.items() if n not in gone}
    _place(tx, files, held, base, siblings, replaced if damage is not None and damage.siblings else {})
    message = f"Edit {base.name}" if history else f"Add {base.name}"
    return case.model_copy(update={"commit": _committed(tx, case, message, parents)})


def _committed(tx: Transaction, case: Case, message: str, parents: tuple[str, ...]) -> str:
    return tx.commit(message, parents=parents, branch=case.branch, author=AUTHOR, time=TIME)


def _after(
    base: Base, damage: Damage | None, history: bool
) -> tuple[Files, Mapping[str, Files], tuple[str, ...]]:
    """Files, replaced resources and resources that nobody has any more."""
    if damage is not None:
        return damage.applied(base.env.files), damage.resources, damage.gone
    if not history:
        return base.env.files, {}, ()
    # somebody edited a sound package too, else an edit would tell that it is broken
    record = base.env.record.model_copy(update={"title": f"{base.env.record.title.rstrip('.')} (revised)"})
    return {**base.env.files, "package.json": record.dump()}, {}, ()


def _place(
    tx: Transaction,
    files: Files,
    resources: Mapping[str, Files],
    base: Base,
    siblings: Sequence[Base],
    shared: Mapping[str, Files],
) -> None:
    """Set what the next commit holds. `shared` are resources to which the siblings are bound anew."""
    for name, content in resources.items():
        tx.set_resource(name, tx.tree(content))
    tx.set_package(base.name, tx.tree(files))
    for sibling in siblings:
        for name, content in sibling.env.resources.items():
            tree = tx.tree(content)
            if name not in resources:
                tx.set_resource(name, tree)
        tx.set_package(sibling.name, tx.tree(rebound(sibling.env.files, shared)))


def rebound(files: Files, resources: Mapping[str, Files]) -> Files:
    """A package bound to other versions of some resources."""
    context = Context.load(files[CONTEXT], CONTEXT)
    trees = {name: tree_of(content) for name, content in resources.items()}
    refs = tuple(
        r.model_copy(update={"tree": trees.get(f"{r.kind}/{r.name}", r.tree)}) for r in context.resources
    )
    if refs == context.resources:
        return files
    return {**files, CONTEXT: context.model_copy(update={"resources": refs}).dump()}


def _siblings(written: Written, bases: Sequence[Base], most: int, cases: Sequence[Written]) -> list[Base]:
    """Other packages of the workspace that share a resource, drawn by the case: equal packages have other company.

    One that is bound to what nobody has any more is no sibling. Nor is one whose version of a resource no other
    case of the suite holds: a store would forget it.
    """
    base, damage = written.base, written.damage
    gone = set(damage.gone) if damage is not None else set()
    replaced = set(damage.resources) if damage is not None and not damage.siblings else set()
    kept = {n for w in cases if w.base.workspace == base.workspace for n in _kept(w)}

    def fits(other: Base) -> bool:
        bound = set(other.env.resources)
        return other.name != base.name and base.shares(other) and not bound & gone and (bound & replaced) <= kept

    found = [b for b in bases if b.workspace == base.workspace and fits(b)]
    return sorted(found, key=lambda b: digest([written.case.id, base.name, b.name]))[:most]


def _kept(written: Written) -> Iterator[str]:
    """Resources that a case's commit holds in their sound version."""
    damage = written.damage
    changed = {*damage.resources, *damage.gone} if damage is not None else set()
    return (name for name in written.base.env.resources if name not in changed)


def _evidence(pool: Pool, store: Store, cases: Sequence[Case]) -> None:
    """The agents' rollouts of all cases, so that whoever looks at a case finds them as they were recorded."""
    todo = [case for case in cases if case.runs]
    with Engine(pool.runtime, store.evidence, pool.workers) as engine:
        for case in todo:
            env = load_env(store, store.package(case.package, case.commit).tree)
            play(engine, env, case.runs)
            pool.told("agents", len(todo), case.package)
