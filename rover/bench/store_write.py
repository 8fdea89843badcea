"""Writing to the store against git fast-import and DVC: a whole suite at once, one file at a time, one huge file.

All take the same bytes: a fast-import stream for git and for us, a folder for DVC. Each runs in a process of its own,
side by side; that ours made git's tree is checked.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from rover.bench.process import Cost, environment, run
from rover.bench.rows import Row
from rover.bench.suite import FILES, Suite, clock, name, package_record
from rover_store.errors import StoreError
from rover_store.layout import PackageEntry
from rover_store.names import COMPONENTS, blob_id, package_path
from rover_store.store import Store
from rover_store.trees import FILE, tree_id

Tick = Callable[[int, int], None]
_FILE = b"M 100644 inline "
_EDITED = "context/files/notes.md"


# --- a whole suite ---------------------------------------------------------------------------------------
def measure_import(
    work: Path, packages: int, tick: Tick | None = None, memory_bar: float = 500, with_dvc: bool = True
) -> list[Row]:
    """CPU and memory of importing a synthetic suite, as ratios to git fast-import and to `dvc add` and a commit."""
    work.mkdir(parents=True, exist_ok=True)
    stream = work / f"import-{packages}.stream"
    if not stream.exists():
        _write_stream(stream, Suite(packages), tick)
    ours, git = work / "ours", work / "git.git"
    for folder in (ours, git):
        shutil.rmtree(folder, ignore_errors=True)
    program = "import sys; from rover.bench.store_write import import_stream; import_stream(*sys.argv[1:])"
    mine = run([sys.executable, "-c", program, ours, stream], work)
    run(["git", "init", "-q", "--bare", git], work)
    theirs = run(["git", "--git-dir", git, "fast-import", "--quiet"], work, stream)
    tree = run(["git", "--git-dir", git, "rev-parse", "main^{tree}"], work).output.strip()
    if Store.open(ours).commit().tree != tree:
        raise StoreError(f"the tree of the import is not the one that git made: {tree}")
    what = f"import of {packages:,} packages x {FILES} files"
    rows = [
        Row(f"{what} / git fast-import", mine.cpu / theirs.cpu, "ratio of CPU", 0.5, note=_seconds(mine, theirs)),
        Row(f"{what}: memory", mine.rss, "MB", memory_bar, note=f"git fast-import {theirs.rss:.0f} MB"),
    ]
    if with_dvc:
        rows.append(_against_dvc(work, packages, mine, what))
    for folder in (ours, git):
        shutil.rmtree(folder)
    return rows


def import_stream(folder: str, stream: str) -> None:
    """Import a stream that `measure_import` made into a new store, as one commit."""
    store = Store.init(Path(folder), clock=clock())
    with store.write("import") as tx, open(stream, "rb", 1 << 20) as file:
        for place, files in _trees(file):
            tree = tx.tree(files)
            if place.startswith("resources/"):
                tx.set_resource(place.removeprefix("resources/"), tree)
            else:
                tx.set_package(place.rpartition("/")[2], tree)
        tx.commit("Import")


def _trees(file: BinaryIO) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Packages and resources of a stream: where they lie, and their files."""
    place, files = "", dict[str, bytes]()
    for line in file:
        if not line.startswith(_FILE):
            continue
        parts = line[len(_FILE) : -1].decode().split("/")
        depth = 5 if parts[0] == "packages" else 3
        here = "/".join(parts[:depth])
        if here != place:
            if files:
                yield place, files
            place, files = here, {}
        files["/".join(parts[depth:])] = file.read(int(file.readline()[5:]))
    yield place, files


def _write_stream(path: Path, suite: Suite, tick: Tick | None) -> None:
    scratch = path.with_suffix(".tmp")
    with open(scratch, "wb", 1 << 20) as out:
        out.write(b"commit refs/heads/main\ncommitter Bench <bench@localhost> 1700000000 +0000\ndata 7\nImport\n\n")
        resources = {}
        for resource, files in suite.resources():
            resources[resource] = _tree_of(files)
            _write_files(out, f"resources/{resource}", files)
        for i in range(suite.packages):
            files = suite.files(i, resources)
            parts = {c: _tree_of({p[len(c) + 1 :]: d for p, d in files.items() if p.startswith(c)}) for c in COMPONENTS}
            files["package.json"] = package_record(i, parts, resources, suite.bound(i))
            _write_files(out, package_path(name(i)), files)
            if tick is not None and i % 500 == 0:
                tick(i, suite.packages)
    os.rename(scratch, path)


def _tree_of(files: dict[str, bytes]) -> str:
    return tree_id({path: (FILE, blob_id(data)) for path, data in files.items()})


