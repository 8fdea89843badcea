"""A pipe or a device where a file of the store should be is an error, and nothing waits for it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from refusals import SCRIPT, environment
from store_samples import add, git, new_store

from rover_store.plain_file import open_plain, read_plain
from rover_store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = new_store(tmp_path)
    add(made, "one")
    return made


def test_only_plain_files_are_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    os.mkfifo(tmp_path / "pipe")
    os.symlink("/dev/zero", tmp_path / "device")
    assert read_plain(tmp_path / "file") == b"x"
    for name in ("pipe", "device"):
        with pytest.raises(OSError, match="not a plain file"):
            open_plain(tmp_path / name)
    with pytest.raises(IsADirectoryError):
        open_plain(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_plain(tmp_path / "none")


@pytest.mark.parametrize("where", [
    "config.toml", "store.git/HEAD", "store.git/packed-refs", "store.git/refs/heads/main", "index", "pack",
    "store.git/objects/info/alternates", "store.git/objects/ab/" + "c" * 38,
])  # fmt: skip
@pytest.mark.parametrize("device", [False, True])
def test_no_command_waits_for_a_pipe_in_a_store(store: Store, where: str, device: bool) -> None:
    if where in ("index", "pack"):
        found = next((store.git / "objects" / "pack").glob("*.pack"))
        path = found.with_suffix(".idx") if where == "index" else found
    else:
        path = store.folder / where
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    os.symlink("/dev/zero", path) if device else os.mkfifo(path)
    codes = set()
    for words in (["log"], ["fsck"]):
        done = subprocess.run([*SCRIPT, *words], cwd=store.root, env=environment(), capture_output=True, timeout=60)
        assert b"Traceback" not in done.stderr
        assert b"internal error" not in done.stderr
        codes.add(done.returncode)
    assert codes <= {0, 1, 2, 3}
    if "objects/ab" not in where and "alternates" not in where:
        assert codes != {0}


def test_an_ordinary_store_is_read_as_before(store: Store) -> None:
    git(store.git, "pack-refs", "--all")
    assert Store.open(store.root).resolve("HEAD") == git(store.git, "rev-parse", "HEAD").strip()
