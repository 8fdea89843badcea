"""An evolution as a picture: rates and counts over its generations, as SVG, and as PNG where matplotlib is there."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from rover.ops.line_chart import SIZES, Chart, Panel, Series, svg

if TYPE_CHECKING:
    from rover.ops.generations import Run

#: the extra that brings matplotlib
EXTRA = "report"


def draw(run: Run, folder: Path) -> tuple[list[Path], str]:
    """Write evolve.svg and evolve.png. Returns what was written, and a line where the PNG could not be."""
    picture = chart(run)
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / "evolve.svg"
    beside.write_text(svg(picture), encoding="utf-8")
    if not _available():
        return [beside], f"no PNG: it needs matplotlib; pip install 'workrover[{EXTRA}]'"
    return [beside, _png(picture, folder / "evolve.png")], ""


def chart(run: Run) -> Chart:
    """Success from before the first generation on; the other measures belong to a generation each."""
    made = [g for g in run.generations if g.head]
    success = [(0, _percent(made[0].success_before))] if made else []
    success += [(g.number, _percent(g.success)) for g in made]
    rates = (
        Series("task success", tuple(success), "#2b6cb0", "o"),
        Series("SRR", tuple((g.number, _percent(g.srr)) for g in made), "#c05621", "s"),
        Series("SRR so far", tuple((g.number, _percent(run.srr_so_far(g.number))) for g in made), "#d69e2e", "o"),
        Series("audit pass", tuple((g.number, _percent(g.audit_pass)) for g in made), "#2f855a", "^"),
    )
    counts = (
        Series("packages triggered", tuple((g.number, float(g.triggered)) for g in made), "#718096", "o"),
        Series("packages resolved", tuple((g.number, float(g.resolved)) for g in made), "#c05621", "s"),
        Series("packages changed", tuple((g.number, float(len(g.changed))) for g in made), "#6b46c1", "^"),
    )
    most = max([1.0, *(y for s in counts for _, y in s.known)])
    step = max(1, math.ceil(most / 4))
    top = step * math.ceil(most / step)
    names = ("start", *(str(g.number) for g in made))
    ticks = tuple(float(t) for t in range(0, top + 1, step))
    panels = (Panel("per cent", rates, 100.0, (0.0, 25.0, 50.0, 75.0, 100.0)), Panel("packages", counts, top, ticks))
    return Chart(f"Evolution of {run.branch} from {run.start[:10]}", panels, names, "generation")


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def _available() -> bool:
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def _png(picture: Chart, path: Path) -> Path:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"font.size": 9}):
        figure = Figure(figsize=(7.2, 5.4))
        figure.subplots_adjust(left=0.09, right=0.97, top=0.88, bottom=0.09, hspace=0.3)
        plots = figure.subplots(len(picture.panels), 1, sharex=True, squeeze=False)[:, 0]
        for axes, panel in zip(plots, picture.panels, strict=True):
            for series, (line, radius) in zip(panel.series, SIZES, strict=False):
                xs, ys = [x for x, _ in series.known], [y for _, y in series.known]
                axes.plot(
                    xs, ys, marker=series.mark, color=series.colour, label=series.name, linewidth=line * 0.75,
                    markersize=radius * 1.5, clip_on=False, zorder=3,
                )  # fmt: skip
            axes.set_ylim(0, panel.top)
            axes.set_yticks(panel.ticks)
            axes.set_ylabel(panel.label)
            axes.grid(axis="y", color="#e2e8f0", zorder=0)
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=len(panel.series), frameon=False)
            for side in ("top", "right", "left"):
                axes.spines[side].set_visible(False)
        plots[-1].set_xticks(range(len(picture.names)), picture.names)
        plots[-1].set_xlim(-0.2, len(picture.names) - 0.8)
        plots[-1].set_xlabel(picture.label)
        figure.suptitle(picture.title, x=0.02, ha="left", fontsize=11)
        figure.savefig(path, dpi=150, metadata={"Software": None})
    return path
