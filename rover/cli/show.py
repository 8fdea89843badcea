"""`rover show`: one thing of the store, in words."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import typer

from rover.cli.output import Json, Rev, note, plain, print_json, table, utc, width
from rover.cli.stores import open_store

LETTERS = {"context": "C", "task": "T", "harness": "H", "verifier": "V"}


def command(
    what: str = typer.Argument("HEAD", help="REV, PACKAGE, PACKAGE/component, REV:PATH, a rollout or a case."),
    rev: str = Rev,
    as_json: bool = Json,
) -> None:
    """Show a commit, package, component, file, rollout or case.

    Example: rover show HEAD
    """
    from rover.ops.show import show

    store = open_store()
    shown = show(store, what, rev)
    if shown.kind == "commit" and len(names := store.revisions.named(what)) > 1:
        note(f"{what} is {names[0]}; there is also {' and '.join(names[1:])}")
    if as_json:
        print_json(asdict(shown))
    elif shown.kind == "file" and shown.data["text"] is not None:
        text = shown.data["text"]
        sys.stdout.write(plain(text, keep="\t\r\n") if sys.stdout.isatty() else text)
    else:
        print(plain(_words(shown.kind, shown.name, shown.data), keep="\t\n"))


def _words(kind: str, name: str, data: dict[str, Any]) -> str:
    try:
        return _RENDER[kind](name, data)
    except (TypeError, KeyError, AttributeError, ValueError):
        if kind != "package":
            raise
        note(f"{name}: its records are not what rover writes; `rover fsck` tells more")
        rows = [(LETTERS[c], c, i[:12]) for c, i in data["components"].items()]
        return f"{name}  {data['tree']}\n\n" + table(rows, ("", "component", "version"))


def _commit(name: str, data: dict[str, Any]) -> str:
    out = [f"commit {name}", f"author {data['author']}", f"date   {utc(data['time'], '%Y-%m-%d %H:%M:%S UTC')}", ""]
    out += [f"    {line}".rstrip() for line in data["message"].rstrip().splitlines()]
    rows = [(change_mark(p), p["name"], component_letters(p["components"])) for p in data["packages"]]
    rows += [(change_mark(r), f"resources/{r['name']}", "") for r in data["resources"]]
    if rows:
        out += ["", table(rows, ("", "changed", "components"))]
    return "\n".join(out)


def change_mark(change: dict[str, Any]) -> str:
    """A for added, D for deleted, M for changed, as git has it."""
    if change["old"] is None:
        return "A"
    return "D" if change["new"] is None else "M"


def component_letters(names: list[str]) -> str:
    return "".join(LETTERS.get(n, "") for n in names) or "-"


def _package(name: str, data: dict[str, Any]) -> str:
    package, contract, harness = data["package"], data["contract"], data["harness"]
    provenance = package.get("provenance", {})
    budget = harness.get("budget", {})
    out = [
        f"{name}  {package.get('title', '')}",
        f"family {package.get('family') or 'hand'}, workspace {package.get('workspace') or '-'}, "
        f"built by {provenance.get('builder', 'hand')} (seed {provenance.get('seed', '-')})",
        "",
        table([(LETTERS[c], c, i[:12]) for c, i in data["components"].items()], ("", "component", "version")),
        "",
        "Instruction",
        *(_indented(line) for line in data["instruction"].strip().splitlines()),
        "",
        table(
            [
                (f["path"], f.get("access", "protected"), f.get("role", "input"))
                for f in data["context"].get("files", [])
            ],
            ("file", "access", "role"),
        ),
        "",
        f"tools  {', '.join(harness.get('tools', []))}",
        f"budget {budget.get('turns', '-')} turns, {budget.get('seconds', '-')} s",
        "",
        table(
            [
                (r["id"], r["rule"]["kind"], "yes" if r.get("critical") else "", r["statement"])
                for r in contract.get("requirements", [])
            ],
            ("requirement", "rule", "critical", "statement"),
        ),
    ]
    return "\n".join(out)


def _indented(line: str) -> str:
    """A line of the instruction; one that does not fit goes on below, as far in as it begins."""
    import textwrap

    inner = " " * (2 + len(line) - len(line.lstrip()))
    rest = inner + ("  " if line.lstrip().startswith(("- ", "* ")) else "")
    return "\n".join(textwrap.wrap(line.strip(), width(), initial_indent=inner, subsequent_indent=rest,
                                   break_long_words=False, break_on_hyphens=False))  # fmt: skip


def _component(name: str, data: dict[str, Any]) -> str:
    import json

    rows = [(path, blob[:12]) for path, blob in data["files"].items()]
    record = json.dumps(data["record"], indent=2, ensure_ascii=False)
    return "\n".join([f"{name}  {data['id']}", "", record, "", table(rows, ("file", "blob"))])


def _folder(name: str, data: dict[str, Any]) -> str:
    rows = [(n + ("/" if e["folder"] else ""), e["id"][:12]) for n, e in data["entries"].items()]
    return f"{name}  {data['id']}\n\n" + table(rows, ("name", "id"))


def _file(name: str, data: dict[str, Any]) -> str:
    return f"{name}  {data['id']}\n{data['size']} bytes, not text"


def _rollout(name: str, data: dict[str, Any]) -> str:
    from rover.rollout.render import render
    from rover_store.records import Trajectory, Verdict

    verdicts = [Verdict.model_validate(v) for v in data["verdicts"]]
    trajectory = Trajectory.model_validate(data["trajectory"])
    return render(name, trajectory, verdicts[0] if verdicts else None)


def _case(name: str, data: dict[str, Any]) -> str:
    from rover.cli.repair import render_case

    return render_case(data)


_RENDER: dict[str, Callable[[str, dict[str, Any]], str]] = {
    "commit": _commit,
    "package": _package,
    "component": _component,
    "folder": _folder,
    "file": _file,
    "rollout": _rollout,
    "case": _case,
}
