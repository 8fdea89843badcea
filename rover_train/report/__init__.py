"""Pages that stand by themselves: of a run (`write`), and of a comparison (`compared.html`). No network, no scripts."""

from __future__ import annotations

from pathlib import Path

#: where a run's page lies unless told otherwise
NAME = "report.html"


def write(run: Path, out: Path | None = None) -> Path:
    """Write the page of a run's folder, by default RUN/report.html, and say where it lies.

    NotFound or PackageError where the folder holds no run that can be read; OSError where it cannot be written.
    """
    from rover_train.report.page import html
    from rover_train.report.record import read

    text = html(read(run))
    place = out or run / NAME
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")
    return place
