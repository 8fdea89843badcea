"""Small line charts as SVG: one panel a quantity, steps along the axis. Equal values give equal bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rover_train.report.markup import Html, join, tag

Point = tuple[int, float]

WIDTH, HEIGHT = 360, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 12, 38, 26
BLUE, ORANGE, GREEN, RED, VIOLET = "#2b6cb0", "#c05621", "#2f855a", "#c53030", "#6b46c1"
COLOURS = (BLUE, ORANGE, GREEN, VIOLET, RED)
#: a line of more points is drawn faint, with its running mean over it
_NOISY = 30
#: what is drawn as if it were no larger, and as if it were zero
_LARGEST, _LEAST = 1e100, 1e-100
#: points that a line keeps
_MOST = 600


@dataclass(frozen=True, slots=True)
class Line:
    """One line. `band`: low and high of each point; `dots`: points are marked, as few and far between ones are."""

    name: str
    points: tuple[Point, ...]
    colour: str
    band: tuple[tuple[int, float, float], ...] = ()
    dots: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines on one scale. `floor`, `ceiling`: what the scale must hold; `share`: values in per cent."""

    title: str
    lines: tuple[Line, ...]
    floor: float | None = None
    ceiling: float | None = None
    share: bool = False


def svg(panel: Panel) -> Html:
    """The panel; a screen reader gets its title."""
    xs = [x for line in panel.lines for x, _ in line.points]
    left, right = min(xs, default=0), max(xs, default=1)
    low, high, ticks = scale(*_bounds(panel))
    at = _Place(left, max(right, left + 1), low, high)
    parts = [_label(_LEFT - 40, 14, panel.title, size=13, bold=True), *_legend(panel.lines), *_axes(panel, ticks, at)]
    for line in panel.lines:
        parts += _drawn(line, at)
    return tag(
        "svg", *parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=panel.title,
        xmlns="http://www.w3.org/2000/svg",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Place:
    """Where values lie on the picture."""

    left: int
    right: int
    low: float
    high: float

    def x(self, step: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * (step - self.left) / (self.right - self.left)

    def y(self, value: float) -> float:
        inside = min(max(value, self.low), self.high)
        return _TOP + (HEIGHT - _TOP - _BOTTOM) * (1 - (inside - self.low) / (self.high - self.low))


def _bounds(panel: Panel) -> tuple[float, float]:
    """Lowest and highest value; of noisy lines what lies between the outermost hundredths."""
    values = [v for line in panel.lines for v in _inner([y for _, y in line.points])]
    values += [v for line in panel.lines for _, low, high in line.band for v in (low, high)]
    values += [v for v in (panel.floor, panel.ceiling) if v is not None]
    return (min(values), max(values)) if values else (0.0, 1.0)


def _inner(values: list[float]) -> list[float]:
    cut = len(values) // 100
    return sorted(values)[cut : len(values) - cut] if cut else values


def scale(low: float, high: float) -> tuple[float, float, list[float]]:
    """Round bounds that hold both values, and the ticks between them. Values that differ by rounding are one."""
    low, high = (min(max(value, -_LARGEST), _LARGEST) for value in (low, high))
    if high - low <= max(1e-9 * max(abs(low), abs(high)), _LEAST):
        low = 0.0 if abs(low) < _LEAST else low
        high = low
    if high <= low:
        low, high = (low - 0.5, high + 0.5) if low == 0 else (low - abs(low) / 2, low + abs(low) / 2)
    raw = (high - low) / 3
    power = 10.0 ** math.floor(math.log10(raw))
    unit = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw * 0.999)
    first, last = math.floor(low / unit + 1e-9), math.ceil(high / unit - 1e-9)
    ticks = [n * unit for n in range(first, last + 1)]
    return ticks[0], ticks[-1], ticks


def _axes(panel: Panel, ticks: Sequence[float], at: _Place) -> Iterator[Html]:
    for tick in ticks:
        y = f"{at.y(tick):.1f}"
        yield tag("line", x1=_LEFT, x2=WIDTH - _RIGHT, y1=y, y2=y, stroke="#e2e8f0")
        yield _label(_LEFT - 6, at.y(tick) + 4, _number(tick, panel.share, ticks), anchor="end")
    middle = (at.left + at.right) // 2
    for step, anchor in ((at.left, "start"), (middle, "middle"), (at.right, "end")):
        if anchor != "middle" or at.right - at.left >= 4:
            yield _label(at.x(step), HEIGHT - 8, str(step), anchor=anchor)


def _number(value: float, share: bool, ticks: Sequence[float]) -> str:
    """A tick, with as many digits as tell it from its neighbours."""
    unit = (ticks[1] - ticks[0]) * (100 if share else 1)
    value = value * 100 if share else value
    most = max(abs(t) for t in ticks) * (100 if share else 1)
    if most and (most >= 1e5 or most < 1e-3):
        return f"{value:.2g}" if value else "0"
    digits = max(0, -math.floor(math.log10(unit) + 1e-9))
    digits += round(unit * 10**digits, 6) % 1 > 1e-6
    return f"{value:.{digits}f}{' %' if share else ''}"


def _legend(lines: Sequence[Line]) -> Iterator[Html]:
    """Names below the title, where there is more than one."""
    if len(lines) < 2:
        return
    x = float(_LEFT - 40)
    for line in lines:
        yield tag("rect", x=f"{x:.0f}", y=23, width=9, height=3, fill=line.colour)
        yield _label(x + 13, 28, line.name, colour="#5a6577")
        x += 24 + 5.7 * len(line.name)


def _drawn(line: Line, at: _Place) -> Iterator[Html]:
    points = thinned(line.points)
    if line.band:
        edge = [(x, high) for x, _, high in line.band] + [(x, low) for x, low, _ in reversed(line.band)]
        yield tag("polygon", points=_path(edge, at), fill=line.colour, opacity="0.15")
    noisy = len(points) > _NOISY and not line.dots
    if len(points) > 1:
        yield _line(points, at, line.colour, faint=noisy)
    if noisy:
        yield _line(smoothed(points), at, line.colour)
    if line.dots or len(points) == 1:
        for x, y in points:
            yield tag("circle", cx=f"{at.x(x):.1f}", cy=f"{at.y(y):.1f}", r=2.6, fill=line.colour)


def _line(points: Sequence[Point], at: _Place, colour: str, *, faint: bool = False) -> Html:
    return tag(
        "polyline", points=_path(points, at), fill="none", stroke=colour, stroke_width="1" if faint else "1.8",
        opacity="0.3" if faint else None, stroke_linejoin="round",
    )  # fmt: skip


def thinned(points: Sequence[Point]) -> list[Point]:
    """At most so many points as a picture can show: means of neighbours."""
    if len(points) <= _MOST:
        return list(points)
    size = math.ceil(len(points) / _MOST)
    cut = (points[n : n + size] for n in range(0, len(points), size))
    return [(some[len(some) // 2][0], sum(y for _, y in some) / len(some)) for some in cut]


def smoothed(points: Sequence[Point]) -> list[Point]:
    """Running mean over a window of a twelfth of the line, cut off at its ends."""
    half = max(1, len(points) // 24)
    sums = [0.0]
    for _, y in points:
        sums.append(sums[-1] + y)
    out = []
    for n, (x, _) in enumerate(points):
        first, last = max(0, n - half), min(len(points), n + half + 1)
        out.append((x, (sums[last] - sums[first]) / (last - first)))
    return out


def _path(points: Sequence[Point], at: _Place) -> Html:
    return join((f"{at.x(x):.1f},{at.y(y):.1f}" for x, y in points), " ")


def _label(
    x: float, y: float, said: str, *, size: int = 11, anchor: str = "start", bold: bool = False, colour: str = "#1a202c"
) -> Html:
    return tag(
        "text", said, x=f"{x:.1f}", y=f"{y:.1f}", font_size=size, text_anchor=anchor, fill=colour,
        font_weight="600" if bold else None, font_family="system-ui,sans-serif",
    )  # fmt: skip
