"""`rover bench fcr`: a suite through FCR and the other methods; tables, JSON, a page, one case explained."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rover.cli.output import Json, Sandbox, Seed, note, print_json, progress, say, table, wrapped

if TYPE_CHECKING:
    from rover.bench.fcr import BenchReport, BenchRequest, Suite, Told


def command(
    suite: str = typer.Option(
        "controlled", "--suite", metavar="NAME|DIR", help="controlled, natural, agents, or the folder of a suite."
    ),
    split: str = typer.Option("development", "--split", help="development or held-out; rules are tuned on the first."),
    count: int = typer.Option(0, "--count", min=0, help="Cases of a suite that has to be made first."),
    limit: int = typer.Option(0, "--limit", min=0, help="Run the first cases alone; 0: all."),
    exhaustive: bool = typer.Option(
        False, "--exhaustive/--lazy", help="Replay every combination as well, and compare."
    ),
    baselines: bool = typer.Option(True, "--baselines/--no-baselines", help="The other methods, or FCR alone."),
    leave_out: bool = typer.Option(
        False, "--leave-out", help="Each case with every rule that was written for its kinds switched off."
    ),
    styles: int = typer.Option(1, "--styles", min=1, max=8, help="Proposals of each component to choose among."),
    given: bool = typer.Option(
        False, "--given", help="With the proposals that are frozen beside the suite instead of blind ones."
    ),
    case: str = typer.Option("", "--case", metavar="ID", help="One case alone, with its lattice."),
    explain: bool = typer.Option(False, "--explain", help="With --case: what was broken, found, tried and chosen."),
    work: Path = typer.Option(
        Path("rover-bench"), "--work", metavar="DIR", help="Suites and finished cases are kept here."
    ),
    out: Path = typer.Option(None, "--out", metavar="FILE", help="Also write everything, case by case, as JSON."),
    page: Path = typer.Option(None, "--page", metavar="DIR", help="Also write a page here; pictures need matplotlib."),
    workers: int = typer.Option(2, "-n", "--workers", min=1, max=64, help="Cases at the same time."),
    seed: int = Seed,
    sandbox: str = Sandbox,
    as_json: bool = Json,
) -> None:
    """Diagnosis and repair on a suite of broken packages, against simpler methods on the same proposals.

    The suite is made where it is not there. Cases run in processes of their own, so many at once as -n says; each
    is kept as soon as it is finished, and the same command goes on where it was ended. Tables give 95 % intervals
    clustered by workspace. The manifest of the suite is never read by what diagnoses and repairs.

    Example: rover bench fcr --suite controlled --split development --limit 20 --out fcr.json
    """
    from rover.bench import fcr

    request = fcr.BenchRequest(
        suite=suite,
        split=split,
        count=count,
        limit=limit or None,
        seed=seed,
        workers=workers,
        work=work.absolute(),
        exhaustive=exhaustive,
        baselines=baselines,
        leave_out=leave_out,
        styles=styles,
        given=given,
        sandbox=sandbox,
        case=case,
    )
    _checked(request, explain, out, page)
    with progress("suite") as bar:
        found = fcr.open_suite(request, lambda text: bar(text=text))
    note(_which(found, request))
    with progress("fcr") as bar:
        report = fcr.bench(found, request, lambda now: bar(now.done, now.total, _doing(now)))
    value = fcr.as_json(report, request)
    if out is not None:
        import json

        out.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
        note(f"wrote {out}")
    if page is not None:
        from rover.bench.fcr_page import write

        for path in write(page, value):
            note(f"wrote {path}")
    if as_json:
        print_json(value)
    elif case:
        _one(report, explain)
    else:
        say(tables(value))
    for name, error in report.errors.items():
        note(f"{name}: {error}")
    if report.errors:
        raise typer.Exit(1)


def _checked(request: BenchRequest, explain: bool, out: Path | None, page: Path | None) -> None:
    from rover_store.errors import UsageError

    if explain and not request.case:
        raise UsageError("--explain needs --case ID")
    for path, kind in ((out, "--out"), (page, "--page")):
        if path is not None and not path.absolute().parent.is_dir():
            raise UsageError(f"{kind} {path}: no file can be written there")
    if out is not None and out.is_dir():
        raise UsageError(f"--out {out}: no file can be written there")
    if page is not None and page.is_file():
        raise UsageError(f"--page {page}: is a file")


def _which(found: Suite, request: BenchRequest) -> str:
    made = found.manifest
    extra = "; rules for each case's kinds are off" if request.leave_out else ""
    return f"{made.suite}, {made.split} split, seed {made.seed}: {len(found.cases)} cases{extra}"


def _doing(now: Told) -> str:
    left = "" if now.left is None else f"{_span(now.left)} left; "
    return left + ", ".join(now.doing)


def _span(seconds: float) -> str:
    minutes = int(seconds / 60 + 0.5)
    return f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{minutes} min" if minutes else "< 1 min"


# --- tables ----------------------------------------------------------------------------------------------
def tables(value: dict[str, Any]) -> str:
    """Everything at the width of the terminal."""
    s = value["summary"]
    counts = ", ".join(f"{n} {label}" for label, n in sorted(s["cases"].items()))
    head = f"{value['suite']}, {value['split']} split: {counts}; {s['workspaces']} workspaces"
    parts = [head + (f"; {s['errors']} broke off" if s["errors"] else "")]
    if value["leave_out"]:
        parts[0] += "\nevery rule written for a case's kinds is switched off"
    if value["given"]:
        parts[0] += "\nwith the proposals that are frozen beside the suite, not with blind ones"
    if s["cases"].get("defect"):
        parts += [_methods(s), _paired(s), _kinds(s), _joint(s)]
    parts += [_verdicts(s), _diagnosis(s), _reliability(s)]
    parts += [_sources(s), _historical(s), _lazy(s), _cost(s, value)]
    return "\n\n".join(p for p in parts if p)


def percent(found: dict[str, Any], digits: int = 1) -> str:
    """`91.3 [88.0, 94.1]`: a share with its interval, in per cent."""
    if found["value"] is None:
        return "-"
    text = f"{100 * found['value']:.{digits}f}"
    if found["low"] is None:
        return text
    return f"{text} [{100 * found['low']:.{digits}f}, {100 * found['high']:.{digits}f}]"


def _times(found: dict[str, Any]) -> str:
    return "-" if found["value"] is None else f"{found['value']:.2f}"


def _methods(s: dict[str, Any]) -> str:
    rows = []
    decoys = s["cases"].get("decoy", 0)
    for name, m in s["methods"].items():
        parts = ("srr_covered", "intent_change", "regression", "unsafe_change")
        points = [percent({**m[k], "low": None}) for k in parts]
        false = f"{round((m['false_repair']['value'] or 0) * decoys)} of {decoys}"
        rows.append((name, percent(m["srr"]), *points, _times(m["rollouts"]), false))
    head = ("method", "SRR %", "covers", "intent", "regr.", "unsafe", "runs x", "false rep.")
    legend = (
        "SRR: safely resolved, of all defects that an edit can repair. In per cent of them too: safely resolved with "
        "all that a right repair edits changed; intent changed; a sibling got worse; changed and not safe. runs x: "
        "rollouts relative to FCR. False rep.: sound packages that were changed. regenerate shares no proposals: its "
        "package is another task, and no sealed audit holds it."
    )
    return table(rows, head, right=(2, 3, 4, 5, 6, 7)) + "\n" + wrapped(legend)


def _paired(s: dict[str, Any]) -> str:
    rows = [
        (f"FCR - {name}", p["wins"], p["losses"], p["ties"], percent(p["difference"]))
        for name, p in s["paired"].items()
    ]
    if not rows:
        return ""
    return table(rows, ("same cases", "wins", "losses", "ties", "difference in SRR, points"), right=(1, 2, 3))


def _kinds(s: dict[str, Any]) -> str:
    rows = []
    for name, k in s["kinds"].items():
        alone = f"{k['alone']['fcr']}/{k['alone']['n']}" if k["alone"]["n"] and not name.startswith("(") else ""
        shares = [k.get(m, "") for m in ("fcr", "apply-all", "greedy", "local-only")]
        shares = shares if k["repairable"] else ["", "", "", ""]
        rows.append((name, alone, k["n"], *shares, k["diagnosed"], k["blamed"], k["kind_found"], k["unsafe"]))
    head = ("kind", "alone", "n", "fcr", "all", "grdy", "locl", "env.", "blame", "kind", "bad")
    mean = s["mean_over_kinds"]
    legend = (
        "Cases that FCR resolves safely where the kind is alone; all cases with the kind, how many each method "
        "resolves safely; judged an environment defect, blamed rightly, found by kind; changed by FCR and not safe. "
        f"Mean over kinds: {'-' if mean is None else f'{100 * mean:.1f}'} %."
    )
    return table(rows, head, right=tuple(range(1, 11)), whole=(0,)) + "\n" + wrapped(legend)


def _joint(s: dict[str, Any]) -> str:
    j = s["joint"]
    rows = [(f"at fault {name}", p["at_fault"], p["joint"]) for name, p in j["pairs"].items() if p["at_fault"]]
    rows += [(f"chosen {name}", c["resolved"], c["joint"]) for name, c in sorted(j["combinations"].items())]
    head = f"joint edits were needed in {percent(j['all'])} % of {j['all']['n']} resolved cases"
    return head + "\n" + table(rows, ("components", "resolved", "joint"), right=(1, 2))


def _verdicts(s: dict[str, Any]) -> str:
    names = ("environment", "agent", "sound", "undecided", "infrastructure", "error", "changed")
    rows = [(label, *(v.get(n, 0) for n in names)) for label, v in sorted(s["verdicts"].items())]
    head = ("cases", "environ.", "agent", "sound", "undecided", "infra.", "broke off", "changed")
    return table(rows, head, right=range(1, 8)) + "\nchanged: packages that FCR would change"


def _diagnosis(s: dict[str, Any]) -> str:
    d = s["diagnosis"]
    said = {
        "verdict": "verdict: environment, of all defects",
        "component": "blamed first is what was broken",
        "component_wide": "or what a right repair edits",
        "components_all": "all that was broken is blamed first",
        "kind_first": "first finding is of an expected kind",
        "kind_named": "an expected kind for each component",
        "decoy_verdict": "sound packages not called defective",
    }
    rows = [(text, percent(d[key]), d[key]["n"]) for key, text in said.items() if d[key]["n"]]
    parts = [table(rows, ("diagnosis", "%", "n"), right=(2,))]
    if d["components"]:
        names = ("context", "task", "harness", "verifier", "none")
        cells = [(true, *(row.get(n, 0) for n in names)) for true, row in d["components"].items()]
        parts.append(table(cells, ("at fault", *names), right=range(1, 6)))
    missed = [
        (true, sum(row.values()), row.get(true, 0), _others(row, true))
        for true, row in d["kinds"].items()
        if row.get(true, 0) < sum(row.values())
    ]
    if missed:
        parts.append(table(missed, ("kind expected", "n", "found", "else"), right=(1, 2), whole=(0,)))
    return "\n\n".join(parts)


def _others(row: dict[str, int], true: str) -> str:
    return ", ".join(f"{n} {name}" for name, n in sorted(row.items(), key=lambda p: -p[1]) if name != true)


def _reliability(s: dict[str, Any]) -> str:
    parts = []
    for what, found in s["reliability"].items():
        if not found["n"]:
            continue
        rows = [
            (f"{b['low']:.2f}-{b['high']:.2f}", b["n"], f"{b['confidence']:.2f}", f"{b['right']:.2f}")
            for b in found["bins"]
        ]
        head = f"confidence of {what}: Brier {found['brier']:.3f}, mean gap {found['gap']:.3f}, n = {found['n']}"
        parts.append(head + "\n" + table(rows, ("said", "n", "mean", "right"), right=(1, 2, 3)))
    return "\n\n".join(parts)


def _sources(s: dict[str, Any]) -> str:
    if not s["sources"]:
        return ""
    rows = [
        (name, c["proposed"], c["chosen"], c["resolved"], f"{100 * c['share']:.1f}")
        for name, c in sorted(s["sources"].items())
    ]
    return table(rows, ("proposer", "proposed", "chosen", "resolved", "SRR %"), right=(1, 2, 3, 4))


def _historical(s: dict[str, Any]) -> str:
    found = s["historical"]["agreement"]
    if not found["n"]:
        return ""
    return f"FCR edits the components that people edited in {percent(found)} % of {found['n']} cases"


def _lazy(s: dict[str, Any]) -> str:
    found = s["lazy"]
    if not found["cases"]:
        return ""
    differ = ", ".join(found["differ"]) or "none"
    return "\n".join(
        [
            f"lazy and exhaustive on {found['cases']} cases: other choices in {differ}",
            f"rollouts of lazy over exhaustive: {percent(found['all'])} %; "
            f"resolved with 3 or 4 proposals ({found['deep_cases']}): {percent(found['deep'])} %",
        ]
    )


def _cost(s: dict[str, Any], value: dict[str, Any]) -> str:
    c = s["cost"]
    if c["seconds_a_case"] is None:
        return ""
    rate = 60 * value["workers"] / c["seconds_a_case"]
    line = (
        f"lazy FCR alone: {c['seconds_a_case']:.1f} s a case, {rate:.1f} cases a minute at -n {value['workers']}; "
        f"{c['rollouts_a_case']:.0f} rollouts a case; a worker held at most {c['memory_mb']:.0f} MB; "
        f"{value['ran']} cases were run just now, in {value['seconds']:.0f} s"
    )
    return wrapped(line)


# --- one case --------------------------------------------------------------------------------------------
def _one(report: BenchReport, explain: bool) -> None:
    from rover.bench.fcr_explain import explained, in_short

    for row in report.rows:
        for line in explained(row) if explain else in_short(row):
            print(wrapped(line, "    " if line.startswith("  ") else ""))
