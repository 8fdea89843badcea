"""Releases: what they refuse, what they hold, that they can be computed again, and that undo takes them back whole."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from store_samples import START, add, edit, git, new_store, package_files, package_tree

from rover_store.errors import NotFound, UsageError
from rover_store.records import Admission, Package, Release, ReleaseEntry, Resource
from rover_store.refs import RELEASES
from rover_store.release import contents, header, manifest, read, release, releases
from rover_store.release_check import verify
from rover_store.store import Store

ANN = "Ann Lee <ann@example.org>"


def _admit(store: Store, name: str, license: str = "") -> None:
    """Mark a package as admitted as it is, under a licence."""
    entry = store.package(name)
    blob = store.objects.list_tree(entry.tree)["package.json"].id
    record = Package.load(store.objects.read(blob), "package.json")
    admission = Admission(components=entry.components, cases=1, digest="d")
    provenance = record.provenance.model_copy(update={"license": license})
    changed = record.model_copy(update={"admission": admission, "provenance": provenance})
    edit(store, name, {"package.json": changed.dump()}, f"Admit {name}")


def _suite(folder: Path) -> Store:
    store = new_store(folder)
    with store.write("shared") as tx:
        data = Resource(name="shared", license="CC-BY-4.0").dump()
        shared = tx.tree({"resource.json": data, "files/data.csv": b"1"})
        tx.set_resource("files/shared", shared)
        for name in ("one", "two"):
            files = package_files(name, resources={"files/shared": shared})
            tx.set_package(name, package_tree(tx, name, files, {"files/shared": shared}))
        tx.commit("Suite")
    _admit(store, "one", "CC0-1.0")
    _admit(store, "two")
    return store


def test_a_release_holds_everything_and_can_be_computed_again(tmp_path: Path) -> None:
    store = _suite(tmp_path)
    head = store.resolve()
    made = release(store, "v1", sign_off=ANN, message="First one")
    assert (made.commit, made.signed_off_by) == (head, ANN)
    assert store.tags() == {"v1": head}
    assert store.resolve() == head
    lines = manifest(store, made)
    assert hashlib.sha256(lines).hexdigest() == made.sha256
    assert lines.splitlines() == sorted(lines.splitlines())
    entries = [ReleaseEntry.load(line, "manifest.jsonl") for line in lines.splitlines()]
    assert [(e.type, e.name, e.license, e.admitted) for e in entries] == [
        ("package", "one", "CC0-1.0", True), ("package", "two", "", True),
        ("resource", "files/shared", "CC-BY-4.0", None),
    ]  # fmt: skip
    assert {e.name: e.components for e in entries[:2]} == {p.name: p.components for p in store.packages()}
    said = Release.model_validate(header(store, made))
    assert (said.packages, said.resources, said.unlicensed) == (2, 1, 1)
    assert said.families == {"hand": 2}
    assert said.licenses == {"CC-BY-4.0": 1, "CC0-1.0": 1}
    assert said.tree == store.commit(head).tree
    found = verify(store, "v1")
    assert (found.packages, found.problems, found.notes) == (2, (), ())
    assert releases(store) == [made]
    assert store.fsck() == []
    git(store.git, "fsck", "--full", "--strict")
    text = git(store.git, "cat-file", "tag", "v1")
    assert text.startswith(f"object {head}\ntype commit\ntag v1\ntagger {ANN} ")
    assert "\n\nFirst one\n\n2 packages, 1 resources\nfamilies: hand 2\n" in text
    assert text.endswith(f"\nSigned-off-by: {ANN}\n")
    assert git(store.git, "cat-file", "blob", f"{RELEASES}v1:manifest.jsonl").encode() == lines
    assert git(store.git, "rev-parse", f"{RELEASES}v1^").strip() == head


def test_the_same_inputs_give_the_same_release(tmp_path: Path) -> None:
    made = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        store = _suite(tmp_path / name)
        made.append(release(store, "v1", sign_off=ANN, message="x"))
    assert made[0] == made[1]


def test_undo_takes_it_back_as_a_whole_and_again_brings_it_back(tmp_path: Path) -> None:
    store = _suite(tmp_path)
    before = store.refs.all("refs/tags/"), store.refs.all(RELEASES)
    made = release(store, "v1", sign_off=ANN)
    assert sorted(m.ref for m in store.op_log(1)[0].moves) == [RELEASES + "v1", "refs/tags/v1"]
    store.undo()
    assert (store.refs.all("refs/tags/"), store.refs.all(RELEASES)) == before
    with pytest.raises(NotFound):
        verify(store, "v1")
    store.undo()
    assert read(store, "v1") == made
    assert verify(store, "v1").problems == ()


@pytest.mark.parametrize(
    ("sign_off", "message", "allow", "reason"),
    [
        ("Ann", "", (), "'Ann' signs nothing off"),
        ("Ann <ann>", "", (), "signs nothing off"),
        ("<ann@example.org>", "", (), "signs nothing off"),
        (" <ann@example.org>", "", (), "signs nothing off"),
        ("Ann <a@b> <c@d>", "", (), "signs nothing off"),
        ("Ann\nLee <a@b>", "", (), "signs nothing off"),
        ("Ann\udcff <a@b>", "", (), "the sign-off is not UTF-8"),
        (ANN, "a\udcff", (), "the message is not UTF-8"),
        (ANN, "a\0b", (), "the message holds control characters"),
        (ANN, "", ("everything",), "'everything' is nothing to allow"),
    ],
)
def test_malformed_requests_change_nothing(
    tmp_path: Path, sign_off: str, message: str, allow: tuple[str, ...], reason: str
) -> None:
    store = _suite(tmp_path)
    refs = store.refs.all()
    with pytest.raises(UsageError, match=reason):
        release(store, "v1", sign_off=sign_off, message=message, allow=allow)
    assert store.refs.all() == refs


def test_a_taken_or_odd_tag_is_refused(tmp_path: Path) -> None:
    store = _suite(tmp_path)
    store.tag("v1")
    with pytest.raises(UsageError, match="the tag v1 exists already"):
        release(store, "v1", sign_off=ANN)
    with pytest.raises(UsageError, match="not a name that a ref can have"):
        release(store, "a..b", sign_off=ANN)
    with pytest.raises(UsageError, match="the tag is not UTF-8"):
        release(store, "\udcff", sign_off=ANN)
    with pytest.raises(UsageError, match="the tag v1 is no release"):
        verify(store, "v1")
    with pytest.raises(NotFound):
        release(store, "v2", "nowhere", sign_off=ANN)
    assert releases(store) == []


def test_packages_in_no_state_for_it_are_named(tmp_path: Path) -> None:
    store = _suite(tmp_path)
    add(store, "raw")
    edit(store, "one", {"task/instruction.md": b"Other."})
    with store.write() as tx:
        tree = store.package("two").tree
        case = {"package": "two", "outcome": "kept", "reason": "no", "diagnosis": {"tree": tree}}
        commit = tx.detached_commit("Case", files={"case.json": json.dumps(case).encode()})
        tx.set_ref("refs/rover/cases/two-1", commit)
    with pytest.raises(UsageError) as caught:
        release(store, "v1", sign_off=ANN)
    assert str(caught.value) == (
        "v1 is not released: 1 stale (one); 2 not admitted (one, ...); 1 under an open repair case (two)"
    )
    with pytest.raises(UsageError, match=r"^v1 is not released: 1 under an open repair case \(two\)$"):
        release(store, "v1", sign_off=ANN, allow=("stale", "unadmitted"))
    made = release(store, "v1", sign_off=ANN, allow=("stale", "unadmitted", "case"))
    assert header(store, made)["allowed"] == {"stale": 1, "unadmitted": 2, "case": 1}
    edit(store, "two", {"README.md": b"Examined again.\n"})
    with pytest.raises(UsageError, match="not admitted") as caught:
        release(store, "v2", sign_off=ANN)
    assert "case" not in str(caught.value)
    old = release(store, "v0", "HEAD~3", sign_off=ANN, allow=("unadmitted", "case"))
    assert verify(store, "v0").problems == ()
    assert [r.tag for r in releases(store)] == ["v1", old.tag]
    empty = Store.init(tmp_path / "empty", clock=lambda: START)
    with empty.write() as tx:
        tx.set_resource("files/x", tx.tree({"resource.json": b"{}\n"}))
        tx.commit("No package")
    with pytest.raises(UsageError, match="holds no package"):
        release(empty, "v1", sign_off=ANN)


def test_what_was_moved_by_hand_is_found(tmp_path: Path) -> None:
    store = _suite(tmp_path)
    made = release(store, "v1", sign_off=ANN)
    edit(store, "one", {"README.md": b"Later.\n"})
    release(store, "v2", sign_off=ANN)

    def problems(name: str = "v1") -> str:
        return "\n".join(verify(Store.open(tmp_path), name).problems)

    git(store.git, "update-ref", f"{RELEASES}v1", f"{RELEASES}v2")
    assert "refs/rover/releases/v1 is at" in problems()
    git(store.git, "update-ref", f"{RELEASES}v1", made.release)
    assert problems() == ""
    # the tag, made again on another commit with the same text
    text = git(store.git, "cat-file", "tag", "v1").replace(made.commit, store.resolve(), 1)
    file = tmp_path / "tag"
    file.write_text(text)
    forged = git(store.git, "hash-object", "-t", "tag", "-w", str(file)).strip()
    git(store.git, "update-ref", "refs/tags/v1", forged)
    said = problems()
    assert "the manifest's sha256 is" in said
    assert f"was made of another commit than {store.resolve()[:12]}" in said
    assert "package one: tree is " in said
    assert "release.json: commit is" in said
    git(store.git, "tag", "-f", "v1", "HEAD")
    assert problems() == f"the tag was replaced: it names {store.resolve()[:12]} and signs nothing off"
    git(store.git, "tag", "-f", "v2", forged)  # an annotated tag under another name
    assert "refs/rover/releases/v2 is at" in problems("v2")


def test_a_clone_by_git_has_the_tag_alone_and_can_verify_it(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    store = _suite(tmp_path / "a")
    made = release(store, "v1", sign_off=ANN)
    other = Store.init(tmp_path / "b", clock=lambda: START)
    git(other.git, "fetch", "-q", str(store.git), "refs/heads/main:refs/heads/main", "refs/tags/v1:refs/tags/v1")
    clone = Store.open(tmp_path / "b")
    found = verify(clone, "v1")
    assert found.problems == ()
    assert found.notes == ("the manifest is not kept in this store; it was computed from the revision alone",)
    assert manifest(clone, made) == manifest(store, made)
    assert header(clone, made) == {}


def test_a_deleted_tag_makes_room_for_a_new_release(tmp_path: Path) -> None:
    store = _suite(tmp_path)
    first = release(store, "v1", sign_off=ANN)
    store.delete_tag("v1")
    edit(store, "one", {"README.md": b"Later.\n"})
    second = release(store, "v1", sign_off=ANN)
    assert second.release != first.release
    assert verify(store, "v1").problems == ()
    store.undo()
    assert store.refs.get(RELEASES + "v1") == first.release


def test_records_that_cannot_be_read_are_unlicensed_not_fatal(tmp_path: Path) -> None:
    store = _suite(tmp_path)
    edit(store, "one", {"package.json": b"[]"})
    found = contents(store.objects, store.commit().tree)
    assert found.unlicensed == ["one", "two"]
    assert found.unadmitted == ["one"]
    assert found.packages == 2
