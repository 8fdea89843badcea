"""task.toml: parsed, checked against the schema that Harbor prints for version 1.4, and its unknown keys named."""

from __future__ import annotations

import json
import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from rover_store.errors import PackageError
from rover_store.files.safe_names import shown

FILE = "task.toml"
MOST_BYTES = 1 << 20
#: deeper than any setting; a parser would recurse
MOST_DEPTH = 40
#: a key of more parts than this keeps a parser busy for as long as it has parts, squared
_CHAIN = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){80}""")
#: no TOML holds a larger number
MOST_NUMBER = 1 << 63
#: bytes of one variable, and of all: the kernel starts no process with more
MOST_VARIABLE, MOST_VARIABLES = 100_000, 1_000_000
#: what older versions of the schema called things; Harbor still reads them
_OLD = {"": {"version"}, "environment": {"memory", "storage"}, "verifier.environment": {"memory", "storage"}}

#: settings that had another form, as 2G
OLD = {"memory": "memory_mb", "storage": "storage_mb"}

_SIZE = re.compile(r"\s*(\d{1,12}(?:\.\d{1,12})?)\s*([GMKgmk])\s*")
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]*/[a-zA-Z0-9][a-zA-Z0-9._-]*")
_STEP = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]')
_DEVICE = re.compile(r"(CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(?:COM|LPT)[1-9¹²³])", re.IGNORECASE)

Config = dict[str, Any]


def parse(data: bytes, file: str = FILE, most: int = MOST_BYTES) -> Config:
    """The document of a TOML file. PackageError for one that is none."""
    if len(data) > most:
        raise PackageError(file, "", f"is larger than {most >> 20} MB")
    try:
        text = data.decode()
        if chain := _CHAIN.search(text):
            line = text.count("\n", 0, chain.start()) + 1
            raise PackageError(file, f"line {line}", "a key has too many parts")
        return tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise PackageError(file, "", f"is not UTF-8 at byte {error.start}") from None
    except (tomllib.TOMLDecodeError, ValueError) as error:
        raise PackageError(file, "", f"is not valid TOML ({' '.join(str(error).split())[:120]})") from None
    except RecursionError:
        raise PackageError(file, "", "is nested too deeply") from None


def check(config: Config) -> None:
    """PackageError with the field for a configuration that Harbor does not load."""
    if _depth(config) > MOST_DEPTH:
        raise PackageError(FILE, "", "is nested too deeply")
    _check_numbers(config, "")
    from jsonschema import Draft202012Validator

    errors = Draft202012Validator(schema()).iter_errors(_plain(config))
    first = min(errors, key=lambda e: (list(map(str, e.absolute_path)), e.message), default=None)
    if first is not None:
        first = _deepest(first)
        said = " ".join(first.message.split())
        said = said if len(said) <= 160 else f"{said[:157]}..."
        raise PackageError(FILE, ".".join(map(str, first.absolute_path)), said)
    _check_names(config)
    for where, section in _with_variables(config):
        _check_variables(where, section.get("env") or {})
    for where, environment in environments(config):
        _check_servers(where, environment)
        _check_sizes(where, environment)
        if (environment.get("network_mode") != "allowlist") and environment.get("allowed_hosts"):
            raise PackageError(FILE, f"{where}.allowed_hosts", "is for network_mode = 'allowlist' alone")


def _check_numbers(value: Any, where: str) -> None:
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in inner:
            _check_numbers(item, f"{where}.{key}" if where else str(key))
    elif isinstance(value, int) and abs(value) >= MOST_NUMBER:
        raise PackageError(FILE, where, "is larger than a number of TOML can be")


def _check_variables(where: str, env: Mapping[str, str]) -> None:
    for name, value in env.items():
        if why := bad_variable(name, value):
            raise PackageError(FILE, f"{where}.env", why)
    if sum(len(name) + len(value.encode()) for name, value in env.items()) > MOST_VARIABLES:
        raise PackageError(FILE, f"{where}.env", f"holds more than {MOST_VARIABLES >> 10} KB")


def bad_variable(name: str, value: str) -> str:
    """Why no process can have a variable; empty where one can."""
    if not name or "=" in name or "\0" in name:
        return f"{shown(name)!r} is no name of a variable"
    if "\0" in value:
        return f"{shown(name)} holds a NUL"
    return f"{shown(name)} is larger than a variable may be" if len(value.encode()) > MOST_VARIABLE else ""


def _deepest(error: Any) -> Any:
    """Of several forms that a value may have, what is wrong with the one that it comes nearest to."""
    while True:
        forms = [e for e in error.context or () if not (e.validator == "type" and e.validator_value == "null")]
        if not forms:
            return error
        error = min(forms, key=lambda e: (-len(e.path), e.message))


def _check_names(config: Config) -> None:
    name = (config.get("task") or {}).get("name")
    if name is not None and not is_name(name):
        raise PackageError(FILE, "task.name", f"{name!r} is not of the form org/name")
    seen = set()
    for number, step in enumerate(config.get("steps") or ()):
        own = step["name"]
        if not is_step(own):
            raise PackageError(FILE, f"steps.{number}.name", f"{own!r} cannot be the name of a folder")
        key = unicodedata.normalize("NFC", own).casefold()
        if key in seen:
            raise PackageError(FILE, f"steps.{number}.name", f"{own!r} is there twice")
        seen.add(key)
    for number, artifact in enumerate(config.get("artifacts") or ()):
        source = artifact if isinstance(artifact, str) else artifact["source"]
        if ".." in source.split("/"):
            raise PackageError(FILE, f"artifacts.{number}.source", f"{source!r} holds `..`")


def _check_sizes(where: str, environment: Config) -> None:
    """The old forms: a size, and the same as the new form where both are there."""
    for old, new in OLD.items():
        value = environment.get(old)
        if isinstance(value, str) and not _SIZE.fullmatch(value):
            raise PackageError(FILE, f"{where}.{old}", f"{shown(value)!r} is no size, as 2G")
        if isinstance(value, str) and new in environment and megabytes(value) != environment[new]:
            raise PackageError(FILE, f"{where}.{old}", f"{value!r} is not {environment[new]} MB, as {new} says")


def megabytes(value: Any) -> int:
    """Megabytes of the old form, as 2G; 0 where it is none."""
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    return int(float(match[1]) * {"g": 1024, "m": 1, "k": 1 / 1024}[match[2].lower()]) if match else 0


def is_name(name: str) -> bool:
    """Whether it is of the form org/name."""
    return bool(_NAME.fullmatch(name)) and ".." not in name


def is_step(name: str) -> bool:
    """Whether a step may be called so: one folder on any system."""
    device = _DEVICE.fullmatch(name.partition(".")[0].rstrip(" "))
    odd = not name.strip() or name in (".", "..") or name.endswith((".", " ")) or _STEP.search(name) or device
    return not odd and len(name.encode()) <= 255


def _check_servers(where: str, environment: Config) -> None:
    for number, server in enumerate(environment.get("mcp_servers") or ()):
        transport = server.get("transport", "sse")
        wanted = "command" if transport == "stdio" else "url"
        if not server.get(wanted):
            reason = f"a server with transport {transport!r} needs a {wanted}"
            raise PackageError(FILE, f"{where}.mcp_servers.{number}", reason)
        if any("\0" in word for word in (server.get("command") or "", *(server.get("args") or ()))):
            raise PackageError(FILE, f"{where}.mcp_servers.{number}", "its command holds a NUL")


def environments(config: Config) -> Iterator[tuple[str, Config]]:
    """Every environment of a task, with where it stands."""
    yield "environment", config.get("environment") or {}
    if isinstance(own := (config.get("verifier") or {}).get("environment"), dict):
        yield "verifier.environment", own
    for number, step in enumerate(config.get("steps") or ()):
        if isinstance(own := (step.get("verifier") or {}).get("environment"), dict):
            yield f"steps.{number}.verifier.environment", own


def _with_variables(config: Config) -> Iterator[tuple[str, Config]]:
    """Every table that sets variables."""
    yield from environments(config)
    for key in ("agent", "verifier", "solution"):
        yield key, config.get(key) or {}
    for number, step in enumerate(config.get("steps") or ()):
        for key in ("agent", "verifier"):
            yield f"steps.{number}.{key}", step.get(key) or {}


def unknown(config: Config) -> tuple[str, ...]:
    """Keys that the schema does not have, by their paths. Nothing below a free table is unknown."""
    return tuple(_unknown(config, schema(), ""))


def _unknown(value: Any, rule: Mapping[str, Any], where: str) -> Iterator[str]:
    rule = _followed(rule)
    if "anyOf" in rule:
        options = [list(_unknown(value, option, where)) for option in rule["anyOf"] if _fits(value, option)]
        yield from min(options, key=len, default=[])
    elif isinstance(value, list) and "items" in rule:
        for number, item in enumerate(value):
            yield from _unknown(item, rule["items"], f"{where}.{number}")
    elif isinstance(value, dict) and "properties" in rule:
        for key, item in value.items():
            path = f"{where}.{key}" if where else key
            if key in rule["properties"]:
                yield from _unknown(item, rule["properties"][key], path)
            elif key not in _OLD.get(where, ()):
                yield path


def _fits(value: Any, option: Mapping[str, Any]) -> bool:
    kind = _followed(option).get("type")
    return (kind == "object") is isinstance(value, dict) and (kind == "array") is isinstance(value, list)


def _followed(rule: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in rule:
        rule = schema()["$defs"][rule["$ref"].rpartition("/")[2]]
    return rule


@cache
def schema() -> dict[str, Any]:
    """The schema of task.toml, version 1.4, as Harbor prints it, without its texts."""
    found = json.loads((files("rover.port.harbor") / "task-1.4.schema.json").read_bytes())
    assert isinstance(found, dict)
    return found


def _plain(value: Any) -> Any:
    """What the schema is about: Harbor takes `os` in any case, and `http` for a transport."""
    if isinstance(value, dict):
        out = {key: _plain(item) for key, item in value.items()}
        if isinstance(out.get("os"), str):
            out["os"] = out["os"].lower()
        if out.get("transport") == "http":
            out["transport"] = "streamable-http"
        return out
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _depth(value: Any, at: int = 0) -> int:
    if at > MOST_DEPTH or not isinstance(value, dict | list):
        return at
    inner = value.values() if isinstance(value, dict) else value
    return max((_depth(item, at + 1) for item in inner), default=at)
