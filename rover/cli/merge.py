"""`rover merge`: merge another branch, and settle what is in conflict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rover.cli.output import Json, counted, note, now, print_json, say, table
from rover.cli.stores import command_line, open_store
from rover_store.errors import UsageError

if TYPE_CHECKING:
    from rover_store.merging.merge import MergeResult
    from rover_store.merging.open_merges import OpenMerge
    from rover_store.records import Conflict
    from rover_store.store import Store


def command(
    target: str = typer.Argument("", metavar="[OTHER | DIR | GLOB]", help="What to merge; or what an option takes."),
    resolve: bool = typer.Option(False, "--resolve", help="Write the open merge's conflicts to the folder DIR."),
    proceed: bool = typer.Option(False, "--continue", help="Finish the open merge, with what DIR settles."),
    abort: bool = typer.Option(False, "--abort", help="Drop the open merge."),
    ours: bool = typer.Option(False, "--ours", help="Settle conflicts that match GLOB (all) for this branch."),
    theirs: bool = typer.Option(False, "--theirs", help="Settle conflicts that match GLOB (all) for the other side."),
    show: bool = typer.Option(False, "--list", help="Show the open merge and its conflicts."),
    into: str = typer.Option("", "--into", metavar="BRANCH", help="Branch to merge into; the current one."),
    message: str = typer.Option("", "--message", "-m", help="Message of the merge commit."),
    favour: str = typer.Option("", "--favour", "-X", metavar="SIDE", help="ours or theirs: wins every conflict."),
    no_ff: bool = typer.Option(False, "--no-ff", help="Make a merge commit where the branch could just move."),
    unrelated: bool = typer.Option(False, "--allow-unrelated", help="Merge histories without a common commit."),
    as_json: bool = Json,
) -> None:
    """Merge another branch or revision into this branch, by component, file,
    line and field of a record. Conflicts move no branch: they wait until they
    are settled (exit code 1). `rover help merge` shows a merge from end to end.

    Example: rover merge trial
    """
    chosen = [flag for flag in (resolve, proceed, abort, ours, theirs, show) if flag]
    if len(chosen) > 1:
        raise UsageError("one of --resolve, --continue, --abort, --ours, --theirs and --list at a time")
    if favour not in ("", "ours", "theirs"):
        raise UsageError(f"--favour: {favour!r} is neither ours nor theirs")
    store = open_store()
    branch = into or None
    if not chosen:
        if not target:
            raise UsageError("name what to merge", hint="rover merge OTHER; `rover merge --list` shows an open one")
        _begin(store, target, branch, message, favour, not no_ff, unrelated, as_json)
        return
    if resolve:
        _resolve(store, target, branch, as_json)
    elif proceed:
        from rover_store.merging.finish import continue_merge

        folder = Path(target) if target else None
        done = continue_merge(store, folder, branch, time=now(), command=command_line())
        print_result(done, as_json)
    elif abort:
        from rover_store.merging import open_merges as merge_open

        there = merge_open.abort(store, branch, command=command_line())
        text = f"dropped the merge of {there.record.other} into {there.record.into}; {there.record.into} never moved"
        print_json({"aborted": there.record.other, "into": there.record.into}) if as_json else print(text)
    elif show:
        _list(store, branch, as_json)
    else:
        from rover_store.merging.open_merges import choose

        there, count = choose(store, "ours" if ours else "theirs", target or "*", branch, command=command_line())
        _chosen(there, count, "ours" if ours else "theirs", as_json)


def _begin(
    store: Store, other: str, into: str | None, message: str, favour: str, forward: bool, unrelated: bool,
    as_json: bool,
) -> None:  # fmt: skip
    from rover_store.merging.merge import merge

    done = merge(
        store, other, into=into, message=message, time=now(), favour=favour or None,  # type: ignore[arg-type]
        fast_forward=forward, unrelated=unrelated, command=command_line(),
    )  # fmt: skip
    print_result(done, as_json)
    if done.status == "conflicts":
        raise typer.Exit(1)


def print_result(done: MergeResult, as_json: bool = False) -> None:
    """Say what a merge did, and what to do about conflicts."""
    if as_json:
        print_json(plain_result(done))
        return
    print("\n".join(result_lines(done)))
    if done.conflicts:
        note(f"{done.into} has not moved. Settle them, in one of these ways:")
        note("  rover merge --resolve DIR       writes them out to edit, then rover merge --continue DIR")
        note("  rover merge --ours [GLOB]       takes a side (or --theirs), then rover merge --continue")
        note("  rover merge --abort             drops the merge")


def result_lines(done: MergeResult) -> list[str]:
    """What a merge did, for people."""
    if done.status == "up to date":
        return [f"{done.into} holds {done.other} already"]
    if done.status == "fast-forward":
        return [f"{done.into} moved to {(done.commit or '')[:12]} (fast-forward)"]
    if done.status == "conflicts":
        head = f"{counted(len(done.conflicts), 'conflict')} between {done.into} and {done.other}"
        return [head, table([_row(c) for c in done.conflicts], ("", "ours", "theirs", "why", "where"))]
    what = [counted(len(done.merged), "package") + " merged"] if done.merged else []
    what += [counted(len(done.taken), "package") + " taken"] if done.taken else []
    lines = [f"merged {done.other} into {done.into}: {(done.commit or '')[:12]} ({', '.join(what) or 'nothing new'})"]
    for s in done.stale:
        lines.append(f"  stale: {s.package}/{s.component}, built against another {s.target.rpartition('/')[2]}")
    return lines


def plain_result(done: MergeResult) -> dict[str, Any]:
    """The same as JSON."""
    return {
        **done._asdict(),
        "conflicts": [c.model_dump(mode="json", exclude_none=True) for c in done.conflicts],
        "stale": [s._asdict() for s in done.stale],
    }


def _row(found: Conflict) -> tuple[str, ...]:
    from rover_store.merging.open_merges import name_of

    where = name_of(found) + (f" {'.'.join(found.field)}" if found.field else "")
    if found.kind == "field":
        sides = [_short(s.value) for s in (found.ours, found.theirs)]
    else:
        sides = [s.id[:7] if s.id else "-" for s in (found.ours, found.theirs)]
    return found.id, sides[0], sides[1], found.reason + (f" [{found.choice}]" if found.choice else ""), where


def _short(value: str | None) -> str:
    if value is None:
        return "-"
    text = value if len(value) <= 40 else value[:39] + "…"
    loaded = json.loads(value)
    return loaded if isinstance(loaded, str) and len(loaded) <= 40 else text


def _resolve(store: Store, target: str, branch: str | None, as_json: bool) -> None:
    from rover_store.merging.settle import write_folder

    if not target:
        raise UsageError("name a folder to write", hint="rover merge --resolve DIR")
    there = write_folder(store, Path(target), branch)
    if as_json:
        print_json({"folder": target, "conflicts": len(there.record.conflicts), "into": there.record.into})
        return
    say(f"wrote {counted(len(there.record.conflicts), 'conflict')} to {target}")
    note(f"edit the files and {target}/conflicts.json, then: rover merge --continue {target}")


def _list(store: Store, branch: str | None, as_json: bool) -> None:
    from rover_store.merging.open_merges import open_merges

    found = [m for m in open_merges(store) if branch in (None, m.record.into)]
    if as_json:
        print_json([m.record.model_dump(mode="json", exclude_none=True) for m in found])
        return
    if not found:
        note("no merge is open")
    for there in found:
        say(f"{there.record.other} into {there.record.into} ({there.record.theirs[:12]})")
        print(table([_row(c) for c in there.record.conflicts], ("", "ours", "theirs", "why", "where")))


def _chosen(there: OpenMerge, count: int, side: str, as_json: bool) -> None:
    left = sum(1 for c in there.record.conflicts if c.choice is None)
    if as_json:
        print_json({"settled": count, "side": side, "left": left})
        return
    say(f"{counted(count, 'conflict')} settled for {side}; {left} left")
    if not left:
        note("finish with: rover merge --continue")
