"""A Harbor environment without Docker: each trial runs under bubblewrap, in a folder of its own.

    harbor run -p TASK -a oracle -e bubblewrap_environment:BubblewrapEnvironment

with the folder of this file in PYTHONPATH, and `bwrap` in PATH (or named by BWRAP). It runs in Harbor's Python and
needs nothing of rover. The system's /usr is what a task finds there, so it is for tasks of a plain prebuilt image, as
rover exports them; one that has a Dockerfile is refused. The user of the caller is the only one: settings of `user` do
nothing.
"""

import asyncio
import os
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


class BubblewrapEnvironment(BaseEnvironment):  # type: ignore[misc,unused-ignore]
    """Folders of the task lie below `self.root` and are bound at their own paths."""

    root: Path

    @staticmethod
    def type() -> str:
        return "bubblewrap"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(disable_internet=True)

    def _validate_definition(self) -> None:
        if (self.environment_dir / "Dockerfile").exists() or not self.task_env_config.docker_image:
            raise ValueError("BubblewrapEnvironment runs tasks of a plain prebuilt image; this one builds its own")

    async def start(self, force_build: bool) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="harbor-bwrap-"))
        for path in (self._workdir(), "/tmp", "/root", "/tests", "/solution", "/logs/agent", "/logs/verifier",
                     "/logs/artifacts"):  # fmt: skip
            self._host(path).mkdir(parents=True, exist_ok=True)
        await self._upload_environment_dir_after_start()

    async def stop(self, delete: bool) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    def _workdir(self) -> str:
        return self.task_env_config.workdir or "/app"

    def _host(self, path: str | PurePosixPath) -> Path:
        """Where a path of the box lies. It may not leave the folder, through a link neither."""
        found = self.root / PurePosixPath(path).relative_to("/")
        if not found.parent.resolve().is_relative_to(self.root.resolve()) or ".." in PurePosixPath(path).parts:
            raise ValueError(f"{path} is not in the box")
        return found

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        target = self._host(target_path)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source_path, target)

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        shutil.copytree(source_dir, self._host(target_dir), symlinks=True, dirs_exist_ok=True)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        Path(target_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self._host(source_path), target_path, follow_symlinks=False)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        shutil.copytree(self._host(source_dir), target_dir, symlinks=True, dirs_exist_ok=True)

    def _argv(self, command: str, cwd: str, env: dict[str, str]) -> list[str]:
        argv = [os.environ.get("BWRAP") or shutil.which("bwrap") or "bwrap", "--unshare-all", "--die-with-parent",
                "--new-session", "--clearenv", "--cap-drop", "ALL", "--proc", "/proc", "--dev", "/dev"]  # fmt: skip
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
        merged = self._merge_env(env) or {}
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
