"""What a run looks like while it goes on: the figures of the live table, from the rows of the log alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

#: label, keys of a row in the order they are tried, form
_FIGURES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("loss", ("loss",), "{:.4f}"),
    ("reward", ("reward",), "{:.3f}"),
    ("success", ("success",), "{:.1%}"),
    ("advantage", ("advantage",), "{:+.3f}"),
    ("its spread", ("advantage_spread",), "{:.3f}"),
    ("tied groups", ("tied_groups",), "{:.0%}"),
    ("turns with credit", ("credit_turns",), "{:.0%}"),
    ("KL", ("kl", "kl_teacher"), "{:.5f}"),
    ("clipped", ("clip_share",), "{:.2%}"),
    ("entropy", ("entropy",), "{:.3f}"),
    ("turns", ("turns",), "{:.1f}"),
    ("tokens", ("tokens",), "{:.0f}"),
    ("infra errors", ("infra_errors",), "{:.0f}"),
    ("verifier errors", ("verifier_errors",), "{:.0f}"),
    ("policy errors", ("policy_errors",), "{:.0f}"),
    ("gradient norm", ("grad_norm",), "{:.3f}"),
    ("learning rate", ("lr",), "{:.2e}"),
)
#: how much of the old pace stays, step by step
_INERTIA = 0.9


class Figure(NamedTuple):
    """One line of the table."""

    label: str
    value: str


class Watch:
    """Takes rows as they are written; says what to show."""

    def __init__(self, total: int = 0, done: int = 0) -> None:
        self.total = total
        self.step = done
        self.row: Mapping[str, Any] = {}
        self.scores: Mapping[str, Any] = {}
        #: step and success of the best checkpoint, as the trainer chose it
        self.best: tuple[int, float] | None = None
        self.warning = ""
        self._pace: float | None = None

    def __call__(self, row: Mapping[str, Any]) -> None:
        """A row of the log."""
        self.step = max(self.step, int(row["step"]))
        if row["kind"] == "train":
            self.row = row
            self.total = int(row.get("of", self.total))
            seconds = _seconds(row)
            if seconds is not None:
                self._pace = seconds if self._pace is None else _INERTIA * self._pace + (1 - _INERTIA) * seconds
        elif row["kind"] == "eval":
            self.scores = row
            if row.get("best") and row.get("success") is not None:
                self.best = (int(row["step"]), float(row["success"]))
        elif row["kind"] == "warning":
            self.warning = f"step {row['step']}: {row.get('text', '')}"

    @property
    def ended(self) -> bool:
        """Whether the last row was that of the last step."""
        return bool(self.total) and self.step >= self.total

    def left(self) -> float | None:
        """Seconds that the steps to come will take, as the last ones did; evaluation is not counted."""
        return None if self._pace is None or not self.total else self._pace * max(0, self.total - self.step)

    def figures(self) -> list[Figure]:
        """What there is to show, in a fixed order."""
        out = [Figure("step", f"{self.step}/{self.total}" if self.total else str(self.step))]
        for label, keys, form in _FIGURES:
            value = next((self.row[k] for k in keys if self.row.get(k) is not None), None)
            if value is not None:
                out.append(Figure(label, form.format(value)))
        if (speed := dict(self.row.get("time", {})).get("tokens_s")) is not None:
            out.append(Figure("tokens a second", f"{speed:.0f}"))
        out += [Figure(f"validation {k}", v) for k, v in self._scores()]
        if (left := self.left()) is not None:
            out.append(Figure("time left", duration(left)))
        return out + ([Figure("warning", self.warning)] if self.warning else [])

    def _scores(self) -> list[tuple[str, str]]:
        out = []
        if (success := self.scores.get("success")) is not None:
            best = f" (best {self.best[1]:.1%} at step {self.best[0]})" if self.best else ""
            out.append(("success", f"{success:.1%}{best}"))
        if (loss := self.scores.get("loss")) is not None:
            out.append(("loss", f"{loss:.4f}"))
        return out


def line(row: Mapping[str, Any], watch: Watch) -> str:
    """A row in one plain line, for a log that nobody watches."""
    if row["kind"] == "warning":
        return f"warning at step {row['step']}: {row.get('text', '')}"
    shown = []
    for label, keys, form in _FIGURES:
        value = next((row[k] for k in keys if row.get(k) is not None), None)
        if value is not None and (label not in ("learning rate", "gradient norm") or row["kind"] == "train"):
            shown.append(f"{label} {form.format(value)}")
    left = watch.left()
    shown += [f"{duration(left)} left"] if left is not None and row["kind"] == "train" else []
    name = {"train": "step", "eval": "evaluation at step"}.get(str(row["kind"]), f"{row['kind']} at step")
    of = f"/{watch.total}" if watch.total else ""
    return f"{name} {row['step']}{of}: {', '.join(shown)}"


def duration(seconds: float) -> str:
    """`45 s`, `3 min`, `2 h 05 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def _seconds(row: Mapping[str, Any]) -> float | None:
    found = dict(row.get("time", {}))
    value = found.get("step", found.get("seconds"))
    return None if value is None else float(value)
