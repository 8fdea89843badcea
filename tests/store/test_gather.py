"""Evidence of several machines: a union by content. What is damaged, forged or boundless changes nothing."""

from __future__ import annotations

import hashlib
import multiprocessing
import random
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest
from store_samples import add, git, new_store
from test_evidence import _recorded, _verdict

from rover_store.commits import AUTHOR, encode_commit
from rover_store.errors import PackageError, UsageError
from rover_store.evidence import Recorded, rollout_id
from rover_store.names import rollout_path
from rover_store.packs import BLOB, COMMIT, TREE, PackWriter, object_id, record_header
from rover_store.packs.indexing import index_pack
from rover_store.records import Verdict
from rover_store.refs import EVIDENCE
from rover_store.store import Store
from rover_store.transfer import gather as gathering
from rover_store.transfer.bundle import write_bundle
from rover_store.transfer.gather import Divergence, Gathered, gather
from rover_store.transfer.sources import opened
from rover_store.trees import FILE, FOLDER, TreeItem, edit_tree, encode_tree, parse_tree

FIRST = _recorded(1, "one", b"out 1")
ID = rollout_id(FIRST.trajectory)
PLACE = rollout_path(ID)


def machine(folder: Path, *seeds: int, content: bytes = b"out", package: str = "one") -> Store:
    """A store of its own with the same package and some rollouts."""
    store = new_store(folder)
    add(store, "one")
    if seeds:
        batch = [_recorded(seed, package, content + b" %d" % seed) for seed in seeds]
        store.evidence.put(batch, [_verdict(r) for r in batch])
    return store


def pull(store: Store, *sources: Path | str, globs: tuple[str, ...] = ()) -> Gathered:
    with opened(store, tuple(map(str, sources))) as found:
        return gather(store, found, globs=globs)


def seeds(store: Store) -> list[int]:
    return sorted(t.key.seed for _, t in store.evidence.iter_rollouts())


def tree(store: Store) -> str | None:
    return store.evidence.root()


def packed(store: Store, file: Path) -> Path:
    write_bundle(store, file)
    return file


def test_the_union_of_parts_is_the_whole(tmp_path: Path) -> None:
    whole = machine(tmp_path / "whole", *range(1, 10))
    parts = [machine(tmp_path / f"part{n}", *range(n, 10, 3)) for n in (1, 2, 3)]
    files = [packed(part, tmp_path / "files" / f"{n}.bundle") for n, part in enumerate(parts) if _folder(tmp_path)]
    by_file, by_folder, by_store = (machine(tmp_path / name) for name in ("a", "b", "c"))
    done = pull(by_file, *files)
    assert [(one.source, one.rollouts, one.verdicts) for one in done.sources] == [(str(f), 3, 3) for f in files]
    assert not done.divergences
    pull(by_folder, tmp_path / "files")
    pull(by_store, *(part.root for part in reversed(parts)))
    assert tree(by_file) == tree(by_folder) == tree(by_store) == tree(whole)
    before = by_file.evidence.refs.get(EVIDENCE)
    again = pull(by_file, *files, parts[0].root)
    assert (again.rollouts, again.verdicts, by_file.evidence.refs.get(EVIDENCE)) == (0, 0, before)
    assert [store.fsck() for store in (by_file, by_folder, by_store)] == [[], [], []]
    git(by_file.evidence.git, "fsck", "--strict")


def _folder(tmp_path: Path) -> bool:
    (tmp_path / "files").mkdir(exist_ok=True)
    return True


def test_a_bundle_is_a_function_of_the_evidence_and_plain_git(tmp_path: Path) -> None:
    one, other = machine(tmp_path / "one", 1, 2, 3), machine(tmp_path / "other", 3)
    pull(other, one.root)
    a, b = packed(one, tmp_path / "a.bundle"), packed(one, tmp_path / "b.bundle")
    assert a.read_bytes() == b.read_bytes()
    assert "okay" in git(one.git, "bundle", "verify", str(a))
    git(tmp_path, "clone", "-q", "--mirror", str(a), "mirror.git")
    git(tmp_path / "mirror.git", "fsck", "--strict")
    third = machine(tmp_path / "third")
    assert pull(third, tmp_path / "mirror.git").rollouts == 3
    assert tree(third) == tree(one) == tree(other)


def test_only_that_of_some_packages(tmp_path: Path) -> None:
    one = machine(tmp_path / "one", 1, 2)
    one.evidence.put([_recorded(7, "two", b"x")])
    found = write_bundle(one, tmp_path / "two.bundle", ("tw*",))
    assert found.rollouts == 1
    assert pull(machine(tmp_path / "a"), tmp_path / "two.bundle").rollouts == 1
    other = machine(tmp_path / "b")
    assert pull(other, one.root, globs=("two",)).rollouts == 1
    assert seeds(other) == [7]


