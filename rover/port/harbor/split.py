"""task.toml in parts: each component keeps the settings that are about it, and records carry what they have fields for.

A setting that a record carries is not stored a second time where it comes out of the record exactly as it was, type
and all. Where it would not (600 for 600.0, a transport that the record has no field for), it is kept as it stands
beside the record; on the way out the record wins if it was changed since. So both ways lose nothing, and a changed
verifier timeout is a changed verifier alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rover.port.harbor.config import OLD, Config, megabytes
from rover.port.harbor.image import of_dockerfile
from rover.port.harbor.tree import Tree
from rover.port.harbor.values import same
from rover_store.ids import ComponentName
from rover_store.records import Budget, Environment, Harness, Limits, McpServer, Program

#: settings of [environment] that are about running, not about what is there
_OF_HARNESS = ("cpus", "memory_mb", "storage_mb", "memory", "storage", "gpus", "gpu_types", "tpu", "mcp_servers")
#: what a setting was called before
_OLD = {new: old for old, new in OLD.items()}
#: without a timeout an agent there has no limit; a budget has one
SECONDS = 1800.0
VERIFIER_SECONDS = 600.0
TURNS = 100
TOKENS = 2_000_000
#: the most that one command may take
WALL_S = 3600.0
#: a workspace lies in memory
MOST_DISK, MOST_MEMORY = 4 << 30, 64 << 30
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Given:
    """What the Dockerfile says already: settings that repeat it come from there."""

    workdir: str = ""
    env: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Records:
    """The records that carry settings."""

    environment: Environment
    harness: Harness
    program: Program


Parts = dict[ComponentName, Config]


def given_of(environment: Tree, image_workdir: str = "") -> Given:
    """What the Dockerfile of an environment says, or the image itself of its working folder."""
    if "Dockerfile" not in environment:
        return Given(image_workdir)
    stage = of_dockerfile(environment)
    return Given(stage.workdir if stage.workdir != "/" else "", stage.env)


@dataclass(frozen=True, slots=True)
class _Field:
    """A setting and the field that carries it. `take` gives the field's value of a setting, `say` the setting of a
    record; `say` gives _ABSENT where the setting need not be there."""

    component: ComponentName
    path: tuple[str, str]
    take: Callable[[Any, Given], Any]
    say: Callable[[Any, Given], Any]


# --- single settings ---------------------------------------------------------------------------------------
_TEMPLATE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


def unfilled(env: Mapping[str, str]) -> list[str]:
    """Variables of the host that an environment asks for, without a value to fall back on."""
    return sorted({m[1] for value in env.values() for m in _TEMPLATE.finditer(value) if m[2] is None})


def filled(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that need nothing of the host, their templates replaced by what they fall back on."""
    return {name: _TEMPLATE.sub(lambda m: m[2], value) for name, value in env.items() if not unfilled({name: value})}


def _workdir(value: str, given: Given) -> str:
    return "/" + value.strip("/") if value.startswith("/") and value.strip("/") else given.workdir


def _env(value: Mapping[str, str], given: Given) -> dict[str, str]:
    return {**(given.env or {}), **filled(value)}


def _say_env(env: Mapping[str, str], given: Given) -> Any:
    own = {name: value for name, value in env.items() if (given.env or {}).get(name) != value}
    return own or _ABSENT


def _memory(value: int, given: Given) -> int:
    return min(max(value, 64) << 20, MOST_MEMORY) if value > 0 else Limits().memory_bytes


def _disk(value: int, given: Given) -> int:
    return min(max(value, 16) << 20, MOST_DISK) if value > 0 else Limits().disk_bytes


def _time(default: float) -> Callable[[float, Given], float]:
    """A time that a record can hold; what is none is the default."""
    return lambda value, given: float(value) if 0 < value < math.inf else default


def _megabytes(default: int) -> Callable[[int, Given], Any]:
    return lambda value, given: _ABSENT if value == default or value % (1 << 20) else value >> 20


def _seconds(default: float) -> Callable[[float, Given], Any]:
    return lambda value, given: _ABSENT if value == default else value


def server_name(name: str) -> str:
    """A name that a record can hold."""
    return re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-._")[:100] or "server"


