"""Pages that stand by themselves: of a run (`write`), and of a comparison (`compared.html`). No network, no scripts."""

from __future__ import annotations

from pathlib import Path

from rover_store.errors import UsageError

#: where a run's page lies unless told otherwise
NAME = "report.html"


def page_of(run: Path) -> str:
    """The page of a run's folder. NotFound or PackageError where the folder holds no run that can be read."""
    from rover_train.report.page import html
    from rover_train.report.record import read

    return html(read(run))


def write(run: Path, out: Path | None = None) -> Path:
    """Write the page, by default as RUN/report.html, and say where it lies. UsageError where that cannot be done."""
    text = page_of(run)
    place = out or run / NAME
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{place}: cannot be written: {error.strerror}") from None
    return place
