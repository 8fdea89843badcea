"""Releases: a signed-off annotated tag, and a manifest of everything it names that can be computed again.

    refs/tags/TAG                  message: summary, manifest's blob and sha256, tree, Signed-off-by
    refs/rover/releases/TAG        a commit on the released one, with release.json and manifest.jsonl at the top

The manifest follows from the revision alone, so a clone that has only the tag can verify it too. Both refs move in
one operation: `undo` takes back both.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from rover_store import layout
from rover_store.cases import open_cases
from rover_store.commits import Commit, parse_tag
from rover_store.errors import NotFound, UsageError
from rover_store.graph_at import stale
from rover_store.packs import TAG
from rover_store.refs import RELEASES, TAGS, check_ref

if TYPE_CHECKING:
    from rover_store.objects import Objects
    from rover_store.store import Store
    from rover_store.trees import TreeItem

MANIFEST, HEADER = "manifest.jsonl", "release.json"
#: what a release is refused for, unless it is allowed
REFUSED = ("stale", "unadmitted", "case")
_SIGNED = re.compile(r"[^<>\x00-\x1f\x7f]*[^<>\s\x00-\x1f\x7f] <[^<>@\s]+@[^<>@\s]+>")
_BAD_TEXT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class Contents(NamedTuple):
    """A revision as a manifest: its lines, sorted by their bytes, and what they add up to."""

    lines: list[str]
    packages: int
    resources: int
    families: dict[str, int]
    licenses: dict[str, int]
    unlicensed: list[str]
    unadmitted: list[str]

    @property
    def manifest(self) -> bytes:
        return "".join(line + "\n" for line in self.lines).encode()

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.manifest).hexdigest()


class Released(NamedTuple):
    """A release. `manifest` is a blob's id; `commit` what was released, `release` the commit with the manifest."""

    tag: str
    tag_id: str
    commit: str
    release: str
    manifest: str
    sha256: str
    signed_off_by: str
    time: int


def contents(objects: Objects, tree: str) -> Contents:
    """The manifest of a revision's tree."""
    rows: list[dict[str, Any]] = []
    for kind, file, trees in (
        ("package", "package.json", layout.package_trees(objects, tree)),
        ("resource", "resource.json", layout.resource_trees(objects, tree)),
    ):
        said = _said(objects, {name: objects.subtree(t, file) for name, t in trees.items()})
        rows += [_row(objects, kind, name, t, said.get(name, {})) for name, t in trees.items()]
    licenses = Counter(row["license"] for row in rows)
    unlicensed = [row["name"] for row in rows if not row["license"]]
    licenses.pop("", None)
    families = Counter(row["family"] or "hand" for row in rows if row["type"] == "package")
    lines = sorted((json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows), key=str.encode)
    unadmitted = [row["name"] for row in rows if row.get("admitted") is False]
    kinds = Counter(row["type"] for row in rows)
    return Contents(
        lines, kinds["package"], kinds["resource"], dict(sorted(families.items())), dict(sorted(licenses.items())),
        unlicensed, unadmitted,
    )  # fmt: skip


def _row(objects: Objects, kind: str, name: str, tree: str, said: dict[str, Any]) -> dict[str, Any]:
    license = said.get("license", "")
    if kind == "resource":
        return {"type": kind, "name": name, "tree": tree, "license": license}
    components = layout.entry(objects, name, tree).components
    admitted = bool(components) and said.get("admitted") == components
    return {"type": kind, "name": name, "tree": tree, "components": components, "family": said.get("family", ""),
            "license": license, "admitted": admitted}  # fmt: skip


def obstacles(store: Store, rev: str, found: Contents) -> dict[str, list[str]]:
    """Packages that stand in the way of a release, by what is wrong with them."""
    waiting = {case.package for case in open_cases(store, rev)}
    behind = {s.package for s in stale(store, rev)}
    return {"stale": sorted(behind), "unadmitted": found.unadmitted, "case": sorted(waiting)}


def release(
    store: Store, tag: str, rev: str = "HEAD", *, sign_off: str, message: str = "", allow: Iterable[str] = (),
    command: str = "",
) -> Released:  # fmt: skip
    """Make a release. UsageError for a taken tag, a malformed sign-off, or packages that are in no state for it."""
    from rover_store.records import Release

    allowed = set(allow)
    _check(store, tag, sign_off, message, allowed)
    commit = store.commit(rev)
    found = contents(store.objects, commit.tree)
    if not found.packages:
        raise UsageError(f"{rev} holds no package to release")
    bad = obstacles(store, commit.id, found)
    _refuse(tag, {kind: names for kind, names in bad.items() if kind not in allowed})
    header = Release(
        tag=tag, commit=commit.id, tree=commit.tree, signed_off_by=sign_off, packages=found.packages,
        resources=found.resources, families=found.families, licenses=found.licenses,
        unlicensed=len(found.unlicensed), sha256=found.sha256,
        allowed={kind: len(bad[kind]) for kind in REFUSED if kind in allowed and bad[kind]},
    )  # fmt: skip
    with store.write(command or f"release {tag}") as tx:
        ref = RELEASES + tag
        before = tx.ref(ref)  # of a release whose tag was deleted
        manifest = tx.blob(found.manifest)
        made = tx.detached_commit(
            f"Release {tag}", base=commit.id, files={HEADER: header.dump(), MANIFEST: manifest},
            author=sign_off,
        )  # fmt: skip
        text = _message(header.model_dump(mode="json"), message, manifest, made)
        tag_id = tx.tag(tag, commit.id, text, author=sign_off)
        tx.set_ref(ref, made, expect=before)
    return read(store, tag) or Released(tag, tag_id, commit.id, made, manifest, found.sha256, sign_off, 0)


