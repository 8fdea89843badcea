"""The curves of a comparison as a picture: one panel a set, the mean of the seeds as a line, their range as a band."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rover_store.errors import UsageError

#: step, mean, lowest, highest
Band = Sequence[tuple[int, float, float, float]]

#: colour and line of each method; they differ in both, so that a print without colour can be read
LOOKS = {
    "grpo": ("#1a202c", "-"),
    "vtca-grpo": ("#2b6cb0", "-"),
    "vtca-even": ("#c05621", "--"),
    "vtca-transitive": ("#2c7a7b", "-."),
    "dr-grpo": ("#6b46c1", ":"),
    "gdpo": ("#b83280", "--"),
    "gigpo": ("#2f855a", "-."),
    "gigpo-0": ("#2f855a", ":"),
}
OTHER = ("#4a5568", "-")


def draw(sets: Mapping[str, Mapping[str, Band]], beside: Path, *, label: str) -> list[Path]:
    """`beside`.svg and .png: success on validation packages in per cent over steps. Equal bands give equal SVG bytes.

    UsageError where matplotlib is missing.
    """
    try:
        import matplotlib
    except ImportError:
        raise UsageError("pictures need matplotlib", hint="pip install 'workrover[report]'") from None
    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "rover", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(4.4 * max(1, len(sets)), 3.4), layout="constrained")
        panels = figure.subplots(1, max(1, len(sets)), squeeze=False)[0]
        for axes, (name, bands) in zip(panels, sets.items(), strict=False):
            for method, band in bands.items():
                colour, line = LOOKS.get(method, OTHER)
                steps = [b[0] for b in band]
                axes.plot(steps, [100 * b[1] for b in band], line, color=colour, label=method, linewidth=1.8, zorder=3)
                low, high = [100 * b[2] for b in band], [100 * b[3] for b in band]
                axes.fill_between(steps, low, high, color=colour, alpha=0.13, linewidth=0, zorder=2)
            axes.set_title(name, loc="left", fontsize=10)
            axes.set_xlabel("step")
            axes.set_ylim(0, 100)
            axes.grid(color="#e2e8f0", zorder=0)
            for side in ("top", "right"):
                axes.spines[side].set_visible(False)
        panels[0].set_ylabel(label)
        panels[0].legend(frameon=False, loc="upper left")
        made = [beside.with_name(f"{beside.name}{ending}") for ending in (".svg", ".png")]
        figure.savefig(made[0], metadata={"Date": None})
        figure.savefig(made[1], dpi=150)
    return made
