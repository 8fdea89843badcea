"""What training can end in, with its operands. The command line turns each into one line and an exit code."""

from __future__ import annotations

from pathlib import Path

from rover_store.errors import RoverError


class CheckpointError(RoverError):
    """A checkpoint or run that cannot be used: of another revision or config, half written, corrupt. Exit 2."""

    exit_code = 2

    def __init__(self, folder: Path | str, reason: str, *, hint: str = "") -> None:
        super().__init__(f"{folder}: {reason}", hint=hint)
        self.folder = str(folder)
        self.reason = reason


class DiskError(RoverError):
    """The disk refused what a checkpoint or log needs. The last whole checkpoint is untouched. Exit 3."""

    def __init__(self, path: Path | str, reason: str, *, hint: str = "") -> None:
        super().__init__(f"{path}: {reason}", hint=hint)
        self.path = str(path)


class NotFinite(RoverError):
    """A loss or gradient that is no number, in the step of this number (from 1). No update was made with it. Exit 3."""

    def __init__(self, what: str, step: int, packages: tuple[str, ...]) -> None:
        named = ", ".join(packages[:8]) + (f" and {len(packages) - 8} more" if len(packages) > 8 else "")
        super().__init__(
            f"{what} is not finite at step {step}, batch of {named or 'nothing'}",
            hint="the last checkpoint is whole; look at these packages, or lower optim.lr",
        )
        self.what = what
        self.step = step
        self.packages = packages
