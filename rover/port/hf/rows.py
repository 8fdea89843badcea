"""One row of each configuration, as plain values. What differs from row to row in its shape is JSON text."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rover.harness.tools.specs import offered
from rover.port.atif.write import document_of
from rover.rollout.env import Env, below
from rover.sandbox.protocol import Files
from rover_store.ids import COMPONENTS, blob_id
from rover_store.records import Harness, Trajectory, Verdict

if TYPE_CHECKING:
    from rover_store.layout import PackageEntry

Row = dict[str, Any]
#: what a policy reads where an output was cut
CUT = "\n[the output was cut here]"
#: parts of a package that give no answer away
OPEN = ("package.json", "context/", "task/", "harness/")


def package(env: Env, entry: PackageEntry, revision: str) -> Row:
    """A package without its verifier: what an agent is asked, what it starts from, what it may use."""
    declared = {file.path: file for file in env.context.files}
    place = env.context.environment
    files = []
    for path, data in env.start.items():
        known = declared.get(path)
        access, role = (known.access, known.role) if known else ("protected", "input")
        files.append({"path": path, "blob": blob_id(data), "size": len(data), "access": access, "role": role})
    return {
        "name": entry.name,
        "title": env.record.title,
        "family": env.record.family,
        "workspace": env.record.workspace,
        "tags": list(env.record.tags or ()),
        "instruction": env.instruction,
        "contract": env.files["task/contract.json"].decode(),
        "tools": list(env.harness.tools),
        "harness_record": env.files["harness/harness.json"].decode(),
        "requires": list(env.harness.requires or ()),
        "workdir": place.workdir if place else "",
        "image": place.image if place else "",
        "files": files,
        "package_files": [_file(path, data) for path, data in open_files(env).items()],
        **_ids(entry),
        "tree": entry.tree,
        "license": env.record.provenance.license,
        "revision": revision,
    }


def open_files(env: Env) -> dict[str, bytes]:
    """The files of the package as stored, but for the verifier and what shows a solution."""
    return {path: data for path, data in sorted(env.files.items()) if path.startswith(OPEN)}


def verifier(env: Env, entry: PackageEntry, revision: str) -> Row:
    """The whole verifier component: checks, anchors, reference, cases."""
    return {
        "package": entry.name,
        "verifier": env.verifier_id,
        "record": env.files["verifier/verifier.json"].decode(),
        "files": [_file(path, data) for path, data in sorted(below(env.files, "verifier/").items())],
        "revision": revision,
    }


def contents(files: Files, seen: set[str]) -> Iterator[Row]:
    """The bytes of files, each once: as text where they are UTF-8, else as base64."""
    for data in files.values():
        blob = blob_id(data)
        if blob in seen:
            continue
        seen.add(blob)
        try:
            encoding, content = "utf-8", data.decode()
        except UnicodeDecodeError:
            encoding, content = "base64", base64.b64encode(data).decode()
        digest = hashlib.sha256(data).hexdigest()
        yield {"blob": blob, "sha256": digest, "size": len(data), "encoding": encoding, "content": content}


def demonstration(env: Env, entry: PackageEntry, trajectory: Trajectory, verdict: Verdict) -> Row:
    """A rollout that passed, as a conversation and as an ATIF document."""
    document = document_of(trajectory, env.instruction, env.harness, [_mute(verdict)])
    return {
        "package": entry.name,
        "rollout": verdict.rollout,
        "policy": trajectory.key.policy,
        "seed": trajectory.key.seed,
        "turns": len(trajectory.turns),
        "messages": [*messages(env.instruction, trajectory)],
        "tools": json.dumps(_tools(env.harness), ensure_ascii=False),
        "atif": json.dumps(document.model_dump(mode="json", exclude_none=True), ensure_ascii=False),
        "outcome": verdict.outcome,
        "score": verdict.score,
        **_ids(entry),
    }


def messages(instruction: str, trajectory: Trajectory) -> Iterator[Row]:
    """The conversation in the form of chat completions; arguments are JSON text."""
    yield {"role": "user", "content": instruction}
    last: Row = {}
    for turn in trajectory.turns:
        last = {"role": "assistant", "content": turn.message}
        if turn.calls:
            last["tool_calls"] = [
                {"id": call.id, "type": "function",
                 "function": {"name": call.tool, "arguments": json.dumps(call.arguments, ensure_ascii=False)}}
                for call in turn.calls
            ]  # fmt: skip
        yield last
        for call in turn.calls:
            content = call.output + (CUT if call.truncated else "")
            yield {"role": "tool", "content": content, "tool_call_id": call.id, "name": call.tool}
    if not last or "tool_calls" in last:
        yield {"role": "assistant", "content": trajectory.final_message}


def verdict(entry: PackageEntry, trajectory: Trajectory, found: Verdict, *, reasons: bool) -> Row:
    """A verdict with the score of each criterion. `reasons`: in words too, which may quote what was expected."""
    key, used = trajectory.key, trajectory.usage
    return {
        "rollout": found.rollout,
        "package": entry.name,
        "policy": key.policy,
        "seed": key.seed,
        "runtime": key.runtime,
        "outcome": found.outcome,
        "passed": found.outcome == "passed",
        "score": found.score,
        "gate": found.gate,
        "criteria": [
            {"criterion": s.criterion, "requirement": s.requirement, "score": s.score, "weight": s.weight,
             "critical": s.critical, "status": s.status, "reason": s.reason if reasons else ""}
            for s in found.scores
        ],
        "reason": found.reason if reasons else "",
        "end": trajectory.end,
        "turns": len(trajectory.turns),
        "prompt_tokens": used.prompt_tokens,
        "completion_tokens": used.completion_tokens,
        **_ids(entry),
    }  # fmt: skip


def _mute(verdict: Verdict) -> Verdict:
    """The verdict without its words."""
    scores = tuple(score.model_copy(update={"reason": ""}) for score in verdict.scores)
    return verdict.model_copy(update={"scores": scores, "reason": ""})


def _tools(harness: Harness) -> list[Mapping[str, Any]]:
    return [
        {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.parameters}}
        for t in offered(harness.tools)
    ]


def _ids(entry: PackageEntry) -> Row:
    return {name: entry.components.get(name, "") for name in COMPONENTS}


def _file(path: str, data: bytes) -> Row:
    return {"path": path, "blob": blob_id(data), "size": len(data)}


def lines(rows: Iterable[Row]) -> Iterator[bytes]:
    """Rows as lines of JSON."""
    for row in rows:
        yield (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n").encode()
