"""Findings as SARIF 2.1.0, the format that code scanning takes. Equal findings give equal bytes: no time, no path of
this machine.

Kept within what GitHub takes of a file: results, rules, lengths of texts. Every result has a file, a line, and
fingerprints that stay when lines move: of the package, the kind, the file and what the finding is about.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from rover.diagnose.kinds import KINDS, Kind
from rover.diagnose.remedies import REMEDIES
from rover.ops.findings import HINTS, LEVELS, Said

if TYPE_CHECKING:
    from rover.ops.check import Checked

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
HOME = "https://pypi.org/project/workrover/"
#: what GitHub takes: results of a run, characters of a message and of a rule's texts
MOST_RESULTS, MOST_MESSAGE, MOST_TEXT = 25_000, 5_000, 1_024
_SECURITY = frozenset({"secret_in_settings", "leaked_answer", "verifier_readable"})


def sarif(every: Iterable[Checked], base: str = "") -> bytes:
    """One run with all findings. `base` stands before every path: the folder of the tasks in a repository."""
    checked = list(every)
    rules = {kind.name: number for number, kind in enumerate(KINDS)}
    rows = [(one, said) for one in checked for said in one.said]
    rows = sorted(rows, key=lambda row: (LEVELS.index(row[1].level), row[0].package))[:MOST_RESULTS]
    used = sorted({said.finding.kind for _, said in rows}, key=rules.__getitem__)
    index = {name: number for number, name in enumerate(used)}
    run = {
        "tool": {
            "driver": {
                "name": "rover",
                "semanticVersion": _version(),
                "informationUri": HOME,
                "rules": [_rule(kind) for kind in KINDS if kind.name in index],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": _numbered([_result(one, said, index, base) for one, said in rows]),
        "properties": {"packages": len(checked), "results": sum(len(one.said) for one in checked)},
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return (json.dumps(log, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _version() -> str:
    try:
        return version("workrover")
    except PackageNotFoundError:
        return "0.0.0"


def _rule(kind: Kind) -> dict[str, Any]:
    level = "note" if kind.name in HINTS else "warning" if kind.mild else "error"
    what_to_do = REMEDIES.get(kind.name, "")
    tags = ["rover", kind.component, *(["security"] if kind.name in _SECURITY else [])]
    return {
        "id": kind.name,
        "name": "".join(word.capitalize() for word in kind.name.split("_")),
        "shortDescription": {"text": kind.summary[:MOST_TEXT]},
        "fullDescription": {"text": f"{kind.summary} {what_to_do}"[:MOST_TEXT]},
        "help": {
            "text": f"{kind.summary}\n\n{what_to_do}",
            "markdown": f"{kind.summary}\n\n**What to do:** {what_to_do}",
        },
        "helpUri": HOME,
        "defaultConfiguration": {"level": level},
        "properties": {
            "tags": tags,
            "problem.severity": {"error": "error", "warning": "warning", "note": "recommendation"}[level],
        },
    }


def _result(one: Checked, said: Said, index: dict[str, int], base: str) -> dict[str, Any]:
    finding = said.finding
    path = "/".join(part for part in (base.strip("/"), one.folder.strip("/"), said.file) if part)
    kept = {
        "package": one.package,
        "component": said.component,
        "components": list(finding.components),
        "probe": finding.probe,
        "status": finding.status,
        "evidence": list(finding.evidence),
    }
    if finding.requirement:
        kept["requirement"] = finding.requirement
    return {
        "ruleId": finding.kind,
        "ruleIndex": index[finding.kind],
        "level": said.level,
        "message": {"text": _cut(f"{one.package}: {finding.message}")},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(path), "uriBaseId": "%SRCROOT%"},
                    "region": {"startLine": said.line or 1},
                },
                "logicalLocations": [
                    {"name": one.package, "fullyQualifiedName": f"{one.package}/{said.component}", "kind": "module"}
                ],
            }
        ],
        "partialFingerprints": {"roverFinding/v1": fingerprint(one.package, said)},
        "properties": kept,
    }


def fingerprint(package: str, said: Said) -> str:
    """What makes a finding the same one in the next run: no line, no wording, no rollout."""
    subject = said.finding.details.get("subject", said.finding.requirement or "")
    about = [package, said.finding.kind, said.file, str(subject)]
    return hashlib.sha256("\0".join(about).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _numbered(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each result with a fingerprint of its own, also in the key by which GitHub follows an alert."""
    seen: dict[str, int] = {}
    for result in results:
        prints = result["partialFingerprints"]
        own = prints["roverFinding/v1"]
        seen[own] = seen.get(own, 0) + 1
        prints["roverFinding/v1"] = own if seen[own] == 1 else f"{own}:{seen[own]}"
        prints["primaryLocationLineHash"] = f"{own[:16]}:{seen[own]}"
    return results


def _cut(text: str) -> str:
    text = " ".join(text.encode("utf-8", "replace").decode().split())
    return text if len(text) <= MOST_MESSAGE else f"{text[: MOST_MESSAGE - 1]}…"
