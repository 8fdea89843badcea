"""What libraries say in passing, as notes on stderr."""

from __future__ import annotations

import logging

from rover.cli.output import note


class _Notes(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        note(record.getMessage())


def show(name: str) -> None:
    """From now on show what this logger says."""
    logger = logging.getLogger(name)
    if not any(isinstance(handler, _Notes) for handler in logger.handlers):
        logger.addHandler(_Notes())
        logger.setLevel(logging.INFO)
        logger.propagate = False
