"""The bench of writing, at sizes that only show that it measures what it says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rover.bench import store_write, suite
from rover.bench.process import run
from rover_store.errors import UsageError
from rover_store.store import Store


def test_import_makes_the_tree_that_git_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.defpath)  # whatever dvc there may be stays out
    ticks: list[tuple[int, int]] = []
    rows = store_write.measure_import(tmp_path, 16, lambda done, of: ticks.append((done, of)))
    assert [row.unit for row in rows] == ["ratio of CPU", "MB", "ratio of CPU"]
    assert all(row.value > 0 for row in rows[:2])
    assert rows[2].note == "dvc is not on the PATH: not measured"
    assert ticks == [(0, 16)]
    assert [p.name for p in tmp_path.iterdir()] == ["import-16.stream"]
    folder, stream = tmp_path / "again", tmp_path / "import-16.stream"
    store_write.import_stream(str(folder), str(stream))
    store = Store.open(folder)
    assert len(store.packages()) == 16
    assert store.fsck() == []
    built = suite.build(tmp_path / "built", 16)
    assert store.commit().tree == built.commit().tree


def test_edits_packs_and_a_huge_file(tmp_path: Path) -> None:
    small, big = tmp_path / "small", tmp_path / "big"
    for folder, n in ((small, 12), (big, 24)):
        suite.build(folder, n)
    head = Store.open(big).resolve()
    rows = store_write.measure_edit(tmp_path / "work", small, big, repeats=3)
    assert [row.bar for row in rows] == [1.0, 1.0, 1.5]
    assert all(row.value > 0 for row in rows)
    assert Store.open(big).resolve() == head  # suites are shared: never written to
    (packs,) = store_write.measure_packs(tmp_path / "work", packs=12)
    (huge,) = store_write.measure_stream(tmp_path / "work", megabytes=2)
    assert packs.value > 0
    assert 0 < huge.value < 150


def test_a_command_that_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="git nonsense failed: git: 'nonsense' is not a git command"):
        run(["git", "nonsense"], tmp_path)
