"""What every way in and out keeps to. ROVER_CONTRACT_EXPORTER and ROVER_CONTRACT_IMPORTER name others by kind."""

from __future__ import annotations

import os
from pathlib import Path

import harbor_tasks
import packages
import pytest

from rover.port.protocol import Export, Exporter, Imported, Importer, Refused, Wanted
from rover.port.registry import EXPORTERS, IMPORTERS, exporter, importer
from rover.rollout.engine import Engine, RolloutRequest
from rover.rollout.env import load_env
from rover_store.store import Store

WAYS_OUT = sorted({*EXPORTERS, *filter(None, [os.environ.get("ROVER_CONTRACT_EXPORTER")])})
WAYS_IN = sorted({*IMPORTERS, *filter(None, [os.environ.get("ROVER_CONTRACT_IMPORTER")])})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    made = Store.init(tmp_path_factory.mktemp("store"), clock=lambda: 1)
    with made.write("test") as tx:
        for name, files in packages.summary_resources().items():
            tx.set_resource(name, tx.tree(files))
        for name in ("one", "two"):
            tx.set_package(name, tx.tree(packages.summary_package(name)))
        tx.commit("packages")
    with Engine(packages.runtime(), made.evidence) as engine:  # some ways out are for rollouts
        envs = [load_env(made, entry.tree) for entry in made.packages()]
        engine.grade([(r, e) for e in envs for r in engine.rollouts([RolloutRequest(e, packages.solution(), 1)])])
    return made


def written(store: Store, kind: str, folder: Path) -> dict[str, bytes]:
    folder.mkdir()
    rows = list(exporter(kind).write(Export(store, store.resolve(), store.packages()), folder))
    assert rows, "every package, or rollout of one, has a row"
    assert all((folder / row.path).exists() or not row.path for row in rows)
    assert all(row.path or row.notes for row in rows), "what is left out has a reason"
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("kind", WAYS_OUT)
def test_a_way_out_has_a_name_and_at_most_five_methods(kind: str) -> None:
    found = exporter(kind)
    assert isinstance(found, Exporter)
    assert found.kind == kind
    assert len([n for n in vars(Exporter) if not n.startswith("_")]) <= 5


@pytest.mark.parametrize("kind", WAYS_OUT)
def test_the_same_revision_gives_the_same_bytes(kind: str, store: Store, tmp_path: Path) -> None:
    before = store.resolve()
    assert written(store, kind, tmp_path / "a") == written(store, kind, tmp_path / "b")
    assert store.resolve() == before


@pytest.mark.parametrize("kind", WAYS_IN)
def test_a_way_in_has_a_name_and_at_most_five_methods(kind: str) -> None:
    found = importer(kind)
    assert isinstance(found, Importer)
    assert found.kind == kind
    assert len([n for n in vars(Importer) if not n.startswith("_")]) <= 5


def test_harbor_reads_the_same_twice_and_changes_nothing(tmp_path: Path) -> None:
    folder = harbor_tasks.write_all(tmp_path / "tasks")
    (folder / "copies/task.toml").write_text("no")
    before = {p: p.lstat().st_mtime_ns for p in folder.rglob("*")}
    first, second = (list(importer("harbor").read(folder, Wanted())) for _ in range(2))
    assert first == second
    assert [type(one) for one in first if one.source == "copies"] == [Refused]
    assert all(isinstance(one, Imported) for one in first if one.source != "copies")
    assert {p: p.lstat().st_mtime_ns for p in folder.rglob("*")} == before
