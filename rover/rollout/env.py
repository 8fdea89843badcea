"""A package version made ready to run: its records parsed, its workspace laid out, its component ids known.

`load_env` reads one from a store, `env_from_files` from memory (a builder's draft, before anything is stored).
Both give the same Env for the same bytes. What a policy may see is decided by the harness, not here.
Errors: PackageError with file, field and reason for anything malformed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from rover.harness.manifest import is_script
from rover.policy.named import named_paths
from rover.sandbox.protocol import Files
from rover_store.errors import NotFound, PackageError
from rover_store.ids import COMPONENTS, ComponentName, blob_id
from rover_store.records import (
    Anchors,
    Cases,
    Context,
    Contract,
    Harness,
    Package,
    Record,
    Reference,
    ResourceRef,
    Task,
    Verifier,
)
from rover_store.trees import EXECUTABLE, FILE, LINK, TreeItem, tree_id

if TYPE_CHECKING:
    from rover_store.store import Store

R = TypeVar("R", bound=Record)

REFERENCE = "reference/"


@dataclass(frozen=True, slots=True)
class Env:
    """One package version. The four ids are git tree ids; `start` is the workspace at its start."""

    package: str
    tree: str
    record: Package
    context_id: str
    task_id: str
    harness_id: str
    verifier_id: str
    context: Context
    task: Task
    contract: Contract
    instruction: str
    harness: Harness
    verifier: Verifier
    anchors: Anchors
    cases: Cases
    reference: Reference
    start: Files
    start_tree: str
    #: the whole verifier component, path -> bytes, the reference included
    verifier_files: Files
    #: the whole package as stored, path -> bytes
    files: Files = field(repr=False, default_factory=dict)
    #: the resources it is bound to, "files/NAME" -> files of the resource's tree
    resources: Mapping[str, Files] = field(repr=False, default_factory=dict)

    def component_id(self, name: ComponentName) -> str:
        """The tree id of one component."""
        ids = (self.context_id, self.task_id, self.harness_id, self.verifier_id)
        return dict(zip(COMPONENTS, ids, strict=True))[name]

    def targets(self) -> tuple[str, ...]:
        """Paths of the deliverables, in the contract's order.

        A contract that leaves everything to a program has none: then they are the files that the request names and
        that are not there yet.
        """
        if self.verifier.program is not None and not self.contract.deliverables:
            return tuple(path for path in named_paths(self.instruction, self.workdir) if self._is_new(path))
        return tuple(dict.fromkeys(d.path for d in self.contract.deliverables))

    @property
    def workdir(self) -> str:
        """The absolute folder at which the workspace also stands; empty where there is none."""
        return self.context.environment.workdir if self.context.environment is not None else ""

    @property
    def start_manifest(self) -> dict[str, TreeItem]:
        """The workspace at its start as git sees it. In that of a container task scripts may be run: packages keep no
        modes, and there a script says of itself how it is run."""
        runs = self.runnable
        return {p: TreeItem(EXECUTABLE if p in runs else FILE, blob_id(d)) for p, d in self.start.items()}

    @property
    def runnable(self) -> frozenset[str]:
        """Files of the start that may be run as they are."""
        if self.context.environment is None:
            return frozenset()
        return frozenset(path for path, data in self.start.items() if is_script(data))

    def _is_new(self, path: str) -> bool:
        inside = f"{path}/"
        return path not in self.start and not any(other.startswith(inside) for other in self.start)


def load_env(store: Store, package_tree: str) -> Env:
    """The Env of a package tree (any version) in `store`."""
    items = store.objects.read_tree(package_tree)
    for path, item in items.items():
        if item.mode == LINK:
            raise PackageError(path, "", "is a link; a package holds plain files only")
    files = {path: store.objects.read(item.id) for path, item in items.items()}
    context = _record(Context, files, "context/context.json")
    resources: dict[str, Files] = {}
    for number, ref in enumerate(context.resources):
        try:
            found = store.objects.read_tree(ref.tree)
        except NotFound:
            reason = f"{ref.kind}/{ref.name} at {ref.tree[:12]} is not in the store"
            raise PackageError("context/context.json", f"resources.{number}.tree", reason) from None
        resources[f"{ref.kind}/{ref.name}"] = {path: store.objects.read(item.id) for path, item in found.items()}
    return env_from_files(files, resources, tree=package_tree)


def env_from_files(files: Files, resources: Mapping[str, Files], *, tree: str | None = None) -> Env:
    """The Env of a package folder in memory. `resources` maps "files/NAME" to the files of its resource tree."""
    record = _record(Package, files, "package.json")
    context = _record(Context, files, "context/context.json")
    start = workspace(context, below(files, "context/files/"), resources)
    env = Env(
        package=record.name,
        tree=tree or tree_of(files),
        record=record,
        context_id=_component_id(files, "context"),
        task_id=_component_id(files, "task"),
        harness_id=_component_id(files, "harness"),
        verifier_id=_component_id(files, "verifier"),
        context=context,
        task=_record(Task, files, "task/task.json"),
        contract=_record(Contract, files, "task/contract.json"),
        instruction=_text(files, "task/instruction.md"),
        harness=_record(Harness, files, "harness/harness.json"),
        verifier=_record(Verifier, files, "verifier/verifier.json"),
        anchors=_record(Anchors, files, "verifier/anchors.json", Anchors()),
        cases=_record(Cases, files, "verifier/cases/cases.json", Cases()),
        reference=_record(Reference, files, "verifier/reference/reference.json", Reference()),
        start=start,
        start_tree=tree_of(start),
        verifier_files=below(files, "verifier/"),
        files=files,
        resources=resources,
    )
    return replace(env, start_tree=tree_id(env.start_manifest)) if env.runnable else env


def workspace(context: Context, own: Files, resources: Mapping[str, Files]) -> Files:
    """The workspace at its start: the package's own files and each resource of kind files at its mount."""
    out = dict(own)
    for number, ref in enumerate(context.resources):
        if ref.kind != "files":
            continue
        where = f"resources.{number}"
        content = resources.get(f"{ref.kind}/{ref.name}")
        if content is None:
            raise PackageError("context/context.json", where, f"resource {ref.kind}/{ref.name} is missing")
        for path, data in _mounted(ref, content):
            if path in out and out[path] != data:
                raise PackageError("context/context.json", where, f"two files of the workspace are called {path}")
            out[path] = data
    _check_paths(out)
    return dict(sorted(out.items()))


