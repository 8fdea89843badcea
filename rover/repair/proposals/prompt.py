"""What a model is told: the diagnosis, the component it may change, and the rest of the package in short."""

from __future__ import annotations

from collections.abc import Iterable

from rover.repair.proposals.protocol import PackageView
from rover_store.ids import COMPONENTS, ComponentName
from rover_store.records import Finding

SYSTEM = """\
You repair packages that hold a task for an office agent. A package has four components: context (the files of the
workspace), task (the request), harness (tools and budgets) and verifier (the checks). The contract in
task/contract.json is what the task means; it is right and never changes.
You may change one component only. Make the smallest edit that removes what the diagnosis found, and make the component
fit the contract and the other three. Never make the task easier, and never write an answer where a worker can read it.
Answer with one JSON object and nothing else:
{"rationale": "one sentence", "edits": [{"path": "file in the component", "exchanges": [{"find": "text that stands \
there once", "replace": "its replacement"}]}]}
Instead of "exchanges" an edit may have "content" (the whole new file) or "delete": true. If this component needs no
change, answer {"rationale": "why", "edits": []}.
"""

_MEANING: dict[str, str] = {
    "context": "files of the workspace (context.json lists them; files/ holds the package's own)",
    "task": "the request (instruction.md)",
    "harness": "tools, budgets and limits (harness.json)",
    "verifier": "criteria (verifier.json), checks (checks/*.py), expected values (anchors.json)",
}
#: files that are told first, and whole as far as there is room
_FIRST = ("instruction.md", "contract.json", "harness.json", "verifier.json", "context.json", "checks/", "task.json")
_LINES = 12


def prompt(view: PackageView, component: ComponentName, findings: Iterable[Finding], most: int) -> str:
    """At most `most` characters or so, the component itself first."""
    head = [f"The component that you may change: {component}, {_MEANING[component]}.", "", "Diagnosis:"]
    for finding in findings:
        told = ", ".join(f"{k}: {str(v)[:120]}" for k, v in sorted(finding.details.items()))
        head.append(f"- {finding.kind}: {finding.message}" + (f" ({told})" if told else ""))
    parts = ["\n".join(head)]
    left = most - len(parts[0])
    contract = view.contract.dump().decode()
    if component != "task":
        left -= _add(parts, "task/contract.json", contract, left)
    for name in (component, *(c for c in COMPONENTS if c != component)):
        for path, data in _ordered(view.component(name)):
            where = f"{name}/{path}"
            if where == "task/contract.json" and component != "task":
                continue
            whole = name == component and not path.startswith(("reference/", "cases/"))
            left -= _add(parts, where, _text(data, whole=whole), left)
    for path, data in sorted(view.env.start.items()):
        if f"context/files/{path}" not in view.files:
            left -= _add(parts, f"workspace: {path} (from a shared resource)", _text(data, whole=False), left)
    return "\n\n".join(parts)


def _ordered(files: dict[str, bytes]) -> list[tuple[str, bytes]]:
    def place(path: str) -> tuple[int, str]:
        return next((i for i, first in enumerate(_FIRST) if path.startswith(first)), len(_FIRST)), path

    return sorted(files.items(), key=lambda item: place(item[0]))


def _text(data: bytes, *, whole: bool) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return f"({len(data)} bytes that are no text)"
    lines = text.splitlines()
    if whole or len(lines) <= _LINES:
        return text if len(text) < 12_000 else text[:12_000] + "\n(cut here)"
    return "\n".join(line[:200] for line in lines[:_LINES]) + f"\n({len(lines) - _LINES} more lines)"


def _add(parts: list[str], name: str, text: str, left: int) -> int:
    """Add one file if there is room for a good part of it; how many characters it took."""
    if left < 200:
        return 0
    body = text if len(text) <= left else text[: left - 40] + "\n(cut here)"
    part = f"--- {name}\n{body}"
    parts.append(part)
    return len(part)
