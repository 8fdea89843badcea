"""Probes about the answers: derived afresh and held against the anchors; searched for where nobody should find them."""

from __future__ import annotations

from typing import Any

from rover.construct.query.agree import agree
from rover.diagnose.demands import Asked, asked, keyed, sources
from rover.diagnose.protocol import ProbeContext
from rover.diagnose.restate import instead, missing
from rover.rollout.env import Env
from rover_store.ids import blob_id
from rover_store.records import Anchor, Finding, Scalar, Table


class AnchorValues:
    """Each anchor holds what its query gives on the present files, by both engines."""

    name = "anchors"
    written_for = frozenset({"changed_data", "wrong_anchor", "stale_anchor"})
    cost = 1

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        env = ctx.env
        known = [
            a for a in env.anchors.anchors if all(s.path in env.start for s in sources(a.query))
        ]  # a missing source is the finding of `inputs`
        queries = {a.id: a.query for a in known}
        if not queries:
            return ()
        first, second = ctx.runs.derive(queries), ctx.runs.derive(queries, "pandas")
        out = []
        for anchor in known:
            one, two = first[anchor.id], second[anchor.id]
            if isinstance(one, str) or isinstance(two, str):
                out.append(self._broken(env, anchor, one if isinstance(one, str) else str(two)))
                continue
            difference = "" if agree(one, two) else agree(anchor.value, one)
            if difference and not self._as_requested(ctx, anchor):
                out.append(self._differs(env, anchor, difference))
        return tuple(out)

    def _as_requested(self, ctx: ProbeContext, anchor: Anchor) -> bool:
        """Whether the anchor fits the values that the request states: then the contract is the odd one of the three."""
        env = ctx.env
        text, contract = env.instruction, env.contract
        said = {g.name: value for g in missing(text, contract) for value in instead(text, contract, g)}
        if not said or built_on_other_data(env, anchor):
            return False
        values = {g.name: as_sort_of(g.value, said[g.name]) if g.name in said else g.value for g in env.contract.givens}
        found = ctx.runs.derive({anchor.id: anchor.query}, givens=values)[anchor.id]
        return isinstance(found, Table) and not agree(anchor.value, found)

    def _broken(self, env: Env, anchor: Anchor, reason: str) -> Finding:
        return Finding(
            probe=self.name,
            kind="changed_data",
            message=f"anchor {anchor.id} can no longer be derived from the files: {reason[:200]}",
            components=("context", "verifier"),
            evidence=("verifier/anchors.json", *_blobs(env, anchor)),
            details=_details(anchor),
        )

    def _differs(self, env: Env, anchor: Anchor, difference: str) -> Finding:
        changed = built_on_other_data(env, anchor)
        stale = changed and data_recorded(env)
        what = "the files changed under it" if changed else "the files are those it was built on"
        if stale:
            what = "the rest of the package was brought up to the present files, the verifier was not"
        return Finding(
            probe=self.name,
            kind="stale_anchor" if stale else "changed_data" if changed else "wrong_anchor",
            message=f"anchor {anchor.id} is not what its query gives ({what}): {difference[:160]}",
            components=("context", "verifier") if changed and not stale else ("verifier", "context"),
            requirement=next((c.requirement for c in env.verifier.criteria if anchor.id in c.anchors), None),
            excludes=() if changed else ("changed data: the verifier was built on the very files that are there",),
            evidence=("verifier/anchors.json", *_blobs(env, anchor)),
            details=_details(anchor),
        )


