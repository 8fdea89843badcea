"""The docker sandbox by itself: its images, its engine's moods, and what is left when rover is killed."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from boxes import LIMITS
from engines import SayingEngine, Way, containers, real_engine, small_image

from rover.sandbox.docker import owner
from rover.sandbox.docker.dockerfile import wants
from rover.sandbox.docker.engine import Engine
from rover.sandbox.docker.layout import Shape, step
from rover.sandbox.docker.remedies import explain
from rover.sandbox.docker.runtime import DockerRuntime
from rover.sandbox.protocol import Place, lacking
from rover_store.errors import SandboxError
from rover_store.records import Limits


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with real_engine() as found:
        yield found


@pytest.fixture(scope="module")
def runtime(engine: Engine) -> Iterator[DockerRuntime]:
    made = DockerRuntime()
    yield made
    made.close()


@pytest.fixture(scope="module")
def image(engine: Engine) -> str:
    return small_image(engine, "rover-test-small")


# --- images --------------------------------------------------------------------------------------------------
def test_commands_see_the_image_and_calls_see_rover(runtime: DockerRuntime, image: str) -> None:
    links = (("/opt/app", ""), ("/logs/verifier", "out"))
    place = Place(image=image, links=links, env=(("COLOUR", "red"),))
    box = runtime.open({"data.csv": b"n\n1\n2\n", "out/x": b"1"}, limits=Limits(), place=place)
    script = "cat /etc/issue /opt/app/data.csv; cd /logs/verifier && ls; echo $COLOUR; id -u; ls /r"
    done = box.run(["sh", "-c", script])
    assert done.stdout == b"small\nn\n1\n2\nx\nred\n1000\n"
    assert b"denied" in done.stderr
    assert box.run(["python3", "-c", "1"]).exit_code == 127, "it has none of its own, and rover's is not shown"
    assert box.call("rover.sandbox.inside.heavy:total", "data.csv").value == 3
    assert box.run(["sh", "-c", "echo x > /etc/new || rm /opt/app"]).exit_code != 0
    box.close()


def test_a_dockerfile_is_built_once(runtime: DockerRuntime, engine: Engine, image: str) -> None:
    text = f"FROM {image}\nCOPY part /data/part\nENV A=1 B=2\n"
    text += "RUN id -u > /data/who && mkdir /var && echo kept > /var/x\n"
    place = Place(build=(("Dockerfile", text.encode()), ("part", b"copied\n")))
    took = []
    for _ in range(2):
        started = time.monotonic()
        box = runtime.open({}, limits=LIMITS, place=place)
        took.append(time.monotonic() - started)
        done = box.run(["sh", "-c", "cat /data/part /data/who /var/x; echo $A$B; id -u"])
        assert done.stdout == b"copied\n0\nkept\n12\n1000\n", "root builds, and nobody runs as root"
        box.close()
    assert took[1] < took[0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "builds nothing"),
        ("# FROM x\n", "builds nothing"),
        ("FROM rover-no-such-image:1\n", "needs rover-no-such-image:1, which is not here"),
        ("FROM scratch\nCOPY --from=rover-no-such:2 /a /a\n", "needs rover-no-such:2"),
        ("FROM scratch\nADD https://example.com/x /x\n", "needs the network"),
        ("ARG V\nFROM x:$V\n", "depends on an argument"),
        ("FROM {image}\nRUN ls /nowhere\n", "cannot be built: .*nowhere"),
        ("FROM {image}\nRUN echo 'Could not resolve host: example.com' >&2; false\n", "needs the network"),
        ("FROM {image}\nCOPY missing /x\n", "cannot be built: .*missing"),
        ("FROM {image}\nVOLUME /opt/app\n", "keeps /opt/app as a volume"),
        ("FROM {image}\nNONSENSE\n", "cannot be built: .*(?i:unknown instruction)"),
    ],
)
def test_dockerfiles_that_cannot_be(runtime: DockerRuntime, image: str, text: str, reason: str) -> None:
    place = Place(build=(("Dockerfile", text.replace("{image}", image).encode()),), links=(("/opt/app", ""),))
    with pytest.raises(SandboxError, match=reason):
        runtime.open({}, limits=LIMITS, place=place)


def test_a_build_that_takes_too_long_is_ended(
    runtime: DockerRuntime, engine: Engine, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much it says meanwhile."""
    monkeypatch.setattr("rover.sandbox.docker.engine.BUILD_S", 2.0)
    text = f"FROM {image}\nRUN echo ended-by-rover && while true; do echo x; sleep 0.2; done\n"
    before = {item["Id"] for item in engine._client.containers()}
    started = time.monotonic()
    with pytest.raises(SandboxError, match="cannot be built: it took more than 2 seconds"):
        runtime.open({}, limits=LIMITS, place=Place(build=(("Dockerfile", text.encode()),)))
    assert time.monotonic() - started < 30

    def over() -> bool:
        return not [c for c in engine._client.containers() if c["Id"] not in before and "ended-by" in c["Command"]]

    assert _soon(over), "its step is ended too"


