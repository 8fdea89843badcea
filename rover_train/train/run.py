"""The folder of a run, made once, held by one process, taken up again by the same config alone.

    RUN/config.toml    the config, revision as full commit id
    RUN/run.json       what else the run depends on: versions, first weights, counts; nothing of the machine or clock
    RUN/split.json     which packages were for training, validation, the final evaluation
    RUN/log.jsonl      see `log`
    RUN/checkpoints/   see `checkpoint`
    RUN/samples/       rollouts of RL with their credit, step by step
    RUN/statuses.db    what trees were graded as: a cache, so that a resumed run grades nothing twice
    RUN/evaluations/   what `rover eval` found of it
    RUN/README.md      model card, written at the end
    RUN/report.html    the page of the run, written at the end

config.toml is written last: a folder without it is no run yet, and may be begun anew.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rover_store.errors import UsageError
from rover_train import config as configs
from rover_train import places, report
from rover_train.config import Config
from rover_train.evaluation import kept_in
from rover_train.train import card, checkpoint
from rover_train.train.checkpoint import State
from rover_train.train.disk import Disk, refusals
from rover_train.train.errors import CheckpointError, DiskError
from rover_train.train.log import RunLog, Told

if TYPE_CHECKING:
    from torch import nn

    from rover_train.train.optim import Optimiser

CONFIG = "config.toml"
STATUSES = "statuses.db"
#: what a disk says that is at its end; all else that it says of a new folder is of the path that was named
_END_OF_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
OURS = {
    CONFIG, "run.json", "split.json", "log.jsonl", "checkpoints", "README.md", report.NAME, STATUSES, ".lock",
    "tensorboard", "trackio",
}  # fmt: skip


class Run:
    """A run that this process holds. Use as a context manager."""

    def __init__(self, folder: Path, config: Config, *, disk: Disk | None = None) -> None:
        self.folder = folder
        self.config = config
        self.disk = disk or Disk()
        self.state: State | None = None  # of the checkpoint to go on from
        #: digest of the config when the run began: a later rover may know more fields, or other defaults
        self.identity = config.digest()
        #: whether the folder was not there before
        self.made = False
        self._log: RunLog | None = None
        self._lock = _locked(folder)

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Let others hold the run."""
        if self._log is not None:
            self._log.close()
        os.close(self._lock)

    def withdraw(self) -> None:
        """Take a new run back where nothing came of it, no row of the log and no checkpoint: what is refused late
        leaves no more behind than what is refused at once."""
        log = self.folder / "log.jsonl"
        if checkpoint.latest(self.folder) is not None or (log.exists() and log.stat().st_size):
            return
        (self.folder / CONFIG).unlink(missing_ok=True)
        if self.made:
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def log(self) -> RunLog:
        """The log; `open_log` comes first."""
        assert self._log is not None
        return self._log

    def open_log(self, told: Sequence[Told] = ()) -> RunLog:
        """Open the log at the checkpoint's step, or empty where there is none."""
        keep_to = -1 if self.state is None else self.state.step
        self._log = RunLog(self.folder / "log.jsonl", keep_to=keep_to, told=told, disk=self.disk)
        return self._log

    def state_at(self, step: int, **fields: Any) -> State:
        """The state of this run at a step."""
        return State(
            revision=self.config.revision, config=self.identity, method=self.config.method, step=step, **fields
        )

    def save(self, state: State, model: nn.Module, optimiser: Optimiser, write_model: Callable[[Path], object]) -> Path:
        """Write the checkpoint of a state, with its model card; `write_model(folder)` writes the servable files."""
        self.log.sync()

        def write(folder: Path) -> None:
            write_model(folder)
            self.disk.write(folder / "README.md", card.text(self.config, state, self.facts()).encode())

        self.state = state
        return checkpoint.save(
            self.folder, state, model=model, optimiser=optimiser, write_model=write,
            keep_last=self.config.checkpoint.keep_last, disk=self.disk,
        )  # fmt: skip

    def facts(self) -> dict[str, Any]:
        """What run.json says."""
        return _facts(self.folder)

    def close(self, state: State) -> None:
        """The run ended: its model card is that of the best checkpoint, and its page tells all."""
        with refusals(self.folder):
            renew_card(self.folder, self.config, state, self.disk)
            self.disk.replace(self.folder / report.NAME, report.page_of(self.folder).encode())

    @property
    def checkpoint(self) -> Path | None:
        """The checkpoint to go on from."""
        return None if self.state is None else checkpoint.latest(self.folder)


