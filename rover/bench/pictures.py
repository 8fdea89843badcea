"""Bar charts with intervals, as SVG and PNG. They need matplotlib, which the extra `report` brings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rover_store.errors import UsageError


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar in per cent; `low` and `high` are its interval. `note` stands beside it."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    note: str = ""
    strong: bool = False


def available() -> bool:
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def bars(rows: Sequence[Bar], title: str, label: str, beside: Path) -> list[Path]:
    """Horizontal bars, the first on top, written as `beside`.svg and .png. UsageError where matplotlib is missing.

    Equal rows give equal SVG bytes.
    """
    if not available():
        raise UsageError("pictures need matplotlib", hint="pip install 'workrover[report]'")
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "rover", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(7.2, 1.1 + 0.3 * max(1, len(rows))), layout="constrained")
        axes = figure.add_subplot()
        for place, row in enumerate(rows):
            axes.barh(place, row.value, 0.66, color="#2b6cb0" if row.strong else "#a0b4c8", zorder=2)
            if row.low is not None and row.high is not None:
                axes.plot([row.low, row.high], [place, place], color="#1a202c", linewidth=1.4, zorder=3)
                for end in (row.low, row.high):
                    axes.plot([end, end], [place - 0.14, place + 0.14], color="#1a202c", linewidth=1.4, zorder=3)
            right = max(row.value, row.high or 0.0)
            axes.annotate(
                row.note or f"{row.value:.1f}", (right, place), (5, 0), textcoords="offset points", va="center"
            )
        axes.set_yticks(range(len(rows)), [row.name for row in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(0, 100)
        axes.set_xlabel(label)
        axes.set_title(title, loc="left", fontsize=10)
        axes.grid(axis="x", color="#e2e8f0", zorder=0)
        axes.tick_params(axis="y", length=0)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        made = [beside.with_name(f"{beside.name}{ending}") for ending in (".svg", ".png")]
        figure.savefig(made[0], metadata={"Date": None})
        figure.savefig(made[1], dpi=150)
    return made
