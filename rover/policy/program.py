"""The command policy: an agent that is a program of its own, run inside the sandbox on the workspace.

    command:A=1 mini -m openai/{model} -t {instruction}     words, as a shell would split them; variables come first
    command:FILE.toml                                       the same and more, see below

Marks in words and variables: {instruction} and {instruction_file} (without either, the instruction is the program's
standard input), {model}, {agent} (the folder of --agent), {base_url}, {scratch} (a folder of its own beside the
workspace), {mcp_config}. A file has the keys

    argv = ["mini", ...]       the program and its arguments
    agent = "venv"             folder to show in the box, read-only; relative to the file
    name = "mini"              for the policy's id; the program's name where it is left out
    [env]                      variables for the program
    [limits]                   processes, open_files, memory_bytes, cpu_s, file_bytes: instead of the harness's

What it does is in its id: words, variables, limits, the model's name and settings, and what is installed in the
agent's folder, by content. The server's address is not, and neither is a path of this machine.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rover.policy.gateway import Gateway
from rover.policy.installation import Installation, installation
from rover.policy.openai import DEFAULT_SERVER, Settings, server_address
from rover.policy.protocol import PolicyView, Session
from rover.sandbox.protocol import Place
from rover_store.errors import HarnessError, UsageError
from rover_store.ids import digest
from rover_store.records import Limits

#: what a file may set, and what an agent gets where it sets nothing and the harness gives less
LIMITS: dict[str, type] = {
    "processes": int, "open_files": int, "memory_bytes": int, "cpu_s": float, "file_bytes": int,
}  # fmt: skip
LEAST = {"processes": 256, "open_files": 1024}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
#: a variable that stands before the program, as in a shell
_SETTING = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Spec:
    """What to run, as it was asked for."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)
    agent: Path | None = None
    name: str = ""

    @classmethod
    def parse(cls, text: str) -> Spec:
        """From what follows `command:`. UsageError where it is no command."""
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise UsageError(f"command:{text}: {str(error).lower()}") from None
        env: dict[str, str] = {}
        while words and (found := _SETTING.match(words[0])):
            env[found[1]] = found[2]
            del words[0]
        if not words:
            raise UsageError("command: needs a program", hint="such as 'command:mini -t {instruction}', or FILE.toml")
        if len(words) == 1 and words[0].endswith(".toml"):
            spec = cls.load(Path(words[0]))
            return replace(spec, env={**spec.env, **env})
        return cls(tuple(words), env)

    @classmethod
    def load(cls, path: Path) -> Spec:
        """From a file. UsageError names the file, the key and the reason."""
        try:
            found = tomllib.loads(path.read_bytes().decode())
        except OSError as error:
            raise UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from None
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{path}: not valid TOML ({' '.join(str(error).split())[:200]})") from None

        def wrong(key: str, reason: str) -> UsageError:
            return UsageError(f"{path}: {key}: {reason}")

        for key in found.keys() - {"argv", "env", "limits", "agent", "name"}:
            raise wrong(key, "no such key")
        argv, env, limits = found.get("argv"), found.get("env", {}), found.get("limits", {})
        if not isinstance(argv, list) or not argv or not all(isinstance(w, str) and "\0" not in w for w in argv):
            raise wrong("argv", "not a list of words")
        for key in ("env", "limits"):
            if not isinstance(found.get(key, {}), dict):
                raise wrong(key, "not a table")
        for name, value in env.items():
            if not _NAME.match(name) or not isinstance(value, str) or "\0" in value:
                raise wrong(f"env.{name}", "not a variable with a text")
        for name, value in limits.items():
            if name not in LIMITS:
                raise wrong(f"limits.{name}", f"no such limit; known: {', '.join(LIMITS)}")
            if type(value) not in (int, LIMITS[name]) or not 0 < value < 1 << 50:
                raise wrong(f"limits.{name}", "not a positive number")
        for key in ("agent", "name"):
            if not isinstance(found.get(key, ""), str):
                raise wrong(key, "not a text")
        agent = path.parent / found["agent"] if found.get("agent") else None
        return cls(tuple(argv), env, limits, agent, found.get("name", ""))


class ProgramPolicy:
    """A program as a policy. It is not asked turn by turn: rover.harness.program plays it."""

    attacker = False
    program = True

    def __init__(
        self,
        spec: Spec,
        *,
        agent: Path | None = None,
        model: str = "",
        server: str = "",
        key: str = "",
        settings: Settings | None = None,
        record: Path | None = None,
        tokens: bool = False,
    ) -> None:
        folder = agent or spec.agent
        self.agent: Installation | None = installation(folder) if folder else None
        if folder is None and any("{agent}" in text for text in (*spec.argv, *spec.env.values())):
            raise UsageError("{agent} is the folder of --agent, and there is none", hint="name one: --agent FOLDER")
        self.spec = self._apart_from_here(spec)
        self.model = model
        self.server = server_address(server or DEFAULT_SERVER) if server or key else ""
        self.settings = settings or Settings()
        self._key, self._record, self._tokens = key, record, tokens
        shows = self.agent.shows if self.agent else ()
        #: what its boxes show beside the package's own place
        self.place: Place | None = Place(shows=shows) if shows else None
        asked = [self.settings.temperature, self.settings.max_tokens]
        parts = [list(self.spec.argv), dict(self.spec.env), dict(self.spec.limits), self.agent and self.agent.id]
        named = spec.name or self.spec.argv[0].rpartition("/")[2]
        named = re.sub(r"[^\w.+-]+", "-", named)[:40].strip("-") or "program"
        self.id = f"command:{named}:{digest([*parts, model, *asked])[:12]}"

    def start(self, view: PolicyView, seed: int) -> Session:
        raise HarnessError(f"{self.id} is a program, which is not asked turn by turn")

    def gateway(self, seed: int) -> Gateway:
        """The way to the model for one rollout."""
        return Gateway(
            self.server, self._key, self.model, self.settings, seed, record=self._record, tokens=self._tokens
        )

    def limits(self, harness: Limits, wall_s: float) -> Limits:
        """What bounds the program's command, and all that it starts. An agent runs as long as its budget says."""
        bounds: dict[str, Any] = {name: max(least, getattr(harness, name)) for name, least in LEAST.items()}
        bounds |= {"wall_s": wall_s, "cpu_s": max(harness.cpu_s, wall_s * 2)}
        bounds["output_bytes"] = max(harness.output_bytes, 1 << 20)  # the relay passes on less
        return harness.model_copy(update={**bounds, **self.spec.limits})

    def _apart_from_here(self, spec: Spec) -> Spec:
        """The spec without the path of the agent's folder, which is no part of what it is."""
        if self.agent is None:
            return spec
        folder = re.compile(re.escape(self.agent.folder) + r"(?=/|$)")
        argv = tuple(folder.sub("{agent}", word) for word in spec.argv)
        env = {name: folder.sub("{agent}", value) for name, value in spec.env.items()}
        return replace(spec, argv=argv, env=env)
