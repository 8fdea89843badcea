"""Evidence as one file: a git bundle (version 2) of refs/rover/evidence alone, which any git can verify and clone.

It holds all that the rollouts name, the workspaces that the packages hold as well, as one commit without a past. Equal
evidence, written by one machine, is equal bytes. Reading it needs no git: the pack is indexed here, and checked.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rover_store.commits import AUTHOR, encode_commit, parse_commit
from rover_store.create import bare
from rover_store.errors import PackageError, StoreError
from rover_store.files.outputs import check_output
from rover_store.layout import fanned
from rover_store.objects import Objects
from rover_store.packs import BLOB, CHUNK, COMMIT, TREE, PackWriter, fsync_folder
from rover_store.packs.indexing import index_pack
from rover_store.refs import EVIDENCE
from rover_store.transfer.copying import LARGE
from rover_store.transfer.evidence import package_of
from rover_store.transfer.incoming import fresh
from rover_store.trees import EMPTY_TREE, FOLDER, SUBMODULE, TreeItem, edit_tree, encode_tree, parse_tree

if TYPE_CHECKING:
    from rover_store.store import Store

_MAGIC = b"# v2 git bundle\n"
_OTHER = re.compile(rb"# v\d+ git bundle\n")
#: the lines before the pack
_MOST_HEAD = 1 << 16


class Packed(NamedTuple):
    """A file of evidence that was written."""

    file: str
    rollouts: int
    objects: int
    size: int


def write_bundle(store: Store, file: Path, globs: tuple[str, ...] = ()) -> Packed:
    """Write the evidence, or that of the packages that match, to a file, which appears whole or not at all.

    Without any evidence the file holds none, and can be pulled all the same. UsageError where no file can be written,
    StoreError where the disk refuses.
    """
    check_output(file, store.folder)
    evidence = store.evidence
    head = evidence.refs.get(EVIDENCE)
    made_in = fresh(store)
    made_in.mkdir()
    try:
        writer = PackWriter(made_in)
        time = parse_commit(head, evidence.objects.read_commit(head)).time if head else 0
        root, rollouts = _chosen(store, head, globs, writer)
        count = _copy(evidence.objects, root, writer)
        commit = writer.add(COMMIT, encode_commit(root, [], "Evidence", AUTHOR, time))
        name = writer.finish()
        size = _join(file, f"{commit} {EVIDENCE}\n\n".encode(), made_in / f"{name}.pack")
    finally:
        shutil.rmtree(made_in, ignore_errors=True)
    return Packed(str(file), rollouts, count + 1, size)


def is_bundle(path: Path) -> bool:
    """Whether a file says that it is a git bundle."""
    with path.open("rb") as file:
        return _OTHER.match(file.read(32)) is not None


@contextlib.contextmanager
def unpacked(store: Store, file: Path) -> Iterator[tuple[Path, str]]:
    """A repository that holds what a bundle does, as long as the block lasts, and the commit of its evidence.

    PackageError where the file is damaged, or holds no evidence.
    """
    git = fresh(store)
    try:
        bare(git)
        pack = git / "objects" / "pack" / "pack-incoming.pack"
        with file.open("rb") as source:
            commit = _header(source.read(_MOST_HEAD), str(file))
            source.seek(commit[1])
            with pack.open("wb") as target:
                shutil.copyfileobj(source, target, CHUNK)
        try:
            index_pack(pack)
        except StoreError as error:
            raise PackageError(str(file), "", error.message, hint=error.hint) from None
        yield git, commit[0]
    finally:
        shutil.rmtree(git, ignore_errors=True)


# --- within ----------------------------------------------------------------------------------------------
def _chosen(store: Store, head: str | None, globs: tuple[str, ...], writer: PackWriter) -> tuple[str, int]:
    """Tree of what is to be packed, and how many rollouts it has."""
    objects = store.evidence.objects
    root = parse_commit(head, objects.read_commit(head)).tree if head else EMPTY_TREE
    writer.add(TREE, encode_tree({}))  # workspaces may be empty, and git wants the object
    there = list(fanned(objects, root, "rollouts")) if head else []
    if not globs:
        return root, len(there)
    wanted = {
        path: TreeItem(FOLDER, tree) for path, _, tree in there
        if any(fnmatchcase(package_of(objects, tree), glob) for glob in globs)
    }  # fmt: skip
    if not wanted:
        return EMPTY_TREE, 0

    def level(tree: str) -> dict[str, TreeItem]:
        return parse_tree(writer.get(tree)[1]) if tree in writer else objects.list_tree(tree)

    return edit_tree(None, wanted, level, writer.add), len(wanted)


def _copy(source: Objects, root: str, writer: PackWriter) -> int:
    """Write what a tree reaches: trees as they are met, then blobs by id, so that the order is that of the content."""
    waiting, seen, blobs = [root], {root}, set[str]()
    while waiting:
        name = waiting.pop()
        if name in writer:
            data = writer.get(name)[1]
        else:
            data = source.get(name)[1]
            writer.add(TREE, data, name)
        for item in parse_tree(data).values():
            if item.is_folder and item.id not in seen:
                seen.add(item.id)
                waiting.append(item.id)
            elif not item.is_folder and item.mode != SUBMODULE:
                blobs.add(item.id)
    for name in sorted(blobs):
        size = source.size(name)
        if size > LARGE:
            writer.add_stream(BLOB, size, source.stream(name), name)
        else:
            writer.add(BLOB, source.read(name), name)
    return len(seen) + len(blobs)


def _join(file: Path, lines: bytes, pack: Path) -> int:
    """Header and pack as one file, renamed into place. Returns its size."""
    made = file.with_name(f".rover-pack-{os.getpid()}")  # a longer name than the file's may be too long
    try:
        made.unlink(missing_ok=True)
        with made.open("xb") as target, pack.open("rb") as source:
            target.write(_MAGIC + lines)
            shutil.copyfileobj(source, target, CHUNK)
            target.flush()
            os.fsync(target.fileno())
            size = target.tell()
        os.replace(made, file)
        fsync_folder(file.absolute().parent)
    except OSError as error:
        raise StoreError(f"cannot write {file}: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            made.unlink(missing_ok=True)
    return size


def _header(data: bytes, file: str) -> tuple[str, int]:
    """Commit of the evidence, and where the pack begins."""
    if not data.startswith(_MAGIC):
        raise PackageError(file, "", "not a git bundle of version 2", hint="rover evidence pack writes one")
    end = data.find(b"\n\n")
    if end < 0:
        raise PackageError(file, "", "its header has no end: it is damaged or cut short")
    commit = ""
    for line in data[len(_MAGIC) : end].split(b"\n"):
        if line.startswith(b"-"):
            hint = "rover evidence pack writes a whole one"
            raise PackageError(file, "", "it needs commits that it does not hold", hint=hint)
        found = re.fullmatch(rb"([0-9a-f]{40}) (\S+)", line)
        if found is None:
            raise PackageError(file, "", f"a line of its header is none: {line[:60]!r}")
        if found[2].decode("utf-8", "replace") == EVIDENCE:
            commit = found[1].decode()
    if not commit:
        raise PackageError(file, "", f"it holds no {EVIDENCE}: a bundle of something else")
    return commit, end + 2
