"""`rover inject`: break a package on purpose, in a known way."""

from __future__ import annotations

from pathlib import Path

import typer

from rover.cli.output import Json, Sandbox, Seed, Workers, note, print_json, say, wrapped
from rover.cli.stores import command_line, open_store


def command(
    package: str = typer.Argument("", metavar="PACKAGE", help="The package to break."),
    kind: str = typer.Argument("", metavar="KIND", help="The kind of defect; see --list."),
    seed: int = Seed,
    list_kinds: bool = typer.Option(False, "--list", help="List the kinds and stop."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what would be done and change nothing."),
    manifest: Path = typer.Option(None, "--manifest", metavar="FILE", help="Also write what was done to this file."),
    suite: str = typer.Option("", "--suite", metavar="SPEC", help="Make a suite: controlled, agents or a TOML file."),
    count: int = typer.Option(1000, "--count", min=1, max=100_000, help="Cases of the suite."),
    split: str = typer.Option("development", "--split", help="Seeds and workspaces: development or held-out."),
    history: bool = typer.Option(False, "--history", help="Give each case of the suite its sound version as parent."),
    out: Path = typer.Option(None, "--out", metavar="DIR", help="Folder of the suite (default: SPEC-SPLIT-SEED)."),
    work: Path = typer.Option(None, "--work", metavar="DIR", help="Keep finished pieces of the suite here."),
    sandbox: str = Sandbox,
    workers: int = Workers,
    as_json: bool = Json,
) -> None:
    """Break a package on purpose, in a known way.

    One commit at HEAD, which says no more than that the package was edited: what was done is printed here, and
    neither diagnosis nor repair can read it. `rover undo` takes it back.

    With --suite, makes a folder of cases instead: packages built for it and broken in every known way, sound ones
    in which agents failed, and a manifest that says what is what (`rover help suites`).

    Example: rover inject my-task lax_verifier --seed 1

    A suite: rover inject --suite controlled --count 300 --out suite
    """
    from rover.ops.inject import inject
    from rover_store.errors import UsageError

    if list_kinds:
        _list(as_json)
        return
    if suite:
        from rover.cli.suites import make_suite

        if package or kind:
            raise UsageError("a suite names no package and no kind: they stand in its spec")
        make_suite(suite, count, seed, split, history, out, work, sandbox, workers, as_json)
        return
    if not package or not kind:
        raise UsageError("name a package and a kind of defect", hint="`rover inject --list` shows the kinds")
    if manifest is not None and (manifest.is_dir() or not manifest.absolute().parent.is_dir()):
        raise UsageError(f"--manifest {manifest}: no file can be written there")
    done = inject(open_store(), package, kind, seed, command=command_line(), dry_run=dry_run)
    if manifest is not None:
        from rover_store.records import to_json

        manifest.write_bytes(to_json(done.manifest()))
    if as_json:
        print_json(done.manifest())
        return
    print(wrapped(f"{package}: {done.note}"))
    print(wrapped(f"right repair: {done.repair}"))
    if dry_run:
        note("dry run: nothing was changed")
    else:
        say(f"commit {done.commit[:12]}; next: rover diagnose {package}")


def _list(as_json: bool) -> None:
    """The kinds by what they break; pairs and triples by name alone."""
    from rover.ops.inject import listing

    groups = listing()
    if as_json:
        print_json([
            {
                "kind": k.kind, "group": group, "summary": k.summary, "repair": k.repair,
                "components": list(k.components), "right": list(k.right), "fixable": k.fixable,
                "expects": [{"finding": kind, "component": component} for kind, component in k.expects],
            }
            for group, found in groups.items() for k in found
        ])  # fmt: skip
        return
    for group, found in groups.items():
        print(f"{group}:")
        for one in found:
            print(f"  {one.kind}")
            if "+" in one.kind:
                continue
            print(wrapped(f"    {one.summary}", "    "))
            print(wrapped(f"    right repair: {one.repair}", "    "))
    print(wrapped("Any kinds joined by + make one: rover inject PACKAGE wrong_given+tool_removed"))
