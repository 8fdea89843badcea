"""One folder and one seed give one commit, whatever the machine, the folder, the workers and the environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.resources import as_file, files
from pathlib import Path

from boxes import make

from rover_store.store import Store

ATTEMPTS = "2"
ONE = {"TZ": "UTC", "LANG": "C.UTF-8", "PYTHONHASHSEED": "1", "COLUMNS": "80"}
OTHER = {"TZ": "Pacific/Apia", "LANG": "C", "LC_ALL": "C", "PYTHONHASHSEED": "2", "COLUMNS": "200"}


def built(folder: Path, workers: int, umask: int, env: dict[str, str]) -> tuple[str, str, object]:
    """Commit and tree of a build of the demonstration's files in a new store, and what the command said."""
    source = folder / "a place" / "demo_files"
    with as_file(files("rover") / "ops" / "demo_files") as shipped:
        shutil.copytree(shipped, source, copy_function=shutil.copyfile if umask else shutil.copy2)
    env = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000", **env}
    env.pop("ROVER_STORE", None)

    def rover(*words: str) -> str:
        line = [sys.executable, "-c", "from rover.cli.main import main; main()", *words]
        done = subprocess.run(line, cwd=folder, env=env, umask=umask, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    rover("init")
    said = json.loads(
        rover("build", "--from", str(source), "--count", ATTEMPTS, "--seed", "1", "-n", str(workers), "--json")
    )
    del said["rollouts_run"], said["rollouts_reused"]  # what two workers find of each other's is chance
    store = Store.open(folder)
    assert said["commit"] == store.resolve()
    return store.resolve(), store.commit("HEAD").tree, said


def test_two_builds_in_different_surroundings(tmp_path: Path) -> None:
    make("bubblewrap").close()  # type: ignore[attr-defined]
    (tmp_path / "one").mkdir()
    (tmp_path / "two" / "deeper").mkdir(parents=True)
    first = built(tmp_path / "one", 1, 0o022, ONE)
    second = built(tmp_path / "two" / "deeper", 2, 0o077, OTHER)
    assert first[1] == second[1]
    assert first == second
