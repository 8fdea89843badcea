"""`rover impact` and `rover release`: what they print, what a CI job gets from them, what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from refusals import Said, refused, rover, state
from store_samples import add, edit, new_store

from rover_store.records.jsonschema import files
from rover_store.store import Store

ANN = "Ann Lee <ann@example.org>"
MAKE = ("--sign-off", ANN, "--allow", "unadmitted")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROVER_STORE", raising=False)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    store = new_store(tmp_path)
    for name in ("one", "two", "three"):
        add(store, name, resources={"files/shared": b"1"})
    store.tag("v1")
    return store


def _fits(said: Said) -> list[str]:
    lines = said.out.splitlines()
    assert all(len(line) <= 80 for line in lines), said.out
    return lines


def test_a_gate_for_a_release(store: Store) -> None:
    same = rover("impact", "v1..HEAD")
    assert same.code == 0
    at = store.resolve()[:12]
    assert _fits(same) == [f"{at}..{at}: 3 untouched", "all recorded scores stay comparable"]
    edit(store, "one", {"task/instruction.md": b"Other."})
    edit(store, "two", {"verifier/checks/main.py": b"# other\n"})
    edit(store, "three", {"README.md": b"A word.\n"})
    said = rover("impact", "v1..HEAD")
    lines = _fits(said)
    assert said.code == 1
    assert lines[0] == f"{at}..{store.resolve()[:12]}: 1 run again, 1 grade again, 1 only notes or edges"
    assert [line.split()[0] for line in lines[4:]] == ["one", "two", "three"]
    assert "one      run again            - T - -  task changed; verifier now stale" in lines
    assert said.out == rover("impact", "v1").out == rover("impact", "v1", "HEAD").out
    assert rover("impact", "v1..HEAD", "--allow", "run").code == 1
    assert rover("impact", "v1..HEAD", "--allow", "run", "--allow", "grade").code == 0
    assert rover("impact", "v1..HEAD", "--package", "three").code == 0
    assert rover("impact").code == 0
    assert rover("impact", "v1..HEAD", "--names", "run").out == "one\n"
    assert rover("impact", "HEAD~1..HEAD", "--names", "same").out == "one\ntwo\n"
    assert "... and 2 more; --limit 0 shows all" in rover("impact", "v1", "--limit", "1").out


def test_json_has_the_documented_shape(store: Store) -> None:
    with store.write() as tx:
        tx.set_resource("files/shared", tx.tree({"files/data.csv": b"2"}))
        tx.remove_package("two")
        tx.commit("New data")
    said = rover("impact", "v1", "--json")
    assert said.code == 1
    found = json.loads(said.out)
    assert set(found) == {"old", "new", "counts", "packages", "resources", "evidence"}
    assert found["counts"] == {"left": 1, "came": 0, "run": 0, "grade": 0, "stale": 2, "nothing": 0, "same": 0}
    assert [set(p) for p in found["packages"]] == 3 * [
        {"name", "kind", "changed", "causes", "through", "stale", "old", "new", "twin"}
    ]
    assert found["packages"][0]["stale"][0]["target"] == "resources/files/shared"
    assert found["resources"] == [
        {"name": "resources/files/shared", "old": found["resources"][0]["old"],
         "new": found["resources"][0]["new"], "packages": 2, "stale": 2}
    ]  # fmt: skip
    text = rover("impact", "v1")
    assert "one      stale           not bound to the new files/shared" in _fits(text)
    assert "files/shared" in text.out.split("resources\n")[1]


def test_since_two_branches_parted(store: Store) -> None:
    base = store.resolve()
    store.create_branch("other")
    edit(store, "one", {"task/instruction.md": b"Other."})
    store.switch("other")
    edit(store, "two", {"task/instruction.md": b"Other."})
    assert json.loads(rover("impact", "main...other", "--json").out)["old"] == base
    assert rover("impact", "main...other", "--names", "run").out == "two\n"
    assert rover("impact", "main..other", "--names", "run").out == "one\ntwo\n"


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["v1", "HEAD", "HEAD"], "at most two revisions"),
        (["v9..HEAD"], "revision not found: v9"),
        (["--allow", "everything"], "'everything' is no kind"),
        (["--names", "x"], "'x' is no kind"),
        (["--names", "run", "--json"], "exclude each other"),
        (["v1", "--package", "x*"], "no package of v1 or HEAD matches 'x*'"),
    ],
)
def test_bad_requests_of_impact(store: Store, words: list[str], part: str) -> None:
    refused(rover("impact", *words), 2, part)


def test_releasing(store: Store) -> None:
    before = state(store.root)
    refused(rover("release", "v2", "--sign-off", ANN), 2, "v2 is not released: 3 not admitted (one, ...)")
    assert state(store.root) == before
    said = rover("release", "v2", *MAKE, "-m", "Second", "--manifest", "manifest.jsonl")
    lines = _fits(said)
    assert said.code == 0
    assert lines[0] == f"released v2 ({store.resolve()[:12]}), signed off by {ANN}"
    assert lines[1] == "3 packages, 1 resource"
    assert "no licence is stated by files/shared, one, three, two" in said.err or "no licence is stated by" in said.err
    rows = [json.loads(line) for line in Path("manifest.jsonl").read_text().splitlines()]
    schema = Draft202012Validator(json.loads(files()["release_entry.schema.json"]))
    assert [list(schema.iter_errors(row)) for row in rows] == [[], [], [], []]
    assert [row["name"] for row in rows] == ["one", "three", "two", "files/shared"]
    found = json.loads(rover("release", "--list", "--json").out)
    assert [(r["tag"], r["signed_off_by"], r["time"]) for r in found] == [("v2", ANN, 1700000000)]
    assert _fits(rover("release", "--list"))[2].startswith("v2 ")
    assert rover("release", "v2", "--verify").out == f"v2: 3 packages as signed off by {ANN}\n"
    assert json.loads(rover("release", "v2", "--verify", "--json").out)["problems"] == []
    made = json.loads(rover("release", "v3", *MAKE, "--json").out)
    schema = Draft202012Validator(json.loads(files()["release.schema.json"]))
    assert list(schema.iter_errors(made["contents"])) == []
    assert made["contents"]["allowed"] == {"unadmitted": 3}
    Path("manifest.jsonl").unlink()
    assert rover("release", "v2", "--manifest", "manifest.jsonl").code == 0
    assert Path("manifest.jsonl").exists()


def test_a_release_undone_and_one_that_was_moved(store: Store) -> None:
    assert rover("release", "v2", *MAKE).code == 0
    said = rover("undo")
    assert "tag v2 is gone" in said.out
    refused(rover("release", "v2", "--verify"), 2, "release not found: v2")
    assert rover("release", "v2", *MAKE).code == 0
    store.delete_tag("v2")
    store.tag("v2", "HEAD~1")
    said = rover("release", "v2", "--verify")
    assert (said.code, said.out) == (
        1, f"v2: the tag was replaced: it names {store.resolve('HEAD~1')[:12]} and signs nothing off\n",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["v2"], "a release is signed off"),
        ([], "name the release"),
        (["v1", *MAKE], "the tag v1 exists already"),
        (["v2", "--sign-off", "Ann"], "'Ann' signs nothing off"),
        (["v2", *MAKE[:2], "--allow", "all"], "'all' is nothing to allow"),
        (["v2", "v9", *MAKE], "revision not found: v9"),
        (["v 2", *MAKE], "'v 2' is not a name that a ref can have"),
        (["v2", *MAKE, "--manifest", "no/such/file"], "--manifest no/such/file: no file can be written there"),
        (["v2", *MAKE, "--manifest", "."], "no file can be written there"),
        (["v1", "--verify"], "the tag v1 is no release"),
        (["v9", "--verify"], "release not found: v9"),
        (["v1", "--manifest", "m"], "the tag v1 is no release"),
        (["v9", "--manifest", "m"], "release not found: v9"),
    ],
)
def test_bad_requests_of_release(store: Store, words: list[str], part: str) -> None:
    before = state(store.root)
    refused(rover("release", *words), 2, part)
    assert state(store.root) == before
    assert not Path("m").exists()
