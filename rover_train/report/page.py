"""The page of a run: what it is, what came of it, curves, scores, errors apart, rollouts turn by turn, config."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rover_train.evaluation import ERRORS, Evaluation
from rover_train.report import trajectory
from rover_train.report.curves import svg
from rover_train.report.markup import Html, join, page, table, tag
from rover_train.report.panels import number, panels
from rover_train.report.record import RunFiles

#: outcomes in the order in which they are told
OUTCOMES = ("passed", "failed", "policy_error", "infra_error", "verifier_error")
#: lines of a table that may grow with the run
_MOST_ROWS = 60


def html(run: RunFiles) -> str:
    """The page. Equal folders give equal bytes."""
    train, evaluated = run.rows("train"), run.rows("eval")
    shown = panels(train, evaluated)
    method, revision = str(run.settings.get("method", "")), str(run.settings.get("revision", ""))
    body: list[object] = [
        tag("h1", f"{run.name}: {method} on {revision[:12]}"),
        tag("p", _line(run), class_="soft"),
        tag("div", *_tiles(run, train, evaluated), class_="tiles"),
        *(tag("p", said, class_="bad") for said in run.missing),
        tag("h2", "Curves"),
        tag("div", *(svg(panel) for panel in shown), class_="curves") if shown else _none("No step is logged yet."),
        *_scores(evaluated),
        *_held_out(run),
        *_errors(run, train),
        *_time(train),
        *_rollouts(run),
        *_config(run),
    ]
    return page(f"{run.name}: {method}", *body)


def _none(said: str) -> Html:
    return tag("p", said, class_="soft")


def _line(run: RunFiles) -> str:
    model = run.settings.get("model", {}).get("spec", "") if isinstance(run.settings.get("model"), dict) else ""
    parts = [f"model {model}" if model else "", f"seed {run.settings.get('seed', 0)}"]
    counts = run.facts.get("packages")
    if isinstance(counts, dict):
        parts.append("packages: " + ", ".join(f"{n} {k.replace('_', '-')}" for k, n in sorted(counts.items())))
    return " · ".join(p for p in parts if p)


# --- at a glance ---------------------------------------------------------------------------------------------
def _tiles(run: RunFiles, train: Sequence[Mapping[str, Any]], evaluated: Sequence[Mapping[str, Any]]) -> Iterator[Html]:
    steps = max((int(row["step"]) for row in run.log), default=0)
    yield _tile(str(steps), "steps")
    known = [(value, row) for row in evaluated if (value := number(row, "success")) is not None]
    if known:
        first, best = known[0], next((pair for pair in reversed(known) if pair[1].get("best")), None)
        yield _tile(f"{100 * first[0]:.1f} %", f"validation success at step {first[1]['step']}")
        if best is not None:
            yield _tile(f"{100 * best[0]:.1f} %", f"validation success of the best checkpoint, step {best[1]['step']}")
    for name, one in run.evaluations:
        success = one.summary()["success"]["value"]
        if success is not None:
            yield _tile(f"{100 * success:.1f} %", f"success, {_told(name, one)}")
    rollouts = sum(int(number(row, "rollouts") or 0) for row in train)
    if rollouts:
        yield _tile(f"{rollouts:,}", "rollouts of training")
    seconds = sum(number(row, "time.step") or number(row, "time.seconds") or 0.0 for row in run.log)
    if seconds:
        yield _tile(_duration(seconds), "of training and evaluation")


def _tile(value: str, said: str) -> Html:
    return tag("div", tag("b", value), tag("span", said), class_="tile")


def _told(name: str, one: Evaluation) -> str:
    warm = "" if one.temperature is None else " greedy" if one.temperature == 0 else f" T = {one.temperature:g}"
    return f"{(one.part or name).replace('_', '-')}{warm}"


# --- scores --------------------------------------------------------------------------------------------------
def _scores(evaluated: Sequence[Mapping[str, Any]]) -> Iterator[Html]:
    if not evaluated:
        return
    yield tag("h2", "Validation")
    names = [n for n in ("success", "score", "loss", "turns") if any(number(row, n) is not None for row in evaluated)]
    rows = []
    for row in _ends(evaluated):
        cells = [_percent(row) if n == "success" else _figure(number(row, n)) for n in names]
        rows.append((row["step"], *cells, tag("span", "best so far", class_="good") if row.get("best") else ""))
    yield table(("step", *names, ""), rows, right=range(len(names) + 1))
    if len(evaluated) > _MOST_ROWS:
        yield _none(f"The first and the last of {len(evaluated)} evaluations.")


def _ends(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    if len(rows) <= _MOST_ROWS:
        return list(rows)
    return [*rows[: _MOST_ROWS // 2], *rows[-_MOST_ROWS // 2 :]]


def _percent(row: Mapping[str, Any]) -> str:
    value, low, high = (number(row, key) for key in ("success", "low", "high"))
    if value is None:
        return ""
    return f"{100 * value:.1f} %" + ("" if low is None or high is None else f" [{100 * low:.1f}, {100 * high:.1f}]")


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _held_out(run: RunFiles) -> Iterator[Html]:
    if not run.evaluations:
        return
    yield tag("h2", "Evaluations")
    yield _none("Intervals are 95 %, clustered by workspace. Errors leave every rate.")
    for name, one in run.evaluations:
        said = one.summary()
        step = "" if one.step is None else f", step {one.step}"
        yield tag("h3", f"{name}: {_told(name, one)}{step}")
        rows = [("all packages", said["packages"], _estimate(said["success"]), _figure(said["score"]["value"]))]
        for group, title in (("families", "family"), ("difficulties", "difficulty")):
            for key, found in said[group].items():
                rows.append(
                    (f"{title} {key}", found["packages"], _estimate(found["success"]),
                     _figure(found["score"]["value"]))
                )  # fmt: skip
        yield table(("packages", "number", "success", "score"), rows, right=(1, 2, 3))
        at = [(k, _estimate(said["pass@"][k]), _estimate(said["pass^"][k])) for k in said["pass@"]]
        if len(at) > 1:
            yield table(("k", "pass@k", "pass^k"), at, right=(0, 1, 2))
        yield _none(", ".join(f"{n} {o}" for o, n in said["outcomes"].items()))


def _estimate(found: Mapping[str, Any]) -> str:
    if found["value"] is None:
        return ""
    text = f"{100 * found['value']:.1f} %"
    return text if found["low"] is None else f"{text} [{100 * found['low']:.1f}, {100 * found['high']:.1f}]"


# --- errors, time --------------------------------------------------------------------------------------------
def _errors(run: RunFiles, train: Sequence[Mapping[str, Any]]) -> Iterator[Html]:
    outcomes: Counter[str] = Counter()
    for row in train:
        told = row.get("outcomes")
        if isinstance(told, dict):
            outcomes.update({str(k): n for k, n in told.items() if isinstance(n, int)})
    warnings = run.rows("warning")
    if not outcomes and not warnings:
        return
    yield tag("h2", "Outcomes and errors")
    whole = max(1, sum(outcomes.values()))
    order = [*(o for o in OUTCOMES if o in outcomes), *sorted(set(outcomes) - set(OUTCOMES))]
    rows = [
        (tag("span", o, class_="bad" if o in ERRORS else None), outcomes[o], f"{100 * outcomes[o] / whole:.1f} %")
        for o in order
    ]
    if rows:
        yield table(("outcome of training rollouts", "number", "share"), rows, right=(1, 2))
        yield _none("An infra_error or verifier_error is never a reward: it is tried again, or its group is dropped.")
    if warnings:
        told = [(row["step"], row.get("what", ""), row.get("text", "")) for row in _ends(warnings)]
        yield table(("step", "warning", "what it says"), told, right=(0,))
        if len(warnings) > _MOST_ROWS:
            yield _none(f"The first and the last of {len(warnings)} warnings.")


def _time(train: Sequence[Mapping[str, Any]]) -> Iterator[Html]:
    parts: Counter[str] = Counter()
    for row in train:
        told = row.get("time")
        for key in told if isinstance(told, dict) and number(row, "time.step") is not None else ():
            if not key.endswith("_s") and key not in ("step", "evaluate"):
                parts[str(key)] += number(row, f"time.{key}") or 0.0  # type: ignore[assignment]
    whole = sum(parts.values())
    if not whole:
        return
    yield tag("h2", "Where the time of a step goes")
    rows = [
        (name, _duration(spent), f"{100 * spent / whole:.1f} %",
         tag("span", class_="share", style=f"width:{240 * spent / whole:.0f}px"))
        for name, spent in parts.most_common()
    ]  # fmt: skip
    yield table(("part", "time", "share", ""), rows, right=(1, 2))


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


# --- rollouts, config ----------------------------------------------------------------------------------------
def _rollouts(run: RunFiles) -> Iterator[Html]:
    if not run.samples:
        return
    yield tag("h2", "Rollouts, turn by turn")
    more = f" {len(run.samples)} are shown, about {run.samples_left} more lie in samples/." if run.samples_left else ""
    yield _none(
        "The best and the worst rollout of groups that differ. Progress p: what the turn changed in the criteria, by "
        "weight. Credit δ: what of it, and of later turns that used this one, the turn is given. Cost c: tool errors "
        "and repetitions." + more
    )
    for at, sample in enumerate(run.samples):
        yield trajectory.rollout(sample, at, opened=at == len(run.samples) - 1)


def _config(run: RunFiles) -> Iterator[Html]:
    yield tag("h2", "Config")
    yield tag("details", tag("summary", "config.toml"), tag("div", tag("pre", run.config)))
    rows = [(k, v) for k, v in _flat(run.facts) if k != "config"]
    if rows:
        yield tag("details", tag("summary", "run.json"), tag("div", table(("what", "value"), rows)))
    parts = [
        (part.replace("_", "-"), len(_list(run.split, part, "packages")),
         join((tag("span", w) for w in _list(run.split, part, "workspaces")), ", "))
        for part in ("train", "validation", "held_out")
        if _list(run.split, part, "packages")
    ]  # fmt: skip
    if parts:
        inside = table(("part", "packages", "workspaces"), parts, right=(1,))
        yield tag("details", tag("summary", "split.json"), tag("div", inside))


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in sorted(values.items()):
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _list(split: Mapping[str, Any], part: str, of: str) -> list[Any]:
    found = split.get(part)
    listed = found.get(of) if isinstance(found, dict) else None
    return listed if isinstance(listed, list) else []