def _write_files(out: BinaryIO, place: str, files: dict[str, bytes]) -> None:
    for path, data in files.items():
        out.write(b"%s%s/%s\ndata %d\n%b\n" % (_FILE, place.encode(), path.encode(), len(data), data))


def _against_dvc(work: Path, packages: int, mine: Cost, what: str) -> Row:
    title = f"{what} / dvc add and commit"
    if shutil.which("dvc") is None:
        return Row(title, 0.0, "ratio of CPU", None, note="dvc is not on the PATH: not measured")
    folder = work / "dvc"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with open(work / f"import-{packages}.stream", "rb", 1 << 20) as file:
        for place, files in _trees(file):
            for path, data in files.items():
                target = folder / "data" / place / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
    for words in (["git", "init", "-q"], ["dvc", "init", "-q"]):
        run(words, folder)
    steps = (["dvc", "add", "-q", "data"], ["git", "add", "."], ["git", "commit", "-q", "-m", "Import"])
    costs = [run(words, folder) for words in steps]
    shutil.rmtree(folder)
    dvc = Cost(sum(c.cpu for c in costs), max(c.rss for c in costs), "")
    return Row(title, mine.cpu / dvc.cpu, "ratio of CPU", 0.2, note=_seconds(mine, dvc))


# --- one file --------------------------------------------------------------------------------------------
def measure_edit(work: Path, small: Path, big: Path, tick: Tick | None = None, repeats: int = 40) -> list[Row]:
    """CPU of editing one file and committing, in process, against a git fast-import process for the same change.

    `small` and `big` are folders of suites (`suite.build`). They are not written to.
    """
    work.mkdir(parents=True, exist_ok=True)
    rows, medians = [], []
    for n, source in enumerate((small, big)):
        copy = copy_store(source, work / f"edit-{n}")
        mine, git = _edits(copy, work, repeats)
        count = len(Store.open(copy).packages())
        a, b = statistics.median(mine), statistics.median(git)
        medians.append(a)
        note = f"{1000 * a:.2f} ms, git {1000 * b:.2f} ms"
        title = f"edit and commit among {count:,} packages / git fast-import"
        rows.append(Row(title, a / b, "ratio of CPU", 1.0, note=note, samples=tuple(mine)))
        shutil.rmtree(copy)
        if tick is not None:
            tick(n + 1, 2)
    rows.append(Row("edit and commit, big suite / small", medians[1] / medians[0], "ratio of CPU", 1.5))
    return rows


def copy_store(source: Path, target: Path) -> Path:
    """A copy of a store that shares its packs by hard links, which are never written to."""
    shutil.rmtree(target, ignore_errors=True)

    def copy(one: str, other: str) -> None:
        os.link(one, other) if one.endswith((".pack", ".idx")) else shutil.copy2(one, other)

    try:
        shutil.copytree(source, target, copy_function=copy)
    except (OSError, shutil.Error):  # another file system
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
    return target


def _edits(folder: Path, work: Path, repeats: int) -> tuple[list[float], list[float]]:
    """CPU seconds of each edit in this process, and of each git fast-import process."""
    store = Store.open(folder, clock=clock())
    git = _git_beside(store, work)
    packages = store.packages(pattern="case-*0")[: repeats + 5] or store.packages()
    mine, theirs = [], []
    for i in range(repeats + 5):
        package = packages[i % len(packages)]
        data = b"# Edited %d\n" % i + store.objects.read(store.objects.read_tree(package.tree)[_EDITED].id)
        begin = time.process_time()
        _edit(store, package, data, i)
        mine.append(time.process_time() - begin)
        theirs.append(_edit_by_git(git, work, package, data, i))
    shutil.rmtree(git)
    return mine[5:], theirs[5:]  # the first ones import modules and fill caches


def _edit(store: Store, package: PackageEntry, data: bytes, i: int) -> None:
    with store.write(f"edit {i}") as tx:
        tx.set_package(package.name, tx.edit_tree(package.tree, {_EDITED: data}))
        tx.commit(f"Edit {i}")


def _git_beside(store: Store, work: Path) -> Path:
    """A repository that reads the store's objects and begins at its head."""
    git = work / "beside.git"
    shutil.rmtree(git, ignore_errors=True)
    run(["git", "init", "-q", "--bare", git], work)
    (git / "objects" / "info" / "alternates").write_text(f"{store.git / 'objects'}\n")
    run(["git", "--git-dir", git, "update-ref", "refs/heads/main", store.resolve()], work)
    return git