def test_no_such_image(runtime: DockerRuntime) -> None:
    with pytest.raises(SandboxError, match="there is no image rover-none:1") as caught:
        runtime.open({}, place=Place(image="rover-none:1"))
    assert caught.value.hint == "docker pull rover-none:1"
    with pytest.raises(SandboxError, match="no Dockerfile"):
        runtime.open({}, place=Place(build=(("x", b""),)))


def test_volumes_of_an_image_hold_nothing(runtime: DockerRuntime, engine: Engine, image: str) -> None:
    """Else commands could fill the engine's disk there."""
    place = Place(build=(("Dockerfile", f"FROM {image}\nRUN mkdir -m 777 /vol\nVOLUME /vol\n".encode()),))
    before = engine._client.volumes()["Volumes"] or []
    box = runtime.open({}, limits=LIMITS, place=place)
    assert box.run(["sh", "-c", "echo x > /vol/x"]).exit_code != 0
    assert (engine._client.volumes()["Volumes"] or []) == before
    box.close()


def test_the_image_that_brings_rover_is_part_of_the_runtime_id(runtime: DockerRuntime, image: str) -> None:
    with contextlib.closing(DockerRuntime(image=image)) as carried:
        assert carried.runtime_id() != runtime.runtime_id()


def test_an_image_has_no_say_in_the_first_process(runtime: DockerRuntime, image: str) -> None:
    """The loader would say that it cannot find this, or run it as root if it could."""
    text = f"FROM {image}\nRUN echo /none.so > /etc/ld.so.preload\nENV LD_AUDIT=/none.so LC_ALL=none GCONV_PATH=/none\n"
    box = runtime.open({"a": b"1"}, limits=LIMITS, place=Place(build=(("Dockerfile", text.encode()),)))
    assert box.run(["sh", "-c", "cat a; echo $LD_AUDIT"]).stdout == b"1/none.so\n", "commands have what the image says"
    assert box._container is not None
    assert box._container._talk.stream.last_words() == ""
    box.close()


@pytest.mark.parametrize(
    ("text", "images"),
    [
        ("FROM a\n", ("a",)),
        ("ARG T=1\nARG B=x/y\nFROM $B:${T} AS one\nFROM one\nFROM --platform=linux/amd64 z\n", ("x/y:1", "z")),
        ("from a as B\ncopy --from=b /x /y\nCOPY --from=0 /x /y\nCOPY --from=c:1 /x /y\n", ("a", "c:1")),
        ("FROM \\\n  a \\\n  AS b\nRUN echo FROM q\n", ("a",)),
        ("FROM ${X:-d}\n", ("d",)),
    ],
)
def test_what_a_dockerfile_wants(text: str, images: tuple[str, ...]) -> None:
    assert wants(text).images == images


