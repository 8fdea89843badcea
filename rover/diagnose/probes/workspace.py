"""Probes that look over the workspace at its start: what lies there, under which name, and with which leave."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from rover.diagnose.demands import contract_sources
from rover.diagnose.protocol import ProbeContext
from rover.rollout.env import Env
from rover_store.ids import blob_id
from rover_store.records import Finding

#: so many lines of a check in a file of the workspace are no chance
LEAST_LINES = 4
_SHORT = 12


class Misnamed:
    """A file that the contract reads, or that is edited in place, lies under the name that the contract uses."""

    name = "names"
    written_for = frozenset({"misnamed_input"})
    cost = 0

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        env = ctx.env
        needed = dict.fromkeys(contract_sources(env.contract))
        needed |= dict.fromkeys(d.path for d in env.contract.deliverables if d.in_place)
        out = []
        for path in needed:
            found = None if path in env.start else same_file(env, path, set(needed))
            if found is not None:
                out.append(
                    Finding(
                        probe=self.name,
                        kind="misnamed_input",
                        message=f"{path} is not in the workspace, but {found} lies there in its place",
                        components=("context", "task"),
                        evidence=("context/context.json", "task/contract.json", blob_id(env.start[found])),
                        details={"subject": path, "path": path, "found": found},
                    )
                )
        return tuple(out)


def same_file(env: Env, path: str, needed: set[str]) -> str | None:
    """The file that `path` must have been: by a blob that the verifier was built on, else by the likeliest name."""
    recorded = {blob for edge in env.record.edges for blob in edge.blobs}
    present = {blob_id(env.start[p]) for p in needed if p in env.start}
    others = [p for p in env.start if p not in needed]
    by_blob = [p for p in others if blob_id(env.start[p]) in recorded - present]
    mine = PurePosixPath(path)
    if len(by_blob) == 1 and PurePosixPath(by_blob[0]).suffix == mine.suffix:
        return by_blob[0]
    alike = [p for p in others if PurePosixPath(p).suffix == mine.suffix and _alike(PurePosixPath(p).stem, mine.stem)]
    both = [p for p in alike if p in by_blob] or alike
    return both[0] if len(both) == 1 else None


def alike_in(env: Env, path: str) -> str:
    """The one file of the workspace whose name is like that of a missing one; empty where there is none, or several."""
    mine = PurePosixPath(path)
    others = [PurePosixPath(p) for p in env.start]
    alike = [str(p) for p in others if p.suffix == mine.suffix and _alike(p.stem, mine.stem)]
    return alike[0] if len(alike) == 1 else ""


class Readable:
    """Nothing of the verifier lies in the workspace: no check, no list of expected values, no calibration case."""

    name = "readable"
    written_for = frozenset({"verifier_readable"})
    cost = 0

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        env = ctx.env
        own = {
            blob_id(data): path
            for path, data in env.verifier_files.items()
            if len(data.strip()) > _SHORT and not path.startswith(("reference/files/", "cases/"))
        }
        lines = _check_lines(env)
        out = []
        for path, data in env.start.items():
            same = own.get(blob_id(data))
            what = f"the same as the verifier's {same}" if same else _holds(data, lines, env)
            if what:
                out.append(
                    Finding(
                        probe=self.name,
                        kind="verifier_readable",
                        message=f"{path} is open to the policy and is {what}",
                        components=("context",),
                        evidence=(path, blob_id(data)),
                        details={"subject": path, "path": path, "how": "exact" if same else "in parts"},
                    )
                )
        return tuple(out)


class Leftovers:
    """Where a new deliverable has to go, there is nothing yet: no file, no folder, no file for its folder."""

    name = "leftovers"
    written_for = frozenset({"leftover_output"})
    cost = 0

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        return tuple(
            Finding(
                probe=self.name,
                kind="leftover_output",
                message=f"{path} {why}",
                components=("context",),
                evidence=("task/contract.json", path),
                details={"subject": target, "path": path, "paths": [path]},
            )
            for target, path, why in _in_the_way(ctx.env)
        )


class Marks:
    """What the contract has edited is not marked as protected."""

    name = "marks"
    written_for = frozenset({"protected_target"})
    cost = 0

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        targets = {d.path for d in ctx.env.contract.deliverables if d.in_place}
        return tuple(
            Finding(
                probe=self.name,
                kind="protected_target",
                message=f"the task has {file.path} edited, and context.json marks it as protected",
                components=("context",),
                evidence=("context/context.json", "task/contract.json"),
                details={"subject": file.path, "path": file.path},
            )
            for file in ctx.env.context.files
            if file.access == "protected" and file.path in targets
        )


def _in_the_way(env: Env) -> Iterator[tuple[str, str, str]]:
    """(deliverable, path that is in its way, what it is)."""
    for target in dict.fromkeys(d.path for d in env.contract.deliverables if not d.in_place):
        if target in env.start:
            yield target, target, "is to be made, and lies in the workspace already"
        for path in env.start:
            if path.startswith(target + "/"):
                yield target, path, f"lies where the file {target} has to go"
                break
        for folder in PurePosixPath(target).parents:
            if str(folder) in env.start:
                yield target, str(folder), f"is a file where the folder of {target} has to be"


def _check_lines(env: Env) -> frozenset[bytes]:
    sources = (d for p, d in env.verifier_files.items() if p.startswith("checks/"))
    lines = (line.strip() for data in sources for line in data.splitlines())
    return frozenset(line for line in lines if len(line) > _SHORT and not line.startswith((b"#", b"import", b"from")))


def _holds(data: bytes, lines: frozenset[bytes], env: Env) -> str:
    held = {line.strip() for line in data.splitlines()} & lines
    if len(held) >= min(LEAST_LINES, max(2, len(lines))):
        return f"made of {len(held)} lines of the verifier's checks"
    anchors = {a.id: [list(row) for row in a.value.rows] for a in env.anchors.anchors if a.value.rows}
    if anchors and b"rows" in data and any(name.encode() in data for name in anchors):
        try:
            found = _tables(json.loads(data))
        except (ValueError, RecursionError):
            return ""
        shown = sorted(name for name, rows in found if anchors.get(name) == rows)
        if shown:
            return f"a list of expected values ({', '.join(shown[:3])})"
    return ""


def _tables(value: Any, depth: int = 0) -> list[tuple[str, list[Any]]]:
    """Objects that have an id and rows, wherever they stand."""
    if depth > 8:
        return []
    if isinstance(value, list):
        return [found for item in value for found in _tables(item, depth + 1)]
    if not isinstance(value, dict):
        return []
    inner = [
        (str(value.get("id", name)), table["rows"])
        for name, table in [("", value), *value.items()]
        if isinstance(table, dict) and isinstance(table.get("rows"), list)
    ]
    return inner + [found for item in value.values() for found in _tables(item, depth + 1)]


def _alike(one: str, other: str) -> bool:
    """Names that differ in case, a year, a version or an ending alone."""
    a, b = _bare(one), _bare(other)
    return bool(a) and bool(b) and (a == b or a.startswith(b) or b.startswith(a))


def _bare(stem: str) -> str:
    kept = "".join(c for c in stem.lower() if c.isalpha())
    for word in ("final", "old", "new", "copy", "of"):
        kept = kept.removesuffix(word)
    return kept
