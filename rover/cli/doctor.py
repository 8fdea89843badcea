"""`rover doctor`: what works on this machine."""

from __future__ import annotations

from dataclasses import asdict

from rover.cli.output import Json, note, print_json, table


def command(as_json: bool = Json) -> int:
    """Probe this machine and say what works: sandboxes, git, disk, versions, a model server if one is named.

    Starts a box of every kind of sandbox. Exit code 0 if one that confines works, else 3, with what to do.
    Example: rover doctor
    """
    import os
    from pathlib import Path

    from rover.ops.doctor import examine

    report = examine(Path(os.environ.get("ROVER_STORE") or Path.cwd()), os.environ)
    if as_json:
        findings = [asdict(finding) for finding in report.findings]
        print_json({"works": report.works, "sandbox": report.auto, "findings": findings})
    else:
        print(table([(f.topic, f.state, f.text) for f in report.findings], ("what", "state", "finding")))
        note("all that rover needs works here" if report.works else "rover cannot run packages here; see `fail` above")
    return 0 if report.works else 3
