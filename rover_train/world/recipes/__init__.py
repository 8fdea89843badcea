"""Settings that were found to work for the small world, as configs for `rover train --config`.

    recipe("sft")     # path of sft.toml; also: rl
"""

from __future__ import annotations

from pathlib import Path

from rover_store.errors import NotFound

NAMES = ("sft", "rl")


def recipe(name: str) -> Path:
    """The file of a recipe. NotFound lists the known ones."""
    if name not in NAMES:
        raise NotFound("recipe", name, hint=f"known: {', '.join(NAMES)}")
    return Path(__file__).with_name(f"{name}.toml")
