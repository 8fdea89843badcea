"""What a draft must be before it is frozen: one whole component of this package, of a size to be expected.

`refusal` says in one line why it is none. `honest` replaces what a draft says that it writes by what it really
writes: dependency conflicts are decided on facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from rover.diagnose.demands import contract_sources
from rover.repair.proposals.protocol import Draft, Files, PackageView, Proposer
from rover.rollout.env import Env, env_from_files, tree_of
from rover_store.errors import PackageError
from rover_store.files.package_records import FREE, OPTIONAL, REQUIRED
from rover_store.files.safe_names import refusal as problem
from rover_store.ids import COMPONENTS
from rover_store.records import Context, Contract, Resource, Verifier

#: a draft may hold so many times what the component holds now, and so much more
MOST_TIMES, MORE_BYTES, MORE_FILES = 4, 4 << 20, 200
_TYPED = ("path", "tool", "anchor", "requirement", "deliverable", "given", "criterion")


def refusal(view: PackageView, component: str, draft: Draft) -> str:
    """Why a draft cannot be frozen, in one line; empty where it can."""
    if component not in COMPONENTS or draft.component != component:
        return f"it replaces {str(draft.component)[:40]!r} instead of {component}"
    found = _paths(component, draft.files) or _size(view, draft)
    if found:
        return found
    try:
        found = _resources(draft)
        if found:
            return found
        _records(component, draft.files)
        env = replaced(view, draft)
    except PackageError as error:
        return error.message
    except RecursionError:
        return "it is nested too deep to be read"
    return _foreign(view, draft, env)


def changes(view: PackageView, draft: Draft) -> bool:
    """Whether it differs from the present version at all."""
    now = view.component(draft.component)
    bound = {n: tree_of(c) for n, c in draft.resources.items()}
    same = all(view.env.resources.get(n) is not None and tree_of(view.env.resources[n]) == t for n, t in bound.items())
    return dict(draft.files) != now or not same


def honest(view: PackageView, draft: Draft, proposer: Proposer | None = None) -> Draft:
    """The draft with its real writes, the needs that it declared, and who made it."""
    env = replaced(view, draft)
    real = tuple(sorted(set(_writes(view, draft, env))))
    declared = {w for w in draft.writes if w.partition(":")[0] in _TYPED}
    kept = {w for w in declared if _true(w, env, real)}
    false = sorted(declared - kept)
    said = f"{draft.rationale} (says that it writes {', '.join(false[:3])}, and does not)" if false else draft.rationale
    name, style = (proposer.name, proposer.style) if proposer else (draft.proposer, draft.style or draft.source)
    writes = tuple(sorted({*kept, *real}))
    return replace(draft, writes=writes, rationale=said[:2000], proposer=name, style=style)


def replaced(view: PackageView, draft: Draft) -> Env:
    """The package with the draft in place. PackageError where that is no package."""
    head = f"{draft.component}/"
    files = {p: d for p, d in view.files.items() if not p.startswith(head)}
    files |= {head + p: d for p, d in draft.files.items()}
    return env_from_files(dict(sorted(files.items())), {**view.resources, **draft.resources})


# --- refusals --------------------------------------------------------------------------------------------
def _paths(component: str, files: Files) -> str:
    for path in files:
        parts = path.split("/")
        bad = next((problem(part) for part in parts if problem(part)), None)
        if bad or "\\" in path or path.startswith("/"):
            return f"it writes outside its component: {path[:120]!r}"
        whole = f"{component}/{path}"
        if whole not in REQUIRED and whole not in OPTIONAL and not whole.startswith(FREE):
            return f"{whole[:120]!r} has no place in a package"
    folders = {p[:i] for p in files for i, c in enumerate(p) if c == "/"}
    clash = next((p for p in files if p in folders), None)
    return f"{clash!r} is a file and a folder" if clash else ""


def _size(view: PackageView, draft: Draft) -> str:
    now = view.component(draft.component)
    held = {n: view.env.resources.get(n, {}) for n in draft.resources}
    before = sum(map(len, now.values())) + sum(len(d) for c in held.values() for d in c.values())
    after = sum(map(len, draft.files.values())) + sum(len(d) for c in draft.resources.values() for d in c.values())
    if after > MOST_TIMES * before + MORE_BYTES:
        return f"it holds {after} bytes, the present version {before}"
    if len(draft.files) > MOST_TIMES * len(now) + MORE_FILES:
        return f"it holds {len(draft.files)} files, the present version {len(now)}"
    return ""


def _resources(draft: Draft) -> str:
    if not draft.resources:
        return ""
    if draft.component != "context":
        return "only a context proposal may replace resources"
    if "context.json" not in draft.files:
        return "context/context.json: missing"
    record = Context.load(draft.files["context.json"], "context/context.json")
    listed = {f"{r.kind}/{r.name}" for r in record.resources}
    for name, content in draft.resources.items():
        if name not in listed:
            return f"it replaces {name[:80]}, which its context.json does not list"
        for path in content:
            if any(problem(part) for part in path.split("/")) or not path.startswith(("files/", "resource.json")):
                return f"{name[:80]}: it writes outside the resource: {path[:120]!r}"
        if "resource.json" not in content:
            return f"{name[:80]} has no resource.json"
        found = Resource.load(content["resource.json"], f"{name}/resource.json").name
        if found != name.partition("/")[2]:
            return f"{name[:80]} carries the resource {found}"
    return ""


def _records(component: str, files: Files) -> None:
    """PackageError for a record of the component that is missing or cannot be read."""
    for path, kind in {**REQUIRED, **OPTIONAL}.items():
        part, _, name = path.partition("/")
        if part != component:
            continue
        if name in files and kind is not None:
            kind.load(files[name], path)
        elif name not in files and path in REQUIRED:
            raise PackageError(path, "", "missing")


def _foreign(view: PackageView, draft: Draft, env: Env) -> str:
    """Whether it is a component of another package: it has nothing to do with what this one demands."""
    contract: Contract = view.contract
    if draft.component == "verifier":
        scored = {c.requirement for c in Verifier.load(draft.files["verifier.json"], "verifier/verifier.json").criteria}
        demanded = {r.id for r in (*contract.requirements, *view.env.contract.requirements)}
        if demanded and scored and not scored & demanded:
            return "it is another package's verifier: none of its criteria scores a demand of the contract"
    if draft.component == "task":
        mine = {d.path for d in (*contract.deliverables, *view.env.contract.deliverables)}
        theirs = {d.path for d in env.contract.deliverables}
        if mine and not mine & theirs and not {d.id for d in contract.deliverables} & {
            d.id for d in env.contract.deliverables
        }:
            return "it is another package's task: it asks for none of the deliverables"
    if draft.component == "context":
        wanted = set(contract_sources(contract))
        if wanted & set(view.env.start) and not wanted & set(env.start):
            return "it is another package's context: it holds none of the files that the contract derives answers from"
    return ""


# --- what it really writes -------------------------------------------------------------------------------
def _writes(view: PackageView, draft: Draft, env: Env) -> Iterator[str]:
    before = view.component(draft.component)
    yield from (f"file:{draft.component}/{p}" for p in _different(before, draft.files))
    if draft.component == "context":
        yield from (f"path:{p}" for p in _different(view.env.start, env.start) if p in env.start)
    elif draft.component == "harness":
        yield from (f"tool:{t}" for t in env.harness.tools if t not in view.env.harness.tools)
    elif draft.component == "verifier":
        known = {a.id: a for a in view.env.anchors.anchors}
        yield from (f"anchor:{a.id}" for a in env.anchors.anchors if known.get(a.id) != a)


def _true(write: str, env: Env, real: tuple[str, ...]) -> bool:
    """Whether the combination would have it."""
    kind, _, rest = write.partition(":")
    name = rest.partition("=")[0]
    has: Mapping[str, object] = {
        "path": {*env.start, *env.targets()},
        "tool": set(env.harness.tools),
        "anchor": {a.id for a in env.anchors.anchors},
        "requirement": {r.id for r in env.contract.requirements},
        "deliverable": {d.id for d in env.contract.deliverables},
        "given": {g.name for g in env.contract.givens},
        "criterion": {c.id for c in env.verifier.criteria},
    }
    return write in real or name in has.get(kind, ())  # type: ignore[operator]


def _different(before: Files, after: Files) -> list[str]:
    return [p for p in sorted({*before, *after}) if before.get(p) != after.get(p)]
