"""From the rows of a log to curves: which quantities share a panel, and how they are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rover_train.report.curves import BLUE, COLOURS, ORANGE, Line, Panel

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """One panel: keys of train rows with their names, and the key of eval rows that belongs there."""

    title: str
    keys: tuple[tuple[str, str], ...]
    evaluated: str = ""
    spread: str = ""  # key of the standard deviation around the first line
    share: bool = False
    floor: float | None = None
    ceiling: float | None = None


WANTED = (
    Wanted("Success", (("success", "training rollouts"),), "success", share=True, floor=0.0, ceiling=1.0),
    Wanted("Score of the verifier", (("score", "training rollouts"),), "score", floor=0.0, ceiling=1.0),
    Wanted("Reward, with its spread", (("reward", "reward"),), spread="reward_spread"),
    Wanted("Loss", (("loss", "training"),), "loss"),
    Wanted("Advantage of a turn, mean", (("advantage", "advantage"),), floor=0.0),
    Wanted("Advantage of a turn, spread", (("advantage_spread", "spread"),), floor=0.0),
    Wanted(
        "Tied groups, turns with credit", (("tied_groups", "tied groups"), ("credit_turns", "turns with credit")),
        share=True, floor=0.0, ceiling=1.0,
    ),
    Wanted("KL of an update", (("kl", "kl"),), floor=0.0),
    Wanted("KL to the reference", (("kl_reference", "kl"),), floor=0.0),
    Wanted("KL to the teacher", (("kl_teacher", "kl"),), floor=0.0),
    Wanted("Clipped tokens", (("clip_share", "clipped"),), share=True, floor=0.0),
    Wanted("Entropy, nats a token", (("entropy", "entropy"),), floor=0.0),
    Wanted("Turns of a rollout", (("turns", "turns"),), "turns", floor=0.0),
    Wanted("Tokens", (("tokens", "tokens"),), floor=0.0),
    Wanted("Norm of the gradient", (("grad_norm", "norm"),), floor=0.0),
    Wanted("Learning rate", (("lr", "learning rate"),), floor=0.0),
    Wanted(
        "Rollouts that ended in an error",
        (("policy_errors", "policy"), ("infra_errors", "infra"), ("verifier_errors", "verifier"),
         ("dropped_groups", "groups dropped")), floor=0.0, ceiling=1.0,
    ),
    Wanted("Tokens a second", (("time.tokens_s", "tokens"),), floor=0.0),
)  # fmt: skip


def panels(train: Sequence[Row], evaluated: Sequence[Row]) -> list[Panel]:
    """The panels that have something to show, in a fixed order."""
    made = (_panel(wanted, train, evaluated) for wanted in WANTED)
    return [panel for panel in made if any(line.points for line in panel.lines)]


#: numbers beyond it are as good as infinite
_LARGEST = 1e300


def _panel(wanted: Wanted, train: Sequence[Row], evaluated: Sequence[Row]) -> Panel:
    lines = []
    for number, (key, name) in enumerate(wanted.keys):
        points = _points(train, key)
        if points:
            band = _spread(train, key, wanted.spread) if wanted.spread and not number else ()
            lines.append(Line(name, points, COLOURS[number] if number != 1 else ORANGE, band))
    points = _points(evaluated, wanted.evaluated) if wanted.evaluated else ()
    if points:
        colour = ORANGE if lines else BLUE
        lines.append(Line("validation", points, colour, _interval(evaluated, wanted.evaluated), dots=True))
    return Panel(wanted.title, tuple(lines), wanted.floor, wanted.ceiling, wanted.share)


def number(row: Row, key: str) -> float | None:
    """A finite number of a row; `time.tokens_s` is one below `time`."""
    value: Any = row
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _LARGEST:
        return None
    return float(value)


def _points(rows: Sequence[Row], key: str) -> tuple[tuple[int, float], ...]:
    found = ((int(row["step"]), number(row, key)) for row in rows)
    return tuple((step, value) for step, value in found if value is not None)


def _spread(rows: Sequence[Row], key: str, spread: str) -> tuple[tuple[int, float, float], ...]:
    out = []
    for row in rows:
        value, wide = number(row, key), number(row, spread)
        if value is not None and wide is not None:
            out.append((int(row["step"]), value - wide, value + wide))
    return tuple(out)


def _interval(rows: Sequence[Row], key: str) -> tuple[tuple[int, float, float], ...]:
    """The interval of success, where every evaluation has one."""
    if key != "success":
        return ()
    found = [(int(row["step"]), number(row, "low"), number(row, "high")) for row in rows]
    return tuple((x, low, high) for x, low, high in found if low is not None and high is not None)