# --- sizes ---------------------------------------------------------------------------------------------------
def test_another_size_takes_another_container(runtime: DockerRuntime, engine: Engine) -> None:
    box = runtime.open({"a": b"1"}, limits=LIMITS)
    (first,) = containers(engine, os.getpid())
    box.reset({"a": b"2" * 1000}, limits=LIMITS)
    assert containers(engine, os.getpid()) == [first]
    box.reset({"big": b"3" * (6 << 20)}, limits=LIMITS)
    done = box.run(["sh", "-c", "for i in 1 2 3 4 5; do head -c 4000000 /dev/zero > f$i || exit $i; done"])
    assert done.exit_code == 5, "what the start state takes does not count"
    box.reset({"big": b"3" * (6 << 20)}, limits=LIMITS.model_copy(update={"disk_bytes": 1 << 20}))
    assert box.run(["sh", "-c", "head -c 2000000 /dev/zero > f"]).exit_code != 0
    assert box.snapshot().entries["big"].size == 6 << 20
    box.close()
    assert _soon(lambda: containers(engine, os.getpid()) == [])


NAMES = (".rover-0", ".rover-1", ".0", ".1", ".held")


def test_names_that_rover_itself_uses(runtime: DockerRuntime) -> None:
    """In scratch folders, in the workspace, and in a start state."""
    files = {**dict.fromkeys(NAMES[:1], b"f"), **{f"{name}/x": name.encode() for name in NAMES[1:]}}
    box = runtime.open({"a": b"1"}, limits=LIMITS)
    make = "; ".join(f"mkdir -p /tmp/{n}/d/{n} /dev/shm/{n}/d {n}/d/{n}; echo x > {n}/d/f" for n in NAMES)
    assert box.run(["sh", "-c", make]).exit_code == 0
    assert box.run(["ls", "-A", "/tmp", "/dev/shm"]).stdout.split() == [b"/dev/shm:", b"/tmp:"]
    assert len(box.snapshot().entries) == 1 + len(NAMES)
    box.reset(files)
    assert {path: entry.size for path, entry in box.snapshot().entries.items()} == {p: len(d) for p, d in files.items()}
    assert box.run(["sh", "-c", "rm -r .[!.]*; mkdir .rover-0; touch .rover-0/y"]).exit_code == 0
    box.reset()
    assert sorted(box.snapshot().entries) == sorted(files)
    assert box.run(["ls", "-A"]).stdout.decode().split() == sorted(NAMES, key=lambda n: n.encode())
    box.close()


def test_shapes_grow_in_steps() -> None:
    assert [step(n, 4) for n in (0, 4, 5, 8, 9)] == [4, 4, 8, 8, 16]
    few, more = ({f"d{n}/f": size for n in range(count)} for count, size in ((10, 1), (20, 4096)))
    assert Shape.of(Limits(), few) == Shape.of(Limits(), more)
    assert Shape.of(Limits(), {f"{'d/' * n}f": 1 for n in range(600)}).files == 2048, "folders count"


# --- the engine ----------------------------------------------------------------------------------------------
def test_no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    probe = DockerRuntime().probe()
    assert not probe.works
    assert probe.reason.startswith("no Docker engine answers; start one (sudo systemctl start docker), or set DOCKER")
    assert "\n" not in probe.reason
    for ask in (lambda: DockerRuntime().unmet, DockerRuntime().runtime_id, lambda: lacking(("root",), DockerRuntime())):
        with pytest.raises(SandboxError, match="no Docker engine answers"):
            ask()


def test_an_engine_that_has_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    SayingEngine(tmp_path, {}).close()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/saying.sock")
    assert DockerRuntime().probe().reason.startswith("the Docker engine does not run; ")


@pytest.mark.parametrize(
    ("status", "said", "reason"),
    [
        (500, "write /var/lib/docker/x: no space left on device", "the Docker engine is out of disk; docker system"),
        (403, "authorization denied by plugin", "authorization denied by plugin"),
        (404, "No such image: x", "the image is not there; docker pull it"),
        (400, "invalid mount config: bind source path does not exist: /usr", "does not see this machine's files"),
    ],
)
def test_an_engine_that_refuses(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, status: int, said: str, reason: str
) -> None:
    engine = SayingEngine(tmp_path, {"MemoryLimit": True, "PidsLimit": False}, status, said)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{engine.path}")
    runtime = DockerRuntime()
    probe = runtime.probe()
    assert not probe.works
    assert reason in probe.reason
    assert "\n" not in probe.reason
    unmet = ("processor share", "process limit", "tool servers apart")
    assert runtime.unmet == unmet, "what its kernel does not bound, and no container gives"
    known = runtime.runtime_id()
    runtime.close()
    engine.close()
    assert (runtime.unmet, runtime.runtime_id()) == (unmet, known), "an engine that goes leaves no stronger runtime"


