"""Every kind of damage that git's own tests make (t1450, t5300, t5302, t5303): what git finds, fsck finds.

Each case damages a copy of one sound store. Real git judges it, then ours: where git fails ours has an error, where
git warns ours warns at least, and every message id of git's is one of ours.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import shutil
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from store_samples import add, edit, git, new_store

from rover_store.care.fsck import Problem, fsck
from rover_store.packs import Pack, PackWriter
from rover_store.store import Store

AUTHOR = b"A <a@example.org> 1700000000 +0000"
NULL = "0" * 40
Damage = Callable[[Store], None]
_IN = re.compile(r"^(error|warning) in (\w+) [0-9a-f]{40}: (\w+):", re.MULTILINE)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound") / "store"
    store = new_store(folder)
    add(store, "one", resources={"files/shared": b"1" * 500})
    add(store, "two")
    edit(store, "one", {"task/instruction.md": b"Again, at some length.\n" * 20})
    store.tag("v1", message="A release")
    with store.write("repair") as tx:
        candidate = tx.detached_commit("Candidate", files={"case.json": b"{}"})
        tx.set_ref("refs/rover/cases/c1", candidate, expect=None)
    store.index.sync()
    return folder


# --- what git says ---------------------------------------------------------------------------------------
def git_fsck(store: Store) -> tuple[str, set[str]]:
    """The worst that git says of store.git (`error`, `warning` or nothing), and its message ids."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(store.root), "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-c", "safe.bareRepository=all", f"--git-dir={store.git}", "fsck", "--full", "--strict"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    lines = [
        line for line in (done.stdout + done.stderr).splitlines()
        if not line.startswith(("dangling ", "notice: ", "Checking ", "unreachable "))
    ]  # fmt: skip
    worst = "error" if done.returncode else "warning" if lines else ""
    return worst, {match[3] for match in _IN.finditer("\n".join(lines))}


def ours(store: Store) -> list[Problem]:
    again = Store.open(store.root)
    return fsck(again)


# --- ways to damage --------------------------------------------------------------------------------------
def loose(store: Store, kind: str, data: bytes, name: str = "") -> str:
    """Write a loose object, under another id if one is given."""
    head = f"{kind} {len(data)}\0".encode()
    name = name or hashlib.sha1(head + data, usedforsecurity=False).hexdigest()
    raw_loose(store, name, zlib.compress(head + data))
    return name


def raw_loose(store: Store, name: str, raw: bytes) -> None:
    path = store.git / "objects" / name[:2] / name[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(raw)


def ref(store: Store, value: str, name: str = "refs/heads/bad") -> None:
    path = store.git / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value + "\n")


def commit(store: Store, data: bytes) -> None:
    ref(store, loose(store, "commit", data))


def head_tree(store: Store) -> bytes:
    return store.commit().tree.encode()


def good(store: Store, **change: bytes) -> bytes:
    """Bytes of a commit, line by line; a line may be replaced or left out."""
    lines = {
        "tree": b"tree " + head_tree(store) + b"\n", "parent": b"", "author": b"author " + AUTHOR + b"\n",
        "committer": b"committer " + AUTHOR + b"\n", "rest": b"\nMessage\n",
    }  # fmt: skip
    return b"".join({**lines, **change}.values())


def entry(mode: bytes, name: bytes, object_hex: str) -> bytes:
    return mode + b" " + name + b"\0" + bytes.fromhex(object_hex)


def tree(*entries: Callable[[str, str], bytes]) -> Damage:
    """A branch on a tree of entries, each made of the id of a blob and of a tree that exist."""
    def damage(store: Store) -> None:
        blob = store.find("HEAD:one/task/instruction.md").id
        data = b"".join(make(blob, store.package("one").tree) for make in entries)
        commit(store, good(store, tree=b"tree " + loose(store, "tree", data).encode() + b"\n"))

    return damage


def file(name: bytes, mode: bytes = b"100644") -> Callable[[str, str], bytes]:
    return lambda blob, _tree: entry(mode, name, blob)


def folder(name: bytes, mode: bytes = b"40000") -> Callable[[str, str], bytes]:
    return lambda _blob, tree_hex: entry(mode, name, tree_hex)


def pack_of(store: Store) -> Path:
    return max(store.objects.packs, key=lambda pack: pack.path.stat().st_size).path


