"""`rover evidence`: rollouts and verdicts that travel by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rover.cli.output import Json, counted, note, print_json, progress, say, table
from rover.cli.sizes import size
from rover.cli.stores import open_store

if TYPE_CHECKING:
    from rover.ops.evidence import Group, Pulled

app = typer.Typer(
    help="Bring rollouts and verdicts of several machines together.\n\nExample: rover evidence list",
    rich_markup_mode=None, add_completion=False,
)  # fmt: skip

_Globs = typer.Option([], "--package", "-p", metavar="GLOB", help="Only that of these packages; repeatable.")
#: divergences that are named one by one
_NAMED = 20


@app.callback()
def group() -> None:
    """Bring rollouts and verdicts of several machines together.

    Example: rover evidence list
    """


@app.command("pack")
def pack_evidence(
    file: Path = typer.Argument(..., metavar="FILE", help="File to write; end it in .bundle."),
    package: list[str] = _Globs,
    as_json: bool = Json,
) -> None:
    """Write the evidence to a file, for `rover evidence pull`.

    The file is a git bundle that holds all that the rollouts name; any git can verify and clone it. A store without
    evidence gives a file without any.

    Example: rover evidence pack shard-1.bundle
    """
    from rover.ops.evidence import pack

    done = pack(open_store(), file, globs=tuple(package))
    if as_json:
        print_json(done._asdict())
        return
    say(f"{done.file}: {counted(done.rollouts, 'rollout')}, {counted(done.objects, 'object')}, {size(done.size)}")


@app.command("pull")
def pull_evidence(
    sources: list[str] = typer.Argument(..., metavar="FROM...", help="Files, stores, repositories, URLs, remotes."),
    package: list[str] = _Globs,
    as_json: bool = Json,
) -> None:
    """Take the evidence of other machines; what is here is never replaced.

    FROM is a file that `rover evidence pack` wrote, a folder with such files (*.bundle), a project folder with a
    store, a git repository, a URL, or the name of a remote. All of it is checked before any of it is taken: ids are
    made again from the content, and a verdict must be what its scores make of it. Evidence that is damaged or forged
    is refused by name (exit code 2), and nothing is changed. Where two machines hold different runs of one rollout,
    the first stands and the other is named. An interrupted pull goes on where it stopped.

    Example: rover evidence pull shard-1.bundle
    """
    from rover.ops.evidence import pull

    with progress("rollouts") as bar:
        done = pull(
            open_store(), tuple(sources), globs=tuple(package),
            told=lambda source, count, total: bar(count, total, source),
        )  # fmt: skip
    if as_json:
        print_json(_plain(done))
    else:
        _report(done)


@app.command("list")
def list_evidence(
    pattern: str = typer.Argument("*", metavar="[GLOB]", help="Names of packages."),
    policy: str = typer.Option("*", "--policy", metavar="GLOB", help="Only rollouts of these policies."),
    everything: bool = typer.Option(False, "--all", help="Also what rover ran by itself, to try a package."),
    each: bool = typer.Option(False, "--each", help="Rollout by rollout, with its id and seed."),
    as_json: bool = Json,
) -> None:
    """List what evidence there is, by package and policy.

    What rover ran by itself, to try a package or to repair it, says nothing of an agent: --all lists it as well, with
    its purpose.

    Example: rover evidence list 'penguins-*' --policy 'solver:*'
    """
    from rover.ops.evidence import groups

    found, left = groups(open_store(), pattern, policy, everything=everything, each=each)
    if as_json:
        print_json([{k: v for k, v in one._asdict().items() if v is not None} for one in found])
        return
    heads = ["package", "policy"]
    if each:
        heads += ["rollout", "verdict", "what for"]
    else:
        heads += ["rollouts", *(["purpose"] if everything else []), "verdicts"]
    if found:
        cells = [_cells(one, everything) for one in found]
        print(table(cells, heads, right=() if each else (2,), whole=range(1, len(heads))))
    note(counted(sum(one.rollouts for one in found), "rollout")
         + (f"; {left} that rover ran by itself are not told, see --all" if left else ""))  # fmt: skip


def _cells(one: Group, everything: bool) -> tuple[object, ...]:
    if one.rollout is not None:
        ran = f"{one.purpose or 'run'}, seed {one.seed}"
        return one.package, one.policy, one.rollout[:10], ", ".join(one.verdicts), ran
    why = (one.purpose or "",) if everything else ()
    said = ", ".join(f"{n} {outcome}" for outcome, n in one.verdicts.items())
    return one.package, one.policy, one.rollouts, *why, said


def _report(done: Pulled) -> None:
    found = done.gathered
    print(table(
        [(one.source, one.rollouts, one.verdicts, one.objects) for one in found.sources],
        ("from", "rollouts", "verdicts", "objects"), right=(1, 2, 3), whole=(0,),
    ))  # fmt: skip
    for one in found.divergences[:_NAMED]:
        what = f"another verdict of verifier {one.verifier[:12]} on" if one.verifier else "another run of"
        note(f"not taken: {one.source} holds {what} rollout {one.rollout[:12]} ({one.package}); the first stands")
    if len(found.divergences) > _NAMED:
        note(f"... and {len(found.divergences) - _NAMED} more")
    if done.unknown:
        note(f"{counted(done.unknown, 'verdict')} of verifiers that this store does not hold: taken as they stand")
    note(f"{counted(found.rollouts, 'rollout')} and {counted(found.verdicts, 'verdict')} new; "
         f"{len(found.divergences) or 'none'} differ from what was here first")  # fmt: skip


def _plain(done: Pulled) -> dict[str, object]:
    found = done.gathered
    return {
        "rollouts": found.rollouts,
        "verdicts": found.verdicts,
        "sources": [one._asdict() for one in found.sources],
        "divergences": [one._asdict() for one in found.divergences],
        "unknown_verifiers": done.unknown,
    }