def test_nothing_packs_into_a_file_that_can_be_pulled(tmp_path: Path) -> None:
    empty = packed(machine(tmp_path / "one"), tmp_path / "empty.bundle")
    assert pull(machine(tmp_path / "a"), empty).rollouts == 0
    assert write_bundle(machine(tmp_path / "b", 1), tmp_path / "none.bundle", ("nobody",)).rollouts == 0


def test_of_two_runs_the_first_stands_and_the_other_is_named(tmp_path: Path) -> None:
    one, other = machine(tmp_path / "one", 1, 2), machine(tmp_path / "other", 1, content=b"else")
    mine = machine(tmp_path / "mine")
    done = pull(mine, one.root, other.root)
    assert done.divergences == [Divergence(ID, "one", str(other.root))]
    assert tree(mine) == tree(one)
    theirs = machine(tmp_path / "theirs")
    assert len(pull(theirs, other.root, one.root).divergences) == 1
    kept = theirs.evidence.get_rollout(ID)
    assert kept == _recorded(1, "one", b"else 1").trajectory
    assert seeds(theirs) == [1, 2]


def test_of_two_verdicts_the_first_stands_and_new_ones_are_added(tmp_path: Path) -> None:
    one, other = machine(tmp_path / "one", 1), new_store(tmp_path / "other")
    other.evidence.put([FIRST], [_verdict(FIRST).model_copy(update={"score": 0.5}), _verdict(FIRST, "e" * 40)])
    done = pull(one, other.root)
    assert done.divergences == [Divergence(ID, "one", str(other.root), "d" * 40)]
    assert (done.rollouts, done.verdicts) == (0, 1)
    assert one.evidence.get_verdict(ID, "d" * 40) == _verdict(FIRST)
    assert one.evidence.get_verdict(ID, "e" * 40) == _verdict(FIRST, "e" * 40)
    assert one.fsck() == []


def test_a_pruned_rollout_takes_verdicts_of_the_same_run_alone(tmp_path: Path) -> None:
    mine, same, differs = machine(tmp_path / "mine", 1), machine(tmp_path / "same", 1), new_store(tmp_path / "differs")
    mine.prune("one", dry_run=False)
    same.evidence.put([], [_verdict(FIRST, "e" * 40)])
    changed = _recorded(1, "one", b"other end")
    differs.evidence.put([changed], [_verdict(changed, "f" * 40)])
    done = pull(mine, same.root, differs.root)
    assert [(d.source, d.verifier) for d in done.divergences] == [(str(differs.root), "")]
    assert [v.verifier[0] for v in mine.evidence.iter_verdicts(ID)] == ["d", "e"]
    kept = mine.evidence.get_rollout(ID)
    assert kept is not None
    assert kept.pruned


# --- forged and damaged ----------------------------------------------------------------------------------
def forged(store: Store, edits: Mapping[str, bytes | TreeItem | None]) -> None:
    """Change the evidence of a store as no command would, as a commit that git finds sound."""
    evidence = store.evidence
    writer = PackWriter(evidence.git / "objects" / "pack")
    items = {p: TreeItem(FILE, writer.add(BLOB, d)) if isinstance(d, bytes) else d for p, d in edits.items()}

    def level(name: str) -> dict[str, TreeItem]:
        return parse_tree(writer.get(name)[1]) if name in writer else evidence.objects.list_tree(name)

    root = edit_tree(evidence.root(), items, level, writer.add)
    commit = writer.add(COMMIT, encode_commit(root, [], "Forged", AUTHOR, 1))
    writer.finish()
    (evidence.git / EVIDENCE).write_text(f"{commit}\n")


def _other(recorded: Recorded) -> bytes:
    return recorded.trajectory.dump()


def _of(package: str) -> bytes:
    return FIRST.trajectory.model_copy(update={"package": package}).dump()


