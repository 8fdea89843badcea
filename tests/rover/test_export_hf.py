"""Packages as a folder for `datasets`: what is in it, what is kept out of it, and that it loads without rover."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import exported
import packages
import pytest
from exported import NAME

from rover.ops.collect import _demonstration
from rover.ops.export import ExportRequest, export
from rover.port.atif import model as atif
from rover.rollout.demonstrations import path_of
from rover.sandbox.protocol import Runtime
from rover_store.errors import UsageError
from rover_store.ids import blob_id
from rover_store.store import Store

LOAD = """
import json, sys
from datasets import get_dataset_config_names, load_dataset
folder, cache = sys.argv[1:]
out = {}
for name in get_dataset_config_names(folder):
    found = load_dataset(folder, name, split="train", cache_dir=cache)
    out[name] = {"rows": list(found), "columns": list(found.features)}
out["default"] = load_dataset(folder, split="train", cache_dir=cache)[0]["name"]
assert not any(m.split(".")[0] in ("rover", "rover_store", "rover_train") for m in sys.modules)
print(json.dumps(out))
"""
#: text that lines of JSON may break, bytes that are no text, and more than a block of a reader
ODD = {
    "odd/lines.txt": "a\r\nb\u2028c\u0085d\x00\ufeffe".encode(),
    "odd/bytes.bin": bytes(range(256)),
    "odd/large.csv": b"x,y\n" + b"1,2\n" * 3_000_000,
    "odd/empty": b"",
}


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    made = packages.runtime()
    yield made
    made.close()  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, runtime: Runtime) -> Store:
    """With a committed demonstration, a stale file beside it, and a package with odd files."""
    store = exported.made(tmp_path_factory.mktemp("store"), runtime)
    entry = store.package(NAME)
    rollouts = [r for r, t in store.evidence.iter_rollouts() if t.key.policy == packages.solution().id]
    passed = [v for r in rollouts for v in store.evidence.iter_verdicts(r) if v.outcome == "passed"]
    trajectory = store.evidence.get_rollout(passed[0].rollout)
    assert trajectory is not None
    kept = _demonstration(entry, trajectory, passed[0])
    with store.write("test") as tx:
        files = {path_of(kept.rollout): kept.dump(), "demonstrations/note.json": b"{}"}
        tx.set_package(NAME, tx.edit_tree(entry.tree, files))
        odd = {f"context/files/{path}": data for path, data in ODD.items()}
        tx.set_package("odd", tx.tree(packages.summary_package("odd") | odd))
        tx.commit("Demonstrations", time=2)
    return store


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Path:
    folder = tmp_path_factory.mktemp("out") / "data"
    report = export(store, ExportRequest("hf", folder))
    assert {row.name: row.notes for row in report.rows} == {
        NAME: ("1 demonstration, 7 verdicts",),
        "odd": ("0 demonstrations, 0 verdicts",),
    }
    return folder


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_bytes().split(b"\n")[:-1]]


def test_the_workspace_can_be_had_back(store: Store, out: Path) -> None:
    """Every byte of the start, and of context, task and harness as stored: the same component ids come of it."""
    content = {row["blob"]: row for row in rows(out, "files")}
    assert len(content) == len(rows(out, "files"))

    def data(one: dict[str, Any]) -> bytes:
        row = content[one["blob"]]
        found = row["content"].encode() if row["encoding"] == "utf-8" else base64.b64decode(row["content"])
        assert (len(found), blob_id(found)) == (one["size"], one["blob"])
        assert hashlib.sha256(found).hexdigest() == row["sha256"]
        return found

    for package in rows(out, "packages"):
        start = {one["path"]: data(one) for one in package["files"]}
        assert start["orders.csv"] == packages.ORDERS
        if package["name"] == "odd":
            assert {p: d for p, d in start.items() if p.startswith("odd/")} == ODD
        stored = {one["path"]: data(one) for one in package["package_files"]}
        with store.write("test") as tx:
            again = tx.tree({p: d for p, d in stored.items() if p.startswith(("context/", "task/", "harness/"))})
        level = store.objects.list_tree(again)
        assert {c: level[c].id for c in ("context", "task", "harness")} == {c: package[c] for c in list(level)}


def test_nothing_gives_the_answers_away(store: Store, out: Path) -> None:
    everything = b"".join(path.read_bytes() for path in out.iterdir())
    package = packages.summary_package()
    secret = [data for path, data in package.items() if path.startswith("verifier/")]
    held = {blob_id(data) for data in secret}
    assert not held & {row["blob"] for row in rows(out, "files")}
    assert b"anchor(" not in everything
    assert {score["reason"] for row in rows(out, "verdicts") for score in row["criteria"]} == {""}
    assert {row["reason"] for row in rows(out, "verdicts")} == {""}
    assert sorted(p.name for p in out.iterdir()) == [
        "README.md", "demonstrations.jsonl", "files.jsonl", "packages.jsonl", "verdicts.jsonl"
    ]  # fmt: skip


def test_verifiers_only_where_they_are_asked_for(store: Store, tmp_path: Path) -> None:
    export(store, ExportRequest("hf", tmp_path / "x", pattern=NAME, options={"verifiers": "yes"}))
    verifier = rows(tmp_path / "x", "verifiers")[0]
    assert verifier["verifier"] == store.package(NAME).components["verifier"]
    content = {row["blob"] for row in rows(tmp_path / "x", "verifier_files")}
    assert {one["blob"] for one in verifier["files"]} <= content
    assert "keep it out of training data" in (tmp_path / "x/README.md").read_text()
    assert any(score["reason"] for row in rows(tmp_path / "x", "verdicts") for score in row["criteria"])


def test_a_demonstration(store: Store, out: Path) -> None:
    (row,) = rows(out, "demonstrations")
    assert [m["role"] for m in row["messages"]] == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    call = row["messages"][1]["tool_calls"][0]
    assert json.loads(call["function"]["arguments"]) == {"path": "orders.csv"}
    assert row["messages"][2]["tool_call_id"] == call["id"]
    assert row["messages"][-1]["content"] == "Wrote report.csv."
    document = atif.parse(row["atif"].encode(), "atif")
    assert (document.session_id, (document.extra or {})["outcome"]) == (row["rollout"], "passed")
    assert [t["function"]["name"] for t in json.loads(row["tools"])] == list(packages.TOOLS)


def test_demonstrations_of_the_evidence(store: Store, tmp_path: Path) -> None:
    export(store, ExportRequest("hf", tmp_path / "x", pattern=NAME, options={"demonstrations": "evidence"}))
    found = rows(tmp_path / "x", "demonstrations")
    assert {row["policy"] for row in found} == {packages.solution().id, "hf:test"}
    assert all(row["outcome"] == "passed" for row in found)


def test_verdicts(store: Store, out: Path) -> None:
    found = {":".join(row["policy"].split(":")[:2]): row for row in rows(out, "verdicts")}
    assert len(rows(out, "verdicts")) == 7
    solved = found["hf:test"]
    assert (solved["passed"], solved["score"], solved["gate"], solved["completion_tokens"]) == (True, 1.0, 1, 9)
    assert {score["score"] for score in solved["criteria"]} == {1.0}
    assert found["null:echo"]["outcome"] == "failed"


def test_the_same_bytes_again(store: Store, out: Path, tmp_path: Path) -> None:
    export(store, ExportRequest("hf", tmp_path / "again", rev=store.resolve()))
    assert {p.name: p.read_bytes() for p in out.iterdir()} == {
        p.name: p.read_bytes() for p in (tmp_path / "again").iterdir()
    }


def test_licences(store: Store, tmp_path: Path) -> None:
    heads = {"": "license: other\n", "MIT": "license: mit\n", "Ours": "license: other\nlicense_name: ours"}
    for given, head in heads.items():
        folder = tmp_path / f"x{given}"
        export(store, ExportRequest("hf", folder, pattern=NAME, options={"license": given} if given else {}))
        assert f"---\n{head}" in (folder / "README.md").read_text()
    with pytest.raises(UsageError, match="hf has no option 'y'"):
        export(store, ExportRequest("hf", tmp_path / "y", options={"y": "1"}))
    with pytest.raises(UsageError, match="hf: verifiers=true: only yes is known"):
        export(store, ExportRequest("hf", tmp_path / "y", options={"verifiers": "true"}))


def test_datasets_loads_the_folder(out: Path, tmp_path: Path) -> None:
    """In a process that knows nothing of rover: every configuration, column and row, to the last byte."""
    pytest.importorskip("datasets")
    argv = [sys.executable, "-I", "-c", LOAD, str(out), str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found.pop("default") == "odd"
    assert list(found) == ["packages", "files", "demonstrations", "verdicts"]
    for name, one in found.items():
        written = rows(out, name)
        assert one["columns"] == list(written[0])
        assert [_plain(row) for row in one["rows"]] == [_plain(row) for row in written]


def _plain(value: Any) -> Any:
    """A value without the keys that are null: a column holds every key of its record."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if v is not None}
    return [_plain(v) for v in value] if isinstance(value, list) else value
