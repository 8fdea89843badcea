"""Proposals for the context: take a leak out, bind a missing or changed file as package.json records it."""

from __future__ import annotations

from rover.diagnose.demands import contract_sources
from rover.diagnose.runs import mounted
from rover.repair.proposals.protocol import Draft, Files, PackageView
from rover_store.errors import NotFound
from rover_store.ids import ComponentName
from rover_store.records import Context, Diagnosis, Edge, Finding, ResourceRef


class ContextByRule:
    """One edit of the context for all findings that point there."""

    name = "context-rule"
    component: ComponentName = "context"

    def propose(self, view: PackageView, diagnosis: Diagnosis) -> Draft | None:
        work = _Context(view)
        for finding in diagnosis.findings:
            if finding.status != "confirmed":
                continue
            if finding.kind == "leaked_answer" and finding.components[0] == "context":
                work.take_out(str(finding.details.get("subject", "")))
            elif finding.kind == "missing_input":
                work.bind_again(finding)
            elif finding.kind == "changed_data":
                work.bind_recorded()
        return work.draft()


class _Context:
    """A context under edit."""

    def __init__(self, view: PackageView) -> None:
        self.view = view
        self.files = view.component("context")
        self.record: Context = view.env.context
        self.resources: dict[str, Files] = {}
        self.done: list[str] = []
        self.writes: list[str] = []

    def take_out(self, path: str) -> None:
        """Delete a file of the package, or unbind the resource that brings it. What an answer is read from stays."""
        env = self.view.env
        if path not in env.start or path in (*env.targets(), *contract_sources(env.contract)):
            return
        if self.files.pop(f"files/{path}", None) is None:
            kept = tuple(r for r in self.record.resources if path not in mounted(self.view.env, r))
            if len(kept) == len(self.record.resources):
                return
            self.record = self.record.model_copy(update={"resources": kept})
        listed = tuple(f for f in self.record.files if f.path != path)
        self.record = self.record.model_copy(update={"files": listed})
        self._did(f"take out {path}, which shows an answer", path)

    def bind_again(self, finding: Finding) -> None:
        """Bind the resources that package.json records and context.json no longer lists."""
        bound = {f"{r.kind}/{r.name}" for r in self.record.resources}
        missing = str(finding.details.get("subject", ""))
        for edge in _recorded(self.view):
            name = edge.target.removeprefix("resources/")
            if name not in bound:
                self._bind(name, edge.version, f"bind {name} again, for {missing}")

    def bind_recorded(self) -> None:
        """Bind the versions that the context was built against."""
        bound = {f"{r.kind}/{r.name}": r.tree for r in self.record.resources}
        for edge in _recorded(self.view):
            name = edge.target.removeprefix("resources/")
            if name in bound and bound[name] != edge.version:
                self._bind(name, edge.version, f"bind {name} as it was when the package was built")

    def _bind(self, name: str, tree: str, why: str) -> None:
        content = self._content(name, tree)
        if content is None or name in self.resources:
            return
        kind, _, short = name.partition("/")
        old = next((r for r in self.record.resources if f"{r.kind}/{r.name}" == name), None)
        ref = old.model_copy(update={"tree": tree}) if old else ResourceRef.model_validate(
            {"kind": kind, "name": short, "tree": tree}
        )  # fmt: skip
        others = [r for r in self.record.resources if r is not old]
        refs = tuple(sorted([*others, ref], key=lambda r: (r.kind, r.name)))
        self.record = self.record.model_copy(update={"resources": refs})
        self.resources[name] = content
        self._did(why, name)

    def _content(self, name: str, tree: str) -> Files | None:
        if self.view.read is None:
            return None
        try:
            return self.view.read(tree)
        except NotFound:
            return None

    def _did(self, what: str, where: str) -> None:
        self.done.append(what)
        self.writes.append(f"path:{where}")

    def draft(self) -> Draft | None:
        if not self.done:
            return None
        files = {**self.files, "context.json": self.record.dump()}
        return Draft(
            component="context",
            files=files,
            resources=self.resources,
            rationale="; ".join(self.done),
            writes=tuple(self.writes),
        )


def _recorded(view: PackageView) -> list[Edge]:
    return [e for e in view.env.record.edges if e.source == "context" and e.target.startswith("resources/")]