def test_an_engine_for_windows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    engine = SayingEngine(tmp_path, {"OSType": "windows"})
    monkeypatch.setenv("DOCKER_HOST", f"unix://{engine.path}")
    assert "needs linux" in DockerRuntime().probe().reason
    engine.close()


def test_what_an_engine_says() -> None:
    said = "('Connection aborted.', PermissionError(13, 'Permission denied'))"
    assert explain(said).startswith("this user may not use the Docker engine; add the user to the group docker")
    assert explain("something\n else") == "something else"


def test_an_engine_that_stops_midway(engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    way = Way(tmp_path)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{way.path}")
    runtime = DockerRuntime()
    box, idle = runtime.open({"a": b"1"}, limits=LIMITS), runtime.open({}, limits=LIMITS)
    threading.Timer(0.3, way.cut).start()
    with pytest.raises(SandboxError, match="ended unexpectedly"):
        box.run(["sleep", "20"], limits=Limits())
    with pytest.raises(SandboxError, match="closed"):
        box.run(["true"])
    with pytest.raises(SandboxError, match="ended unexpectedly"):
        idle.run(["true"])
    with pytest.raises(SandboxError, match="no Docker engine answers"):
        runtime.open({})
    runtime.close()
    way.close()
    assert _soon(lambda: containers(engine, os.getpid()) == [])


def test_a_container_that_is_killed(runtime: DockerRuntime, engine: Engine) -> None:
    box = runtime.open({}, limits=LIMITS)
    (container,) = containers(engine, os.getpid())
    threading.Timer(0.3, lambda: engine._client.kill(container)).start()
    with pytest.raises(SandboxError, match="ended unexpectedly"):
        box.run(["sleep", "20"], limits=Limits())
    box.close()


# --- nothing is left -----------------------------------------------------------------------------------------
CLIENT = """
from rover.sandbox.docker.runtime import DockerRuntime
runtime = DockerRuntime()
print("ready", flush=True)
while True:
    box = runtime.open({"a": b"1"})
    box.run(["sh", "-c", "(sleep 100 &); sleep 0.05"])
    box.call("os:listdir", ".")
    box.close()
"""


def test_nothing_is_left_when_rover_is_killed(engine: Engine, runtime: DockerRuntime) -> None:
    """At random moments. What was made and never started goes when the next rover starts."""
    rng, clients = random.Random(7), []
    for _ in range(4):
        client = subprocess.Popen([sys.executable, "-c", CLIENT], stdout=subprocess.PIPE)
        assert client.stdout is not None
        with client.stdout:
            assert client.stdout.readline() == b"ready\n"
        time.sleep(rng.random() * 1.5)
        client.kill()
        client.wait()
        clients.append(client.pid)
    runtime.open({}).close()
    runtime.reap()
    assert _soon(lambda: [containers(engine, pid) for pid in clients] == [[]] * 4)


def test_the_dead_are_reaped_and_the_living_are_not(engine: Engine, runtime: DockerRuntime, image: str) -> None:
    def left(labels: dict[str, str]) -> str:
        return str(engine._client.create_container(image, command=["sh"], labels=labels)["Id"])

    dead = left({**owner.labels(), owner.OWNER: "999999999:1"})
    assert owner.lives(f"{os.getppid()}:{owner._started(os.getppid())}")
    again = left({**owner.labels(), owner.OWNER: f"{os.getpid()}:1"})  # the same number, another process
    mine = left(owner.labels())
    elsewhere = left({**owner.labels(), owner.HOST: "another machine", owner.OWNER: "999999999:1"})
    try:
        assert set(runtime.reap()) >= {dead, again}
        known = {item["Id"] for item in engine._client.containers(all=True)}
        assert {dead, again, mine, elsewhere} & known == {mine, elsewhere}
    finally:
        for container in (mine, elsewhere):
            engine.remove(container)


def _soon(true: object, seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():  # type: ignore[operator]
            return True
        time.sleep(0.05)
    return False
