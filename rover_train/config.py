"""One record that says everything about a training run: `Config`. A TOML file, `--set a.b=c`, or code makes it.

    config = load(Path("run.toml"), sets=["optim.lr=1e-4"], revision=commit, method="sft")
    config.digest()      # identity: equal configs have equal digests; logging and checkpointing are left out
    dump(config)         # the TOML text that RUN/config.toml holds; load(dump) is equal

`revision` holds a full commit id once a run begins: names of branches do not get past the command line. Sections
live beside the code that reads them. Errors are ConfigError: one line, file, field and reason.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin

from pydantic import BaseModel, Field, ValidationError

from rover_store.errors import PackageError
from rover_store.names import digest
from rover_train.credit.settings import CreditSettings
from rover_train.dataset.curate import CurationSettings
from rover_train.render.settings import RenderSettings
from rover_train.rl.settings import LossSettings, RlSettings
from rover_train.section import Section
from rover_train.train.settings import (
    CheckpointSettings,
    DataSettings,
    EvalSettings,
    LogSettings,
    Method,
    ModelSettings,
    OptimSettings,
    SftSettings,
)


class ConfigError(PackageError):
    """A config that cannot be: unknown key, wrong type, value out of bounds. One line; exit 2."""


class Config(Section):
    """Everything that a training run depends on."""

    revision: str = ""
    """Full commit id of the store's revision that is trained on."""
    method: Method = "sft"
    """sft, opd (on-policy distillation), or the credit scheme of RL: grpo, dr-grpo, gdpo, gigpo, vtca-grpo, vtca-even,
    or one that is installed."""
    seed: int = Field(0, ge=0, lt=2**32)
    """Seed of everything that is drawn: order of data, dropout, sampling."""
    threads: int = Field(1, ge=1, le=1024)
    """Threads of torch on a CPU. One thread computes the same bits on every run."""
    model: ModelSettings = ModelSettings()
    """Which model."""
    data: DataSettings = DataSettings()
    """Which packages."""
    curation: CurationSettings = CurationSettings()
    """Which verified demonstrations are trained on (sft)."""
    render: RenderSettings = RenderSettings()
    """How rollouts become tokens."""
    optim: OptimSettings = OptimSettings()
    """The optimiser."""
    sft: SftSettings = SftSettings()
    """Supervised fine-tuning."""
    rl: RlSettings = RlSettings()
    """Sampling and updating in RL."""
    credit: CreditSettings = CreditSettings()
    """From graded rollouts to advantages."""
    loss: LossSettings = LossSettings()
    """From advantages to a gradient."""
    eval: EvalSettings = EvalSettings()
    """Evaluation during training."""
    log: LogSettings = LogSettings()
    """What a run tells."""
    checkpoint: CheckpointSettings = CheckpointSettings()
    """What is kept."""

    def digest(self) -> str:
        """Identity of what is learnt: sha256 over all fields but the sections `log` and `checkpoint`."""
        return digest(self.model_dump(mode="json", by_alias=True, exclude={"log", "checkpoint"}))


# --- making one ----------------------------------------------------------------------------------------------


def load(file: Path | None = None, sets: Sequence[str] = (), **fields: Any) -> Config:
    """A config from a TOML file, then `a.b=c` settings, then top-level fields. Later ones win."""
    values: dict[str, Any] = {} if file is None else read_toml(file)
    if file is not None:
        check(values, str(file))
    return made(values, sets, fields)


def made(values: Mapping[str, Any], sets: Sequence[str] = (), fields: Mapping[str, Any] | None = None) -> Config:
    """A config from values that are good, then `a.b=c` settings, then fields (nested ones are merged)."""
    found = dict(values)
    for text in sets:
        _put(found, text)
    for key, value in (fields or {}).items():
        below = found.get(key)
        found[key] = {**below, **value} if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return check(found, "--set" if sets else "config")


def loads(text: str, source: str = "config.toml") -> Config:
    """A config from TOML text."""
    try:
        return check(tomllib.loads(text), source)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(source, "", f"not TOML: {error}") from error