def changed(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.chmod(0o644)
    path.write_bytes(change(path.read_bytes()))


def flip(at: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 or len(data) :]


def in_pack(change: Callable[[bytes], bytes]) -> Damage:
    return lambda store: changed(pack_of(store), change)


def in_idx(change: Callable[[bytes], bytes]) -> Damage:
    return lambda store: changed(pack_of(store).with_suffix(".idx"), change)


def flipped(pick: Callable[[Store], str]) -> Damage:
    """A byte in the middle of the record of one object."""
    def damage(store: Store) -> None:
        name = bytes.fromhex(pick(store))
        for pack in store.objects.packs:
            offset = Pack(pack.path).find(name)
            if offset is not None:
                changed(pack.path, flip(offset + 12))

    return damage


def without(pick: Callable[[Store], str]) -> Damage:
    """Every pack written again without one object."""
    def damage(store: Store) -> None:
        gone = pick(store)
        for pack in store.objects.packs:
            path = pack.path
            records = [(bytes(r[0]), bytes(r[2])) for r in map(tuple, Pack(path).records()) if r[0].hex() != gone]
            path.unlink()
            path.with_suffix(".idx").unlink()
            writer = PackWriter(store.git / "objects" / "pack")
            for name, record in records:
                writer.add_record(name, record)
            writer.finish()

    return damage


def blob_of(store: Store) -> str:
    return store.find("HEAD:one/task/instruction.md").id


def tag(data: bytes) -> Damage:
    def damage(store: Store) -> None:
        content = data.replace(b"HEAD", store.resolve().encode())
        ref(store, loose(store, "tag", content), "refs/tags/bad")

    return damage


def written(name: str, data: bytes) -> Damage:
    return lambda store: (store.git / name).write_bytes(data) and None


def line(**change: bytes) -> Damage:
    return lambda store: commit(store, good(store, **change))


def _swapped_indexes(store: Store) -> None:
    one, two = (pack.path.with_suffix(".idx") for pack in store.objects.packs[:2])
    a, b = one.read_bytes(), two.read_bytes()
    changed(one, lambda _: b)
    changed(two, lambda _: a)


def _wrong_kind(store: Store) -> None:
    data = entry(b"40000", b"d", blob_of(store))
    commit(store, good(store, tree=b"tree " + loose(store, "tree", data).encode() + b"\n"))


def _renamed_loose(store: Store) -> None:
    ref(store, loose(store, "blob", b"content", "12" * 20), "refs/tags/odd")


def _lone_pack(store: Store) -> None:
    pack_of(store).with_suffix(".idx").unlink()


def _lone_idx(store: Store) -> None:
    pack_of(store).unlink()


def _loose_size(store: Store) -> None:
    raw_loose(store, "34" * 20, zlib.compress(b"blob 99\0short"))
    ref(store, "34" * 20, "refs/tags/size")


def _loose_tail(store: Store) -> None:
    name = loose(store, "blob", b"tail")
    raw_loose(store, name, zlib.compress(b"blob 4\0tail") + b"garbage")
    ref(store, name, "refs/tags/tail")


def _loose_kind(store: Store) -> None:
    ref(store, loose(store, "bloob", b"x"), "refs/tags/kind")


def _loose_garbage(store: Store) -> None:
    raw_loose(store, "56" * 20, b"this is no zlib stream")


def _loose_short(store: Store) -> None:
    name = loose(store, "blob", b"some content that is long enough to be cut" * 9)
    raw_loose(store, name, zlib.compress(b"blob 9\0" + os.urandom(9))[:-6])


def _bad_packed(store: Store) -> None:
    (store.git / "packed-refs").write_text(f"# pack-refs with: peeled fully-peeled sorted \n{'7' * 40} refs/heads/p\n")


PICKS: dict[str, Callable[[Store], str]] = {
    "blob": blob_of, "tree": lambda s: s.package("one").tree, "root": lambda s: s.commit().tree,
    "commit": lambda s: s.resolve("HEAD~1"), "head": lambda s: s.resolve(),
}  # fmt: skip
TAG = b"object HEAD\ntype commit\ntag bad\ntagger " + AUTHOR + b"\n\nText\n"

DAMAGES: dict[str, Damage] = {
    **{f"flipped {name}": flipped(pick) for name, pick in PICKS.items()},
    **{f"missing {name}": without(pick) for name, pick in PICKS.items()},
    # packs and their indexes
    "pack signature": in_pack(flip(0)),
    "pack version": in_pack(flip(7)),
    "pack count": in_pack(flip(11)),
    "pack trailer": in_pack(flip(-1)),
    "pack cut": in_pack(lambda data: data[: len(data) // 2]),
    "pack cut by its trailer": in_pack(lambda data: data[:-20]),
    "pack empty": in_pack(lambda data: b""),
    "pack with a tail": in_pack(lambda data: data + b"tail"),
    "idx signature": in_idx(flip(0)),
    "idx version": in_idx(flip(7)),
    "idx fanout": in_idx(flip(8 + 4 * 255 + 3)),
    "idx id": in_idx(flip(1032 + 5)),
    "idx crc": in_idx(lambda data: flip(1032 + 20 * int.from_bytes(data[1028:1032], "big") + 1)(data)),
    "idx offset": in_idx(lambda data: flip(1032 + 24 * int.from_bytes(data[1028:1032], "big") + 3)(data)),
    "idx pack checksum": in_idx(flip(-30)),
    "idx trailer": in_idx(flip(-1)),
    "idx cut": in_idx(lambda data: data[:-100]),
    "idx empty": in_idx(lambda data: b""),
    "idx of another pack": _swapped_indexes,
    "pack without idx": _lone_pack,
    "idx without pack": _lone_idx,
    # loose objects
    "loose under another id": _renamed_loose,
    "loose of another size": _loose_size,
    "loose with a tail": _loose_tail,
    "loose of no kind": _loose_kind,
    "loose garbage": _loose_garbage,
    "loose cut": _loose_short,
    # refs
    "ref to nowhere": lambda s: ref(s, "7" * 40),
    "ref to a blob": lambda s: ref(s, blob_of(s)),
    "ref to a tree": lambda s: ref(s, head_tree(s).decode()),
    "ref of zeros": lambda s: ref(s, NULL),
    "ref of nonsense": lambda s: ref(s, "nonsense"),
    "ref empty": written("refs/heads/empty", b""),
    "packed ref to nowhere": _bad_packed,
    "head of nonsense": written("HEAD", b"nonsense\n"),
    "head outside": written("HEAD", b"ref: refs/tags/v1\n"),
    "head to nowhere": written("HEAD", b"7" * 40 + b"\n"),
    # trees
    "tree unsorted": tree(file(b"b"), file(b"a")),
    "tree unsorted folder": tree(folder(b"a"), file(b"a-b")),
    "tree twice": tree(file(b"a"), file(b"a")),
    "tree file and folder": tree(file(b"a"), file(b"a-"), folder(b"a")),
    "tree mode": tree(file(b"a", b"100600")),
    "tree mode of a socket": tree(file(b"a", b"140000")),
    "tree mode with zero": tree(folder(b"a", b"040000")),
    "tree dot": tree(folder(b".")),
    "tree dotdot": tree(folder(b"..")),
    "tree dotgit": tree(folder(b".git")),
    "tree dotgit upper": tree(folder(b".GIT")),
    "tree dotgit mac": tree(folder(".g\u200cit".encode())),
    "tree dotgit windows": tree(folder(b"git~1")),
    "tree dotgit stream": tree(folder(b".git::$INDEX_ALLOCATION")),
    "tree dotgit backslash": tree(folder(b"a\\.git")),
    "tree dotgit dots": tree(folder(b".git. .")),
    "tree path": tree(file(b"a/b")),
    "tree null": tree(lambda _b, _t: entry(b"100644", b"a", NULL)),
    "tree empty name": tree(file(b"")),
    "tree garbage": tree(lambda _b, _t: b"not a tree"),
    "tree cut": tree(lambda blob, _t: entry(b"100644", b"a", blob)[:-3]),
    "tree no mode": tree(lambda blob, _t: b"abc a\0" + bytes.fromhex(blob)),
    "tree gitmodules link": tree(file(b".gitmodules", b"120000")),
    "tree gitattributes link": tree(file(b".gitattributes", b"120000")),
    "tree gitignore link": tree(file(b".gitignore", b"120000")),
    "tree mailmap link": tree(file(b".mailmap", b"120000")),
    "tree blob as folder": _wrong_kind,
    # commits
    "commit no tree": line(tree=b""),
    "commit bad tree": line(tree=b"tree xyz\n"),
    "commit bad parent": line(parent=b"parent xyz\n"),
    "commit missing parent": line(parent=b"parent " + b"7" * 40 + b"\n"),
    "commit no author": line(author=b""),
    "commit two authors": line(author=b"author " + AUTHOR + b"\nauthor " + AUTHOR + b"\n"),
    "commit no committer": line(committer=b""),
    "commit no email": line(author=b"author A 1700000000 +0000\n"),
    "commit no name": line(author=b"author <a@example.org> 1700000000 +0000\n"),
    "commit bad name": line(author=b"author A > <a@example.org> 1700000000 +0000\n"),
    "commit bad email": line(author=b"author A <a@exa<mple.org> 1700000000 +0000\n"),
    "commit no space before email": line(author=b"author A<a@example.org> 1700000000 +0000\n"),
    "commit no space before date": line(author=b"author A <a@example.org>1700000000 +0000\n"),
    "commit bad date": line(author=b"author A <a@example.org> yesterday +0000\n"),
    "commit padded date": line(author=b"author A <a@example.org> 01700000000 +0000\n"),
    "commit late date": line(author=b"author A <a@example.org> 18446744073709551617 +0000\n"),
    "commit bad zone": line(author=b"author A <a@example.org> 1700000000 UTC\n"),
    "commit bad committer": line(committer=b"committer A <a@example.org> soon +0000\n"),
    "commit nul in header": line(author=b"author A\0B <a@example.org> 1700000000 +0000\n"),
    "commit nul in body": line(rest=b"\nMess\0age\n"),
    "commit no end": line(rest=b"encoding x"),
    "commit empty": lambda s: commit(s, b""),
    # tags
    "tag no object": tag(TAG.replace(b"object HEAD\n", b"")),
    "tag bad object": tag(TAG.replace(b"HEAD", b"xyz")),
    "tag to nowhere": tag(TAG.replace(b"HEAD", b"7" * 40)),
    "tag no type": tag(TAG.replace(b"type commit\n", b"")),
    "tag bad type": tag(TAG.replace(b"commit", b"comet")),
    "tag wrong type": tag(TAG.replace(b"commit", b"tree")),
    "tag no name": tag(TAG.replace(b"tag bad\n", b"")),
    "tag bad name": tag(TAG.replace(b"tag bad", b"tag b:a?d")),
    "tag no tagger": tag(TAG.replace(b"tagger " + AUTHOR + b"\n", b"")),
    "tag bad tagger": tag(TAG.replace(b"<a@example.org>", b"")),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_what_git_finds_we_find(sound: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(sound, tmp_path / "store")
    store = Store.open(tmp_path / "store")
    DAMAGES[name](store)
    found = ours(store)
    worst, kinds = git_fsck(store)
    severities = {problem.severity for problem in found}
    said = "\n".join(map(str, found))
    assert found, worst
    assert worst != "error" or "error" in severities, said
    assert kinds <= {problem.kind for problem in found}, said
    assert all(problem.where and problem.what and problem.kind for problem in found)


def test_a_sound_store_gives_nothing(sound: Path, tmp_path: Path) -> None:
    shutil.copytree(sound, tmp_path / "store")
    store = Store.open(tmp_path / "store")
    assert git_fsck(store) == ("", set())
    assert ours(store) == []
    git(store.git, "repack", "-adfq", "--depth=50", "--window=50")
    git(store.git, "pack-refs", "--all")
    git(store.git, "multi-pack-index", "write")
    git(store.git, "commit-graph", "write", "--reachable")
    assert ours(store) == []
    assert fsck(Store.open(store.root), quick=True) == []
    for pack in list((store.git / "objects" / "pack").glob("*.pack")):
        data = pack.read_bytes()
        for path in (store.git / "objects" / "pack").iterdir():
            path.unlink()
        subprocess.run(["git", f"--git-dir={store.git}", "unpack-objects", "-q"], input=data, check=True)
    assert ours(store) == []


@pytest.mark.parametrize("name", ["multi-pack-index", "commit-graph"])
def test_a_flipped_byte_in_what_git_derived(sound: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(sound, tmp_path / "store")
    store = Store.open(tmp_path / "store")
    words = ["multi-pack-index", "write"] if name == "multi-pack-index" else ["commit-graph", "write", "--reachable"]
    git(store.git, *words)
    (path,) = (store.git / "objects").rglob(name)
    changed(path, flip(-1))
    assert [problem.kind for problem in ours(store)] == ["badDerivedFile"]


@pytest.mark.parametrize("seed", range(25))
def test_a_flipped_byte_or_cut_anywhere(sound: Path, tmp_path: Path, seed: int) -> None:
    """At a random place of a random file: fsck never fails, and never says less than git."""
    rng = random.Random(seed)
    shutil.copytree(sound, tmp_path / "store")
    store = Store.open(tmp_path / "store")
    if seed % 2:
        git(store.git, "repack", "-adfq", "--depth=9", "--window=9")
    files = sorted(p for p in (store.git / "objects").rglob("*") if p.is_file())
    files += [store.git / "HEAD", store.git / "refs/heads/main", store.git / "refs/tags/v1"]
    path = rng.choice(files)
    size = path.stat().st_size
    at = rng.randrange(size)
    changed(path, (lambda data: data[:at]) if rng.random() < 0.2 else flip(at) if at < size - 1 else flip(-1))
    found = ours(store)
    worst, kinds = git_fsck(store)
    said = "\n".join(map(str, found))
    assert worst != "error" or "error" in {problem.severity for problem in found}, (path, at, said)
    assert kinds <= {problem.kind for problem in found}, (path, at, said)