def server_names(names: Iterable[str]) -> list[str]:
    """Names that a record can hold, no two the same: others are told apart by case alone, or by letters left out."""
    out: list[str] = []
    for name in map(server_name, names):
        again = (f"{name[:95]}-{number}" for number in range(2, len(out) + 3))
        out.append(next(one for one in (name, *again) if one not in out))
    return out


def _servers(value: list[Config], given: Given) -> tuple[McpServer, ...] | None:
    names = server_names(server["name"] for server in value)
    return tuple(
        McpServer(name=name, command=(s["command"], *s.get("args", ())))
        if s.get("command")
        else McpServer(name=name, url=s.get("url") or "")
        for name, s in zip(names, value, strict=True)
    ) or None


def _say_servers(servers: tuple[McpServer, ...] | None, given: Given) -> Any:
    out: list[Config] = []
    for server in servers or ():
        if server.command:
            own: Config = {"name": server.name, "transport": "stdio", "command": server.command[0]}
            own |= {"args": list(server.command[1:])} if server.command[1:] else {}
            out.append(own)
        else:
            out.append({"name": server.name, "url": server.url})
    return out or _ABSENT


def _same(value: Any, given: Given) -> Any:
    return value


def _some(value: Any, given: Given) -> Any:
    return value or _ABSENT


def _fields(records: Records) -> list[tuple[_Field, Any]]:
    """Every setting that a record carries, with the record's value."""
    place, harness, program = records.environment, records.harness, records.program
    limits = Limits()

    def own_workdir(value: str, given: Given) -> Any:
        return value if value and value != given.workdir else _ABSENT

    return [
        (_Field("context", ("environment", "workdir"), _workdir, own_workdir), place.workdir),
        (_Field("context", ("environment", "docker_image"), _same, _some), place.image),
        (_Field("context", ("environment", "env"), _env, _say_env), place.env),
        (_Field("harness", ("environment", "memory_mb"), _memory, _megabytes(limits.memory_bytes)),
         harness.limits.memory_bytes),
        (_Field("harness", ("environment", "storage_mb"), _disk, _megabytes(limits.disk_bytes)),
         harness.limits.disk_bytes),
        (_Field("harness", ("environment", "mcp_servers"), _servers, _say_servers), harness.mcp_servers),
        (_Field("harness", ("agent", "timeout_sec"), _time(SECONDS), _seconds(SECONDS)), harness.budget.seconds),
        (_Field("verifier", ("verifier", "timeout_sec"), _time(VERIFIER_SECONDS), _seconds(VERIFIER_SECONDS)),
         program.seconds),
        (_Field("verifier", ("verifier", "env"), lambda v, g: dict(v), _some), program.env),
    ]  # fmt: skip


# --- the way in --------------------------------------------------------------------------------------------
def records_of(config: Config, given: Given, *, argv: tuple[str, ...], dockerfile: str) -> Records:
    """The records that a configuration gives."""
    place = config.get("environment") or {}
    seconds = _time(SECONDS)((config.get("agent") or {}).get("timeout_sec") or 0, given)
    verifier = config.get("verifier") or {}
    wall = min(max(seconds, 1.0), WALL_S)
    memory = place.get("memory_mb", megabytes(place.get("memory"))) or 0
    disk = place.get("storage_mb", megabytes(place.get("storage"))) or 0
    limits = Limits(
        wall_s=wall,
        cpu_s=wall * max(1.0, min(float(place.get("cpus") or 1), 64.0)),
        memory_bytes=_memory(memory, given),
        disk_bytes=_disk(disk, given),
    )
    return Records(
        Environment(
            workdir=_workdir(place.get("workdir") or "", given),
            image=place.get("docker_image") or "",
            dockerfile=dockerfile,
            env=_env(place.get("env") or {}, given),
        ),
        Harness(
            tools=("shell", "list_files", "read_file", "write_file", "delete_file"),
            budget=Budget(turns=TURNS, tokens=TOKENS, seconds=seconds),
            limits=limits,
            mcp_servers=_servers(place.get("mcp_servers") or [], given),
        ),
        Program(
            argv=argv,
            seconds=_time(VERIFIER_SECONDS)(verifier.get("timeout_sec") or 0, given),
            env=dict(verifier.get("env") or {}),
        ),
    )


