"""Probes that run nothing: the request, the workspace, the tools and the contract read side by side.

What the contract itself states is confirmed by the contract (a value that must be told and is not); what only
looks wrong (a stale edge, a file name that nobody knows) is a hypothesis until a run agrees.
"""

from __future__ import annotations

import re

from rover.diagnose.demands import contract_sources, states, states_given
from rover.diagnose.protocol import ProbeContext
from rover_store.records import Deliverable, Finding, GivenValue
from rover_store.records.contract import CiteRule, ProtectedRule

_WORD_FILE = re.compile(r"(?<![\w/.-])[\w][\w./-]*\.(?:csv|tsv|xlsx|jsonl|json|md|txt)(?!\w)")

#: types of files -> tools of which any one suffices to write, or to read, such a file
WRITERS: dict[str, tuple[str, ...]] = {
    "csv": ("write_table", "write_file", "shell"),
    "tsv": ("write_table", "write_file", "shell"),
    "xlsx": ("write_table", "edit_workbook", "shell"),
    "json": ("write_file", "shell"),
    "markdown": ("write_file", "shell"),
    "text": ("write_file", "shell"),
}
EDITORS: dict[str, tuple[str, ...]] = {
    "csv": ("edit_table", "write_table", "write_file", "shell"),
    "tsv": ("edit_table", "write_table", "write_file", "shell"),
    "xlsx": ("edit_table", "edit_workbook", "shell"),
    "json": ("edit_table", "write_file", "shell"),
    "markdown": ("write_file", "shell"),
    "text": ("write_file", "shell"),
}
READERS: dict[str, tuple[str, ...]] = {
    "xlsx": ("read_table", "read_workbook", "shell"),
    "csv": ("read_table", "read_file", "shell"),
    "tsv": ("read_table", "read_file", "shell"),
    "json": ("read_file", "read_table", "shell"),
    "jsonl": ("read_file", "read_table", "shell"),
}


class Givens:
    """Every value that the policy must be told stands where the contract says that it is told."""

    name = "givens"
    written_for = frozenset({"missing_given"})
    cost = 0

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        out = []
        for given in ctx.env.contract.givens:
            text = _text_of(ctx, given.stated_in)
            if text is None or states_given(text, ctx.env.contract, given):
                continue
            where = "the instruction" if given.stated_in == "instruction" else given.stated_in
            out.append(
                Finding(
                    probe=self.name,
                    kind="missing_given",
                    message=f"{where} does not state a value that the contract needs: {_named(given)}",
                    components=("task",) if given.stated_in == "instruction" else ("context", "task"),
                    evidence=("task/contract.json", "task/instruction.md"),
                    details={"subject": given.name, "value": given.value, "stated_in": given.stated_in},
                )
            )
        return tuple(out)


class Inputs:
    """Every file that the contract derives an answer from, or that the context lists, is in the workspace."""

    name = "inputs"
    written_for = frozenset({"missing_input"})
    cost = 0

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        needed = dict.fromkeys(contract_sources(ctx.env.contract), "the contract derives answers from it")
        for deliverable in ctx.env.contract.deliverables:
            if deliverable.in_place:
                needed.setdefault(deliverable.path, "the contract has it edited in place")
        for requirement in ctx.env.contract.requirements:
            for path in requirement.rule.paths if isinstance(requirement.rule, CiteRule) else ():
                needed.setdefault(path, "the contract wants it cited")
        for file in ctx.env.context.files:
            needed.setdefault(file.path, "context.json lists it")
        out = []
        for path, why in needed.items():
            if path in ctx.env.start:
                continue
            out.append(
                Finding(
                    probe=self.name,
                    kind="missing_input",
                    message=f"{path} is not in the workspace, though {why}",
                    components=("context", "task"),
                    evidence=("context/context.json", "task/contract.json"),
                    details={"subject": path},
                )
            )
        return tuple(out)


