"""Who last changed each field of a record, or each line of a text.

A field belongs to the newest commit at which it got its present value; a merge is followed to the side that a value
came from. Members of a list are known by their id, name or path, as in a diff, so that moving one changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from rover_store.diffs.bounds import DEPTH, JSON_BYTES
from rover_store.diffs.fields import field_name, parse, same
from rover_store.diffs.record_parts import ITEMS, RECORDS, keyed
from rover_store.diffs.sequence import blocks
from rover_store.errors import NotFound, UsageError
from rover_store.history import ancestry
from rover_store.history.blame_walk import Older, Walk
from rover_store.names import COMPONENTS, package_path

if TYPE_CHECKING:
    from rover_store.store import Store

#: a larger file is blamed as a whole
_LINES = 200_000


class Blamed(NamedTuple):
    """A field (or a line: `field` is its number) of a file, and the commit that gave it its value."""

    file: str
    field: str
    value: Any
    commit: str
    author: str
    time: int
    subject: str


def blame(
    store: Store, path: str, rev: str = "HEAD", field: str | None = None, *, follow: bool = False
) -> list[Blamed]:
    """Fields of the records of NAME or NAME/COMPONENT, or of one file NAME/FILE (`resources/KIND/NAME/FILE` too).

    Records, and any JSON file where `field` is given, are told by field; other texts by line, and what is no text as
    a whole. `field` narrows to one field and what is below it, or to a glob. `follow` goes on with the older name of a
    renamed package, by the rule of the log. NotFound where nothing is there.
    """
    package, folder, below = _split(path)
    commit = store.resolve(rev)
    tree = store.revisions.load(commit).tree
    item = store.objects.subtree(tree, "/".join(p for p in (folder, below) if p))
    if item is None:
        store.package(package, rev) if package else None
        raise NotFound("component or file" if package else "resource or file", path)
    files = [below]
    if item.is_folder:
        names = store.objects.read_tree(item.id)
        files = [f for f in RECORDS if f.startswith(f"{below}/" if below else "") and _tail(f, below) in names]
        if not files:
            raise UsageError(f"{path} is a folder without records; name a file of it")
    out: list[Blamed] = []
    for file in files:
        out += _file(store, commit, package, folder, file, field, follow and bool(package))
    if field is not None and not out:
        raise NotFound("field", field, hint=f"`rover blame {path}` lists the fields")
    return out


def _split(path: str) -> tuple[str, str, str]:
    """Package (empty for a resource), its folder in the tree, and the path below."""
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["resources"]:
        if len(parts) < 3:
            raise UsageError(f"{path!r} names no resource: resources/KIND/NAME/FILE")
        return "", "/".join(parts[:3]), "/".join(parts[3:])
    if not parts:
        raise UsageError("an empty word names no package")
    return parts[0], package_path(parts[0]), "/".join(parts[1:])


def _tail(file: str, below: str) -> str:
    return file[len(below) + 1 :] if below else file


def _file(
    store: Store, commit: str, package: str, folder: str, file: str, field: str | None, follow: bool
) -> list[Blamed]:
    component = file.partition("/")[0]
    node = f"{package}/{component}" if component in COMPONENTS and "/" in file else package or folder
    kind = RECORDS.get(file) if package else ("resource" if file == "resource.json" else None)

    def question(numbers: ancestry.Numbers) -> list[tuple[str, Any, str]]:
        walk = Walk(store.objects, numbers, node, f"{folder}/{file}", _renames(numbers) if follow else None)
        data = walk.data(numbers.number(commit))
        versions: _Fields | _Lines | _Whole = _Whole()
        fields = _Fields(kind or "", field)
        if (field is not None or kind is not None) and fields.of(data) is not None:
            versions = fields
        elif field is not None:
            raise UsageError(f"{package or folder}/{file}: is not JSON; it has no fields")
        elif _text(data) is not None:
            versions = _Lines()
        rows = versions.rows(data)
        found = walk.blame(numbers.number(commit), [key for key, _ in rows], versions.passed)
        return [(versions.shown(k), value, numbers.id(found[k])) for k, value in rows]

    out = []
    for name, value, culprit in ancestry.ask(store, question):
        known = store.revisions.load(culprit)
        out.append(Blamed(file, name, value, culprit, known.author, known.time, known.subject))
    return out


def _renames(numbers: ancestry.Numbers) -> Older:
    """Where a file of a package lay before a commit that renamed the package."""
    from rover_store.history.log_select import name_before

    def older(number: int, node: str, path: str) -> tuple[str, str] | None:
        name, slash, component = node.partition("/")
        came = "SELECT 1 FROM change WHERE seq = ? AND node = ? AND old IS NULL"
        if not numbers.indexed(number) or numbers.db.execute(came, (number, name)).fetchone() is None:
            return None
        before = name_before(numbers.db, number, name)
        file = path.removeprefix(package_path(name))
        return (f"{before}{slash}{component}", package_path(before) + file) if before is not None else None

    return older


class _Fields:
    """Versions of a JSON file as fields."""

    def __init__(self, kind: str, wanted: str | None) -> None:
        self._kind = kind
        self._wanted = wanted
        self._kept: dict[bytes, dict[str, Any] | None] = {}

    def of(self, data: bytes) -> dict[str, Any] | None:
        """Fields of one version, None where it is not JSON. The version before is asked for again at the next step."""
        if data not in self._kept:
            if len(self._kept) > 3:
                self._kept.pop(next(iter(self._kept)))
            try:
                self._kept[data] = flat(parse(data.decode()), self._kind) if len(data) <= JSON_BYTES else None
            except ValueError:
                self._kept[data] = None
        return self._kept[data]

    def rows(self, data: bytes) -> list[tuple[Any, Any]]:
        return [(name, value) for name, value in (self.of(data) or {}).items() if self._wants(name)]

    def passed(self, here: bytes, before: bytes, names: Iterable[Any]) -> dict[Any, Any]:
        old, new = self.of(before) or {}, self.of(here) or {}
        return {n: n for n in names if n in old and same(old[n], new[n])}

    def shown(self, name: Any) -> str:
        return str(name)

    def _wants(self, name: str) -> bool:
        wanted = self._wanted
        if wanted is None or name == wanted or (name.startswith(wanted) and name[len(wanted)] in ".["):
            return True
        return any(c in wanted for c in "*?") and fnmatchcase(name.replace("[", "<"), wanted.replace("[", "<"))


class _Lines:
    """Versions of a text as lines."""

    def rows(self, data: bytes) -> list[tuple[Any, Any]]:
        return list(enumerate((_text(data) or "").splitlines()))

    def passed(self, here: bytes, before: bytes, numbers: Iterable[Any]) -> dict[Any, Any]:
        text = _text(before)
        if text is None:
            return {}
        old, new = text.splitlines(), (_text(here) or "").splitlines()
        place: dict[int, int] = {}
        i = j = 0
        for block in [*blocks(old, new), None]:
            end = block.j1 if block is not None else len(new)
            place.update(zip(range(j, end), range(i, len(old)), strict=False))
            if block is not None:
                i, j = block.i2, block.j2
        return {n: place[n] for n in numbers if n in place}

    def shown(self, number: Any) -> str:
        return str(number + 1)


class _Whole:
    """Versions of a file that is no text."""

    def rows(self, data: bytes) -> list[tuple[Any, Any]]:
        return [("", f"{len(data)} bytes")]

    def passed(self, here: bytes, before: bytes, names: Iterable[Any]) -> dict[Any, Any]:
        return {n: n for n in names} if here == before else {}

    def shown(self, name: Any) -> str:
        return str(name)


def flat(value: Any, kind: str = "") -> dict[str, Any]:
    """Path -> value of every field that holds no further one; empty lists and objects count as values.

    Members of a list are named by their key where they have one; a list of other values is one value.
    """
    out: dict[str, Any] = {}
    waiting: list[tuple[Any, str, str, int]] = [(value, "", "", 0)]
    while waiting:
        here, path, place, depth = waiting.pop()
        inner: Mapping[str, Any] | None = None
        if isinstance(here, dict):
            inner = {f"{path}.{field_name(n)}" if path else field_name(n): n for n in here}
            rows = [(here[n], p, f"{place}.{n}" if place else n, depth + 1) for p, n in inner.items()]
        elif isinstance(here, list) and all(isinstance(member, dict) for member in here):
            members = keyed(here, ITEMS.get((kind, place)))
            if members is not None:
                inner = members
                rows = [(member, f"{path}[{n}]", place, depth + 1) for n, member in members.items()]
        if inner and depth < DEPTH:
            waiting += reversed(rows)
        else:
            out[path] = here
    return out


def _text(data: bytes) -> str | None:
    if b"\0" in data or data.count(b"\n") > _LINES:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
