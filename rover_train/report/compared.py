"""A comparison as a page that stands by itself: success of each side, differences by family and difficulty."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rover.bench.intervals import Estimate, Paired
from rover_train.compare import Against, Comparison
from rover_train.report.markup import Html, page, table, tag


def html(found: Comparison) -> str:
    """The page. Equal comparisons give equal bytes."""
    base = found.sides[0]
    title = f"{', '.join(s.name for s in found.sides[1:])} against {base.name}"
    body: list[object] = [
        tag("h1", title),
        tag("p", f"revision {base.found.revision[:12]}; pairs of equal package, attempt and seed; intervals are 95 %, "
            "clustered by workspace", class_="soft"),
        *(tag("p", f"unequal: {text}", class_="bad") for text in found.unequal),
        tag("h2", "Success"),
        _sides(found),
        *(piece for one in found.against for piece in _against(one, base.name)),
    ]  # fmt: skip
    return page(title, *body)


def _sides(found: Comparison) -> Html:
    rows = []
    for side in found.sides:
        said: dict[str, Any] = side.found.summary()
        value = said["success"]["value"]
        wide = tag("span", class_="share", style=f"width:{240 * (value or 0.0):.0f}px")
        outcomes = ", ".join(f"{n} {o}" for o, n in said["outcomes"].items())
        rows.append((side.name, side.found.method, _share(said["success"]), wide, outcomes))
    return table(("run", "method", "success", "", "outcomes"), rows, right=(2,))


def _against(one: Against, base: str) -> Iterator[Html]:
    yield tag("h2", f"{one.name} against {base}")
    rows = [_row("all packages", one.success)]
    rows += [_row(f"family {name}", p) for name, p in one.families.items()]
    rows += [_row(f"difficulty {name}", p) for name, p in one.difficulties.items()]
    yield table(("packages", "wins", "losses", "ties", "points", ""), rows, right=(1, 2, 3, 4))
    told = f"{one.pairs} pairs; score {_signed(one.score, 3, 1)}"
    told += f"; {one.left_out} left out (infra_error or verifier_error)" if one.left_out else ""
    told += f"; {one.unpaired} without a partner" if one.unpaired else ""
    yield tag("p", told, class_="soft")


def _row(name: str, found: Paired) -> tuple[object, ...]:
    return name, found.wins, found.losses, found.ties, _signed(found.difference, 1, 100), _bar(found.difference)


def _bar(found: Estimate) -> Html:
    """The difference from the middle, its interval as a line; the whole is -100 to 100 points."""
    if found.value is None:
        return Html("")
    side = f"left:{50 + 50 * min(0.0, found.value):.1f}%;width:{50 * abs(found.value):.1f}%"
    kind = "minus" if found.value < 0 else None
    span: object = ""
    if found.low is not None and found.high is not None:
        at = f"left:{50 + 50 * found.low:.1f}%;width:{50 * (found.high - found.low):.1f}%"
        span = tag("u", style=at)
    return tag("span", tag("i", class_=kind, style=side), span, tag("s"), class_="bar span")


def _signed(found: Estimate, digits: int, scale: float) -> str:
    if found.value is None:
        return ""
    text = f"{scale * found.value:+.{digits}f}"
    if found.low is None or found.high is None:
        return text
    return f"{text} [{scale * found.low:+.{digits}f}, {scale * found.high:+.{digits}f}]"


def _share(found: dict[str, Any]) -> str:
    if found["value"] is None:
        return ""
    text = f"{100 * found['value']:.1f} %"
    return text if found["low"] is None else f"{text} [{100 * found['low']:.1f}, {100 * found['high']:.1f}]"
