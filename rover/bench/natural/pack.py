"""A package in memory, and edits of it as a person makes them by hand.

An edit that finds nothing to edit raises ValueError: a case whose sound form has changed under it is not broken in
silence. `settled` is what somebody leaves who imports a package from elsewhere: no admission, no demonstration, no
recorded builder, and edges to what is there now.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rover.rollout.env import Env, below, env_from_files, tree_of
from rover.sandbox.protocol import Files
from rover_store.ids import ComponentName, blob_id
from rover_store.records import (
    Anchors,
    Cases,
    Context,
    ContextFile,
    Contract,
    Criterion,
    Edge,
    Harness,
    Provenance,
    Query,
    Reference,
    Resource,
    Scalar,
    SourceFile,
    StateFile,
    Table,
    Verifier,
)

INSTRUCTION = "task/instruction.md"
MAIN = "verifier/checks/main.py"


@dataclass(frozen=True)
class Pack:
    """The files of a package, and of the resources that it is bound to."""

    name: str
    files: Files
    resources: Mapping[str, Files] = field(default_factory=dict)

    def env(self) -> Env:
        return env_from_files(self.files, self.resources)

    def text(self, path: str) -> str:
        return self.files[path].decode()

    def component(self, name: ComponentName) -> dict[str, bytes]:
        """The files of one component, paths relative to its folder."""
        return below(self.files, f"{name}/")

    def put(self, changes: Mapping[str, bytes | None]) -> Pack:
        """With files replaced or added; None takes one away."""
        gone = [p for p, d in changes.items() if d is None and p not in self.files]
        if gone:
            raise ValueError(f"{self.name}: there is no {gone[0]} to take away")
        kept = {p: d for p, d in self.files.items() if p not in changes}
        files = kept | {p: d for p, d in changes.items() if d is not None}
        return replace(self, files=dict(sorted(files.items())))

    def reworded(self, path: str, old: str, new: str, count: int = 1) -> Pack:
        """With `count` places of a text replaced; there must be no more and no fewer."""
        text = self.text(path)
        if text.count(old) != count:
            raise ValueError(f"{self.name}: {path} says {old!r} {text.count(old)} times, not {count}")
        return self.put({path: text.replace(old, new).encode()})

    def taking(self, name: ComponentName, other: Pack) -> Pack:
        """With one component of another version."""
        mine = {f"{name}/{p}": None for p in self.component(name)}
        return self.put(mine | {f"{name}/{p}": d for p, d in other.component(name).items()})

    # --- context ---------------------------------------------------------------------------------------------
    def workspace(self, changes: Mapping[str, bytes | None], meaning: str = "", role: str = "input") -> Pack:
        """With own files of the workspace replaced, added (listed with this meaning) or taken away."""
        context = Context.load(self.files["context/context.json"], "context/context.json")
        listed = {f.path: f for f in context.files if changes.get(f.path, b"") is not None}
        for path, data in changes.items():
            if data is not None and path not in listed:
                listed[path] = ContextFile.model_validate({"path": path, "role": role, "meaning": meaning})
        new = context.model_copy(update={"files": tuple(listed[p] for p in sorted(listed))})
        moved = {f"context/files/{path}": data for path, data in changes.items()}
        return self.put({**moved, "context/context.json": new.dump()})

    def shared(self, path: str, data: bytes) -> Pack:
        """With another version of the shared resource that holds this file of the workspace."""
        name = next((n for n, files in self.resources.items() if f"files/{path}" in files), "")
        if not name:
            raise ValueError(f"{self.name}: no resource holds {path}")
        record = Resource.load(self.resources[name]["resource.json"], "resource.json")
        of = (SourceFile(path=path, sha256=hashlib.sha256(data).hexdigest()),)
        files = {f"files/{path}": data, "resource.json": record.model_copy(update={"sources": of}).dump()}
        context = Context.load(self.files["context/context.json"], "context/context.json")
        refs = tuple(
            r.model_copy(update={"tree": tree_of(files)}) if f"{r.kind}/{r.name}" == name else r
            for r in context.resources
        )
        bound = self.put({"context/context.json": context.model_copy(update={"resources": refs}).dump()})
        return replace(bound, resources={**self.resources, name: files})

    # --- harness ---------------------------------------------------------------------------------------------
    def tools(self, *names: str) -> Pack:
        """With exactly these tools."""
        harness = Harness.load(self.files["harness/harness.json"], "harness/harness.json")
        return self.put({"harness/harness.json": harness.model_copy(update={"tools": names}).dump()})

    # --- task ------------------------------------------------------------------------------------------------
    def request(self, old: str, new: str) -> Pack:
        return self.reworded(INSTRUCTION, old, new)

    def restated(self, pattern: str, new: str) -> Pack:
        """With the one place of the request that fits a pattern said in another way."""
        text, count = re.subn(pattern, new, self.text(INSTRUCTION))
        if count != 1:
            raise ValueError(f"{self.name}: the request fits {pattern!r} {count} times, not once")
        return self.put({INSTRUCTION: text.encode()})

    @property
    def contract(self) -> Contract:
        return Contract.load(self.files["task/contract.json"], "task/contract.json")

    # --- verifier --------------------------------------------------------------------------------------------
    @property
    def verifier(self) -> Verifier:
        return Verifier.load(self.files["verifier/verifier.json"], "verifier/verifier.json")

    def criteria(self, edit: Callable[[Criterion], Criterion | None], *more: Criterion) -> Pack:
        """With each criterion edited (None drops it), and more of them."""
        kept = tuple(c for c in map(edit, self.verifier.criteria) if c is not None)
        return self.put({"verifier/verifier.json": Verifier(criteria=(*kept, *more)).dump()})

    def check(self, function: str, body: str, file: str = MAIN) -> Pack:
        """With another body of a check; `body` is indented by four."""
        source = self.text(file)
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef) and node.name == function:
                lines = source.splitlines(keepends=True)
                new = "".join(lines[: node.lineno]) + body + "".join(lines[node.end_lineno :])
                return self.put({file: new.encode()})
        raise ValueError(f"{self.name}: {file} has no check {function}")

    def checks_more(self, source: str, file: str = MAIN) -> Pack:
        """With functions added at the end of a check file."""
        return self.put({file: (self.text(file).rstrip() + "\n\n\n" + source).encode()})

    def expected(self, anchor: str, rows: Sequence[Sequence[Scalar]], query: Query | None = None) -> Pack:
        """With another expected value, and where given another question behind it."""
        anchors = Anchors.load(self.files["verifier/anchors.json"], "verifier/anchors.json")
        if anchor not in {a.id for a in anchors.anchors}:
            raise ValueError(f"{self.name}: there is no anchor {anchor}")
        new = []
        for one in anchors.anchors:
            if one.id == anchor:
                value = Table(columns=one.value.columns, rows=tuple(tuple(r) for r in rows))
                one = one.model_copy(update={"value": value, "query": query or one.query})
            new.append(one)
        return self.put({"verifier/anchors.json": Anchors(anchors=tuple(new)).dump()})

    def query(self, anchor: str) -> Query:
        """The question behind an expected value."""
        anchors = Anchors.load(self.files["verifier/anchors.json"], "verifier/anchors.json")
        return {a.id: a.query for a in anchors.anchors}[anchor]

    def unscored(self, requirement: str) -> Pack:
        """With no criterion for a requirement."""
        if requirement not in {c.requirement for c in self.verifier.criteria}:
            raise ValueError(f"{self.name}: nothing scores {requirement}")
        return self.criteria(lambda c: None if c.requirement == requirement else c)

    def reference(self, files: Mapping[str, bytes]) -> Pack:
        """With a reference written by hand: these files are what it leaves. No other valid state is kept."""
        old = {p: None for p in self.files if p.startswith("verifier/reference/")}
        record = Reference(changes=tuple(StateFile(path=p) for p in sorted(files)), policy="hand")
        new = {f"verifier/reference/files/{p}": d for p, d in files.items()}
        return self.put({**old, **new, "verifier/reference/reference.json": record.dump()}).lone()

    def lone(self) -> Pack:
        """Without alternative end states and rules: most suites know their one reference and nothing else."""
        path = "verifier/cases/cases.json"
        cases = Cases.load(self.files[path], path)
        states = {p: None for p in self.files if p.startswith("verifier/cases/") and p != path}
        return self.put({**states, path: Cases(negatives=cases.negatives).dump()})

    @property
    def answer(self) -> bytes:
        """The only file that the reference leaves."""
        files = [d for p, d in self.files.items() if p.startswith("verifier/reference/files/")]
        if len(files) != 1:
            raise ValueError(f"{self.name}: the reference leaves {len(files)} files")
        return files[0]

    def settled(self) -> Pack:
        """As imported by somebody: edges to what is there now, and nothing known of how it was built."""
        shown = {p: None for p in self.files if p.startswith("demonstrations/")}
        bare = self.put(shown) if shown else self
        env = bare.env()
        read = {blob_id(d) for p, d in env.start.items() if p in _sources(bare.contract)}
        edges = [bare._edge(e, env, tuple(sorted(read))) for e in env.record.edges]
        provenance = Provenance(license=env.record.provenance.license)
        changes = {"edges": tuple(edges), "admission": None, "provenance": provenance}
        return bare.put({"package.json": env.record.model_copy(update=changes).dump()})

    def _edge(self, edge: Edge, env: Env, read: tuple[str, ...]) -> Edge:
        if edge.target.startswith("resources/"):
            return edge.model_copy(update={"version": tree_of(self.resources[edge.target.removeprefix("resources/")])})
        blobs = read if (edge.source, edge.target) == ("verifier", "context") else ()
        return edge.model_copy(update={"version": env.component_id(edge.target), "blobs": blobs})  # type: ignore[arg-type]


def _sources(contract: Contract) -> tuple[str, ...]:
    from rover.diagnose.demands import contract_sources

    return contract_sources(contract)
