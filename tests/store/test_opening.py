"""Finding and opening a store, and what opening and reading must not import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from store_samples import add, new_store

from rover_store.errors import StoreError, UsageError
from rover_store.store import Store


def test_found_from_below_by_argument_and_by_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_store(tmp_path / "project")
    (tmp_path / "project/a/b").mkdir(parents=True)
    monkeypatch.delenv("ROVER_STORE", raising=False)
    monkeypatch.chdir(tmp_path / "project/a/b")
    assert Store.open().root == tmp_path / "project"
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match="not a rover store") as caught:
        Store.open()
    assert caught.value.exit_code == 2
    assert "rover init" in caught.value.hint
    assert Store.open(tmp_path / "project").root == tmp_path / "project"
    assert Store.open(tmp_path / "project/.rover").root == tmp_path / "project"
    monkeypatch.setenv("ROVER_STORE", str(tmp_path / "project"))
    assert Store.open().root == tmp_path / "project"


def test_init_twice(tmp_path: Path) -> None:
    new_store(tmp_path)
    with pytest.raises(UsageError, match="exists already"):
        Store.init(tmp_path)
    assert sorted(p.name for p in (tmp_path / ".rover").iterdir()) == [
        ".gitignore", "config.toml", "evidence.git", "store.git",
    ]  # fmt: skip
    (tmp_path / "file").touch()
    for below in ("file", "file/more"):
        with pytest.raises(UsageError, match="not a folder"):
            Store.init(tmp_path / below)


@pytest.mark.parametrize(
    ("text", "message"),
    [("format = 2\n", "format: 2 was written by a newer rover; this one reads 1"),
     ("format = 'x'\n", "format: must be"),
     ("", "format: must be"), ("format = true\n", "format: must be"), ("[", "not valid TOML")],
)  # fmt: skip
def test_other_formats(tmp_path: Path, text: str, message: str) -> None:
    new_store(tmp_path)
    (tmp_path / ".rover/config.toml").write_text(text)
    with pytest.raises(StoreError, match=message) as caught:
        Store.open(tmp_path)
    assert "config.toml" in caught.value.message
    assert "\n" not in caught.value.message


def test_a_store_without_its_repository(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    store.git.rename(tmp_path / "gone")
    with pytest.raises(StoreError, match=r"store\.git: missing"):
        Store.open(tmp_path)


READ = """
import sys
from pathlib import Path
from rover_store.store import Store
store = Store.open(Path(sys.argv[1]))
assert store.packages() and store.package("one") and store.resources() == {}
assert list(store.log(package="one")) and store.stale() == [] and store.closure(["one/task"])
assert store.find("HEAD:one/task/instruction.md") and store.diff("HEAD", "HEAD") and store.branches()
store.objects.read(store.find("HEAD:one/task/instruction.md").id)
slow = ["pydantic", "sqlmodel", "sqlalchemy", "dulwich", "networkx", "pandas", "typer"]
print([name for name in slow if name in sys.modules])
"""


def test_reading_imports_nothing_slow(tmp_path: Path) -> None:
    add(new_store(tmp_path), "one")
    done = subprocess.run([sys.executable, "-c", READ, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_who_commits_is_said_in_the_settings(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    settings = tmp_path / ".rover/config.toml"
    plain = settings.read_text()
    add(store, "one")
    settings.write_text(plain + 'author = "Ada <ada@example.org>"\n')
    store = Store.open(tmp_path, clock=store.clock)
    add(store, "two")
    store.author = "Bo <bo@example.org>"
    add(store, "three")
    said = [entry.author for entry in store.log()]
    assert said == ["Bo <bo@example.org>", "Ada <ada@example.org>", "rover <rover@localhost>"]
    for bad in ("author = 7\n", 'author = "Ada"\n'):
        settings.write_text(plain + bad)
        with pytest.raises(StoreError, match="author: must be"):
            Store.open(tmp_path)
