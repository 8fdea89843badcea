"""Lines over whole numbers, in panels above each other, as SVG. Equal values give equal bytes; nothing is needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

#: a point without a value is a gap
Point = tuple[int, float | None]


@dataclass(frozen=True, slots=True)
class Series:
    """One line. `colour` as in CSS; `mark` is o, s or ^."""

    name: str
    points: tuple[Point, ...]
    colour: str
    mark: str = "o"

    @property
    def known(self) -> list[tuple[int, float]]:
        return [(x, y) for x, y in self.points if y is not None]


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines on one scale, from 0 to `top`."""

    label: str
    series: tuple[Series, ...]
    top: float
    ticks: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """Panels that share the axis of x. `names`: what stands below each x."""

    title: str
    panels: tuple[Panel, ...]
    names: tuple[str, ...]
    label: str = ""  # below them


WIDTH, HEIGHT = 720, 200
#: width of a line and radius of its marks, so that lines on one another are all seen
SIZES = ((6.0, 8.0), (4.0, 6.0), (2.5, 4.5), (1.2, 3.0))
_LEFT, _RIGHT, _TOP, _GAP, _BOTTOM = 56, 20, 44, 46, 40
_INK, _GRID = "#1a202c", "#e2e8f0"


def svg(chart: Chart) -> str:
    """The chart as one SVG document."""
    height = _TOP + len(chart.panels) * (HEIGHT + _GAP) + _BOTTOM
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12" fill="{_INK}">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        _text(_LEFT, 22, chart.title, size=14),
    ]
    for number, panel in enumerate(chart.panels):
        top = _TOP + number * (HEIGHT + _GAP) + _GAP - 14
        out += _panel(panel, chart.names, top, last=number == len(chart.panels) - 1)
    out.append(_text(WIDTH / 2, height - 14, chart.label, anchor="middle"))
    return "\n".join([*out, "</svg>"]) + "\n"


def _panel(panel: Panel, names: Sequence[str], top: float, *, last: bool) -> Iterator[str]:
    yield from _legend(panel.series, top - 12)
    for tick in panel.ticks:
        y = _y(tick, panel, top)
        yield f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{_GRID}"/>'
        yield _text(_LEFT - 8, y + 4, f"{tick:g}", anchor="end")
    yield (
        f'<text x="14" y="{top + HEIGHT / 2:.1f}" text-anchor="middle" '
        f'transform="rotate(-90 14 {top + HEIGHT / 2:.1f})">{escape(panel.label)}</text>'
    )
    for x, name in enumerate(names) if last else ():
        yield _text(_x(x, names), top + HEIGHT + 20, name, anchor="middle")
    for number, series in enumerate(panel.series):
        width, radius = SIZES[min(number, len(SIZES) - 1)]
        points = [(_x(x, names), _y(y, panel, top)) for x, y in series.known]
        if len(points) > 1:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            yield f'<polyline points="{path}" fill="none" stroke="{series.colour}" stroke-width="{width:g}"/>'
        yield from (_mark(x, y, series, radius) for x, y in points)


def _legend(series: Sequence[Series], y: float) -> Iterator[str]:
    x = float(_LEFT)
    for one in series:
        yield _mark(x + 5, y - 4, one, 5.0)
        yield _text(x + 15, y, one.name)
        x += 38 + 6.6 * len(one.name)


def _mark(x: float, y: float, series: Series, r: float) -> str:
    if series.mark == "s":
        at = f'x="{x - r:.1f}" y="{y - r:.1f}" width="{2 * r:g}" height="{2 * r:g}"'
        return f'<rect {at} fill="{series.colour}"/>'
    if series.mark == "^":
        return f'<path d="M{x:.1f} {y - r:.1f}l{r:g} {2 * r:g}h-{2 * r:g}z" fill="{series.colour}"/>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:g}" fill="{series.colour}"/>'


def _text(x: float, y: float, text: str, *, size: int = 12, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">{escape(text)}</text>'


def _x(x: int, names: Sequence[str]) -> float:
    room = WIDTH - _LEFT - _RIGHT - 48
    return _LEFT + 24 + (room * x / (len(names) - 1) if len(names) > 1 else room / 2)


def _y(value: float, panel: Panel, top: float) -> float:
    return top + HEIGHT * (1 - value / panel.top)
