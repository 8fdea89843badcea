"""The extra `train`: what computes needs torch and friends; what reads and records does not."""

from __future__ import annotations

from importlib.util import find_spec

from rover_store.errors import UsageError

LIBRARIES = ("torch", "transformers", "tokenizers", "peft", "safetensors", "datasets")


def needed(libraries: tuple[str, ...] = LIBRARIES) -> None:
    """UsageError, in one line with the command that installs the extra, where a library is missing."""
    missing = [name for name in libraries if find_spec(name) is None]
    if missing:
        said = f"training needs {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed"
        raise UsageError(said, hint="pip install 'workrover[train]'")