def reference_state(env: Env) -> Files:
    """The reference end state: the start with the reference's changes. For calibration only."""
    state = dict(env.start)
    for number, change in enumerate(env.reference.changes):
        if change.deleted:
            state.pop(change.path, None)
            continue
        data = env.verifier_files.get(f"{REFERENCE}files/{change.path}")
        if data is None:
            reason = f"{change.path} is not in reference/files"
            raise PackageError("verifier/reference/reference.json", f"changes.{number}.path", reason)
        for other in in_the_way(change.path, state):
            del state[other]
        state[change.path] = data
    return dict(sorted(state.items()))


def in_the_way(path: str, state: Iterable[str]) -> list[str]:
    """Files of a state that stand where a file of this path has to go: as a folder of it, or below it."""
    above = {path[:i] for i, c in enumerate(path) if c == "/"}
    return [other for other in state if other in above or other.startswith(path + "/")]


def tree_of(files: Files) -> str:
    """The git tree id of plain files."""
    return tree_id({path: (FILE, blob_id(data)) for path, data in files.items()})


def below(files: Files, folder: str) -> dict[str, bytes]:
    """The files below `folder` (it ends in a slash), by their paths in it."""
    return {path[len(folder) :]: data for path, data in files.items() if path.startswith(folder)}


def _mounted(ref: ResourceRef, content: Files) -> Iterable[tuple[str, bytes]]:
    prefix = f"{ref.mount.strip('/')}/" if ref.mount.strip("/") else ""
    return ((prefix + path, data) for path, data in below(content, "files/").items())


def _check_paths(files: Files) -> None:
    """A path may not also be a folder, nor leave the workspace."""
    for path in files:
        parts = path.split("/")
        if not path or path.startswith("/") or any(part in ("", ".", "..") for part in parts):
            raise PackageError("context/context.json", "", f"{path!r} is not a path inside the workspace")
        for depth in range(1, len(parts)):
            folder = "/".join(parts[:depth])
            if folder in files:
                raise PackageError("context/context.json", "", f"{folder} is both a file and a folder")


def _component_id(files: Files, name: ComponentName) -> str:
    own = below(files, f"{name}/")
    if not own:
        raise PackageError(f"{name}/", "", "the component is missing")
    return tree_of(own)


def _record(kind: type[R], files: Files, path: str, default: R | None = None) -> R:
    data = files.get(path)
    if data is None:
        if default is not None:
            return default
        raise PackageError(path, "", "the file is missing")
    return kind.load(data, path)


def _text(files: Files, path: str) -> str:
    data = files.get(path)
    if data is None:
        raise PackageError(path, "", "the file is missing")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PackageError(path, "", f"not UTF-8 at byte {error.start}") from None