def split(config: Config, records: Records, given: Given) -> Parts:
    """The settings of each component that its records do not carry."""
    parts = _by_component(config)
    for one, value in _fields(records):
        section, key = one.path
        kept = parts[one.component].get(section, {})
        if key in kept and _OLD.get(key) not in kept and same(kept[key], one.say(value, given)):
            del kept[key]
            if not kept:
                del parts[one.component][section]
    return {name: part for name, part in parts.items() if part}


def _by_component(config: Config) -> Parts:
    parts: Parts = {"context": {}, "task": {}, "harness": {}, "verifier": {}}
    for key, value in config.items():
        if key == "environment" and isinstance(value, dict):
            inside = {k: v for k, v in value.items() if k in _OF_HARNESS}
            outside = {k: v for k, v in value.items() if k not in _OF_HARNESS}
            if inside:
                parts["harness"][key] = inside
            if outside or not inside:
                parts["context"][key] = outside
        elif key == "agent":
            parts["harness"][key] = _copied(value)
        elif key in ("verifier", "solution"):
            parts["verifier"][key] = _copied(value)
        elif key == "steps" and isinstance(value, list):
            _split_steps(parts, value)
        else:
            parts["task"][key] = value
    return parts


def _split_steps(parts: Parts, steps: list[Config]) -> None:
    """Each step's agent is about the harness, its verifier about the verifier. The lists stay aligned."""
    parts["task"]["steps"] = [{k: v for k, v in s.items() if k not in ("agent", "verifier")} for s in steps]
    for component, key in (("harness", "agent"), ("verifier", "verifier")):
        if any(key in step for step in steps):
            own = [{key: step[key]} if key in step else {} for step in steps]
            parts[component]["steps"] = own  # type: ignore[index]


def _copied(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else value


def take_variables(parts: Parts) -> dict[str, str]:
    """The variables of the solution, taken out of the parts: like the solution itself they are of no component.

    They stay where they are no plain ones.
    """
    own = parts.get("verifier", {}).get("solution")
    env = own.get("env") if isinstance(own, dict) else None
    if not env or not isinstance(env, dict) or not all(isinstance(value, str) for value in env.values()):
        return {}
    rest = {key: value for key, value in parts["verifier"]["solution"].items() if key != "env"}
    parts["verifier"] = {**parts["verifier"], "solution": rest}
    if not rest:
        del parts["verifier"]["solution"]
    if not parts["verifier"]:
        del parts["verifier"]
    return dict(env)


# --- the way out -------------------------------------------------------------------------------------------
def merged(parts: Mapping[ComponentName, Config], records: Records, given: Given) -> Config:
    """The configuration of the parts and records; the reverse of `split`. A record that was changed wins."""
    by: Parts = {name: {k: _copied(v) for k, v in parts.get(name, {}).items()} for name in _ORDER}
    for one, value in _fields(records):
        section, key = one.path
        held = by[one.component].get(section, {})
        if key in held and isinstance(held, dict) and _carries(one, held[key], value, given):
            continue
        said = one.say(value, given)
        if said is _ABSENT and key not in held:
            continue
        if (old := _OLD.get(key)) and old in held:
            if _carries(one, megabytes(held[old]), value, given):
                continue
            del held[old]
        own = by[one.component].setdefault(section, {})
        if said is _ABSENT:
            said = _plainly(one, value)
        if said is _ABSENT:
            del own[key]
        else:
            own[key] = said
    out: Config = {}
    for name in _ORDER:
        for key, value in by[name].items():
            if key == "steps" and key in out:
                out[key] = [{**a, **b} for a, b in zip(out[key], value, strict=True)]
            elif isinstance(value, dict) and isinstance(out.get(key), dict):
                out[key] = {**out[key], **value}
            else:
                out[key] = value
    return out


_ORDER: tuple[ComponentName, ...] = ("task", "context", "harness", "verifier")


def _carries(one: _Field, held: Any, value: Any, given: Given) -> bool:
    """Whether the setting that stands beside a record still says what the record does."""
    try:
        return bool(one.take(held, given) == value)
    except (TypeError, ValueError, AttributeError, KeyError):
        return False


def _plainly(one: _Field, value: Any) -> Any:
    """A value that was changed back to the default, where another one stands: it has to be said."""
    return value if isinstance(value, float | str) and value else _ABSENT
