"""The Docker engine, through its SDK: every failure becomes a SandboxError of one line that says what to do."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from rover.sandbox.docker import owner
from rover.sandbox.docker.inside.jail import AGENT
from rover.sandbox.docker.layout import CAPABILITIES, Layout, Shape, file_systems, first_process, memory
from rover.sandbox.docker.remedies import explain
from rover.sandbox.docker.stream import Stream
from rover_store.errors import SandboxError

#: Seconds that the engine may take for one request; for saying that it is there.
PATIENCE, HURRY = 120, 15
#: Seconds that a build may take, and the memory that each of its steps may use.
BUILD_S, BUILD_MEMORY = 1800.0, 4 << 30
#: Messages of a build that are kept, the last ones.
BUILD_SAID = 40
#: What all commands of a box share there, whatever the engine: one user, and one view of the processes.
UNMET = ("tool servers apart",)
#: A box's weight against 1024 of other work, where processors are short.
SHARE = 512


class Started(NamedTuple):
    """A container that runs, and the stream to its first process."""

    id: str
    stream: Stream


class Engine:
    """One connection. SandboxError where there is none to be had."""

    def __init__(self) -> None:
        self._client = _connect()
        with telling():
            self.info: dict[str, Any] = self._client.info()
        self._client.timeout = PATIENCE
        if self.info.get("OSType") != "linux":
            raise SandboxError(f"the Docker engine runs {self.info.get('OSType')} containers, rover needs linux ones")

    def close(self) -> None:
        self._client.close()

    def reach(self) -> None:
        """SandboxError where the engine does not answer any more."""
        with telling():
            _reach()

    @property
    def unmet(self) -> tuple[str, ...]:
        """What this engine cannot bound, by the names of the protocol, and what no container gives."""
        needs = {"hard memory ceiling": "MemoryLimit", "processor share": "CPUShares", "process limit": "PidsLimit"}
        return (*(name for name, key in needs.items() if not self.info.get(key)), *UNMET)

    # --- images --------------------------------------------------------------------------------------------
    def image(self, name: str) -> dict[str, Any] | None:
        """What the engine knows of an image; None where it has none of this name."""
        from docker.errors import ImageNotFound

        with telling():
            try:
                return dict(self._client.inspect_image(name))
            except ImageNotFound:
                return None

    def import_image(self, data: bytes, repository: str, tag: str, label: str) -> None:
        with telling():
            self._client.import_image_from_data(data, repository=repository, tag=tag, changes=[f"LABEL {label}={tag}"])

    def add_files(self, image: str, data: bytes, repository: str, tag: str, label: str) -> None:
        """Make an image of another one and a tar that is unpacked over it; no program of it runs."""
        with telling():
            made = self._client.create_container(image, command=["-"], labels=owner.labels())["Id"]
        try:
            with telling():
                self._client.put_archive(made, "/", data)
                self._client.commit(made, repository=repository, tag=tag, changes=[f"LABEL {label}={tag}"])
        finally:
            self.remove(made)

    def build(self, data: bytes, dockerfile: str, name: str, labels: dict[str, str]) -> str:
        """Build an image from a tar, without network; gives what was said where it failed. What its steps run is root
        of a container with the engine's usual powers, as in any build; the engine bounds their memory, and rover the
        time: a build whose client hangs up is ended."""
        from docker.errors import APIError

        client = self._client
        asked = {
            "t": name,
            "dockerfile": dockerfile,
            "labels": json.dumps(labels),
            "networkmode": "none",
            "rm": True,
            "forcerm": True,
            "memory": BUILD_MEMORY,
            "memswap": BUILD_MEMORY,
            "cpushares": SHARE,
        }
        head = {"Content-Type": "application/tar"}
        said: deque[str] = deque(maxlen=BUILD_SAID)
        late = threading.Event()
        with telling():
            try:  # the SDK's own build would not let go of its connection
                url = client._url("/build")
                with client._post(url, data=data, params=asked, headers=head, stream=True, timeout=BUILD_S) as answer:
                    client._raise_for_status(answer)
                    with _ended_after(BUILD_S, client._get_raw_response_socket(answer), late):
                        for step in client._stream_helper(answer, decode=True):
                            said.append(str(step.get("stream") or step.get("error") or ""))
                            if "error" in step:
                                break
                        else:
                            said.clear()
            except APIError as error:
                return str(error.explanation or error)
            except Exception:
                if not late.is_set():
                    raise
        if late.is_set():
            raise SandboxError(f"the image cannot be built: it took more than {BUILD_S:g} seconds")
        return "".join(said)

    @contextlib.contextmanager
    def folder(self, image: str, path: str) -> Iterator[Iterator[bytes]]:
        """A tar of what a folder of an image holds, chunk by chunk, out of a container that is never started."""
        with telling():
            made = self._client.create_container(image, command=["-"], network_disabled=True, labels=owner.labels())
        try:
            with telling():
                stream, _ = self._client.get_archive(made["Id"], f"{path.rstrip('/')}/.")
            yield _told(stream)
        finally:
            self.remove(made["Id"])

    # --- containers ----------------------------------------------------------------------------------------
    def start(self, image: str, layout: Layout, shape: Shape, processes: int) -> Started:
        """Start a container. It ends, and the engine removes it, when the stream is hung up or this process ends."""
        from docker.types import Mount

        argv = first_process(layout)
        mounts = [Mount(target, source, type="bind", read_only=True) for source, target in layout.shown]
        with telling():
            host = self._client.create_host_config(
                mounts=mounts,
                tmpfs=file_systems(shape, layout.hidden),
                pids_limit=processes,
                cap_add=list(CAPABILITIES),
                **self._bounds(shape),
            )
            made = self._client.create_container(
                image,
                entrypoint=argv[:1],
                command=argv[1:],
                user="0:0",
                hostname="box",
                stdin_open=True,
                working_dir="/",
                environment={**dict.fromkeys(layout.unset, ""), "LC_ALL": "C"},  # for the first process alone
                healthcheck={"test": ["NONE"]},
                labels=owner.labels(),
                host_config=host,
            )["Id"]
        try:
            return Started(made, self._attach(made))
        except BaseException:
            self.remove(made)
            raise

    def _bounds(self, shape: Shape) -> dict[str, Any]:
        from docker.types import LogConfig, Ulimit

        most = memory(shape)
        return {
            "network_mode": "none",
            "dns": ["127.0.0.1"],
            "ipc_mode": "private",
            "read_only": True,
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
            "mem_limit": most,
            "memswap_limit": most,
            "cpu_shares": SHARE,
            "ulimits": [Ulimit(name="nofile", soft=4096, hard=4096), Ulimit(name="core", soft=0, hard=0)],
            "log_config": LogConfig(type="none"),
            "auto_remove": True,
            "init": False,
        }

    def _attach(self, container: str) -> Stream:
        with telling():
            raw = self._client.attach_socket(container, {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
            stream = Stream(raw)
            try:
                self._client.start(container)
            except BaseException:
                stream.close()
                raise
            return stream

    def allow_processes(self, container: str, processes: int) -> None:
        """Change how many processes a running container may have."""
        with telling():  # the SDK's own update knows no such limit
            url = self._client._url("/containers/{0}/update", container)
            self._client._raise_for_status(self._client._post_json(url, data={"PidsLimit": processes}))

    def execute(self, container: str, argv: list[str]) -> int:
        """The exit code of a command that the engine itself starts in a container, as the user of commands."""
        with telling():
            made = self._client.exec_create(container, argv, user=str(AGENT))["Id"]
            self._client.exec_start(made)
            return int(self._client.exec_inspect(made)["ExitCode"])

    def remove(self, container: str) -> None:
        """End and remove a container; nothing is said where it is gone or the engine is."""
        with contextlib.suppress(SandboxError), telling():
            self._client.remove_container(container, v=True, force=True)

    def reap(self) -> list[str]:
        """Remove what processes of this machine left that do not live any more; gives the containers' ids."""
        with telling():
            found = self._client.containers(all=True, filters={"label": f"{owner.HOST}={owner.host()}"})
        dead = [item["Id"] for item in found if not owner.lives(item["Labels"].get(owner.OWNER, ""))]
        for container in dead:
            self.remove(container)
        return dead


