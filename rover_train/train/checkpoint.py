"""Checkpoints: RUN/checkpoints/step-000120/, whole or not there, and exact enough to go on bit for bit.

    model files         a folder that transformers and vLLM load (config.json, *.safetensors, tokenizer, README.md)
    trainer.pt          trainable weights, optimiser, random state: tensors and numbers alone
    state.json          `State`: revision, config, step, position, evidence ids, scores, sha256 of every file
    DONE                sha256 of state.json

A checkpoint is written beside its place, flushed, and renamed; what a killed process left is removed by the next
one that saves. Reading needs no torch; `save` and `restore` do.
"""

from __future__ import annotations

import hashlib
import pickle
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationError

from rover_train.section import Section
from rover_train.train.disk import Disk, refusals
from rover_train.train.errors import CheckpointError

if TYPE_CHECKING:
    from torch import nn

    from rover_train.train.optim import Optimiser

_NAME = re.compile(r"step-(\d{6,})")
_UNFINISHED = (".tmp-", ".gone-")


class Best(Section):
    """The best evaluation so far: higher is better (a loss is stored negated)."""

    step: int
    """Updates done when it was reached."""
    score: float
    """The score that `eval.select` names."""


class State(Section):
    """What a checkpoint says about itself."""

    schema_version: Literal[1] = 1
    """Of this record."""
    revision: str
    """Full commit id that is trained on."""
    config: str
    """Digest of the config."""
    method: str
    """As in the config."""
    step: int
    """Updates (sft) or steps (rl) done."""
    position: Mapping[str, Any] = Field(default_factory=dict)
    """Where the trainer stands in its data and sampling: JSON, read by that trainer alone."""
    evidence: tuple[str, ...] = ()
    """Ids of the rollouts that it was trained on so far."""
    scores: Mapping[str, float] = Field(default_factory=dict)
    """The last evaluation's."""
    best: Best | None = None
    """The best evaluation so far."""
    finished: bool = False
    """Whether training ended here: all steps done, or stopped early."""
    files: Mapping[str, str] = Field(default_factory=dict)
    """sha256 of every other file of the folder but DONE."""


# --- which are there -----------------------------------------------------------------------------------------


def checkpoint_name(step: int) -> str:
    """The name of a checkpoint's folder."""
    return f"step-{step:06d}"


def steps(run: Path) -> list[tuple[int, Path]]:
    """The checkpoints of a run, by step."""
    folder = run / "checkpoints"
    found = [(int(m[1]), p) for p in (folder.iterdir() if folder.is_dir() else ()) if (m := _NAME.fullmatch(p.name))]
    return sorted(found)


def latest(run: Path) -> Path | None:
    """The newest checkpoint."""
    found = steps(run)
    return found[-1][1] if found else None


def best(run: Path) -> Path | None:
    """The checkpoint of the best evaluation; the newest where none was evaluated."""
    newest = latest(run)
    if newest is None:
        return None
    chosen = check(newest, files=False).best
    named = {} if chosen is None else dict(steps(run))
    return named.get(chosen.step, newest) if chosen is not None else newest


def run_of(path: Path) -> Path | None:
    """The run that a path is, or is a checkpoint of."""
    for folder in (path, *path.absolute().parents[:2]):
        if (folder / "config.toml").is_file() and (folder / "checkpoints").is_dir():
            return folder
    return None


def model_folder(path: Path) -> Path:
    """Where the model lies: the best one of a run, the newest of RUN/checkpoints, else the path itself."""
    if path.name == "checkpoints" and (newest := latest(path.parent)) is not None:
        return newest
    if (path / "checkpoints").is_dir():
        found = best(path)
        if found is None:
            raise CheckpointError(path, "the run has no checkpoint yet")
        return found
    return path


# --- reading -------------------------------------------------------------------------------------------------


def check(folder: Path, *, revision: str = "", config: str = "", files: bool = True) -> State:
    """The state of a checkpoint that is whole and (where given) of this revision and config; CheckpointError else."""
    try:
        text = (folder / "state.json").read_bytes()
        done = (folder / "DONE").read_text(encoding="ascii").strip()
    except (FileNotFoundError, NotADirectoryError) as error:
        name = Path(error.filename or folder).name
        raise CheckpointError(folder, f"not a whole checkpoint: {name} is missing", hint=_HINT) from error
    except ValueError as error:
        raise CheckpointError(folder, "corrupt: DONE", hint=_HINT) from error
    if done != hashlib.sha256(text).hexdigest():
        raise CheckpointError(folder, "corrupt: state.json is not as it was written", hint=_HINT)
    try:
        state = State.model_validate_json(text)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise CheckpointError(folder, f"state.json: {where}: of another version of rover") from error
    if revision and state.revision != revision:
        raise CheckpointError(folder, f"made on revision {state.revision[:12]}, this run is on {revision[:12]}")
    if config and state.config != config:
        raise CheckpointError(folder, f"made with another config ({state.config[:12]}, not {config[:12]})")
    if files:
        _check_files(folder, state)
    return state


