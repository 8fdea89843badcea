"""A Hugging Face dataset folder, written bit by bit: `load_from_disk` opens it, `load_dataset` OUT/parquet.

    OUT/README.md                      card; its head names the parquet file, for a hub
    OUT/data-00000-of-00001.arrow      with dataset_info.json and state.json
    OUT/parquet/data.parquet           the same rows

Written beside its place and moved there when it is whole. Equal rows give equal bytes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rover_store.errors import StoreError, UsageError
from rover_store.ids import digest
from rover_train import places
from rover_train.extra import needed

ARROW = "data-00000-of-00001.arrow"
PARQUET = "parquet/data.parquet"
#: rows that are in memory at the same time
_CHUNK = 128


def library() -> Any:
    """The datasets library. UsageError names the extra where it is not installed."""
    needed(("datasets",))
    import datasets

    datasets.disable_progress_bars()
    return datasets


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder that appears at its place when the block ends well. UsageError where something is there already."""
    places.refuse(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder}: exists and is not empty")
    begun = folder.absolute().with_name(f".{folder.absolute().name}.part")
    try:
        shutil.rmtree(begun, ignore_errors=True)
        begun.mkdir(parents=True)
        yield begun
        if folder.is_dir():
            folder.rmdir()
        begun.rename(folder)
    except OSError as error:
        raise StoreError(f"{folder}: cannot be written: {error.strerror or error}") from None
    finally:
        shutil.rmtree(begun, ignore_errors=True)


class Writer:
    """Writes the data files into a folder that exists, row by row. `features`: datasets.Features. A context manager."""

    def __init__(self, folder: Path, features: Any) -> None:
        self._datasets = library()
        self._folder = folder
        self._features = features
        self._waiting: list[dict[str, Any]] = []
        self._stack = ExitStack()
        self._seen = ""
        self.rows = 0

    def __enter__(self) -> Writer:
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = self._features.arrow_schema
        (self._folder / PARQUET).parent.mkdir(parents=True, exist_ok=True)
        sink = self._stack.enter_context(pa.OSFile(str(self._folder / ARROW), "wb"))
        self._arrow = self._stack.enter_context(pa.ipc.new_stream(sink, schema))
        self._parquet = self._stack.enter_context(pq.ParquetWriter(self._folder / PARQUET, schema))
        return self

    def add(self, example: Mapping[str, Any]) -> None:
        """One more row."""
        self._waiting.append({name: example[name] for name in self._features})
        if len(self._waiting) >= _CHUNK:
            self._flush()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None and self._waiting:
            self._flush()
        self._stack.close()
        if kind is None:
            self._datasets.DatasetInfo(features=self._features).write_to_directory(str(self._folder))
            _state(self._folder, self._seen)

    def _flush(self) -> None:
        table = self._datasets.Dataset.from_list(self._waiting, features=self._features).data.table
        self._arrow.write_table(table)
        self._parquet.write_table(table)
        self._seen = digest([self._seen, self._waiting])
        self.rows += len(self._waiting)
        self._waiting = []


def _state(folder: Path, fingerprint: str) -> None:
    """state.json as `save_to_disk` writes it, with a fingerprint that the rows alone decide."""
    state: dict[str, Any] = {
        "_data_files": [{"filename": ARROW}],
        "_fingerprint": fingerprint[:16] or "0" * 16,
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }
    (folder / "state.json").write_text(json.dumps(state, indent=2, sort_keys=True) + "\n")


def read(folder: Path, columns: Sequence[str]) -> Any:
    """The dataset in a folder. UsageError where there is none, or where a column is missing."""
    datasets = library()
    try:
        found = datasets.load_from_disk(str(folder))
    except (OSError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UsageError(f"{folder}: no dataset can be read there: {reason}") from None
    if not isinstance(found, datasets.Dataset):
        raise UsageError(f"{folder}: holds several datasets ({', '.join(found)}); name one of them")
    for name in columns:
        if name not in found.column_names:
            raise UsageError(f"{folder}: has no column {name!r}; it holds {', '.join(found.column_names)}")
    return found
