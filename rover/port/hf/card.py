"""README.md of the folder: what `datasets` reads in its head, and what a person should know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rover.port.hf.features import CONFIGS, SECRET, yaml
from rover.port.licenses import identifier

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


@dataclass(frozen=True, slots=True)
class Facts:
    """What a card says. `rows`: configuration -> how many, and one without any has no file; `licenses`: as the packages
    name them."""

    revision: str
    rows: Mapping[str, int]
    licenses: Sequence[str] = ()
    bytes: Mapping[str, int] = field(default_factory=dict)


def text(facts: Facts) -> str:
    """The card."""
    return "\n".join([*_head(facts), *_body(facts)]) + "\n"


def _head(facts: Facts) -> list[str]:
    named = facts.licenses[0] if len(facts.licenses) == 1 else ""
    known = identifier(named).lower()
    lines = ["---", f"license: {known or 'other'}"]
    if named and not known:
        lines.append(f"license_name: {_slug(named)}")
    total = facts.rows["packages"]
    size = next((name for limit, name in _SIZES if total < limit), "1M<n<10M")
    lines += ["pretty_name: Task packages of rover", "tags:", "- agents", "- tool-use", "- rover"]
    lines += ["size_categories:", f"- {size}", "configs:"]
    held = [name for name, count in facts.rows.items() if count]
    for name in held:
        lines += [f"- config_name: {name}", f"  data_files: {name}.jsonl"]
        lines += ["  default: true"] if name == "packages" else []
    lines.append("dataset_info:")
    columns = {**CONFIGS, **SECRET}
    for name in held:
        lines += [f"- config_name: {name}", "  features:", *yaml(columns[name], 2)]
    return [*lines, "---", ""]


def _body(facts: Facts) -> list[str]:
    rows = [f"| {name} | {facts.rows[name]} | {facts.bytes.get(name, 0)} | {_SAYS[name]} |" for name in facts.rows]
    licenses = ", ".join(facts.licenses) or "none is named by the packages"
    secret = "verifiers" in facts.rows
    return [
        "# Task packages", "",
        f"Revision `{facts.revision}` of a rover store. Licence of the files behind the tasks: {licenses}.",
        "", "| configuration | rows | bytes | what a row is |", "| --- | --- | --- | --- |", *rows, "",
        "```python", "from datasets import load_dataset", "",
        'packages = load_dataset("FOLDER", "packages", split="train")', "```", "",
        "Where a file of a package lies is in `files` (the workspace at its start) and `package_files` (context, task",
        "and harness as stored); its bytes are the row of `files` with the same `blob`: `content` as UTF-8 text, or",
        "as base64 where `encoding` says so. `blob` is the file's git id, `sha256` the digest of its bytes.", "",
        "`messages` of a demonstration is the conversation, `atif` the same rollout as an ATIF-v1.8 document.",
        "Component ids (`context`, `task`, `harness`, `verifier`) are git tree ids: a row holds for these versions.",
        "",
        *(_WITH if secret else _WITHOUT),
    ]  # fmt: skip


_SAYS = {
    "packages": "a task: instruction, contract, harness, and where its files are",
    "files": "the bytes of a file, once for all packages",
    "demonstrations": "a rollout that passed",
    "verdicts": "what a verifier found in a rollout, criterion by criterion",
    "verifiers": "checks, expected values, reference and cases of a package",
    "verifier_files": "the bytes of a file of a verifier",
}
_WITHOUT = [
    "Verifiers, references and the words of verdicts are left out: they hold the answers, and who trains on this",
    "folder would train on them.",
]
_WITH = [
    "**This folder holds verifiers and references, so the answers: keep it out of training data.**",
]


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() or c in ".-" else "-" for c in name.lower())[:60]
