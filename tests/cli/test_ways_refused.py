"""Ways in and out that are refused: what is said, that the exit code is 2, and that nothing else is touched."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import harbor_tasks
import pytest
from refusals import rover


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder, the working one, with a store that holds two tasks."""
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    monkeypatch.delenv("ROVER_STORE", raising=False)
    assert rover("init").code == 0
    for name in ("copies", "dockerfile-only"):
        harbor_tasks.write(harbor_tasks.tasks()[name], tmp_path / "tasks" / name)
    assert rover("import", "harbor", "../tasks").code == 0
    return tmp_path


def refused(*words: str) -> str:
    said = rover(*words)
    assert said.code == 2
    assert len(said.err.splitlines()) <= 2
    return said.err.splitlines()[0]


def test_evidence_is_packed_over_nothing_but_a_file(home: Path) -> None:
    os.mkfifo(home / "pipe")
    (home / "folder").mkdir()
    (home / "link").symlink_to("/dev/null")
    for name in ("pipe", "folder", "link"):
        before = (home / name).lstat().st_mode
        assert refused("evidence", "pack", f"../{name}") == f"rover: ../{name}: is there, and is no plain file"
        assert (home / name).lstat().st_mode == before
    assert stat.S_ISLNK((home / "link").lstat().st_mode)
    assert refused("evidence", "pack", "") == "rover: .: names no file"
    assert refused("evidence", "pack", ".rover/x.bundle").endswith("lies in the store")
    assert refused("evidence", "pack", "../no/x.bundle") == "rover: ../no/x.bundle: there is no folder ../no"
    assert "File name too long" in refused("evidence", "pack", "x" * 300)
    for _ in range(2):
        assert rover("evidence", "pack", "../a.bundle").code == 0
    assert sorted(p.name for p in home.iterdir()) == ["a.bundle", "folder", "home", "link", "pipe", "tasks"]


def test_an_empty_part_is_none(home: Path) -> None:
    for words in (("run", "*", "--policy", "solution"), ("check", "*", "--static")):
        assert "--shard ''" in refused(*words, "--shard", "")


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("org=..", "--set org=.."), ("dataset=x", "--set dataset=x"), ("workdir=/..", "--set workdir=/..:"),
        ("workdir=/a/./b", "--set workdir=/a/./b:"), ("image=\n", "--set image='\\n'"), ("image=", "--set image=''"),
    ],
)  # fmt: skip
def test_options_of_a_way_out(home: Path, option: str, said: str) -> None:
    assert said in refused("export", "harbor", "*", "--out", "../out", "--set", option)
    assert not (home / "out").exists()


def test_nothing_is_exported_into_the_store(home: Path) -> None:
    for kind in ("harbor", "verifiers", "hf"):
        assert refused("export", kind, "*", "--out", ".rover/x").endswith("lies in the store")
    assert not (home / "home/.rover/x").exists()


def test_what_a_killed_export_left_goes_with_the_next(home: Path) -> None:
    (home / ".rover-export-99999999-1/new").mkdir(parents=True)
    assert rover("export", "harbor", "*", "--out", "../out").code == 0
    assert sorted(p.name for p in home.iterdir()) == ["home", "out", "tasks"]


def test_a_folder_that_is_named_as_a_dataset_is(home: Path) -> None:
    harbor_tasks.write(harbor_tasks.tasks()["image-only"], home / "more/dataset.toml")
    assert rover("import", "harbor", "../more/dataset.toml").code == 0
    assert rover("export", "harbor", "*", "--out", "../out").code == 0
    assert (home / "out/dataset.toml").is_file()
    assert (home / "out/acme-image-only/task.toml").is_file()


def test_a_full_disk_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"/dev/full: {os.strerror(errno.ENOSPC)}" in _failed("check", "*", "--static", "--sarif", "/dev/full")

    def full(*given: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    harbor_tasks.write(harbor_tasks.tasks()["image-only"], home / "more")
    assert f"the store in {home / 'home'}: {os.strerror(errno.ENOSPC)}" in _failed("import", "harbor", "../more")


def _failed(*words: str) -> str:
    said = rover(*words)
    assert said.code == 3
    return said.err


def test_what_nobody_may_read_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the system refuses it to a user; whoever runs this may be one that it refuses nothing."""
    real = os.scandir

    def closed(path: object = ".") -> object:
        if str(path).endswith("copies"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "scandir", closed)
    assert refused("import", "harbor", "../tasks") == "rover: copies: cannot be listed (Permission denied)"
    said = rover("import", "harbor", "../tasks", "--keep-going", "-y")
    assert said.code == 1
    assert "cannot be listed" in said.out