_HINT = "remove this folder to go on from the checkpoint before it"


def _check_files(folder: Path, state: State) -> None:
    for name, expected in state.files.items():
        path = folder / name
        if not path.is_file():
            raise CheckpointError(folder, f"not a whole checkpoint: {name} is missing", hint=_HINT)
        if sha256_of(path) != expected:
            raise CheckpointError(folder, f"corrupt: {name} is not as it was written", hint=_HINT)


def sha256_of(path: Path) -> str:
    """sha256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def restore(folder: Path, model: nn.Module, optimiser: Optimiser) -> None:
    """Put weights, moments and random state back, exactly. `check` comes first; CheckpointError where trainer.pt
    holds anything but what `save` writes (no code of it is ever run)."""
    import torch

    try:
        _put_back(folder, model, optimiser)
    except torch.OutOfMemoryError:
        raise
    except (pickle.UnpicklingError, EOFError, LookupError, TypeError, ValueError, AttributeError, RuntimeError) as e:
        raise CheckpointError(folder, "trainer.pt does not hold what rover writes", hint=_HINT) from e


def _put_back(folder: Path, model: nn.Module, optimiser: Optimiser) -> None:
    import torch

    from rover_train.train import rng

    saved = torch.load(folder / "trainer.pt", map_location="cpu", weights_only=True)
    own = {n: p for n, p in model.named_parameters() if p.requires_grad}
    if set(own) != set(saved["weights"]) or any(own[n].shape != w.shape for n, w in saved["weights"].items()):
        raise CheckpointError(folder, "its weights are those of another model")
    with torch.no_grad():
        for name, weight in saved["weights"].items():
            own[name].copy_(weight)
    optimiser.load_state_dict(saved["optimiser"])
    rng.restore(saved["rng"])


# --- writing -------------------------------------------------------------------------------------------------


def save(
    run: Path, state: State, *, model: nn.Module, optimiser: Optimiser, write_model: Callable[[Path], object],
    keep_last: int, disk: Disk | None = None,
) -> Path:  # fmt: skip
    """Write the checkpoint of `state.step`, then drop the ones that need not be kept. Returns its folder.

    `write_model(folder)` puts the servable files (and the model card) into a folder. A step that is already there
    is left alone: equal runs write equal ones. DiskError where the disk refuses; nothing else changed then.
    """
    disk = disk or Disk()
    place = run / "checkpoints" / checkpoint_name(state.step)
    earlier = latest(run)
    with refusals(place, hint="" if earlier is None else f"{earlier.name} is whole: --resume goes on from there"):
        tidy(run, disk)
        if not place.is_dir():
            _written(place, state, model, optimiser, write_model, disk)
        settle(run, state, keep_last, disk)
    return place


def _written(
    place: Path, state: State, model: nn.Module, optimiser: Optimiser, write_model: Callable[[Path], object], disk: Disk
) -> None:
    beside = place.with_name(f".tmp-{place.name}")
    beside.mkdir(parents=True)
    write_model(beside)
    disk.write(beside / "trainer.pt", lambda file: _dump(file, model, optimiser))
    written = sorted(p for p in beside.rglob("*") if p.is_file())
    for path in written:
        disk.sync(path)
    files = {path.relative_to(beside).as_posix(): sha256_of(path) for path in written}
    text = state.model_copy(update={"files": files}).model_dump_json(indent=1).encode()
    disk.write(beside / "state.json", text)
    disk.write(beside / "DONE", f"{hashlib.sha256(text).hexdigest()}\n".encode())
    disk.sync(beside)
    disk.rename(beside, place)


def _dump(file: Any, model: nn.Module, optimiser: Optimiser) -> None:
    import torch

    from rover_train.train import rng

    weights = {n: p.detach().cpu() for n, p in model.named_parameters() if p.requires_grad}
    torch.save({"weights": weights, "optimiser": optimiser.state_dict(), "rng": rng.capture()}, file)


def settle(run: Path, state: State, keep_last: int, disk: Disk | None = None) -> None:
    """Keep the last ones and the best, and remove the others and what a killed process left unfinished.

    Only the one that holds the run may do this.
    """
    disk = disk or Disk()
    tidy(run, disk)
    found = steps(run)
    kept = {step for step, _ in found[-keep_last:]} | ({state.best.step} if state.best else set())
    for step, path in found:
        if step not in kept:
            gone = path.with_name(f".gone-{path.name}")
            disk.rename(path, gone)
            disk.remove(gone)


def tidy(run: Path, disk: Disk | None = None) -> None:
    """Remove what a killed process left unfinished."""
    folder = run / "checkpoints"
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.name.startswith(_UNFINISHED):
            (disk or Disk()).remove(path)
