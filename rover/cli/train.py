"""`rover train`: train a model on a pinned revision."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rover.cli.output import Json, Sandbox, counted, note, print_json, say, table
from rover.cli.stores import open_store
from rover.cli.training import Stopping, need_extra
from rover_store.errors import UsageError

if TYPE_CHECKING:
    from rover_store.store import Store
    from rover_train.config import Config
    from rover_train.train.checkpoint import State


def command(
    out: Path = typer.Option(None, "--out", metavar="RUN", help="Folder of the run; a new one, unless --resume."),
    revision: str = typer.Option("", "--revision", metavar="REV", help="What to train on; pinned to its full id."),
    method: str = typer.Option(
        "", "--method", metavar="NAME", help="sft (default), grpo, dr-grpo, gdpo, gigpo, vtca-grpo, vtca-even or opd."
    ),
    model: str = typer.Option(
        "", "--model", metavar="SPEC", help="Model to start from: its folder, FILE.gguf, smollm2 or small:DIR."
    ),
    start: Path = typer.Option(None, "--from", metavar="RUN", help="Start from the best model of this run instead."),
    file: Path = typer.Option(
        None, "--config", metavar="FILE", help="Settings in TOML; recipe:sft and recipe:rl come with rover."
    ),
    sets: list[str] = typer.Option(
        [], "--set", metavar="KEY=VALUE", help="Change one setting, as optim.lr=1e-4; repeatable."
    ),
    seed: int = typer.Option(None, "--seed", min=0, help="Seed of all random choices (0)."),
    resume: bool = typer.Option(False, "--resume", help="Go on with RUN from its newest checkpoint."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Check all, say what would be trained, write nothing."),
    print_config: bool = typer.Option(False, "--print-config", help="Print all settings as TOML, and stop."),
    sandbox: str = Sandbox,
    as_json: bool = Json,
) -> None:
    """Train a model on a pinned revision of the store.

    sft learns from the revision's verified demonstrations (`rover collect` gathers them). The other methods play
    the packages and reinforce what scored: grpo by the outcome alone, vtca-grpo by which turn made which check come
    true. Workspaces are split into train, validation and held-out: training sees the first, the best checkpoint is
    chosen on the second, and `rover eval` reports on the third.

    RUN gets the config, a log, the split, a model card, and checkpoints: folders that transformers and vLLM load.
    Equal configs give equal weights on a CPU. Press Ctrl-C to stop after the step under way: it is saved, and
    --resume goes on from there, to the same bits.

    `rover help training` takes you through the whole line; `rover help settings` lists all settings.

    Example: rover train --revision main --method sft --model base --out sft
    """
    from rover_train import places
    from rover_train.train.asked import Asked, config_of, pinned, resumed

    asked = Asked(revision, method, model, start, file, sets, seed)
    if print_config:
        from rover_train.config import dump

        say(dump(config_of(asked)).rstrip("\n"))
        return
    if out is None:
        raise UsageError("--out is missing: the folder of the run")
    need_extra()
    places.refuse(out)
    config = resumed(asked, out) if resume else config_of(asked)
    store = open_store()
    config = pinned(store, config)
    if dry_run:
        _plan(store, config, as_json)
        return
    had_ended = resume and _ended(out)
    try:
        state, stopped = _train(store, config, out, resume, sandbox)
    except KeyboardInterrupt:
        if (out / "config.toml").exists():
            note(f"stopped within a step; go on from the one before with: rover train --out {out} --resume")
        raise
    if stopped and not state.finished:
        note(f"stopped at step {state.step}, which is saved; go on with: rover train --out {out} --resume")
        raise KeyboardInterrupt
    if had_ended:
        note(f"the run had ended at step {state.step}; to train its model further: --from {out} and another --out")
    _report(out, config, state, as_json)


def _ended(out: Path) -> bool:
    """Whether the run's newest checkpoint is its end."""
    from rover_train.train import checkpoint

    newest = checkpoint.latest(out)
    return newest is not None and checkpoint.check(newest, files=False).finished


