"""Take another tool's files into the store: everything that was read in one commit, or nothing.

One bad task of many ends the import by default, and nothing is changed: who imports a dataset wants all of it, or to
know that it is not whole. `keep_going` takes the good ones and names the bad.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from dataclasses import replace as replace_record
from pathlib import Path
from typing import TYPE_CHECKING

from rover.port.protocol import Found, Imported, Recorded, Refused, Replayable, Wanted
from rover.port.registry import importer
from rover.rollout.env import below, tree_of
from rover_store.errors import NotFound, PackageError, UsageError
from rover_store.files.package_records import check_paths
from rover_store.ids import COMPONENTS, blob_id, check_name
from rover_store.records import Package

if TYPE_CHECKING:
    from rover.sandbox.protocol import Files, Runtime
    from rover_store.store import Store

Told = Callable[[str, int], None]
#: asked with the names of packages that differ from those that are here
Replace = Callable[[tuple[str, ...]], bool]


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """What to import. `keep_going`: take what is sound where something is refused."""

    kind: str
    path: Path
    wanted: Wanted = field(default_factory=Wanted)
    keep_going: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class ImportRow:
    """What became of one task or rollout: `added`, `replaced`, `unchanged`, `recorded` or `refused`; of one that was
    played again also `held` (it was here) or `differs` (it went otherwise here); `read` where nothing was to change.

    `file` (within the source) and `field` say where the reason for a refusal lies."""

    source: str
    outcome: str
    name: str = ""
    reason: str = ""
    file: str = ""
    field: str = ""
    needs: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    rollout: str = ""

    def line(self) -> str:
        """The reason in one line: of a refusal with its place."""
        if self.outcome != "refused":
            return self.reason
        return Refused(self.source, self.file, self.field, self.reason).line()


@dataclass(frozen=True, slots=True)
class ImportReport:
    """Rows in the order of reading. `commit` is empty where nothing was committed."""

    kind: str
    rows: tuple[ImportRow, ...]
    commit: str = ""
    dry_run: bool = False

    def count(self, outcome: str) -> int:
        return sum(row.outcome == outcome for row in self.rows)


def import_(
    store: Store,
    request: ImportRequest,
    *,
    told: Told = lambda name, done: None,
    replace: Replace = lambda names: False,
    command: str = "",
    time: int | None = None,
    runtime: Callable[[], Runtime] | None = None,
) -> ImportReport:
    """Read, check, and commit. PackageError for the first task that is refused, unless it is to be kept going.

    `runtime` is opened where rollouts are to be played again.
    """
    found = _read(request, told)
    seen = _trees(store)
    found = [_admitted(store, one) if isinstance(one, Imported) else one for one in _named(found, request.keep_going)]
    packages = [one for one in found if isinstance(one, Imported)]
    outcomes = {one.name: _outcome(store, one) for one in packages}
    replaced = tuple(sorted(name for name, outcome in outcomes.items() if outcome == "replaced"))
    if replaced and not request.dry_run and not replace(replaced):
        more = f" and {len(replaced) - 3} more" if len(replaced) > 3 else ""
        hint = "-y replaces them; their history stays"
        raise UsageError(f"packages of these names are here and differ: {', '.join(replaced[:3])}{more}", hint=hint)
    rows = tuple(_row(one, outcomes) for one in found)
    if not packages and not any(isinstance(one, Recorded | Replayable) for one in found):
        if not any(isinstance(one, Refused) for one in found):
            raise UsageError(f"{request.path}: nothing to import matches {request.wanted.pattern!r}")
        return ImportReport(request.kind, rows, dry_run=request.dry_run)
    if request.dry_run:
        return ImportReport(request.kind, rows, dry_run=True)
    changed = [one for one in packages if outcomes[one.name] != "unchanged"]
    commit = _commit(store, request, changed, seen, command, time)
    recorded = [one for one in found if isinstance(one, Recorded)]
    if recorded:
        store.evidence.put([(one.trajectory, one.blobs, one.trees) for one in recorded], [])
    if runtime is not None and any(isinstance(one, Replayable) for one in found):
        rows = _replayed(store, request, found, rows, runtime(), told)
    return ImportReport(request.kind, rows, commit)


def _replayed(
    store: Store, request: ImportRequest, found: list[Found], rows: tuple[ImportRow, ...], runtime: Runtime, told: Told
) -> tuple[ImportRow, ...]:
    """Play the rollouts again, one after the other; each is recorded as soon as it is done."""
    from rover.rollout.engine import Engine

    out = list(rows)
    with Engine(runtime) as engine:
        for number, one in enumerate(found):
            if not isinstance(one, Replayable):
                continue
            try:
                done = one.replay(store, engine)
            except PackageError as error:
                if not request.keep_going:
                    raise
                file = "" if error.file == one.source else error.file
                out[number] = _refused(Refused(one.source, file, error.field, error.reason))
                continue
            reason = done.reason or done.verdict
            out[number] = ImportRow(one.source, done.outcome, done.package, reason, notes=done.notes,
                                    rollout=done.rollout)  # fmt: skip
            told(one.source, number + 1)
    return tuple(out)


def _read(request: ImportRequest, told: Told) -> list[Found]:
    path = request.path.expanduser()
    if not path.exists():
        raise NotFound("path", str(request.path))
    found: list[Found] = []
    for one in importer(request.kind).read(path, request.wanted):
        if isinstance(one, Refused) and not request.keep_going:
            where = "/".join(p for p in (one.source, one.file) if p and p != ".")
            raise PackageError(where, one.field, one.reason, hint="--keep-going takes the others")
        found.append(one)
        told(one.source, len(found))
    return found


def _named(found: list[Found], keep_going: bool) -> Iterator[Found]:
    """Every package is one, and no two have one name: the second is refused."""
    seen: dict[str, str] = {}
    for one in found:
        if isinstance(one, Imported):
            check_name(one.name, one.source, "name")
            check_paths(list(one.files))
            if one.name in seen:
                reason = f"{one.name} is also the name of {seen[one.name]}"
                if not keep_going:
                    raise PackageError(one.source, "name", reason)
                yield Refused(one.source, "", "name", reason)
                continue
            seen[one.name] = one.source
        yield one


def _admitted(store: Store, one: Imported) -> Imported:
    """The package with the admission that this store holds for these very components; none comes from outside."""
    record = Package.load(one.files["package.json"], "package.json") if "package.json" in one.files else None
    if record is None:
        return one
    admission = None
    with suppress(NotFound):
        present = store.package(one.name)
        stored = Package.load(store.objects.read(_item(store, present.tree)), "package.json")
        if stored.admission is not None and stored.admission.components == _components(one.files):
            admission = stored.admission
    if record.admission == admission:
        return one
    data = record.model_copy(update={"admission": admission}).dump()
    return replace_record(one, files={**one.files, "package.json": data})


def _item(store: Store, tree: str) -> str:
    found = store.objects.subtree(tree, "package.json")
    if found is None:
        raise NotFound("file", "package.json")
    return found.id


def _components(files: Files) -> dict[str, str]:
    return {c: tree_of(below(files, f"{c}/")) for c in COMPONENTS}


def _trees(store: Store) -> dict[str, str]:
    """The packages that are here now."""
    return {entry.name: entry.tree for entry in store.packages()}


def _outcome(store: Store, one: Imported) -> str:
    """What is here already stays as it is: where it was found this time is no change of it."""
    try:
        present = store.package(one.name)
    except NotFound:
        return "added"
    items = store.objects.read_tree(present.tree)
    here = {path: item.id for path, item in items.items() if path != "package.json"}
    came = {path: blob_id(data) for path, data in one.files.items() if path != "package.json"}
    return "unchanged" if here == came else "replaced"


def _refused(one: Refused) -> ImportRow:
    return ImportRow(one.source, "refused", reason=one.reason, file=one.file, field=one.field)


def _row(one: Found, outcomes: dict[str, str]) -> ImportRow:
    if isinstance(one, Refused):
        return _refused(one)
    if isinstance(one, Recorded):
        return ImportRow(one.source, "recorded", notes=one.notes)
    if isinstance(one, Replayable):
        return ImportRow(one.source, "read")
    outcome = outcomes[one.name]
    return ImportRow(one.source, outcome, one.name, needs=one.needs, unknown=one.unknown, notes=one.notes)


def _commit(
    store: Store,
    request: ImportRequest,
    changed: list[Imported],
    seen: Mapping[str, str],
    command: str,
    time: int | None,
) -> str:
    """One commit of them. UsageError where somebody changed one of these packages since `seen` was looked at: nobody
    was asked about what is there now."""
    if not changed:
        return ""
    plural = "" if len(changed) == 1 else "s"
    with store.write(command or f"import {request.kind}") as tx:
        now = _trees(store)
        moved = sorted(one.name for one in changed if now.get(one.name) != seen.get(one.name))
        if moved:
            more = f" and {len(moved) - 3} more" if len(moved) > 3 else ""
            raise UsageError(f"changed by another command meanwhile: {', '.join(moved[:3])}{more}; nothing is imported",
                             hint="the same command again looks at what is there now")  # fmt: skip
        present = store.resources()
        for one in changed:
            for name, files in sorted(one.resources.items()):
                # another version that is here stays what the others are bound to; history holds this one
                tree = tree_of(files)
                if name not in present or (present[name] != tree and not store.objects.exists(tree)):
                    tx.set_resource(name, tx.tree(files))
            tx.set_package(one.name, tx.tree(one.files))
        place = request.path.resolve().name
        whence = request.kind + (f" ({place})" if place != request.kind else "")
        subject = f"Import {len(changed)} package{plural} from {whence}"
        return tx.commit(subject, trailers={"Rover-Import": request.kind}, time=time)
