"""Where a package wants its workspace: at /root too; what a sandbox cannot have is refused by name, and never tried."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import harbor_tasks
import pytest
from packages import runtime
from program_packages import graded_by

from rover.policy.null import NullPolicy
from rover.port.harbor.about import Origin
from rover.port.harbor.package import make
from rover.port.harbor.tree import read_folder
from rover.rollout.engine import Engine
from rover.rollout.env import env_from_files
from rover.rollout.place import refusal
from rover.rollout.records import RolloutRequest
from rover.sandbox import layout
from rover.sandbox.bubblewrap import BubblewrapRuntime
from rover.sandbox.docker.runtime import DockerRuntime
from rover.sandbox.local import LocalRuntime
from rover.sandbox.places import where_not
from rover.sandbox.protocol import Place, Runtime, lacking
from rover_store.records.components import Environment

LOCAL = "refused: the package needs workdir, which the local sandbox does not give here"
ONE = "echo 1 > /logs/verifier/reward.txt"
NOWHERE = ("/proc", "/proc/x", "/dev/x", "/sys", "/w", "/w/x", "/v", "/r/x", "/tests", "/logs/x", "/solution", "/tmp/x",
           "/usr", "/etc", "/lib/x", "app", "/app/../proc", "/app/", "//app")  # fmt: skip
IN_IMAGES = ("/usr/src/app", "/usr/local/x", "/etc/x")
ANYWHERE = ("/app", "/root", "/root/x", "/opt/x", "/home/agent", "/workspace", "/srv", "/var/www", "/testbed")


class Engineless(DockerRuntime):
    """Docker where no engine answers that could say what it cannot give."""

    @property
    def unmet(self) -> tuple[str, ...]:
        return ()


@pytest.fixture(scope="module")
def box() -> Iterator[Runtime]:
    kind = runtime()
    if lacking(("workdir",), kind):
        kind.close()
        pytest.skip("needs a sandbox in which a workspace can stand elsewhere")
    yield kind
    kind.close()


@pytest.mark.parametrize("workdir", [*ANYWHERE, *layout.prefixes(), *(f"{p}/x" for p in layout.prefixes())])
def test_the_workspace_stands_wherever_it_can(box: Runtime, workdir: str) -> None:
    opened = box.open({"a": b"1"}, place=Place(links=((workdir, ""),)))
    try:
        done = opened.run(["sh", "-c", 'cd "$0" && cat a && python3 -c "import sys, numpy" && ls -A', workdir])
        assert (done.exit_code, done.stdout) == (0, b"1a\n"), done.stderr
        assert opened.call("json:dumps", [1]).value == "[1]"
    finally:
        opened.close()


@pytest.mark.parametrize("workdir", ANYWHERE)
def test_what_can_be_is_not_refused(workdir: str) -> None:
    assert where_not(workdir) == ""
    assert refusal(graded_by(ONE, workdir=workdir), BubblewrapRuntime()) == ""


@pytest.mark.parametrize("workdir", NOWHERE)
def test_what_no_sandbox_can_have_is_refused_by_each(workdir: str) -> None:
    env = graded_by(ONE, environment=Environment(workdir=workdir, image="some:image"))
    why = f"refused: the package needs its workspace at {workdir}, which no sandbox can have"
    assert [refusal(env, kind) for kind in (BubblewrapRuntime(), Engineless())] == [why, why]


@pytest.mark.parametrize("workdir", IN_IMAGES)
def test_what_an_image_alone_can_have_is_refused_elsewhere(workdir: str) -> None:
    assert where_not(workdir) == "the bubblewrap sandbox cannot"
    bare, own = graded_by(ONE, workdir=workdir), graded_by(ONE, environment=Environment(workdir=workdir, image="a:b"))
    why = "refused: the package needs its workspace at {}, which the {} sandbox cannot have"
    assert refusal(own, Engineless()) == ""
    assert refusal(bare, Engineless()) == why.format(workdir, "docker")
    assert refusal(own, BubblewrapRuntime()) == why.format(workdir, "bubblewrap")
    assert refusal(own, LocalRuntime()) == LOCAL


def test_a_refused_place_is_not_tried(box: Runtime) -> None:
    env = graded_by(ONE, workdir="/proc")
    with Engine(box) as engine:
        [(result, verdict)] = engine.run([RolloutRequest(env, NullPolicy("nothing"), 1)])
        state = engine.grade_state(env, env.start)
    assert result.trajectory.end == "infra_error"
    assert result.trajectory.retried is None
    for said in (result.trajectory.error, verdict.reason, state.reason):
        assert "refused: the package needs its workspace at /proc, which no sandbox can have" in said


@pytest.mark.parametrize(
    ("workdir", "said"),
    [
        ("/app", "workdir: /app"), ("/root", "workdir: /root"),
        ("/usr/src/app", "workdir: /usr/src/app, which the bubblewrap sandbox cannot have"),
        ("/proc", "workdir: /proc, which no sandbox can have"),
    ],
)  # fmt: skip
def test_an_import_says_where_a_task_cannot_work(workdir: str, said: str, tmp_path: Path) -> None:
    text = f"FROM ubuntu:24.04\nWORKDIR {workdir}\n"
    task = {**harbor_tasks.tasks()["dockerfile-only"], "environment/Dockerfile": text}
    found = make(read_folder(harbor_tasks.write(task, tmp_path / "one")), Origin("one"))
    assert found.needs == (said,)
    env = env_from_files(found.files, {})
    refused = "refused: the package needs its workspace at" in refusal(env, BubblewrapRuntime())
    assert refused == ("cannot" in said or "no sandbox" in said)