def _connect() -> Any:
    try:
        import docker
    except ImportError:
        wanted = "the docker sandbox needs the Python package docker"
        raise SandboxError(wanted, hint="pip install 'workrover[docker]'") from None
    with telling():
        _reach()
        client = docker.APIClient(**docker.utils.kwargs_from_env(), version="auto", timeout=HURRY)
    client.headers["Connection"] = "close"  # it would keep one open for each container that ever was
    return client


def _reach() -> None:
    """Try a socket of this machine first: the SDK leaves one open where it cannot connect."""
    host = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    if host.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(HURRY)
            probe.connect(host.removeprefix("unix://"))


@contextlib.contextmanager
def _ended_after(seconds: float, raw: Any, late: threading.Event) -> Iterator[None]:
    """Hang up a connection once so much time is over, and say so."""

    def end() -> None:
        late.set()
        with contextlib.suppress(OSError):
            getattr(raw, "_sock", raw).shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _told(stream: Iterator[bytes]) -> Iterator[bytes]:
    with telling():
        yield from stream


@contextlib.contextmanager
def telling() -> Iterator[None]:
    """Turn what the SDK raises into a SandboxError of one line."""
    import docker.errors
    import requests

    try:
        yield
    except docker.errors.APIError as error:
        raise SandboxError(explain(str(error.explanation or error))) from None
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        where = os.environ.get("DOCKER_HOST", "")
        raise SandboxError(explain(f"{error}{f', DOCKER_HOST={where}' if where else ''}")) from None