def _edit_by_git(git: Path, work: Path, package: PackageEntry, data: bytes, i: int) -> float:
    stream = work / "edit.stream"
    head = f"commit refs/heads/main\ncommitter Bench <bench@localhost> {1_700_000_000 + i} +0000\ndata 5\nEdit\n"
    with open(stream, "wb") as out:
        out.write(f"{head}from refs/heads/main^0\n".encode())
        _write_files(out, package_path(package.name), {_EDITED: data})
    return run(["git", "--git-dir", git, "fast-import", "--quiet"], work, stream).cpu


# --- rolling packs together ------------------------------------------------------------------------------
def measure_packs(work: Path, packs: int = 1000, tick: Tick | None = None) -> list[Row]:
    """CPU of making one pack of many small ones against `git repack -ad`, and of keeping them few all along."""
    work.mkdir(parents=True, exist_ok=True)
    ours = _small_packs(work / "packs.git", packs, tick)
    git = work / "repack.git"
    shutil.rmtree(git, ignore_errors=True)
    shutil.copytree(ours, git)
    program = "import sys; from rover.bench.store_write import one_pack; one_pack(sys.argv[1])"
    mine = run([sys.executable, "-c", program, ours], work)
    theirs = run(["git", "--git-dir", git, "repack", "-adq"], work)
    done = subprocess.run(
        ["git", "--git-dir", str(ours), "fsck", "--full", "--no-dangling"],
        env=environment(work), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise StoreError(f"git fsck after the packs became one: {done.stderr.strip()}")
    for folder in (ours, git):
        shutil.rmtree(folder)
    title = f"{packs:,} small packs into one / git repack -ad"
    return [Row(title, mine.cpu / theirs.cpu, "ratio of CPU", 0.5, note=_seconds(mine, theirs))]


def one_pack(git: str) -> None:
    """Make one pack of all packs of a repository."""
    from rover_store.lock import RepositoryLock
    from rover_store.objects import Objects
    from rover_store.refs import Refs
    from rover_store.rollup import rewrite

    lock = RepositoryLock(Path(git), Refs(Path(git)))
    with lock:
        rewrite(Objects(Path(git)), lock)
        lock.clear()


def _small_packs(git: Path, packs: int, tick: Tick | None) -> Path:
    """A repository of one package a commit and a pack."""
    from rover_store.commits import AUTHOR, encode_commit
    from rover_store.packs import BLOB, COMMIT, PackWriter
    from rover_store.trees import TreeItem, nest, write_level

    shutil.rmtree(git, ignore_errors=True)
    run(["git", "init", "-q", "--bare", git], git.parent)
    suite = Suite(packs)
    resources = {resource: _tree_of(files) for resource, files in suite.resources()}
    parent = ""
    for i in range(packs):
        writer = PackWriter(git / "objects" / "pack")
        files = {path: TreeItem(FILE, writer.add(BLOB, data)) for path, data in suite.files(i, resources).items()}
        tree = write_level(nest(files), writer.add)
        data = encode_commit(tree, [parent] if parent else [], f"Package {i}", AUTHOR, 1_700_000_000 + i)
        parent = writer.add(COMMIT, data)
        writer.finish()
        if tick is not None:
            tick(i, packs)
    run(["git", "--git-dir", git, "update-ref", "refs/heads/main", parent], git.parent)
    return git


# --- one huge file ---------------------------------------------------------------------------------------
def measure_stream(work: Path, megabytes: int = 300) -> list[Row]:
    """Memory of storing one huge file and of reading it back."""
    work.mkdir(parents=True, exist_ok=True)
    folder, file = work / "huge", work / "huge.bin"
    shutil.rmtree(folder, ignore_errors=True)
    with open(file, "wb") as out:
        piece = Suite(1)._text("huge", 0, 1 << 20)
        for i in range(megabytes):
            out.write(b"%08d" % i + piece[8 : 1 << 20])
    program = "import sys; from rover.bench.store_write import store_file; store_file(*sys.argv[1:])"
    cost = run([sys.executable, "-c", program, folder, file], work)
    shutil.rmtree(folder)
    file.unlink()
    return [Row(f"a file of {megabytes} MB in and out: memory", cost.rss, "MB", 150, note=f"{cost.cpu:.1f} s CPU")]


def store_file(folder: str, file: str) -> None:
    """Store a file in a new store and read it back."""
    store = Store.init(Path(folder), clock=clock())
    with store.write("file") as tx:
        blob = tx.blob_file(Path(file))
        tx.set_resource("files/huge", tx.tree({"resource.json": b"{}\n", "files/huge.bin": blob}))
        tx.commit("A huge file")
    size = sum(len(chunk) for chunk in store.objects.stream(blob))
    if size != os.path.getsize(file):
        raise StoreError(f"{size} bytes came back")


def _seconds(mine: Cost, theirs: Cost) -> str:
    return f"{mine.cpu:.2f} s against {theirs.cpu:.2f} s"
