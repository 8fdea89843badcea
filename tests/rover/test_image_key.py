"""Which image a package's boxes run in is part of what its rollouts are known by, whatever its name is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from engines import real_engine, small_image
from program_packages import container_env, container_package

from rover.policy.null import NullPolicy
from rover.policy.scripted import ScriptedPolicy
from rover.rollout.engine import Engine
from rover.rollout.env import Env, env_from_files
from rover.rollout.place import place_of, runtime_at
from rover.rollout.records import MemoryEvidence, RolloutRequest, RolloutResult
from rover.sandbox.docker.engine import Engine as Docker
from rover.sandbox.docker.images import LABEL, packed
from rover.sandbox.docker.runtime import DockerRuntime
from rover.sandbox.local import LocalRuntime
from rover.sandbox.protocol import Files, Place
from rover_store.errors import SandboxError
from rover_store.records import Environment, Limits

NAMED = container_env(environment=Environment(image="some:1"))
PLAIN = container_env(environment=Environment())


class OfImages(LocalRuntime):
    """Boxes of this machine that say that they run in an image."""

    offers = ("image", "workdir")

    def __init__(self, *images: str) -> None:
        """`images`: what the name stands for each time that it is looked up; empty for nothing."""
        super().__init__()
        self.images = list(images)
        self.ran: list[str] = []

    def image_id(self, place: Place) -> str:
        found = self.images.pop(0) if len(self.images) > 1 else self.images[0]
        if not found:
            raise SandboxError(f"there is no image {place.image} here")
        return found

    def open(self, files: Files, *, limits: Limits | None = None, place: Place | None = None) -> Any:
        self.ran.append(place.image if place else "")
        return super().open(files, limits=limits)


def ran(runtime: Any, env: Env, evidence: MemoryEvidence, seed: int = 1) -> RolloutResult:
    with contextlib.closing(runtime), Engine(runtime, evidence) as engine:
        return engine.rollouts([RolloutRequest(env, NullPolicy("nothing"), seed)])[0]


def test_one_name_for_two_images_is_two_rollouts() -> None:
    evidence = MemoryEvidence()
    first, second, again = (ran(OfImages(image), NAMED, evidence) for image in ("sha256:a", "sha256:b", "sha256:a"))
    assert [r.trajectory.end for r in (first, second)] == ["completed", "completed"]
    assert (first.id != second.id, first.id == again.id, again.reused) == (True, True, True)


def test_an_image_is_settled_once_and_boxes_run_in_it() -> None:
    runtime = OfImages("sha256:a", "sha256:b")
    evidence = MemoryEvidence()
    with Engine(runtime, evidence) as engine:
        results = engine.rollouts([RolloutRequest(NAMED, NullPolicy("nothing"), n) for n in range(2)])
    assert len({r.trajectory.key.runtime for r in results}) == 1
    assert set(runtime.ran) == {"sha256:a"}
    place = place_of(NAMED, runtime)
    assert place is not None
    assert (place.image, place.build) == ("sha256:a", ())


def test_packages_without_an_image_keep_their_ids() -> None:
    runtime = OfImages("sha256:a")
    result = ran(runtime, PLAIN, MemoryEvidence())
    assert result.trajectory.key.runtime == runtime.runtime_id()


def test_an_image_that_is_not_there_is_said_and_nothing_is_kept() -> None:
    evidence, runtime = MemoryEvidence(), OfImages("")
    result = ran(runtime, NAMED, evidence)
    assert (result.trajectory.end, result.trajectory.error) == (
        "infra_error", "SandboxError: there is no image some:1 here",
    )  # fmt: skip
    assert evidence.get_rollout(result.id) is None
    assert runtime.ran == []
    with Engine(OfImages("")) as engine:
        verdict = engine.grade_state(NAMED, NAMED.start)
    assert (verdict.outcome, verdict.reason) == ("infra_error", "SandboxError: there is no image some:1 here")


def test_an_image_that_comes_in_the_middle_is_waited_for() -> None:
    """Its rollout would be known by no image."""
    result = ran(OfImages("", "sha256:a"), NAMED, MemoryEvidence())
    assert result.trajectory.end == "infra_error"
    assert "was not there when the run began" in result.trajectory.error


# --- a real engine -------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def docker() -> Iterator[Docker]:
    with real_engine() as found:
        yield found


def test_two_images_under_one_tag(docker: Docker) -> None:
    name = "rover-test-key"
    small = small_image(docker, name)
    env = container_env(environment=Environment(workdir="/opt/app", image=f"{name}:1"))
    policy = ScriptedPolicy.of([{"tool": "shell", "arguments": {"command": "cat /etc/issue"}}])
    evidence = MemoryEvidence()
    found = []
    for text in (b"", b"another\n", b""):
        if text:
            docker.add_files(small, packed([("/etc/issue", text)], parents=False), name, "1", LABEL)
        with contextlib.closing(DockerRuntime()) as runtime, Engine(runtime, evidence) as engine:
            found.append(engine.rollouts([RolloutRequest(env, policy, 1)])[0])
    said = ["another" in r.trajectory.turns[0].calls[0].output for r in found]
    assert (said, [r.reused for r in found]) == ([False, True, True], [False, False, True])
    assert found[0].id != found[1].id == found[2].id


def test_what_a_dockerfile_gave_is_known_by_its_id(docker: Docker) -> None:
    small = small_image(docker, "rover-test-key-built")
    text = f"FROM {small}\nRUN cat /proc/sys/kernel/random/uuid > /opt/chance\n".encode()
    files = container_package(environment=Environment(dockerfile="environment/Dockerfile", workdir="/opt/app"))
    env = env_from_files({**files, "context/environment/Dockerfile": text}, {})
    ids = []
    for _ in range(2):
        with contextlib.closing(DockerRuntime()) as runtime:
            place = place_of(env, runtime)
            assert place is not None
            image = docker.image(place.image)
            assert image is not None
            assert image["Id"] == place.image
            ids.append(runtime_at(env, runtime, "0"))
        if len(ids) == 1:
            docker._client.remove_image(place.image, force=True)
            docker._client.prune_builds()
    assert ids[0] != ids[1]