def read_toml(file: Path) -> dict[str, Any]:
    """The values of a TOML file, unchecked."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(str(file), "", "no such file") from error
    except UnicodeDecodeError as error:
        raise ConfigError(str(file), "", "not UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(str(file), "", f"not TOML: {error}") from error


def check(values: Mapping[str, Any], source: str) -> Config:
    """Validate; the first thing that is wrong becomes one line."""
    try:
        return Config.model_validate(_with_defaults(values))
    except ValidationError as error:
        raise _one_line(error, source) from None


def _with_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """`model.lora = true` takes the defaults of the adapters, `false` has none."""
    model = values.get("model")
    if isinstance(model, Mapping) and isinstance(model.get("lora"), bool):
        return {**values, "model": {**model, "lora": {} if model["lora"] else None}}
    return dict(values)


def _put(values: dict[str, Any], text: str) -> None:
    """Apply one `a.b=c`. The value is read as TOML where it can be, as a string where it cannot."""
    key, equals, raw = text.partition("=")
    parts = [p.strip() for p in key.split(".")]
    if not equals or not all(parts):
        raise ConfigError("--set", text, "write it as section.field=value")
    at = values
    for part in parts[:-1]:
        below = at.get(part)
        at[part] = below = dict(below) if isinstance(below, Mapping) else {}
        at = below
    at[parts[-1]] = _value(raw.strip())


def _value(raw: str) -> Any:
    try:
        value = tomllib.loads(f"v = {raw}")
    except tomllib.TOMLDecodeError:
        return raw
    return value["v"] if set(value) == {"v"} else raw


def _one_line(error: ValidationError, source: str) -> ConfigError:
    first = error.errors()[0]
    where = ".".join(str(p) for p in first["loc"])
    if first["type"] == "extra_forbidden":
        near = nearest(where)
        return ConfigError(source, where, "no such key" + (f"; did you mean {near}?" if near else ""))
    reason = str(first["msg"]).removeprefix("Value error, ")
    return ConfigError(source, where, f"{reason[:1].lower()}{reason[1:]} (got {_shown(first['input'])})")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def nearest(key: str) -> str:
    """The known key that is most like an unknown one; empty where none is."""
    known = [f.key for f in fields()] + list(Config.model_fields)
    last = key.rpartition(".")[2]
    same = [k for k in known if k.rpartition(".")[2] == last]
    found = same or difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    tails = {k.rpartition(".")[2]: k for k in reversed(known)}
    found = found or [tails[t] for t in difflib.get_close_matches(last, list(tails), n=1, cutoff=0.7)]
    return found[0] if found else ""


# --- writing and describing ----------------------------------------------------------------------------------


class FieldLine(NamedTuple):
    """One key: its full name, the type in words, the default as TOML, and what it does."""

    key: str
    kind: str
    default: str
    text: str


def fields(of: type[BaseModel] = Config, prefix: str = "") -> Iterator[FieldLine]:
    """Every key of the config, in order, sections flattened."""
    for name, info in of.model_fields.items():
        name, inner = info.alias or name, _section(info.annotation)
        text = " ".join((info.description or "").split())
        optional = inner is not None and info.default is None
        if inner is None or optional:
            kind = "table, or absent" if optional else _kind(info.annotation)
            yield FieldLine(f"{prefix}{name}", kind, _toml(info.default), text)
        if inner is not None:
            yield from fields(inner, f"{prefix}{name}.")


def _section(annotation: Any) -> type[BaseModel] | None:
    for part in (annotation, *get_args(annotation)):
        if isinstance(part, type) and issubclass(part, BaseModel):
            return part
    return None


def _kind(annotation: Any) -> str:
    args = get_args(annotation)
    if get_origin(annotation) is dict:
        return f"table of {_kind(args[1])}s"
    if args and all(isinstance(a, str) for a in args):
        return " or ".join(f'"{a}"' for a in args)
    if args:
        inner = _kind(args[0])
        return f"{inner} or absent" if type(None) in args else f"list of {inner}"
    names = {"str": "text", "int": "whole number", "float": "number", "bool": "true or false"}
    return names.get(getattr(annotation, "__name__", ""), str(annotation))


def _toml(value: Any) -> str:
    """A scalar or a list as TOML; None has no form and is left out by the callers."""
    if value is None:
        return "absent"
    if isinstance(value, float) and value == int(value) and abs(value) < 1e15:
        return f"{value:.1f}"
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def dump(config: Config) -> str:
    """The config as TOML, every key written; what is absent is left out."""
    return "\n".join(_table(config.model_dump(by_alias=True), "")) + "\n"


def _table(values: Mapping[str, Any], prefix: str) -> Iterable[str]:
    yield from (f"{k} = {_toml(v)}" for k, v in values.items() if v is not None and not isinstance(v, Mapping))
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from ("", f"[{prefix}{key}]", *_table(value, f"{prefix}{key}."))