class Deliverables:
    """Instruction, contract and criteria name the same deliverables, and the columns that are wanted."""

    name = "deliverables"
    written_for = frozenset({"renamed_deliverable", "missing_given"})
    cost = 0

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        out: list[Finding] = []
        for deliverable in ctx.env.contract.deliverables:
            out += self._instruction(ctx, deliverable)
            out += self._columns(ctx, deliverable)
        return (*out, *self._criteria(ctx))

    def _instruction(self, ctx: ProbeContext, deliverable: Deliverable) -> list[Finding]:
        if states(ctx.env.instruction, deliverable.path):
            return []
        strangers = [n for n in named_files(ctx.env.instruction) if not known_file(ctx, n)]
        suffix = deliverable.path.rpartition(".")[2]
        other = next((n for n in strangers if n.endswith("." + suffix)), None)
        said = f"the instruction asks for {other}" if other else "the instruction never names it"
        return [
            Finding(
                probe=self.name,
                kind="renamed_deliverable" if other else "missing_given",
                message=f"the contract wants {deliverable.path}, but {said}",
                components=("task", "verifier"),
                evidence=("task/contract.json", "task/instruction.md"),
                details={"subject": deliverable.path, "found": other},
            )
        ]

    def _columns(self, ctx: ProbeContext, deliverable: Deliverable) -> list[Finding]:
        if deliverable.in_place:
            return []
        said = "\n".join([ctx.env.instruction, *_cited(ctx)])
        silent = [c.name for c in deliverable.columns if not states(said, c.name)]
        return [
            Finding(
                probe=self.name,
                kind="missing_given",
                message=f"the instruction does not name {name}, a column or field of {deliverable.path}",
                components=("task",),
                evidence=("task/contract.json", "task/instruction.md"),
                details={"subject": f"{deliverable.id}.{name}", "value": name, "stated_in": "instruction"},
            )
            for name in silent
        ]

    def _criteria(self, ctx: ProbeContext) -> list[Finding]:
        out = []
        listed = {f.path for f in ctx.env.context.files}
        known = {*ctx.env.targets(), *ctx.env.start, *listed, *contract_sources(ctx.env.contract)}
        demanded = {r.id for r in ctx.env.contract.requirements}
        seen: set[str] = set()
        for criterion in ctx.env.verifier.criteria:
            for path in criterion.paths:
                if path in known or path in seen or criterion.requirement not in demanded:
                    continue
                seen.add(path)
                out.append(
                    Finding(
                        probe=self.name,
                        kind="renamed_deliverable",
                        message=f"the verifier reads {path}, which the contract does not ask for",
                        components=("verifier", "task"),
                        requirement=criterion.requirement,
                        evidence=("task/contract.json", "verifier/verifier.json"),
                        details={"subject": path, "criterion": criterion.id},
                    )
                )
        return out


class Coverage:
    """Each requirement is scored by a criterion, and each criterion scores a requirement of the contract."""

    name = "coverage"
    written_for = frozenset({"unscored_requirement", "extra_demand", "missing_anchor"})
    cost = 0

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        env = ctx.env
        requirements = {r.id: r for r in env.contract.requirements}
        scored = {c.requirement for c in env.verifier.criteria if c.weight > 0 or c.critical}
        out = [
            self._finding("unscored_requirement", f"no criterion scores {r.id}: {r.statement}", r.id)
            for r in env.contract.requirements
            if r.id not in scored
        ]
        out += [
            self._finding("extra_demand", f"{c.id} scores {c.requirement}, which the contract does not demand", None)
            for c in env.verifier.criteria
            if c.requirement not in requirements
        ]
        anchors = {a.id for a in env.anchors.anchors}
        for criterion in env.verifier.criteria:
            for anchor in criterion.anchors:
                if anchor not in anchors:
                    text = f"{criterion.id} reads the anchor {anchor}, which anchors.json lacks"
                    out.append(self._finding("missing_anchor", text, criterion.requirement))
        return tuple(out)

    def _finding(self, kind: str, message: str, requirement: str | None) -> Finding:
        return Finding(
            probe=self.name,
            kind=kind,
            message=message,
            components=("verifier",),
            requirement=requirement,
            evidence=("task/contract.json", "verifier/verifier.json"),
        )