class Leaks:
    """No answer, and nothing of the reference, can be read where the policy looks, outside the answer's own sources."""

    name = "leaks"
    written_for = frozenset({"leaked_answer"})
    cost = 1

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        found: dict[str, Finding] = {}
        for path, what in reference_in_view(ctx.env):
            found[path] = self._finding(path, f"{path} is {what}", {"how": "exact"})
        for hit in readable_answers(ctx):
            if hit["file"] in found:
                continue
            rows = f"{hit['matched']} of {hit['of']} rows" if hit["of"] > 1 else "the answer"
            text = f"{hit['file']} shows {rows} of {hit['answer']} ({hit['how']}): {hit['sample'][:80]}"
            found[hit["file"]] = self._finding(hit["file"], text, hit)
        return tuple(found[path] for path in sorted(found))

    def _finding(self, where: str, message: str, hit: dict[str, Any]) -> Finding:
        return Finding(
            probe=self.name,
            kind="leaked_answer",
            message=message,
            components=("task",) if where == "instruction" else ("context",),
            evidence=(where,),
            details={"subject": where, **{k: v for k, v in hit.items() if k in ("answer", "how", "matched", "of")}},
        )


def readable_answers(ctx: ProbeContext) -> list[dict[str, Any]]:
    """Where an answer of the contract can be read outside its own sources: file (or instruction), how, how much."""
    env = ctx.env
    derived = ctx.runs.answers()
    answers: dict[str, Any] = {}
    for one in asked(env.contract):
        table = derived.get(one.id)
        if isinstance(table, Table) and table.rows:
            answers[one.id] = _question(env, one, table)
    if not answers:
        return []
    payload = {
        "files": sorted(env.start),
        "texts": {"instruction": env.instruction},
        "answers": answers,
    }
    found: list[dict[str, Any]] = ctx.runs.call("rover.diagnose.inside:visible", payload)
    return found


def reference_in_view(env: Env) -> list[tuple[str, str]]:
    """Files of the start state that are, byte for byte, a file that the reference makes."""
    made = {
        blob_id(data): path.removeprefix("reference/files/")
        for path, data in env.verifier_files.items()
        if path.startswith("reference/files/") and data.strip()
    }
    out = []
    for path, data in env.start.items():
        target = made.get(blob_id(data))
        if target is not None and target != path:
            out.append((path, f"the same as the reference's {target}"))
    return out


def built_on_other_data(env: Env, anchor: Anchor) -> bool:
    """Whether the verifier was built on other versions of the anchor's source files than the present ones."""
    recorded = {blob for edge in env.record.edges if edge.source == "verifier" for blob in edge.blobs}
    if recorded:
        return not set(_blobs(env, anchor)) <= recorded
    return any(
        edge.source == "verifier" and edge.target == "context" and edge.version != env.context_id
        for edge in env.record.edges
    )


def _details(anchor: Anchor) -> dict[str, Any]:
    return {"subject": anchor.id, "anchor": anchor.id, "paths": sorted({s.path for s in sources(anchor.query)})}


def data_recorded(env: Env) -> bool:
    """Whether package.json records the present files for all but the verifier: somebody meant them to change."""
    bound = {f"resources/{r.kind}/{r.name}": r.tree for r in env.context.resources}
    for edge in env.record.edges:
        if edge.source == "context" and edge.target in bound and edge.version != bound[edge.target]:
            return False
        if edge.source in ("task", "harness") and edge.target == "context" and edge.version != env.context_id:
            return False
    return True


def as_sort_of(value: Scalar, said: str) -> Scalar:
    """A written value as the sort of value that the contract has there."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return said
    try:
        number = float(said.replace(",", ""))
    except ValueError:
        return said
    return int(number) if number.is_integer() and isinstance(value, int) else number


def _question(env: Env, one: Asked, table: Table) -> dict[str, Any]:
    ordered, keys = keyed(table, one)
    own = {blob_id(env.start[path]) for path in one.sources if path in env.start}
    same = [path for path, data in env.start.items() if blob_id(data) in own]
    return {
        "columns": list(ordered.columns),
        "rows": [list(row) for row in ordered.rows],
        "keys": keys,
        "sources": sorted({*one.sources, *same}),
    }


def _blobs(env: Env, anchor: Anchor) -> tuple[str, ...]:
    paths = sorted({s.path for s in sources(anchor.query)})
    return tuple(blob_id(env.start[p]) for p in paths if p in env.start)
