"""`rover impact`: which recorded scores survive a change of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from rover.cli.output import Json, counted, note, plain, print_json, table
from rover.cli.stores import open_store
from rover_store.errors import UsageError

if TYPE_CHECKING:
    from rover_store.impact import Impact, PackageImpact
    from rover_store.store import Store

SHOWN = 20
LETTER = {"context": "C", "task": "T", "harness": "H", "verifier": "V"}
WORDS = {
    "run": "run again", "grade": "grade again", "stale": "stale", "left": "left", "came": "came",
    "nothing": "only notes or edges", "same": "untouched",
}  # fmt: skip

#: order of the table: what costs most comes first
RANK = tuple(WORDS)


def command(
    revisions: list[str] = typer.Argument(None, metavar="[A..B | A [B]]", help="From, to; HEAD~1..HEAD by default."),
    package: str = typer.Option("*", "--package", "-p", metavar="GLOB", help="Only these packages."),
    names: str = typer.Option("", "--names", metavar="KIND", help="Only names of this kind, one a line (for xargs)."),
    allow: list[str] = typer.Option([], "--allow", metavar="KIND", help="This kind is no reason to exit with 1."),
    evidence: bool = typer.Option(True, "--evidence/--no-evidence", help="Count recorded rollouts, by policy."),
    limit: int = typer.Option(SHOWN, "--limit", min=0, help="Packages in the table; 0 for all."),
    as_json: bool = Json,
) -> None:
    """Say which recorded scores stay comparable between two revisions, and what must be graded or run again.

    Kinds: run (context, task or harness differs), grade (the verifier alone does), stale (a resource moved on and
    the package is not bound to it yet), left, came, nothing (README, title, edges), same. Exits with 1 if a package
    is run, grade, stale, left or came and its kind is not allowed, with 0 if every recorded score stays comparable.

    Example: rover impact v1..HEAD --allow came
    """
    from rover_store.impact import KINDS, impact, to_json

    for kind in [*allow, *([names] if names else [])]:
        if kind not in KINDS:
            raise UsageError(f"{kind!r} is no kind", hint=f"one of {', '.join(KINDS)}")
    if names and as_json:
        raise UsageError("--names and --json exclude each other")
    store = open_store()
    old, new = sides(store, revisions or [])
    found = impact(store, old, new, package, evidence=evidence and not names)
    if names:
        for name in _names(store, found, names, package):
            print(name)
    elif as_json:
        print_json(to_json(found))
    else:
        _print(found, limit or None)
    if found.to_do(allow):
        raise typer.Exit(1)


def sides(store: Store, words: list[str]) -> tuple[str, str]:
    """The two revisions that `A..B`, `A...B` (since they parted), `A B`, `A` or nothing names."""
    if len(words) > 2:
        raise UsageError("at most two revisions can be compared")
    text = words[0] if len(words) == 1 else ""
    if "..." in text:
        from rover_store.history.ancestry import merge_bases

        left, _, right = text.partition("...")
        bases = merge_bases(store, store.resolve(left or "HEAD"), store.resolve(right or "HEAD"))
        if len(bases) != 1:
            raise UsageError(f"{text}: {'no' if not bases else 'more than one'} commit that both come from")
        return bases[0], right or "HEAD"
    if ".." in text:
        left, _, right = text.partition("..")
        return left or "HEAD", right or "HEAD"
    if not words:
        return "HEAD~1", "HEAD"
    return words[0], words[1] if len(words) == 2 else "HEAD"


def _names(store: Store, found: Impact, kind: str, pattern: str) -> list[str]:
    if kind != "same":
        return [p.name for p in found.packages if p.kind == kind]
    touched = {p.name for p in found.packages}
    return [p.name for p in store.packages(found.new, pattern) if p.name not in touched]


def _print(found: Impact, limit: int | None) -> None:
    counts = found.counts()
    said = [f"{n} {WORDS[kind]}" for kind, n in counts.items() if n]
    print(f"{found.old[:12]}..{found.new[:12]}: {', '.join(said) or 'no packages'}")
    if not found.to_do():
        print("all recorded scores stay comparable")
    ranked = sorted(found.packages, key=lambda p: (RANK.index(p.kind), p.name))
    rows = [(p.name, WORDS[p.kind], _letters(p), _cause(p)) for p in ranked[:limit]]
    if rows:
        print()
        print(table(rows, ("package", "what", "C T H V", "because")))
    if limit is not None and len(found.packages) > limit:
        print(f"... and {len(found.packages) - limit} more; --limit 0 shows all")
    if found.resources:
        shown = found.resources[:limit]
        moved = [(r.name.removeprefix("resources/"), _span(r.old, r.new), r.packages, r.stale) for r in shown]
        print("\nresources")
        print(table(moved, ("resource", "version", "packages", "stale"), right=(2, 3)))
    if found.evidence:
        print("\nrecorded rollouts")
        kept = [(e.policy, e.rollouts, e.scores, e.grade, e.run, e.done, e.left) for e in found.evidence]
        print(table(kept, ("policy", "kept", "scores", "grade", "run", "done", "left"), right=(1, 2, 3, 4, 5, 6)))
    _next(counts, f"{found.old[:12]}..{found.new[:12]}")


def _next(counts: dict[str, int], between: str) -> None:
    for kind in ("run", "grade"):
        if counts[kind]:
            note(f"next: rover impact {between} --names {kind} |")
            note("        xargs -r -n 1 rover run --policy ...")
    if counts["stale"]:
        note(f"{counted(counts['stale'], 'package')} to rebuild; `rover graph --stale` shows the edges")


def _letters(p: PackageImpact) -> str:
    return " ".join(LETTER[c] if c in p.changed else "-" for c in LETTER) if p.changed else ""


def _cause(p: PackageImpact) -> str:
    if p.kind in ("left", "came"):
        other = {"left": "it is now", "came": "it was"}[p.kind]
        return f"{other} {p.twin}, with the same components" if p.twin else ""
    words = []
    if p.causes:
        words.append(f"{' and '.join(p.causes)} changed")
    if p.through and p.kind == "stale":
        words.append(f"not bound to the new {_short(p.through)}")
    elif p.through:
        words.append(f"bound to another {_short(p.through)}")
    behind = sorted({s.component for s in p.stale})
    if behind and p.kind != "stale":
        words.append(f"{', '.join(behind)} now stale")
    return plain("; ".join(words))


def _short(resources: tuple[str, ...]) -> str:
    names = [r.removeprefix("resources/") for r in resources]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _span(old: str | None, new: str | None) -> str:
    return f"{old[:7] if old else 'new'} -> {new[:7] if new else 'gone'}"
