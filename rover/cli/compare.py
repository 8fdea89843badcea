"""`rover compare`: evaluations pair by pair."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rover.cli.output import Json, counted, note, print_json, say, table
from rover.cli.training import writable

if TYPE_CHECKING:
    from rover.bench.intervals import Estimate, Paired
    from rover_train.compare import Against, Comparison


def command(
    runs: list[Path] = typer.Argument(..., metavar="RUN", help="Runs, or files of `rover eval --out`."),
    unequal: bool = typer.Option(False, "--unequal", help="Compare whatever is unequal; all of it is named."),
    page: Path = typer.Option(None, "--page", metavar="FILE", help="Also write a page that stands by itself."),
    as_json: bool = Json,
) -> None:
    """Compare evaluations pair by pair, each with the first.

    Rollouts are paired by package, attempt and seed. A difference is in points of success (percentage points), with
    a 95 % interval clustered by workspace; pairs that ended in an infra_error or verifier_error are left out. What
    was not measured under equal conditions is refused: revision, split, packages, attempts, seeds, temperature, turn
    budget, and for runs the rollouts of training. --unequal lets every inequality pass, not one of your choice, and
    each is named below the result: read them all.

    A run's evaluations lie in RUN/evaluations: `rover eval` puts them there. Where it has several, the one like the
    others' is taken. An SFT run has no rollouts of training, so it is compared to one of RL with --unequal.

    Example: rover compare grpo vtca
    """
    from rover_train import compare

    writable(page=page)
    found = compare.compare(compare.load(runs), unequal=unequal)
    if page is not None:
        from rover_train.report.compared import html

        page.write_text(html(found), encoding="utf-8")
    if as_json:
        print_json(found.to_json())
        return
    _sides(found)
    for against in found.against:
        say("")
        _against(against, found.sides[0].name)
    for text in found.unequal:
        note(f"unequal: {text}")
    if page is not None:
        note(f"page written to {page}")


def _sides(found: Comparison) -> None:
    rows = []
    for side in found.sides:
        said: dict[str, Any] = side.found.summary()
        errors = sum(n for what, n in said["outcomes"].items() if what in ("infra_error", "verifier_error"))
        success, score = said["success"], said["score"]
        cells = (_share(success), "" if score["value"] is None else f"{score['value']:.3f}")
        rows.append((side.name, side.found.method or side.found.policy, said["rollouts"], errors, *cells))
    print(table(rows, ("run", "method", "rollouts", "errors", "success %", "score"), right=(2, 3)))


def _against(against: Against, base: str) -> None:
    say(f"{against.name} against {base}: {counted(against.pairs, 'pair')}, score {_signed(against.score, 3, 1)}")
    rows = [("all", *_cells(against.success))]
    rows += [(f"family {name}", *_cells(p)) for name, p in against.families.items()]
    rows += [(f"difficulty {name}", *_cells(p)) for name, p in against.difficulties.items()]
    print(table(rows, ("packages", "wins", "losses", "ties", "points"), right=(1, 2, 3)))
    if against.left_out:
        note(f"left out: {counted(against.left_out, 'pair')} that ended in an infra_error or verifier_error")
    if against.unpaired:
        note(f"without a partner: {counted(against.unpaired, 'rollout')}")


def _cells(found: Paired) -> tuple[object, ...]:
    return found.wins, found.losses, found.ties, _signed(found.difference, 1, 100)


def _signed(found: Estimate, digits: int, scale: float) -> str:
    if found.value is None:
        return ""
    text = f"{scale * found.value:+.{digits}f}"
    if found.low is None or found.high is None:
        return f"{text} (too few workspaces for an interval)"
    return f"{text} [{scale * found.low:+.{digits}f}, {scale * found.high:+.{digits}f}]"


def _share(found: dict[str, Any]) -> str:
    if found["value"] is None:
        return ""
    text = f"{100 * found['value']:.1f}"
    return text if found["low"] is None else f"{text} [{100 * found['low']:.1f}, {100 * found['high']:.1f}]"
