"""A context under edit: files of its own, and the resources it is bound to.

Where other packages are bound to a resource too, what is at fault in this package only must not change under them:
their version stays, and this package gets a fork of the resource, or does without it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

from rover.diagnose.demands import contract_sources
from rover.repair.proposals.protocol import Draft, Files, PackageView
from rover.rollout.env import tree_of
from rover_store.errors import NotFound
from rover_store.ids import digest
from rover_store.records import Context, ContextFile, Edge, Resource, ResourceRef


class ContextEdit:
    """Edits are made one after the other; `draft` gives the outcome, or None where nothing was done."""

    def __init__(self, view: PackageView) -> None:
        self.view = view
        self.files = view.component("context")
        self.record: Context = view.env.context
        self.resources: dict[str, Files] = {}
        self.done: list[str] = []

    # --- what it holds -----------------------------------------------------------------------------------
    @property
    def needed(self) -> frozenset[str]:
        """Files without which the task is another one."""
        return frozenset((*(d.path for d in self.view.contract.deliverables if d.in_place), *self.sources))

    @property
    def sources(self) -> tuple[str, ...]:
        return contract_sources(self.view.contract)

    def content(self, ref: ResourceRef) -> Files:
        name = f"{ref.kind}/{ref.name}"
        return self.resources.get(name) or self.view.env.resources.get(name, {})

    def start(self) -> dict[str, bytes]:
        """The workspace as it would be."""
        own = {p.removeprefix("files/"): d for p, d in self.files.items() if p.startswith("files/")}
        for ref in self.record.resources:
            content = self.content(ref)
            own |= {path: content[inside] for path, inside in _mounted(ref, content).items()}
        return own

    def holder(self, path: str) -> ResourceRef | None:
        """The resource that brings a file of the workspace."""
        return next((r for r in self.record.resources if path in _mounted(r, self.content(r))), None)

    # --- edits -------------------------------------------------------------------------------------------
    def take_out(self, path: str, why: str) -> None:
        """Delete a file of the package's own, or do without the resource (the part of it) that brings it."""
        if path in self.needed or path not in self.start():
            return
        if self.files.pop(f"files/{path}", None) is None:
            ref = self.holder(path)
            assert ref is not None
            rest = [p for p in _mounted(ref, self.content(ref)) if p != path]
            if rest:
                self._change(ref, {_mounted(ref, self.content(ref))[path]: None})
            else:
                self._unbind(ref)
        listed = tuple(f for f in self.record.files if f.path != path)
        self.record = self.record.model_copy(update={"files": listed})
        self.done.append(f"take out {path}, {why}")

    def rename(self, old: str, new: str) -> None:
        """Give a file the name that the contract has for it."""
        now = self.start()
        if old not in now or new in now:
            return
        data = self.files.pop(f"files/{old}", None)
        if data is not None:
            self.files[f"files/{new}"] = data
        else:
            ref = self.holder(old)
            assert ref is not None
            inside = _mounted(ref, self.content(ref))[old]
            head = f"{ref.mount.strip('/')}/" if ref.mount.strip("/") else ""
            alone = len(_mounted(ref, self.content(ref))) == 1
            if alone and inside == f"files/{new}":  # the file is as it was, but hung up elsewhere
                back = ref.model_copy(update={"mount": ""})
                refs = tuple(back if r == ref else r for r in self.record.resources)
                self.record = self.record.model_copy(update={"resources": refs})
            elif new.startswith(head):
                self._change(ref, {inside: None, f"files/{new.removeprefix(head)}": self.content(ref)[inside]})
            else:
                return
        known = any(f.path == new for f in self.record.files)
        files = (
            f if f.path != old else f.model_copy(update={"path": new})
            for f in self.record.files if not (known and f.path == old)
        )  # fmt: skip
        self.record = self.record.model_copy(update={"files": tuple(files)})
        self.done.append(f"call {old} {new} again, as the contract does")

    def put(self, path: str, data: bytes, what: str) -> None:
        """Other bytes for a file that is there."""
        now = self.start()
        if path not in now or now[path] == data:
            return
        if f"files/{path}" in self.files:
            self.files[f"files/{path}"] = data
        else:
            ref = self.holder(path)
            assert ref is not None
            self._change(ref, {_mounted(ref, self.content(ref))[path]: data})
        self.done.append(what)

    def bring(self, path: str, data: bytes, what: str) -> None:
        """A file that is not there."""
        if path in self.start():
            return
        self.files[f"files/{path}"] = data
        if not any(f.path == path for f in self.record.files):
            files = (*self.record.files, ContextFile(path=path, access="editable"))
            self.record = self.record.model_copy(update={"files": files})
        self.done.append(what)

    def allow(self, path: str) -> None:
        """Mark a file that the task edits as editable."""
        files = tuple(
            f.model_copy(update={"access": "editable"}) if f.path == path else f for f in self.record.files
        )
        if path in self.start() and not any(f.path == path for f in files):
            files = (*files, ContextFile(path=path, access="editable"))
        if files != self.record.files:
            self.record = self.record.model_copy(update={"files": files})
            self.done.append(f"mark {path} as editable")

    def bind(self, name: str, tree: str, why: str) -> bool:
        """Bind a version of a resource. Whether that could be done."""
        content = self._read(tree)
        if content is None:
            return False
        old = next((r for r in self.record.resources if f"{r.kind}/{r.name}" == name), None)
        if old is not None and old.tree == tree:
            return False
        kind, _, short = name.partition("/")
        ref = old or ResourceRef.model_validate({"kind": kind, "name": short, "tree": tree})
        self._replace(old, ref.model_copy(update={"tree": tree}), content)
        self.done.append(why)
        return True

    # --- resources ---------------------------------------------------------------------------------------
    def _change(self, ref: ResourceRef, changes: Mapping[str, bytes | None]) -> None:
        content = {p: d for p, d in {**self.content(ref), **changes}.items() if d is not None}
        self._replace(ref, ref.model_copy(update={"tree": tree_of(content)}), content)

    def _replace(self, old: ResourceRef | None, ref: ResourceRef, content: Files) -> None:
        """Bind `content` in place of what `ref` names: in a fork, where others hold the present version in peace."""
        name = f"{ref.kind}/{ref.name}"
        if self._at_peace(name, ref.tree):
            short = f"{ref.name[:60]}-{digest(ref.tree)[:8]}"
            content = _named(content, short)
            ref = ref.model_copy(update={"name": short, "tree": tree_of(content)})
            self.resources.pop(name, None)
            name = f"{ref.kind}/{short}"
        rest = [r for r in self.record.resources if r != old]
        refs = tuple(sorted([*rest, ref], key=lambda r: (r.kind, r.name)))
        self.record = self.record.model_copy(update={"resources": refs})
        self.resources[name] = content

    def _at_peace(self, name: str, tree: str) -> bool:
        """Whether another package is bound to what this one is bound to, and was built on it: no fault of its."""
        if self.view.neighbours is None:
            return False
        others = self.view.neighbours(name)
        return any(n.bound != tree and n.built_on in (n.bound, None) for n in others.values())

    def _unbind(self, ref: ResourceRef) -> None:
        kept = tuple(r for r in self.record.resources if r != ref)
        self.record = self.record.model_copy(update={"resources": kept})
        self.resources.pop(f"{ref.kind}/{ref.name}", None)

    def _read(self, tree: str) -> Files | None:
        if self.view.read is None:
            return None
        try:
            return self.view.read(tree)
        except NotFound:
            return None

    # --- outcome -----------------------------------------------------------------------------------------
    def draft(self, source: str = "rule") -> Draft | None:
        if not self.done:
            return None
        return Draft(
            component="context",
            files={**self.files, "context.json": self.record.dump()},
            resources=self.resources,
            source=source,  # type: ignore[arg-type]
            rationale="; ".join(dict.fromkeys(self.done)),
        )