def read(store: Store, tag: str) -> Released | None:
    """A release by its tag; None where the tag is none of a release. NotFound where there is no such tag."""
    tag_id = store.refs.get(TAGS + tag)
    if tag_id is None:
        raise NotFound("release", tag, hint="`rover release --list` shows them")
    kind, data = store.objects.get(tag_id)
    if kind != TAG:
        return None
    commit, target, message = parse_tag(tag_id, data)
    said = Commit("", "", (), "", 0, message).trailers
    names = ("Rover-Manifest", "Rover-Manifest-SHA256", "Rover-Release", "Signed-off-by")
    if target != "commit" or any(name not in said for name in names):
        return None
    manifest, sha256, made, signed = (said[name] for name in names)
    return Released(tag, tag_id, commit, made, manifest, sha256, signed, _time(data))


def releases(store: Store) -> list[Released]:
    """All releases, the oldest first."""
    names = (name.removeprefix(TAGS) for name in store.refs.all(TAGS))
    return sorted((r for r in (read(store, name) for name in names) if r), key=lambda r: (r.time, r.tag))


def header(store: Store, made: Released) -> dict[str, Any]:
    """release.json of a release as plain data; empty where the manifest is not in this store (a clone by git)."""
    data = _file(store, made, HEADER)
    return _json(data) if data is not None else {}


def manifest(store: Store, made: Released) -> bytes:
    """manifest.jsonl of a release: as kept, or computed again where this store does not have it."""
    kept = _file(store, made, MANIFEST)
    return contents(store.objects, store.commit(made.commit).tree).manifest if kept is None else kept


def _file(store: Store, made: Released, name: str) -> bytes | None:
    if not store.objects.exists(made.release):
        return None
    item = store.objects.subtree(store.revisions.load(made.release).tree, name)
    return None if item is None else store.objects.read(item.id)


def _check(store: Store, tag: str, sign_off: str, message: str, allowed: set[str]) -> None:
    for what, text in (("tag", tag), ("sign-off", sign_off), ("message", message)):
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError(f"the {what} is not UTF-8") from None
    if not _SIGNED.fullmatch(sign_off):
        raise UsageError(f"{sign_off!r} signs nothing off", hint="--sign-off 'Name <name@host>'")
    if _BAD_TEXT.search(message):
        raise UsageError("the message holds control characters")
    unknown = sorted(allowed - set(REFUSED))
    if unknown:
        raise UsageError(f"{unknown[0]!r} is nothing to allow", hint=f"one of {', '.join(REFUSED)}")
    if store.refs.get(check_ref(TAGS + tag)) is not None:
        raise UsageError(f"the tag {tag} exists already")


def _refuse(tag: str, bad: Mapping[str, list[str]]) -> None:
    words = {"stale": "stale", "unadmitted": "not admitted", "case": "under an open repair case"}
    found = [f"{len(n)} {words[kind]} ({n[0]}{', ...' if n[1:] else ''})" for kind, n in bad.items() if n]
    if found:
        allow = " ".join(f"--allow {kind}" for kind, names in bad.items() if names)
        raise UsageError(f"{tag} is not released: {'; '.join(found)}", hint=f"`rover status` shows more; {allow}")


def _message(header: dict[str, Any], message: str, manifest: str, made: str) -> str:
    """Message of the tag: a summary for people, trailers for `read`."""
    def listed(counts: Mapping[str, int], more: str = "") -> str:
        ranked = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
        rest = f", and {len(ranked) - 20} more" if len(ranked) > 20 else ""
        return ", ".join(f"{' '.join(name.split())} {n}" for name, n in ranked[:20]) + rest + more

    unknown = f"unknown {header['unlicensed']}" if header["unlicensed"] else ""
    licenses = listed(header["licenses"]) + (", " if unknown and header["licenses"] else "") + unknown
    body = [f"{header['packages']} packages, {header['resources']} resources",
            f"families: {listed(header['families'])}", f"licences: {licenses}"]  # fmt: skip
    if header["allowed"]:
        body.append(f"allowed: {listed(header['allowed'])}")
    trailers = {
        "Rover-Manifest": manifest, "Rover-Manifest-SHA256": header["sha256"], "Rover-Release": made,
        "Rover-Tree": header["tree"], "Signed-off-by": header["signed_off_by"],
    }  # fmt: skip
    text = message.strip() or f"Release {header['tag']}"
    return f"{text}\n\n" + "\n".join(body) + "\n\n" + "\n".join(f"{k}: {v}" for k, v in trailers.items())


def _said(objects: Objects, items: Mapping[str, TreeItem | None]) -> dict[str, dict[str, Any]]:
    """What package.json or resource.json says of licence, family and admission, read in the order of the packs."""
    names: dict[str, list[str]] = {}
    for name, item in items.items():
        if item is not None and not item.is_folder:
            names.setdefault(item.id, []).append(name)
    out: dict[str, dict[str, Any]] = {}
    for blob, data in objects.read_many(names):
        record = _json(data)
        source = record if "license" in record else _dict(record.get("provenance"))
        said = {"license": _text(source.get("license")), "family": _text(record.get("family")),
                "admitted": _dict(record.get("admission")).get("components")}  # fmt: skip
        out |= dict.fromkeys(names[blob], said)
    return out


def _json(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return _dict(value)


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return " ".join(value.split()) if isinstance(value, str) else ""


def _time(data: bytes) -> int:
    line = next((x for x in data.split(b"\n") if x.startswith(b"tagger ")), b"")
    stamp = line.rpartition(b"> ")[2].split()
    return int(stamp[0]) if stamp and stamp[0].lstrip(b"-").isdigit() else 0