FORGERIES: dict[str, tuple[dict[str, bytes | TreeItem | None], str]] = {
    "another key": ({f"{PLACE}/trajectory.json": _other(_recorded(2, "one", b"out 1"))}, "not the digest of its key"),
    "another end": ({f"{PLACE}/turns/0001": TreeItem(FOLDER, FIRST.trajectory.start)}, "not the workspace"),
    "no start": ({f"{PLACE}/start": None}, "not the workspace"),
    "a turn more": ({f"{PLACE}/turns/0002": TreeItem(FOLDER, FIRST.trajectory.start)}, "names no such workspace"),
    "no record": ({f"{PLACE}/trajectory.json": None}, "trajectory.json is missing"),
    "not JSON": ({f"{PLACE}/trajectory.json": b"{"}, "not valid JSON"),
    "a new field": ({f"{PLACE}/trajectory.json": b'{"key": {}, "more": 1}'}, "trajectory.json: key"),
    "a package outside": ({f"{PLACE}/trajectory.json": _of("../../escaped")}, "trajectory.json: package: String"),
    "an absolute package": ({f"{PLACE}/trajectory.json": _of("/tmp/x")}, "trajectory.json: package: String"),
    "no package's name": ({f"{PLACE}/trajectory.json": _of("a..b")}, "trajectory.json: package: 'a..b' is not"),
    "another's verdict": (
        {f"{PLACE}/verdicts/{'d' * 40}.json": Verdict(rollout="0" * 64, verifier="d" * 40, outcome="passed").dump()},
        "it is of rollout 000000000000",
    ),
    "another verifier": ({f"{PLACE}/verdicts/{'c' * 40}.json": _verdict(FIRST).dump()}, "and verifier dddddddddddd"),
    "a stray file": ({f"{PLACE}/notes.txt": b"hello"}, "'notes.txt' has no place in a rollout"),
    "beside the rollouts": ({"verdicts/x": b"hello"}, "'verdicts' lies beside the rollouts"),
    "the wrong folder": ({f"rollouts/0/0/0/{ID}/x": b"hello"}, "is no place of a rollout"),
    "no folder": ({"rollouts/z": b"hello"}, "is no place of a rollout"),
    "a folder as verdict": ({f"{PLACE}/verdicts/{'e' * 40}.json/x": b"1"}, "missing, or no plain file"),
}


@pytest.mark.parametrize("what", FORGERIES)
def test_what_the_content_does_not_bear_out_is_refused(tmp_path: Path, what: str) -> None:
    edits, reason = FORGERIES[what]
    mine, good, bad = machine(tmp_path / "mine", 9), machine(tmp_path / "good", 5), machine(tmp_path / "bad", 1)
    forged(bad, edits)
    before = tree(mine)
    with pytest.raises(PackageError, match=reason) as error:
        pull(mine, good.root, bad.root)  # nothing of the good one either
    assert error.value.message.startswith(str(bad.root))
    assert error.value.message.endswith("refused")
    assert (tree(mine), mine.fsck()) == (before, [])


def test_other_ways_in_are_guarded_as_well(tmp_path: Path) -> None:
    mine, bad = machine(tmp_path / "mine", 9), machine(tmp_path / "bad", 1)
    forged(bad, FORGERIES["another key"][0])
    before = tree(mine)
    with pytest.raises(PackageError, match="not the digest of its key"):
        mine.fetch(str(bad.root), evidence=True)
    assert tree(mine) == before


def test_every_damaged_byte_is_seen(tmp_path: Path) -> None:
    file = packed(machine(tmp_path / "one", 1), tmp_path / "x.bundle")
    mine, whole = machine(tmp_path / "mine"), file.read_bytes()
    for at in range(0, len(whole), 23):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        with pytest.raises((PackageError, UsageError)):
            pull(mine, file)
    for at in range(0, len(whole) - 1, 37):
        file.write_bytes(whole[:at])
        with pytest.raises((PackageError, UsageError)):
            pull(mine, file)
    assert tree(mine) is None
    assert not list(mine.folder.glob("incoming-*"))


def _pack(*records: bytes, count: int | None = None) -> bytes:
    body = b"PACK" + struct.pack(">II", 2, len(records) if count is None else count) + b"".join(records)
    return body + hashlib.sha1(body).digest()


_TREE = record_header(TREE, 0) + zlib.compress(b"")
HOSTILE = {
    "inflates beyond": (_pack(record_header(BLOB, 10) + zlib.compress(bytes(1 << 24))), "larger than it says"),
    "inflates to less": (_pack(record_header(BLOB, 10) + zlib.compress(b"")), "smaller than it says"),
    "counts more": (_pack(_TREE, count=1 << 31), "cut short"),
    "counts less": (_pack(_TREE, count=0), "bytes lie behind"),
    "says to be vast": (_pack(record_header(BLOB, 1 << 50) + zlib.compress(b"")), "says to have"),
    "twice": (_pack(_TREE, _TREE), "lies in it twice"),
    "a delta": (_pack(b"\x70" + bytes(20) + zlib.compress(b"")), "deltas"),
    "no zlib": (_pack(record_header(BLOB, 3) + b"abc"), "cannot be inflated"),
    "not there": (_pack(_TREE), "not found"),
}


