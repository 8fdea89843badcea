"""`rover release`: signed-off tags with a manifest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rover.cli.output import Json, counted, note, plain, print_json, say, table, utc
from rover.cli.stores import command_line, open_store
from rover_store.errors import UsageError

if TYPE_CHECKING:
    from rover_store.release import Released
    from rover_store.store import Store


def command(
    tag: str = typer.Argument("", help="Name of the release."),
    rev: str = typer.Argument("HEAD", help="What it names."),
    sign_off: str = typer.Option("", "--sign-off", "-s", metavar="'NAME <MAIL>'", help="Who answers for it."),
    message: str = typer.Option("", "--message", "-m", help="First lines of the tag's message."),
    allow: list[str] = typer.Option([], "--allow", metavar="KIND", help="In spite of: stale, unadmitted, case."),
    manifest: Path = typer.Option(None, "--manifest", metavar="FILE", help="Write the manifest, as JSON Lines."),
    verify: bool = typer.Option(False, "--verify", help="Compute an existing release again; exit 1 if it differs."),
    listing: bool = typer.Option(False, "--list", help="List the releases."),
    as_json: bool = Json,
) -> None:
    """Release a revision: a signed-off tag, a manifest of component ids, counts by family, licences, checksums.

    Refused while packages are stale, not admitted, or under an open repair case, unless --allow names that. `undo`
    takes a release back. With --manifest alone the manifest of an existing release is written.

    Example: rover release v1.0 --sign-off 'Ann Lee <ann@example.org>' --allow unadmitted
    """
    store = open_store()
    if listing:
        _list(store, as_json)
        return
    if not tag:
        raise UsageError("name the release", hint="`rover release --list` shows those that exist")
    if manifest is not None and (manifest.is_dir() or not manifest.absolute().parent.is_dir()):
        raise UsageError(f"--manifest {manifest}: no file can be written there")
    if verify:
        _verify(store, tag, as_json)
    elif sign_off:
        _make(store, tag, rev, sign_off, message, allow, as_json)
    elif manifest is None:
        raise UsageError("a release is signed off", hint="--sign-off 'Name <name@host>'")
    if manifest is not None:
        _write(store, tag, manifest)


def _make(
    store: Store, tag: str, rev: str, sign_off: str, message: str, allow: list[str], as_json: bool
) -> None:
    from rover_store.release import header, release

    made = release(store, tag, rev, sign_off=sign_off, message=message, allow=allow, command=command_line())
    said = header(store, made)
    if as_json:
        print_json({**made._asdict(), "contents": said})
        return
    say(f"released {tag} ({made.commit[:12]}), signed off by {plain(made.signed_off_by)}")
    say(f"{counted(said['packages'], 'package')}, {counted(said['resources'], 'resource')}")
    rows = [("family", name, n) for name, n in said.get("families", {}).items()]
    rows += [("licence", name, n) for name, n in said.get("licenses", {}).items()]
    rows += [("licence", "unknown", said["unlicensed"])] if said.get("unlicensed") else []
    rows += [("allowed", name, n) for name, n in said.get("allowed", {}).items()]
    print(table(rows, ("what", "name", "count"), right=(2,)))
    say(f"manifest {made.manifest}\nsha256   {made.sha256}")
    if said.get("unlicensed"):
        _name_unlicensed(store, made)


def _name_unlicensed(store: Store, made: Released) -> None:
    import json

    from rover_store.release import manifest

    rows = (json.loads(line) for line in manifest(store, made).splitlines())
    names = [row["name"] for row in rows if not row["license"]]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    note(f"no licence is stated by {', '.join(names[:3])}{more}")


def _list(store: Store, as_json: bool) -> None:
    from rover_store.release import releases

    found = releases(store)
    if as_json:
        print_json([r._asdict() for r in found])
        return
    rows = [(r.tag, utc(r.time), r.commit[:12], r.sha256[:12], r.signed_off_by) for r in found]
    print(table(rows, ("release", "time (UTC)", "commit", "sha256", "signed off by")))


def _verify(store: Store, tag: str, as_json: bool) -> None:
    from rover_store.release_check import verify

    found = verify(store, tag)
    if as_json:
        print_json({**found._asdict(), "release": found.release._asdict() if found.release else None})
    else:
        for problem in found.problems:
            print(plain(f"{tag}: {problem}"))
        for line in found.notes:
            note(line)
        if not found.problems and found.release:
            say(f"{tag}: {counted(found.packages, 'package')} as signed off by {plain(found.release.signed_off_by)}")
    if found.problems:
        raise typer.Exit(1)


def _write(store: Store, tag: str, file: Path) -> None:
    from rover_store.release import manifest, read

    made = read(store, tag)
    if made is None:
        raise UsageError(f"the tag {tag} is no release", hint="`rover release --list` shows them")
    data = manifest(store, made)
    file.write_bytes(data)
    note(f"wrote {file}")
