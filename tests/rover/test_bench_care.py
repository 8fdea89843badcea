"""The benchmark of care on a small size: figures that hold together, nothing lost, work found again."""

from __future__ import annotations

from pathlib import Path

from rover.bench.store_care import measure_fsck, measure_gc


def test_gc_beside_git(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    ratio, lost = measure_gc(tmp_path, packs=45, tick=lambda done, of: told.append((done, of)))
    assert ratio.value > 0
    assert ratio.bar == 0.5
    assert "46 packs to 1" in ratio.note
    assert lost.value == 0
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert [path.name for path in tmp_path.iterdir()] == ["edits-45"]


def test_fsck_beside_git(tmp_path: Path) -> None:
    rows = {row.name: row for row in measure_fsck(tmp_path, packages=20)}
    assert rows["problems of a sound store of 20 packages"].value == 0
    assert rows["fsck of 20 packages / git fsck --full"].value > 0
