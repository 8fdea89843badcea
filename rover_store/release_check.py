"""Whether a release is still what was signed off: everything is computed again and compared."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from rover_store.errors import NotFound, StoreError, UsageError
from rover_store.refs import RELEASES, TAGS
from rover_store.release import HEADER, MANIFEST, Released, contents, read

if TYPE_CHECKING:
    from rover_store.store import Store


class Verification(NamedTuple):
    """`problems` name what differs; `notes` what could not be looked at. Sound where there is no problem."""

    tag: str
    release: Released | None
    packages: int
    problems: tuple[str, ...]
    notes: tuple[str, ...]


def verify(store: Store, tag: str) -> Verification:
    """Compute a release's manifest again and compare. NotFound for no tag, UsageError for a tag of no release."""
    found = read(store, tag)
    kept = store.refs.get(RELEASES + tag)
    if found is None:
        if kept is None:
            raise UsageError(f"the tag {tag} is no release", hint="`rover release --list` shows them")
        target = store.revisions.peel(str(store.refs.get(TAGS + tag)))
        return Verification(tag, None, 0, (f"the tag was replaced: it names {target[:12]} and signs nothing off",), ())
    problems: list[str] = []
    notes: list[str] = []
    try:
        commit = store.revisions.load(found.commit)
        now = contents(store.objects, commit.tree)
    except (NotFound, StoreError) as error:
        return Verification(tag, found, 0, (f"the released commit cannot be read: {error.message}",), ())
    if now.sha256 != found.sha256:
        problems.append(f"the manifest's sha256 is {now.sha256[:12]}, the tag says {found.sha256[:12]}")
    if kept is None or not store.objects.exists(found.release):
        notes.append("the manifest is not kept in this store; it was computed from the revision alone")
    else:
        if kept != found.release:
            problems.append(f"{RELEASES}{tag} is at {kept[:12]}, the tag says {found.release[:12]}")
        problems += _kept_problems(store, found, commit.tree, now.lines)
    return Verification(tag, found, now.packages, tuple(problems), tuple(notes))


def _kept_problems(store: Store, found: Released, tree: str, lines: list[str]) -> list[str]:
    """What the kept files say otherwise than the tag and the revision."""
    made = store.revisions.load(found.release)
    items = {name: store.objects.subtree(made.tree, name) for name in (HEADER, MANIFEST)}
    out = [f"{name} is missing from {found.release[:12]}" for name, item in items.items() if item is None]
    if made.parents != (found.commit,):
        out.append(f"{found.release[:12]} was made of another commit than {found.commit[:12]}")
    manifest, header = items[MANIFEST], items[HEADER]
    if manifest is not None and manifest.id != found.manifest:
        out.append(f"{MANIFEST} is the blob {manifest.id[:12]}, the tag says {found.manifest[:12]}")
    if manifest is not None:
        out += _lines_problems(store.objects.read(manifest.id).decode("utf-8", "replace").splitlines(), lines)
    if header is not None:
        said = _entry(store.objects.read(header.id).decode("utf-8", "replace"))
        wanted = {"tag": found.tag, "commit": found.commit, "tree": tree, "sha256": found.sha256,
                  "signed_off_by": found.signed_off_by}  # fmt: skip
        out += [f"{HEADER}: {k} is {said.get(k)!r}, not {v!r}" for k, v in wanted.items() if said.get(k) != v]
    return out


def _lines_problems(kept: list[str], now: list[str]) -> list[str]:
    """Entries that differ, by type and name, field by field."""
    if kept == now:
        return []
    sides = [{(e.get("type"), e.get("name")): e for e in map(_entry, lines)} for lines in (kept, now)]
    out = []
    for key in sorted(sides[0].keys() | sides[1].keys(), key=str):
        old, new = (side.get(key) for side in sides)
        what = f"{key[0]} {key[1]}"
        if old is None or new is None:
            out.append(f"{what} is {'not in the manifest' if old is None else 'in the manifest alone'}")
            continue
        fields = [f for f in old.keys() | new.keys() if old.get(f) != new.get(f)]
        out += [f"{what}: {f} is {old.get(f)} in the manifest, {new.get(f)} in the store" for f in sorted(fields)]
    return out or ["the lines of the manifest are in another order or form"]


def _entry(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
