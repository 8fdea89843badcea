"""Evidence of other machines, taken as a union: looked at as a whole first, then put in a few hundred rollouts at a
time, so that what an interrupt leaves is whole, and the same call goes on from there.

Nothing that is here is replaced. Where two machines hold different runs of one rollout, or different verdicts of one
verifier on it, the first stands (ours, then the sources in their order), and the others are named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from rover_store.commits import AUTHOR, encode_commit, parse_commit
from rover_store.lock import RepositoryLock
from rover_store.objects import Objects
from rover_store.packs import COMMIT, PackWriter
from rover_store.publish import publish
from rover_store.refs import EVIDENCE
from rover_store.transfer.copying import copy_objects
from rover_store.transfer.evidence import alike, levels
from rover_store.transfer.foreign import Foreign, Inspector, Judge, Offer
from rover_store.trees import FOLDER, Level, TreeItem, edit_tree

if TYPE_CHECKING:
    from rover_store.store import Store

#: rollouts that are put in together
BATCH = 256
Told = Callable[[str, int, int], None]


class Divergence(NamedTuple):
    """What a source holds otherwise, and was not taken. `verifier` is empty where the runs themselves differ."""

    rollout: str
    package: str
    source: str
    verifier: str = ""


class Taken(NamedTuple):
    """What came of one source."""

    source: str
    rollouts: int
    verdicts: int
    objects: int


@dataclass(slots=True)
class Gathered:
    """What came of all."""

    sources: list[Taken] = field(default_factory=list)
    divergences: list[Divergence] = field(default_factory=list)

    @property
    def rollouts(self) -> int:
        return sum(one.rollouts for one in self.sources)

    @property
    def verdicts(self) -> int:
        return sum(one.verdicts for one in self.sources)


def gather(
    store: Store, sources: Sequence[Foreign], *, globs: tuple[str, ...] = (), judge: Judge | None = None,
    told: Told = lambda source, done, total: None,
) -> Gathered:  # fmt: skip
    """Take the evidence of some sources. PackageError, and nothing is changed, where any of it is not what it says."""
    offers = [
        Inspector(store.evidence, one, globs=globs, judge=judge).offers() for one in sources
    ]  # all are looked at before the first is taken
    out = Gathered()
    for source, found in zip(sources, offers, strict=True):
        rollouts = verdicts = objects = 0
        for some in (found[at : at + BATCH] for at in range(0, len(found), BATCH)):
            told(source.label, rollouts, len(found))
            new, more, count, differ = _put(store, source, some)
            rollouts, verdicts, objects = rollouts + new, verdicts + more, objects + count
            out.divergences += differ
        out.sources.append(Taken(source.label, rollouts, verdicts, objects))
    if out.rollouts or out.verdicts:
        store.after_write()
    return out


def _put(store: Store, source: Foreign, some: Sequence[Offer]) -> tuple[int, int, int, list[Divergence]]:
    """Put in one batch, as one pack and one commit."""
    evidence = store.evidence
    with RepositoryLock(evidence.git, evidence.refs) as lock:
        evidence.objects.up_to_date()
        head = evidence.refs.get(EVIDENCE)
        old = parse_commit(head, evidence.objects.read_commit(head)).tree if head else None
        writer = PackWriter(evidence.git / "objects" / "pack")
        try:
            batch = _Batch(evidence.objects, source, old, writer)
            for offer in some:
                batch.add(offer)
            if not batch.edits:
                return 0, 0, 0, batch.differ
            known = evidence.objects.exists
            count = copy_objects(source.objects, batch.tips, lambda name: name in writer or known(name), writer)
            tree = edit_tree(old, batch.edits, levels(writer, evidence.objects), writer.add)
            text = f"Evidence of another machine\n\n{batch.rollouts} rollouts, {batch.verdicts} verdicts"
            commit = writer.add(COMMIT, encode_commit(tree, [head] if head else [], text, AUTHOR, store.clock()))
            publish(lock, evidence.refs, writer, {EVIDENCE: (head, commit)},
                    lambda: evidence.objects.refresh(force=True))  # fmt: skip
        finally:
            writer.abort()
    return batch.rollouts, batch.verdicts, count, batch.differ


class _Batch:
    """What is new in some rollouts of a source, as edits of our tree."""

    def __init__(self, ours: Objects, source: Foreign, root: str | None, writer: PackWriter) -> None:
        self._ours = ours
        self._source = source
        self._root = root
        self._writer = writer
        self.edits: dict[str, TreeItem | None] = {}
        self.tips: list[str] = []
        self.rollouts = self.verdicts = 0
        self.differ: list[Divergence] = []

    def add(self, offer: Offer) -> None:
        theirs = self._source.objects.list_tree(offer.tree)
        own = self._ours.subtree(self._root, offer.path) if self._root else None
        if own is None:
            self.rollouts += 1
            self.verdicts += len(_verdicts(self._source.objects, theirs))
            self.edits[offer.path] = TreeItem(FOLDER, offer.tree)
            self.tips.append(offer.tree)
        elif own.id != offer.tree:
            self._beside(offer, self._ours.list_tree(own.id), theirs)

    def _beside(self, offer: Offer, own: Level, theirs: Level) -> None:
        """A rollout that is here: of the other one only verdicts can be taken, and only if it is the same run."""
        rollout = offer.path.rpartition("/")[2]
        if not alike(own, theirs, self._read):
            self.differ.append(Divergence(rollout, offer.package, self._source.label))
            return
        have = _verdicts(self._ours, own)
        for name, item in _verdicts(self._source.objects, theirs).items():
            if name not in have:
                self.verdicts += 1
                self.edits[f"{offer.path}/verdicts/{name}"] = item
                self.tips.append(item.id)
            elif have[name].id != item.id:
                verifier = name.removesuffix(".json")
                self.differ.append(Divergence(rollout, offer.package, self._source.label, verifier))

    def _read(self, blob: str) -> bytes:
        return self._ours.read(blob) if self._ours.exists(blob) else self._source.objects.read(blob)


def _verdicts(objects: Objects, rollout: Level) -> Level:
    item = rollout.get("verdicts")
    return objects.list_tree(item.id) if item is not None else {}
