"""From what a person typed to a config that is pinned: file, settings, options, and what another run hands on.

No torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rover_store.errors import UsageError
from rover_train import config as configs
from rover_train.config import Config
from rover_train.train import run as runs

if TYPE_CHECKING:
    from rover_store.store import Store

#: what a run takes over from the one that it starts from
_HANDED_ON = ("render", "data")


@dataclass(frozen=True, slots=True)
class Asked:
    """Empty means: not said. Later ones win: `start`'s run, `file`, `sets`, then the other fields."""

    revision: str = ""
    method: str = ""
    model: str = ""
    start: Path | None = None
    file: Path | None = None
    sets: Sequence[str] = ()
    seed: int | None = None


def config_of(asked: Asked, base: Mapping[str, Any] | None = None) -> Config:
    """The config, its revision as typed. `base`: values that all others go on top of."""
    if asked.model and asked.start is not None:
        raise UsageError("--model and --from both say what to start from; give one of them")
    values = dict(base or {})
    if asked.start is not None:
        values = {**values, **handed_on(asked.start)}
    if asked.file is not None:
        said = configs.read_toml(_file(asked.file))
        configs.check(said, str(asked.file))
        values = merged(values, said)
    own = {"revision": asked.revision, "method": asked.method, "seed": asked.seed}
    spec = str(asked.start) if asked.start is not None else asked.model
    options: dict[str, Any] = {key: value for key, value in own.items() if value not in ("", None)}
    if spec:
        options["model"] = {"spec": spec}
    return configs.made(values, asked.sets, options)


def _file(asked: Path) -> Path:
    """The file of a config; `recipe:NAME` is one that comes with rover."""
    kind, colon, name = str(asked).partition(":")
    if kind != "recipe" or not colon:
        return asked
    from rover_train.world.recipes import recipe

    return recipe(name)


def handed_on(start: Path) -> dict[str, Any]:
    """How rollouts are rendered, and the data, of the run that a new one starts from: a run, or a checkpoint of one."""
    for folder in (start, start.absolute().parent.parent):
        if (folder / runs.CONFIG).is_file():
            values = runs.config_of(folder).model_dump(mode="json", by_alias=True, exclude_none=True)
            return {name: values[name] for name in _HANDED_ON}
    raise UsageError(f"{start}: neither a run nor a checkpoint of one", hint="--model takes any model")


def resumed(asked: Asked, out: Path) -> Config:
    """What a run is, with what was asked for on top."""
    own = runs.config_of(out).model_dump(mode="json", by_alias=True, exclude_none=True)
    return config_of(asked, own)


def pinned(store: Store, config: Config) -> Config:
    """The same, with the full commit id as its revision, and whole. NotFound, Ambiguous, UsageError in one line."""
    if not config.revision:
        raise UsageError("--revision is missing: the commit, tag or branch to train on")
    if not config.model.spec:
        raise UsageError("--model is missing: the model to start from")
    return config.model_copy(update={"revision": store.resolve(config.revision)})


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Two nested tables as one; what stands above wins."""
    out = dict(below)
    for key, value in above.items():
        under = out.get(key)
        out[key] = merged(under, value) if isinstance(under, Mapping) and isinstance(value, Mapping) else value
    return out
