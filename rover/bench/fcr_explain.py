"""One case in plain words: what was broken, what was found, what was tried, and what each method would have done.

What was broken comes from the manifest; all else from the case as it was run without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rover.repair.fcr import letters

Row = dict[str, Any]
_WORDS = {
    "fcr": "FCR", "apply-all": "Apply-all", "greedy": "Greedy", "local-only": "Local-only",
    "no-op": "Doing nothing", "regenerate": "Regeneration",
}  # fmt: skip


def in_short(row: Row) -> Iterator[str]:
    """The case in a few lines."""
    facts, result = row["facts"], row["result"]
    kinds = "+".join(facts["kinds"]) or facts["label"]
    yield f"case {facts['id']}: {facts['package']}, {kinds}"
    if result is None:
        yield f"broke off: {row['error']}"
        return
    yield f"{result['diagnosis']['verdict']}: {result['diagnosis']['summary']}"
    for name, found in result["methods"].items():
        yield f"  {name:10} {_pick(found):5} {_worth(found)}"


def explained(row: Row) -> Iterator[str]:
    """The whole story."""
    facts, result = row["facts"], row["result"]
    yield f"case {facts['id']} of workspace {facts['workspace']}: {facts['package']}"
    yield from _broken(facts)
    if result is None:
        yield f"The case broke off: {row['error']}"
        return
    if row["settings"]["without"]:
        yield f"Rules are off that were written for {', '.join(row['settings']['without'])}."
    yield ""
    yield from _found(result)
    yield ""
    yield from _proposed(result)
    yield from _lattice(result)
    yield ""
    yield from _chosen(result)
    yield ""
    for name, found in result["methods"].items():
        if name != "fcr":
            yield from _method(name, found)


def _broken(facts: dict[str, Any]) -> Iterator[str]:
    if facts["label"] == "decoy":
        runs = len(facts["runs"])
        yield f"Nothing was broken: a sound package in which {runs} runs of agents failed. Nothing should be changed."
        return
    yield f"Broken on purpose ({' and '.join(facts['kinds'])}): {facts['note'] or 'as the kind says'}."
    if facts["label"] == "unfixable":
        yield "What was lost cannot be had back: no edit can repair it, and nothing should be changed."
    else:
        masks = " or ".join(letters(m) for m in facts["right"])
        yield f"At fault: {', '.join(facts['components'])}. Right repairs edit {masks or 'what was broken'}."
    expected = ", ".join(f"{e['kind']} ({e['component']})" for e in facts["expects"])
    if expected:
        yield f"A right diagnosis finds {expected}."


def _found(result: Row) -> Iterator[str]:
    found = result["diagnosis"]
    yield f"Diagnosis: {found['verdict']}. {found['summary']}"
    for one in found["findings"]:
        sure = "" if one["confidence"] is None else f", confidence {one['confidence']:.2f}"
        who = ", ".join(one["components"])
        yield f"  {one['status']} {one['kind']} ({one['probe']}{sure}; suspects {who}): {one['message']}"
    if found["blame"]:
        ranked = sorted(found["blame"].items(), key=lambda p: -p[1])
        yield "  blame: " + ", ".join(f"{name} {share:.2f}" for name, share in ranked)


def _proposed(result: Row) -> Iterator[str]:
    if not result["proposals"]:
        yield f"Nothing was proposed: {result['reason']}"
    for one in result["proposals"]:
        yield f"Proposed for {one['component']} by {one['source']}: {one['rationale'] or 'no reason given'}"


def _lattice(result: Row) -> Iterator[str]:
    if not result.get("lattice"):
        return
    yield ""
    yield "Combinations, in the order in which they were taken:"
    order = result.get("evaluated", [])
    rows = sorted(
        result["lattice"], key=lambda c: (order.index(c["mask"]) if c["mask"] in order else 99, c["mask"])
    )
    for one in rows:
        yield f"  {letters(one['mask']):5}{one['status']}: {_why(one)}"
    full = result.get("exhaustive")
    if full:
        same = "the same" if full["selected"] == result["selected"] else f"another: {letters(full['selected'] or 0)}"
        yield f"Replaying all {full['combinations']} combinations chose {same}."


def _short(evidence: str) -> str:
    """Ids are cut as everywhere; paths and cases are not."""
    return evidence[:12] if re.fullmatch(r"[0-9a-f]{40,64}", evidence) else evidence


def _why(one: Row) -> str:
    failed = [g for g in one["gates"] if not g["passed"]]
    if failed:
        seen = f" (see {', '.join(_short(e) for e in failed[0]['evidence'][:2])})" if failed[0]["evidence"] else ""
        return f"{failed[0]['gate']}: {failed[0]['reason']}{seen}"
    if one["gates"]:
        return f"holds at {', '.join(g['gate'] for g in one['gates'])}"
    return "nobody had to ask" if one["status"] == "not_run" else "-"


def _chosen(result: Row) -> Iterator[str]:
    fcr = result["methods"]["fcr"]
    yield f"FCR: {result['outcome']}; {result['reason']}"
    for gate in result["confirmation"]:
        yield f"  {gate['gate']} {'holds' if gate['passed'] else 'fails'}: {gate['reason']}"
    if fcr["changed"]:
        yield f"Measured like all others: {_worth(fcr)}."
    if result.get("joint"):
        yield "The edits are needed together: no part of them passes."


def _method(name: str, found: Row) -> Iterator[str]:
    if name == "regenerate":
        yield f"{_WORDS[name]}: {'another package' if found['changed'] else 'no package'}; {found['reason']}"
        return
    yield f"{_WORDS.get(name, name)} applies {_pick(found)}: {_worth(found)}"
    for step in found["trace"]:
        yield f"  {step}"


def _pick(found: Row) -> str:
    return letters(found["mask"]) if found.get("mask") else "-"


def _worth(found: Row) -> str:
    if not found["changed"]:
        return "the package stays as it is"
    if found["safe"]:
        return "safely resolved"
    failed = [g for g in found.get("gates", ()) if not g["passed"]]
    if failed:
        return f"not safe; {failed[0]['gate']}: {failed[0]['reason']}"
    return f"not safe; {found.get('reason') or 'no sealed audit vouches for it'}"
