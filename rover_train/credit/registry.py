"""Credit schemes by name: those of this package, and those that are installed (entry points `rover_train.credit`).

An entry point names what takes CreditSettings and gives a CreditScheme.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

from pydantic import ValidationError

from rover_store.errors import UsageError
from rover_train.credit.dr_grpo import DrGrpo
from rover_train.credit.gdpo import Gdpo
from rover_train.credit.gigpo import Gigpo
from rover_train.credit.grpo import Grpo
from rover_train.credit.protocol import CreditScheme
from rover_train.credit.settings import Aggregation, CreditSettings
from rover_train.credit.vtca_even import VtcaEven
from rover_train.credit.vtca_grpo import VtcaGrpo

GROUP = "rover_train.credit"
_BUILT_IN: dict[str, Callable[[CreditSettings], CreditScheme]] = {
    "grpo": Grpo,
    "dr-grpo": DrGrpo,
    "gdpo": Gdpo,
    "gigpo": Gigpo,
    "vtca-grpo": VtcaGrpo,
    "vtca-even": VtcaEven,
}


def scheme(name: str, **settings: Any) -> CreditScheme:
    """The scheme of this name with these settings (fields of CreditSettings; `lam` or `lambda`).

    UsageError for an unknown name, an unknown setting, or a value out of range.
    """
    try:
        checked = CreditSettings(**settings)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"credit: {where}: {first['msg']}") from None
    return with_settings(name, checked)


def with_settings(name: str, settings: CreditSettings) -> CreditScheme:
    """The same, from settings that are checked already."""
    if name in _BUILT_IN:
        return _BUILT_IN[name](settings)
    for point in entry_points(group=GROUP, name=name):
        made = point.load()(settings)
        if not isinstance(made, CreditScheme):
            raise UsageError(f"credit scheme {name}: {point.value} gives no CreditScheme")
        return made
    raise UsageError(f"no credit scheme is called {name!r}", hint=f"known: {', '.join(names())}")


def names() -> tuple[str, ...]:
    """All schemes: the built-in ones in the order of this file, then installed ones."""
    return (*_BUILT_IN, *sorted({p.name for p in entry_points(group=GROUP)} - set(_BUILT_IN)))


def aggregation(made: CreditScheme, settings: CreditSettings) -> Aggregation:
    """How token losses are averaged under a scheme: as the settings say, else the scheme's own way, else by turn."""
    if settings.aggregation:
        return settings.aggregation
    own: Aggregation = getattr(made, "aggregation", "turn")
    return own
