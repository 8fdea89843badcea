"""The commands of `rover help releases` run, and give the exit codes that the page promises."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from refusals import environment, rover
from store_samples import add, edit, new_store

from rover_store.store import Store

PAGE = (Path(__file__).parents[2] / "rover/docs/releases.md").read_text()


def commands(heading: str) -> list[str]:
    """Commands of a section, without the words beside them."""
    section = PAGE.split(f"{heading}\n")[1].split("\n#")[0]
    return [re.split(r"\s{3,}", m[1])[0] for m in re.finditer(r"^    (rover .+)$", section, re.MULTILINE)]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROVER_STORE", raising=False)
    store = new_store(tmp_path)
    for name in ("NAME", "OTHER"):
        add(store, name.lower(), resources={"files/orders": b"1"})
    store.tag("v1")
    return store


def _shell(line: str, folder: Path) -> tuple[int, str]:
    """A line of the page in a shell, `rover` being this one."""
    program = f"{shlex.quote(sys.executable)} -c 'from rover.cli.entry import main; main()'"
    text = f"set -o pipefail; rover() {{ {program} \"$@\"; }}\n{line}"
    words = ["bash", "-c", text]
    done = subprocess.run(words, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_the_graph_is_asked_as_the_page_says(store: Store) -> None:
    lines = commands("## The graph")
    assert len(lines) == 6
    for line in lines:
        words = [w.replace("NAME", "name").replace("OTHER", "files/orders") for w in shlex.split(line)]
        assert rover(*words[1:]).code == 0, line


def test_the_job_lets_new_packages_pass_and_stops_at_changed_ones(store: Store) -> None:
    gate, run, grade = commands("### A CI job that guards published scores")[:3]
    add(store, "new", resources={"files/orders": b"1"})
    assert _shell(gate, store.root) == (0, "")
    assert '"came": 1' in (store.root / "impact.json").read_text()
    edit(store, "name", {"task/instruction.md": b"Other."})
    edit(store, "other", {"verifier/checks/main.py": b"# other\n"})
    assert _shell(gate, store.root)[0] == 1
    assert _shell(run, store.root) == (1, "name\n")
    assert _shell(grade, store.root) == (1, "other\n")


def test_a_release_is_made_listed_verified_and_written(store: Store) -> None:
    make, listing, verify, write = commands("## Release")
    assert rover(*shlex.split(make)[1:], "--allow", "unadmitted").code == 0
    assert "v2" in rover(*shlex.split(listing)[1:]).out
    for line in (verify, write):
        assert rover(*shlex.split(line)[1:]).code == 0
    said = subprocess.run(["sha256sum", "manifest.jsonl"], cwd=store.root, capture_output=True, text=True, check=True)
    assert f'"sha256": "{said.stdout.split()[0]}"' in rover("release", "--list", "--json").out
