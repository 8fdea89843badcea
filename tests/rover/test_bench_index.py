"""The bench of the index at a small size: every row is there, and the store is left as it was."""

from __future__ import annotations

from pathlib import Path

from rover.bench import store_index
from rover_store.store import Store


def test_every_row_is_measured(tmp_path: Path) -> None:
    rows = {row.name: row for row in store_index.measure_history(tmp_path, 40, 60)}
    assert len(rows) == 6
    assert {row.bar for row in rows.values() if row.bar is not None} == {10.0, 150.0, 1.0, 20.0, 3.0}
    assert all(row.value > 0 for row in rows.values())
    store = Store.open(tmp_path / "history-40-60")
    assert len(list(store.log())) == 61
    assert store.tags()["history"] == store.resolve()
    assert store_index.with_history(tmp_path / "history-40-60", 40, 60).resolve() == store.resolve()
    assert store.fsck() == []