def _train(store: Store, config: Config, out: Path, resume: bool, sandbox: str) -> tuple[State, bool]:
    """The state at the end, and whether a person stopped it there."""
    from rover.cli.train_table import Display
    from rover.sandbox.registry import open_runtime
    from rover_train.train import start
    from rover_train.train.trackers import check
    from rover_train.train.watch import Watch

    check(config)
    title = f"{config.method} on {config.revision[:12]} in {out}"
    with Display(title, Watch(config.rl.steps if config.method != "sft" else 0)) as display:
        with Stopping(lambda: display.tell("stopping after this step; Ctrl-C again stops at once")) as stop:
            go = start.resume if resume else start.train
            state = go(
                store, lambda: open_runtime(sandbox or None), out=out, config=config, told=[display], stop=stop
            )
        return state, stop()


def _plan(store: Store, config: Config, as_json: bool) -> None:
    from rover_train import models
    from rover_train.train.start import plan

    name, _, _ = models.locate(config.model.spec)
    planned = plan(store, config)
    parts = {p: len(planned.split.part(p).packages) for p in ("train", "validation", "held_out")}
    shown: dict[str, object] = {"revision": config.revision, "method": config.method, "model": name, "packages": parts}
    if planned.train is not None and planned.validation is not None:
        shown["demonstrations"] = {"train": planned.train.counts, "validation": planned.validation.counts}
    shown["config"] = config.digest()
    if as_json:
        print_json(shown)
        return
    rows: list[tuple[str, object]] = [(key, shown[key]) for key in ("revision", "method", "model")]
    rows.append(("config", config.digest()[:16]))
    rows += [(f"packages for {part.replace('_', '-')}", count) for part, count in parts.items()]
    for part, found in (("train", planned.train), ("validation", planned.validation)):
        if found is not None:
            told = [counted(found.counts["demonstrations"], "demonstration")]
            left_out = [what for what in found.counts if what not in ("packages", "rows", "demonstrations")]
            told += [f"{found.counts[what]} {what.replace('_', ' ')}" for what in left_out]
            rows.append((f"for {part}", ", ".join(told)))
    rows.append(("budget", _budget(config)))
    print(table(rows, ("what", "value")))
    note("nothing was written")


def _budget(config: Config) -> str:
    """How long the run is to be."""
    if config.method == "sft":
        sft = config.sft
        length = counted(sft.steps, "step") if sft.steps else f"epochs: {sft.epochs:g}"
        return f"{length}, {counted(sft.batch_size, 'row')} a step"
    rl = config.rl
    whole = counted(rl.steps * rl.tasks * rl.group, "rollout")
    return f"{counted(rl.steps, 'step')} of {counted(rl.tasks, 'package')} x {counted(rl.group, 'rollout')}: {whole}"


def _report(out: Path, config: Config, state: State, as_json: bool) -> None:
    from rover_train.train import checkpoint

    best = checkpoint.best(out)
    shown = {
        "run": str(out), "revision": config.revision, "method": config.method, "step": state.step,
        "best": None if state.best is None else state.best.step, "scores": dict(state.scores), "model": str(best),
    }  # fmt: skip
    if as_json:
        print_json(shown)
        return
    scores = ", ".join(_score(key, value) for key, value in sorted(state.scores.items())) or "none"
    rows = [
        ("run", str(out)), ("revision", config.revision), ("method", config.method),
        ("steps", state.step), ("validation at the end", scores), ("best at step", shown["best"]), ("model", best),
    ]  # fmt: skip
    print(table(rows, ("what", "value"), whole=(1,)))
    note(f"next: rover eval --model {out}")


def _score(key: str, value: float) -> str:
    return f"{key} {100 * value:.1f} %" if key == "success" else f"{key} {value:.4g}"