def built_on(view: PackageView) -> dict[str, str]:
    """`files/orders` -> the version of the resource that package.json says the context was built on."""
    edges: tuple[Edge, ...] = view.env.record.edges
    return {
        e.target.removeprefix("resources/"): e.version
        for e in edges if e.source == "context" and e.target.startswith("resources/")
    }  # fmt: skip


def bind_recorded(edit: ContextEdit, only: Callable[[str], bool] = lambda _: True) -> None:
    """Bind what the context was built on, where it is bound to another version, or to none."""
    bound = {f"{r.kind}/{r.name}": r.tree for r in edit.record.resources}
    for name, tree in built_on(edit.view).items():
        if bound.get(name) == tree or not only(name):
            continue
        why = f"bind {name} as it was when the package was built" if name in bound else f"bind {name} again"
        edit.bind(name, tree, why)


def find_missing(edit: ContextEdit, path: str) -> bool:
    """Bind a resource of the revision that brings a file of this path, the recorded bytes where they are known."""
    wanted = {s.path: s.sha256 for s in edit.view.env.record.provenance.sources}.get(path)
    bound = {f"{r.kind}/{r.name}" for r in edit.record.resources}
    found: list[tuple[bool, str, str]] = []
    for name, tree in sorted(edit.view.present.items()):
        if name in bound or not name.startswith("files/") or not _likely(name, path):
            continue
        content = edit._read(tree)
        if content is None or f"files/{path}" not in content:
            continue
        exact = wanted == hashlib.sha256(content[f"files/{path}"]).hexdigest()
        found.append((not exact, name, tree))
    for _, name, tree in sorted(found)[:1]:
        return edit.bind(name, tree, f"bind {name}, which holds {path}")
    return False


def from_environment(edit: ContextEdit, path: str) -> bool:
    """Bring a file that lies in the folder the image is built from, and never got into the workspace: the one file
    there of this path's ending, or of its name. What lies beside the tests may be what they expect: it stays there."""
    held = {p: d for p, d in edit.view.files.items() if p.startswith("context/environment/")}
    short = path.rpartition("/")[2]
    own = [p for p in held if p.endswith(f"/{path}")] or [p for p in held if p.endswith(f"/{short}")]
    if len({held[p] for p in own}) != 1:
        return False
    edit.bring(path, held[own[0]], f"put {path} into the workspace, which lies in {own[0]} alone")
    return True


def _likely(name: str, path: str) -> bool:
    """Whether a resource's name may stand for this path: reading all of them would take too long."""
    plain = "".join(c if c.isalnum() else "-" for c in path.rsplit("/", 1)[-1].rsplit(".", 1)[0].lower()).strip("-")
    return plain[:20] in name.lower()


def _named(content: Files, name: str) -> dict[str, bytes]:
    """A resource's files under another name."""
    record = Resource.load(content["resource.json"], "resource.json").model_copy(update={"name": name})
    return {**content, "resource.json": record.dump()}


def _mounted(ref: ResourceRef, content: Files) -> dict[str, str]:
    prefix = f"{ref.mount.strip('/')}/" if ref.mount.strip("/") else ""
    return {prefix + p.removeprefix("files/"): p for p in content if p.startswith("files/")}