class Contradictions:
    """Nothing is required and forbidden at once."""

    name = "contradictions"
    written_for = frozenset({"contradiction"})
    cost = 0

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        wanted = set(ctx.env.targets())
        out = []
        for requirement in ctx.env.contract.requirements:
            if not isinstance(requirement.rule, ProtectedRule):
                continue
            for path in sorted(wanted & set(requirement.rule.paths)):
                out.append(
                    Finding(
                        probe=self.name,
                        kind="contradiction",
                        message=f"{path} is to be delivered and, by {requirement.id}, to be left as it is",
                        components=("task",),
                        requirement=requirement.id,
                        evidence=("task/contract.json",),
                        details={"subject": path},
                    )
                )
        return tuple(out)


class Tools:
    """For each deliverable the harness offers a tool that can write it, and for each source one that reads it."""

    name = "tools"
    written_for = frozenset({"tool_removed"})
    cost = 0

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        offered = set(ctx.env.harness.tools)
        out = []
        wants: dict[str, tuple[str, tuple[str, ...]]] = {}
        for deliverable in ctx.env.contract.deliverables:
            table = EDITORS if deliverable.in_place else WRITERS
            wants[deliverable.path] = ("written", table[deliverable.type])
        for path in contract_sources(ctx.env.contract):
            readers = READERS.get(path.rpartition(".")[2].lower(), ("read_file", "shell"))
            wants.setdefault(path, ("read", readers))
        for path, (verb, tools) in wants.items():
            if offered & set(tools):
                continue
            out.append(
                Finding(
                    probe=self.name,
                    kind="tool_removed",
                    message=f"no tool is offered with which {path} can be {verb} (any of {', '.join(tools)})",
                    components=("harness",),
                    evidence=("harness/harness.json", "task/contract.json"),
                    details={"subject": path, "tools": list(tools)},
                )
            )
        return tuple(out)


class Edges:
    """Each component is built against the present version of what it depends on."""

    name = "edges"
    written_for = frozenset({"stale"})
    cost = 0

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        env = ctx.env
        bound = {f"resources/{r.kind}/{r.name}": r.tree for r in env.context.resources}
        out = []
        for edge in env.record.edges:
            if edge.target.startswith("resources/"):
                name = edge.target.removeprefix("resources/")
                present = ctx.resources.get(name) or bound.get(edge.target)
            elif edge.target in ("context", "task", "harness", "verifier"):
                present = env.component_id(edge.target)  # type: ignore[arg-type]
            else:
                continue
            if present is None or present == edge.version:
                continue
            out.append(
                Finding(
                    probe=self.name,
                    kind="stale",
                    status="hypothesis",
                    message=f"{edge.source} was built against another version of {edge.target}",
                    components=(edge.source,),
                    evidence=(edge.version, present),
                    details={"subject": f"{edge.source}->{edge.target}", "target": edge.target},
                )
            )
        return tuple(out)


def named_files(text: str) -> tuple[str, ...]:
    """File names in a text, in order, each once."""
    return tuple(dict.fromkeys(_WORD_FILE.findall(text)))


def _named(given: GivenValue) -> str:
    return f"{given.name} ({given.meaning})" if given.meaning else given.name


def known_file(ctx: ProbeContext, name: str) -> bool:
    """Whether a file of this name is in the workspace, to be delivered, or a source of the contract."""
    paths = {*ctx.env.start, *ctx.env.targets(), *contract_sources(ctx.env.contract)}
    return any(path == name or path.endswith("/" + name) for path in paths)


def _cited(ctx: ProbeContext) -> list[str]:
    """Text files of the workspace that the request names: what they say, it says."""
    named = named_files(ctx.env.instruction)
    texts = [p for p in ctx.env.start if p.endswith((".md", ".txt"))]
    paths = [p for p in texts if any(p == n or p.endswith("/" + n) for n in named)]
    return [ctx.env.start[path].decode("utf-8", "replace") for path in paths]


def _text_of(ctx: ProbeContext, where: str) -> str | None:
    """The text that should state a value; None where it cannot be read here (a workbook), or is missing."""
    if where == "instruction":
        return ctx.env.instruction
    data = ctx.env.start.get(where)
    if data is None or where.endswith((".xlsx", ".xlsm")):
        return None
    return data.decode("utf-8", "replace")
