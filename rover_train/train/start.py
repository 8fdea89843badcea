"""From a config to a trained model: `plan` says what would be done, `train` does it or goes on with it.

    config = load(file, sets, revision=commit, method="sft")
    state = train(store, open_runtime, Path("runs/sft"), config, told=[...], stop=...)
    state = resume(store, open_runtime, Path("runs/sft"))

`open_runtime` is called where rollouts are played, and not before. Nothing is written before the model and the
data are known to be good.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rover_store.errors import RoverError, UsageError
from rover_train import split as splits
from rover_train.config import Config
from rover_train.dataset.demonstrations import nothing
from rover_train.train import run as runs
from rover_train.train.checkpoint import State
from rover_train.train.errors import CheckpointError
from rover_train.train.log import Told
from rover_train.train.material import Material, as_facts, material
from rover_train.train.run import Run
from rover_train.train.trackers import trackers

if TYPE_CHECKING:
    from rover.sandbox.protocol import Runtime
    from rover_store.records import Split
    from rover_store.store import Store
    from rover_train.models import Loaded
    from rover_train.render import Renderer

OpenRuntime = Callable[[], "Runtime"]
Stop = Callable[[], bool]
_COMMIT = re.compile(r"[0-9a-f]{40}")


class Plan(NamedTuple):
    """What a config comes to. `train`, `validation`: demonstrations, counted but not rendered (sft alone)."""

    split: Split
    train: Material | None
    validation: Material | None


def plan(store: Store, config: Config) -> Plan:
    """Check the config against the store, without torch: revision, selection, split, demonstrations."""
    split = split_of(store, config)
    if config.method != "sft":
        from rover_train.rl.loop import check

        check(config, split)
        return Plan(split, None, None)
    found = _material(store, config, split, None)
    return Plan(split, *found)


def split_of(store: Store, config: Config) -> Split:
    """The split of a config: read from its file, or made. UsageError where it is of another revision."""
    if not _COMMIT.fullmatch(config.revision):
        raise UsageError(f"revision {config.revision!r} is not a full commit id; resolve it first")
    data = config.data
    if not data.split:
        return splits.make(
            store, config.revision, pattern=data.pattern, tags=data.tags, shares=data.shares, seed=data.split_seed
        )
    found = splits.load(Path(data.split))
    if found.revision != config.revision:
        hint = f"name that revision: --revision {found.revision[:12]}; or make a new split"
        raise UsageError(
            f"{data.split}: the split is of revision {found.revision[:12]}, not {config.revision[:12]}", hint=hint
        )
    return found if data.pattern == "*" and not data.tags else splits.narrowed(
        store, found, pattern=data.pattern, tags=data.tags
    )  # fmt: skip


def train(
    store: Store, open_runtime: OpenRuntime, out: Path, config: Config, *, told: Sequence[Told] = (),
    stop: Stop = lambda: False,
) -> State:  # fmt: skip
    """Begin a run in `out` and train to its end, or until `stop()`."""
    from rover_train import models

    runs.refuse_used(out)
    planned = plan(store, config)
    seed_all(config)
    loaded = models.load(config.model.spec, dtype=config.model.dtype, lora=config.model.lora, seed=config.seed)
    facts: dict[str, Any] = {
        "method": config.method, "seed": config.seed, "model": config.model.spec, "versions": versions(config),
        "packages": {p: len(planned.split.part(p).packages) for p in splits.PARTS},
        "weights": models.weights_id(loaded.model),
    }  # fmt: skip
    data = _data(store, config, loaded, planned.split) if config.method == "sft" else None
    if data is not None:
        facts["demonstrations"] = {"train": as_facts(data[0]), "validation": as_facts(data[1])}
    split = planned.split.model_dump(mode="json", exclude_none=True)
    with runs.begin(out, config, split=split, facts=facts) as run:
        try:
            run.open_log([*told, *trackers(config, out)])
            return _trained(run, store, open_runtime, loaded, planned.split, data, stop)
        except RoverError:
            run.withdraw()
            raise


def resume(
    store: Store, open_runtime: OpenRuntime, out: Path, config: Config | None = None, *, told: Sequence[Told] = (),
    stop: Stop = lambda: False,
) -> State:  # fmt: skip
    """Go on with a run from its newest checkpoint. `config`: what was asked for, which must be what the run is."""
    from rover_train import models

    with runs.resume(out, expect=config) as run:
        config = run.config
        if run.state is not None and run.state.finished:
            run.close(run.state)  # it may have been killed before
            return run.state
        store.resolve(config.revision)
        split = splits.load(out / "split.json")
        seed_all(config)
        folder = run.checkpoint
        # adapters go onto the model that they were trained on; else the checkpoint holds all there is
        spec = str(folder) if folder is not None and config.model.lora is None else config.model.spec
        loaded = models.load(spec, dtype=config.model.dtype, lora=config.model.lora, seed=config.seed)
        if spec == config.model.spec and models.weights_id(loaded.model) != run.facts()["weights"]:
            raise CheckpointError(out, f"the model {spec} is not the one that the run began with")
        data = _data(store, config, loaded, split) if config.method == "sft" else None
        step = 0 if run.state is None else run.state.step
        run.open_log([*told, *trackers(config, out, step=step)])
        _warn_of_versions(run, step, told)
        return _trained(run, store, open_runtime, loaded, split, data, stop)


def seed_all(config: Config) -> None:
    """Before anything is drawn."""
    from rover_train.train import rng

    rng.seed_all(config.seed, config.threads)


def _trained(
    run: Run, store: Store, open_runtime: OpenRuntime, loaded: Loaded, split: Split,
    data: tuple[Material, Material] | None, stop: Stop,
) -> State:  # fmt: skip
    if data is None:
        from rover_train.rl import loop

        state = loop.train(run, store, open_runtime(), loaded, split, stop)
    else:
        state = _tuned(run, store, open_runtime, loaded, split, data, stop)
    run.close(state)
    return state


def _tuned(
    run: Run, store: Store, open_runtime: OpenRuntime, loaded: Loaded, split: Split,
    data: tuple[Material, Material], stop: Stop,
) -> State:  # fmt: skip
    from rover_train import models
    from rover_train.train.sft import Data, Sft

    with ExitStack() as stack:
        judge = None
        if run.config.eval.select == "success" and split.validation.packages:
            from rover_train.rl.arena import Arena
            from rover_train.train.judge import Judge

            arena = stack.enter_context(Arena(store, open_runtime(), run.config.revision, width=run.config.rl.width))
            judge = Judge(arena, loaded, run.config, split.validation.packages)
        rows = Data(data[0].rows, data[1].rows, data[0].evidence)
        return Sft(
            run, loaded.model, rows, write_model=lambda folder: models.save_servable(loaded, folder), evaluate=judge
        ).train(stop)


def _data(store: Store, config: Config, loaded: Loaded, split: Split) -> tuple[Material, Material]:
    return _material(store, config, split, loaded.renderer(config.render, turn_tokens=config.rl.max_turn_tokens))


def _material(store: Store, config: Config, split: Split, renderer: Renderer | None) -> tuple[Material, Material]:
    train, validation = (
        material(store, config.revision, part.packages, config.curation, renderer)
        for part in (split.train, split.validation)
    )
    _require(train, config)
    return train, validation


def _require(found: Material, config: Config) -> None:
    if found.counts["demonstrations"]:
        return
    counts = found.counts
    if counts.get("longer_than_the_window"):
        raise UsageError(
            f"all {counts['longer_than_the_window']} demonstrations have a turn that is longer than the window",
            hint=f"render.window is {config.render.window}; rl.max_turn_tokens is {config.rl.max_turn_tokens}",
        )
    if counts.get("curated_away"):
        raise UsageError(f"curation leaves none of {counts['curated_away']} demonstrations", hint="see [curation]")
    stale, unverified = counts.get("stale", 0), counts.get("unverified", 0)
    raise nothing(config.revision, stale, found.stale_by, unverified, config.data.pattern)


def _warn_of_versions(run: Run, step: int, told: Sequence[Told]) -> None:
    """Tell, and do not log, where other libraries compute than when the run began."""
    began, here = run.facts().get("versions", {}), versions(run.config)
    moved = [f"{name} was {began[name]}, is {here[name]}" for name in began if began[name] != here.get(name)]
    if moved:
        text = f"{', '.join(moved)}: the last bits may differ from an unbroken run"
        for listener in told:
            listener({"kind": "warning", "step": step, "what": "versions", "text": text})


def versions(config: Config) -> dict[str, str]:
    """What computed: of rover, python and the libraries. Other versions may give other last bits."""
    names = ["torch", "transformers", "tokenizers", *(["peft"] if config.model.lora else [])]
    found = {"rover": _version("workrover"), "python": ".".join(map(str, sys.version_info[:3]))}
    return {**found, **{name: _version(name) for name in names}}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"