def begin(
    folder: Path, config: Config, *, split: Mapping[str, Any], facts: Mapping[str, Any], disk: Disk | None = None
) -> Run:
    """A new run. UsageError where the folder holds one, or anything that is not of a run that never began."""
    disk = disk or Disk()
    refuse_used(folder)
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if error.errno in _END_OF_DISK:
            raise DiskError(folder, f"not written: {error.strerror}") from None
        raise UsageError(f"{folder}: cannot be made: {error.strerror}") from None
    run = Run(folder, config, disk=disk)
    run.made = made
    with _held(run), refusals(folder):
        _json(disk, folder / "split.json", split)
        text = configs.dump(config).encode()
        pinned = {"config": run.identity, "config_sha256": _sha256(text), "revision": config.revision}
        _json(disk, folder / "run.json", {**facts, **pinned})
        disk.replace(folder / CONFIG, text)
    return run


@contextmanager
def _held(run: Run) -> Iterator[None]:
    """Where the block fails the run is held no longer."""
    try:
        yield
    except BaseException:
        run.release()
        raise


def refuse_used(folder: Path) -> None:
    """UsageError where no run can begin."""
    places.refuse(folder)
    if (folder / CONFIG).exists():
        raise UsageError(f"{folder}: a run is there already", hint="--resume goes on with it; or take another --out")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: a file is there")
    strange = sorted(p.name for p in folder.iterdir() if not _is_ours(p.name)) if folder.is_dir() else []
    if strange:
        raise UsageError(f"{folder}: not empty ({strange[0]})", hint="take another --out")


def resume(folder: Path, *, expect: Config | None = None, disk: Disk | None = None) -> Run:
    """Take a run up at its newest checkpoint. `expect`: what was asked for; it must be what the run is."""
    places.refuse(folder)
    config = config_of(folder)
    if expect is not None:
        _same(folder, config, expect)
        config = expect  # logging and checkpointing may change
    identity = _identity(folder)
    newest = checkpoint.latest(folder)
    state = None
    if newest is not None:
        state = checkpoint.check(newest, revision=config.revision, config=identity)
    run = Run(folder, config, disk=disk)
    run.identity, run.state = identity, state
    if state is not None:
        with _held(run), refusals(folder):
            checkpoint.settle(folder, state, config.checkpoint.keep_last, disk)
    return run


def renew_card(folder: Path, config: Config, state: State | None = None, disk: Disk | None = None) -> None:
    """Write the model card of a run: of its best checkpoint, else of `state`. Without either what is there stays."""
    chosen = checkpoint.best(folder)
    shown = state if chosen is None else checkpoint.check(chosen, files=False)
    if shown is not None:
        found = [one for _, one in kept_in(folder)[0]]
        (disk or Disk()).replace(folder / "README.md", card.text(config, shown, _facts(folder), found).encode())


def _facts(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    return found


def _identity(folder: Path) -> str:
    """The digest that the run began with. CheckpointError where its config was changed by hand."""
    try:
        facts = json.loads((folder / "run.json").read_bytes())
        identity, expected = str(facts["config"]), facts["config_sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(folder, "run.json is missing or not as it was written") from error
    if _sha256((folder / CONFIG).read_bytes()) != expected:
        hint = "put it back; --set changes log and checkpoint, all else needs another --out"
        raise CheckpointError(folder, f"{CONFIG} is not as the run began with it", hint=hint)
    return identity


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def config_of(folder: Path) -> Config:
    """The config of a run. CheckpointError where there is no run, PackageError where it was damaged."""
    try:
        text = (folder / CONFIG).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CheckpointError(folder, "no run is there", hint="without --resume a new one begins") from error
    except UnicodeDecodeError as error:
        raise CheckpointError(folder, f"{CONFIG} is not UTF-8") from error
    return configs.loads(text, str(folder / CONFIG))


def _same(folder: Path, own: Config, asked: Config) -> None:
    if own.revision != asked.revision:
        raise CheckpointError(
            folder, f"the run is on revision {own.revision[:12]}, not {asked.revision[:12]}",
            hint="a run stays on its revision; take another --out, and --from to start from its model",
        )  # fmt: skip
    if own.digest() != asked.digest():
        key, mine, other = _first_difference(own, asked)
        hint = "resume it as it is, or take another --out"
        raise CheckpointError(folder, f"the run has {key} = {mine}, not {other}", hint=hint)


def _first_difference(own: Config, asked: Config) -> tuple[str, str, str]:
    mine, other = (dict(_flat(c.model_dump(mode="json", by_alias=True))) for c in (own, asked))
    keys = [k for k in {**mine, **other} if mine.get(k) != other.get(k) and not k.startswith(("log.", "checkpoint."))]
    return keys[0], json.dumps(mine.get(keys[0])), json.dumps(other.get(keys[0]))


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    out: list[tuple[str, Any]] = []
    for key, value in values.items():
        out += _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [(f"{prefix}{key}", value)]
    return out


def _is_ours(name: str) -> bool:
    return name in OURS or (name.startswith(".") and name.endswith(".tmp"))


def _json(disk: Disk, path: Path, value: Mapping[str, Any]) -> None:
    disk.replace(path, json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n")


def _locked(folder: Path) -> int:
    number = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(number)
        raise UsageError(f"{folder}: another process trains there") from None
    return number