def test_packs_of_any_size_are_indexed_as_git_does(tmp_path: Path) -> None:
    rng = random.Random(1)
    groups = [(1, 10, 4090, 4096), (5000, 70_000), (1 << 18, (1 << 18) + 1, 9), (600_000, 600_001, 3)]
    for n, sizes in enumerate(groups):
        folder = tmp_path / f"{n}"
        folder.mkdir()
        writer = PackWriter(folder)
        for size in sizes:
            writer.add(BLOB, rng.randbytes(size))
            writer.add(BLOB, (b"abc%d" % size * size)[:size])
        pack = folder / f"{writer.finish()}.pack"
        index = pack.with_suffix(".idx")
        index.rename(folder / "kept")
        assert index_pack(pack) == 2 * len(sizes)
        assert index.read_bytes() == (folder / "kept").read_bytes()
        git(folder, "verify-pack", str(index))


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_packs(tmp_path: Path, what: str) -> None:
    data, reason = HOSTILE[what]
    file = tmp_path / "x.bundle"
    file.write_bytes(b"# v2 git bundle\n" + b"1" * 40 + b" refs/rover/evidence\n\n" + data)
    with pytest.raises(PackageError, match=reason):
        pull(machine(tmp_path / "mine"), file)


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"# v2 git bundle\n-" + b"1" * 40 + b"\n\n", "needs commits"),
        (b"# v2 git bundle\n" + b"1" * 40 + b" refs/heads/main\n\n", "bundle of something else"),
        (b"# v3 git bundle\n@object-format=sha256\n\n", "version 2"),
        (b"# v2 git bundle\nhello\n\n", "a line of its header"),
    ],
)
def test_bundles_of_something_else(tmp_path: Path, head: bytes, reason: str) -> None:
    file = tmp_path / "x.bundle"
    file.write_bytes(head + _pack(_TREE))
    with pytest.raises(PackageError, match=reason):
        pull(machine(tmp_path / "mine"), file)


def test_few_trees_that_stand_for_very_many_files(tmp_path: Path) -> None:
    bad = machine(tmp_path / "bad", 1)
    writer = PackWriter(bad.evidence.git / "objects" / "pack")
    here = writer.add(TREE, encode_tree({"x": TreeItem(FILE, writer.add(BLOB, b"in"))}))
    for _ in range(40):
        here = writer.add(TREE, encode_tree({"a": TreeItem(FOLDER, here), "b": TreeItem(FOLDER, here)}))
    writer.finish()
    bad.evidence.objects.refresh(force=True)
    turns = (FIRST.trajectory.turns[0].model_copy(update={"tree": here}),)
    record = FIRST.trajectory.model_copy(update={"turns": turns}).dump()
    forged(bad, {
        f"{PLACE}/trajectory.json": record, f"{PLACE}/turns/0000": TreeItem(FOLDER, here), f"{PLACE}/turns/0001": None,
    })  # fmt: skip
    with pytest.raises(PackageError, match="more than 2000000 files"):
        pull(machine(tmp_path / "mine"), bad.root)


def test_a_damaged_store_is_named(tmp_path: Path) -> None:
    bad = machine(tmp_path / "bad", 1, 2)
    blob = object_id(BLOB, b"out 2")
    (pack,) = (bad.evidence.git / "objects" / "pack").glob("*.pack")
    offset = bad.evidence.objects.packs[0].find(bytes.fromhex(blob))
    assert offset is not None
    pack.chmod(0o644)
    with pack.open("r+b") as file:
        file.seek(offset + 4)
        file.write(b"\0\0\0\0")
    mine = machine(tmp_path / "mine")
    with pytest.raises(PackageError, match=f"object {blob} is damaged"):
        pull(mine, bad.root)
    assert tree(mine) is None


def test_what_is_no_source(tmp_path: Path) -> None:
    mine = machine(tmp_path / "mine")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.txt").write_text("hello")
    for source, reason in (
        (tmp_path / "absent", "no such folder"), (tmp_path / "empty", "no file in it ends"),
        (tmp_path / "file.txt", "not a file of evidence"), (mine.root, "from itself"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=reason):
            pull(mine, source)


# --- interrupted, and side by side -----------------------------------------------------------------------
def test_an_interrupted_pull_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "BATCH", 2)
    source, mine = machine(tmp_path / "source", *range(1, 8)), machine(tmp_path / "mine")

    def told(label: str, done: int, total: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), opened(mine, (str(source.root),)) as found:
        gather(mine, found, told=told)
    assert (len(list(mine.evidence.ids())), mine.fsck()) == (4, [])
    assert pull(mine, source.root).rollouts == 3
    assert tree(mine) == tree(source)


def _pulling(mine: Path, source: Path) -> None:
    gathering.BATCH = 2
    pull(Store.open(mine), source)


def test_two_pulls_at_once(tmp_path: Path) -> None:
    mine = machine(tmp_path / "mine")
    sources = [machine(tmp_path / f"m{n}", *range(n, n + 12)) for n in (1, 7, 13)]
    context = multiprocessing.get_context("fork")
    working = [context.Process(target=_pulling, args=(mine.root, source.root)) for source in sources]
    for one in working:
        one.start()
    for one in working:
        one.join(60)
    assert [one.exitcode for one in working] == [0, 0, 0]
    again = Store.open(mine.root)
    assert seeds(again) == list(range(1, 25))
    assert again.fsck() == []
