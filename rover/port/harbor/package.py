"""A package of one task: its files in place, the records that it gets, and what is kept beside them.

What comes out again is compared with what went in, file by file and key by key: a task that would lose anything is
refused, not taken in part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rover.harness.manifest import is_script
from rover.policy.solution import SETTINGS
from rover.port.harbor import config as configs
from rover.port.harbor import image, needs, rewards, split
from rover.port.harbor.about import Origin, name_of, slug, tags_of, title_of, word
from rover.port.harbor.config import Config
from rover.port.harbor.digest import content_digest
from rover.port.harbor.layout import BESIDE, CONFIG, TOP, placed
from rover.port.harbor.restore import restore, unlike
from rover.port.harbor.tree import Item, Tree, below, links_of
from rover.port.harbor.values import to_json
from rover.rollout.env import tree_of
from rover_store.errors import PackageError
from rover_store.ids import COMPONENTS
from rover_store.records import (
    Anchors,
    Cases,
    Context,
    ContextFile,
    Edge,
    Package,
    Provenance,
    SourceFile,
    Task,
    Verifier,
)
from rover_store.records.base import to_json as dumped
from rover_store.records.components import Environment

MOST_SOURCES = 2_000


@dataclass(frozen=True, slots=True)
class Made:
    """A package of a task, with what a person should know of it."""

    name: str
    files: Mapping[str, bytes]
    unknown: tuple[str, ...]
    needs: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InImage:
    """What a prebuilt image holds in its working folder."""

    workdir: str
    files: Mapping[str, Item]
    notes: tuple[str, ...] = ()


#: looks into an image, at a folder or (empty) its own working folder; None where nobody can
Look = Callable[[str, str], InImage | None]


@dataclass(frozen=True, slots=True)
class Read:
    """A task as far as it was understood."""

    tree: Tree
    config: Config
    stage: image.Stage
    given: split.Given
    records: split.Records
    needs: needs.Needs
    #: the workspace at its start
    start: Mapping[str, Item]
    keys: tuple[str, ...]
    keys_from: str
    inside: InImage | None = None


def nobody(image: str, folder: str) -> InImage | None:
    """No image is looked into."""
    return None


def make(tree: Tree, origin: Origin, look: Look = nobody) -> Made:
    """The package. PackageError names file, field and reason of a task that is none."""
    task = read(tree, look)
    name = name_of(task.config, origin)
    files = _files(task, origin, name)
    lost = unlike(tree, restore(files))
    if lost:
        raise PackageError(lost, "", "would not come out of a package as it went in; it is not taken")
    return Made(name, files, configs.unknown(task.config), task.needs.said(), _notes(task))


def read(tree: Tree, look: Look = nobody) -> Read:
    """A task, checked and understood. PackageError for one that Harbor itself would not load."""
    if configs.FILE not in tree:
        raise PackageError(configs.FILE, "", "missing")
    config = configs.parse(tree[configs.FILE].data)
    configs.check(config)
    _check_layout(tree, config)
    stage = stage_of(tree, config)
    place = config.get("environment") or {}
    own = "" if image.DOCKERFILE in tree else str(place.get("docker_image") or "")
    inside = look(own, str(place.get("workdir") or "")) if own else None
    if inside is not None:
        stage = image.looked_into(stage, inside.workdir, inside.files)
    given = split.given_of(below(tree, "environment/"), inside.workdir if inside else "")
    dockerfile = "environment/Dockerfile" if image.DOCKERFILE in tree else ""
    records = split.records_of(config, given, argv=argv_of(tree), dockerfile=dockerfile)
    workdir = records.environment.workdir
    start = below(stage.files, f"{workdir}/") if workdir else {}
    keys, source = rewards.keys_of(tree, config)
    found = needs.needs_of(config, tree, stage, workdir)
    return Read(tree, config, stage, given, records, found, start, keys, source, inside)


def _check_layout(tree: Tree, config: Config) -> None:
    environment = config.get("environment") or {}
    if not environment.get("docker_image") and not any(p.startswith("environment/") for p in tree):
        raise PackageError("environment/", "", "missing, and environment.docker_image names no image")
    script = "test.bat" if str(environment.get("os", "")).lower() == "windows" else "test.sh"
    bundled = needs.is_separate(config) and (
        "tests/Dockerfile" in tree
        or "tests/docker-compose.yaml" in tree
        or bool(((config.get("verifier") or {}).get("environment") or {}).get("docker_image"))
    )
    for folder in [f"steps/{step['name']}/" for step in config.get("steps") or ()] or [""]:
        if f"{folder}instruction.md" not in tree:
            raise PackageError(f"{folder}instruction.md", "", "missing")
        if not bundled and not {f"{folder}tests/{script}", f"tests/{script}"} & tree.keys():
            raise PackageError(f"{folder}tests/{script}", "", "missing")


def stage_of(tree: Tree, config: Config) -> image.Stage:
    """What is known of the place where an agent works."""
    environment = config.get("environment") or {}
    own = below(tree, "environment/")
    prebuilt = environment.get("docker_image") or ""
    if "Dockerfile" in own:
        return image.of_dockerfile(own)
    workdir = environment.get("workdir") or ""
    workdir = workdir.rstrip("/") if workdir.startswith("/") else ""
    if "docker-compose.yaml" in own or not prebuilt:
        return image.Stage(workdir=workdir).image("environment/ holds no Dockerfile")
    return image.of_image(prebuilt, workdir, own)


def argv_of(tree: Tree) -> tuple[str, ...]:
    """How the tests are run: as their first line says, by bash where it says nothing else."""
    item = tree.get("tests/test.sh")
    first = item.data[:200].split(b"\n")[0].decode("utf-8", "replace").strip() if item else ""
    words = first.removeprefix("#!").split() if first.startswith("#!") else []
    if words[:1] in (["/usr/bin/env"], ["env"]):
        words = [w for w in words[1:] if w != "-S"]
    if not words or (len(words) == 1 and words[0].rpartition("/")[2] == "bash"):
        words = ["bash"]
    return (*words, "/tests/test.sh")


# --- files -------------------------------------------------------------------------------------------------
def _files(task: Read, origin: Origin, name: str) -> dict[str, bytes]:
    """The package folder: the task's own files in place, the workspace, the records, and what stands beside them."""
    moved = {placed(p): i for p, i in task.tree.items() if p not in (configs.FILE, "instruction.md")}
    settings = split.split(task.config, task.records, task.given)
    variables = split.take_variables(settings)
    out = {path: item.data for path, item in moved.items()}
    out |= {f"context/files/{path}": item.data for path, item in task.start.items()}
    out |= _records(task, title_of(task.config, origin))
    out |= {BESIDE[c]: dumped(dict(sorted(v.items()))) for c, v in _beside(task, moved, settings).items() if v}
    out[CONFIG] = task.tree[configs.FILE].data
    if variables:
        out[SETTINGS] = dumped({"env": variables})
    out["package.json"] = _package(name, title_of(task.config, origin), task, origin, out).dump()
    return dict(sorted(out.items()))


def _records(task: Read, title: str) -> dict[str, bytes]:
    """The records of the four components, and the text that an agent sees."""
    own = task.records
    place = own.environment if own.environment != Environment() else None
    listed = tuple(ContextFile(path=p, access="editable", role="starter") for p in sorted(task.start))
    criteria = rewards.criteria(task.keys)
    records = {
        "context/context.json": Context(files=listed, environment=place),
        "task/task.json": Task(title=title),
        "task/contract.json": rewards.contract(task.keys),
        "harness/harness.json": own.harness.model_copy(update={"requires": task.needs.requires() or None}),
        "verifier/verifier.json": Verifier(criteria=criteria, pass_weight=1.0, program=own.program),
        "verifier/anchors.json": Anchors(),
        "verifier/cases/cases.json": Cases(),
    }
    text = instruction_of(task.tree, task.config)[1]
    return {"task/instruction.md": text.encode(), **{path: record.dump() for path, record in records.items()}}


def _beside(task: Read, moved: Mapping[str, Item], settings: split.Parts) -> dict[str, dict[str, Any]]:
    """What no record has a field for, by component: settings, modes, links, and of what the instruction is made."""
    found = {name: _of_component(name, below(moved, f"{name}/"), settings) for name in BESIDE}
    head, _, of_steps = instruction_of(task.tree, task.config)
    if head:
        found["task"]["instruction_head"] = head
    if of_steps:
        found["task"]["instruction"] = "of the steps"
    if task.inside is not None and not (task.config.get("environment") or {}).get("workdir"):
        found["context"]["image_workdir"] = task.given.workdir
    if top := sorted(path for path in TOP if path in moved and moved[path].executable):
        found["demonstrations"]["top_executable"] = top
    if texts := sorted({"task.toml", "instruction.md"} & {p for p, i in task.tree.items() if i.executable}):
        found["demonstrations"]["texts_executable"] = texts
    return found


def _of_component(name: str, own: Mapping[str, Item], settings: split.Parts) -> dict[str, Any]:
    """Settings of one component, and modes and links of its files."""
    found: dict[str, Any] = {}
    if name in COMPONENTS and name in settings:
        found["config"] = to_json(settings[name])
    if runs := sorted(path for path, item in own.items() if item.executable):
        found["executable"] = runs
    if links := links_of(_within(own, name)):
        found["links"] = links
    return found


def _within(own: Mapping[str, Item], component: str) -> dict[str, Item]:
    """Files of a component whose links to folders name the folder as it lies there."""
    out = {}
    for path, item in own.items():
        folder, mark, text = item.link.rpartition("\0")
        out[path] = replace(item, link=f"{placed(f'{folder}/x')[len(component) + 1 : -2]}\0{text}") if mark else item
    return out


def instruction_of(tree: Tree, config: Config) -> tuple[str, str, bool]:
    """The lines that no agent sees, the text that it does, and whether the text is made of those of the steps."""
    item = tree.get("instruction.md")
    if item is None:
        texts = [(step["name"], tree[f"steps/{step['name']}/instruction.md"]) for step in config["steps"]]
        whole = [f"# {name}\n\n{_text(one, f'steps/{name}/instruction.md')[1].strip()}\n" for name, one in texts]
        return "", "\n".join(whole), True
    return (*_text(item, "instruction.md"), False)


def _text(item: Item, path: str) -> tuple[str, str]:
    try:
        text = item.data.decode()
    except UnicodeDecodeError as error:
        raise PackageError(path, "", f"is not UTF-8 at byte {error.start}") from None
    lines = text.split("\n")
    at = 0
    while at < len(lines) and _is_canary(lines[at].strip().lower()):
        at += 1
    while at and at < len(lines) and not lines[at].strip():
        at += 1
    head, rest = "".join(line + "\n" for line in lines[:at]), "\n".join(lines[at:])
    if not rest.strip():
        raise PackageError(path, "", "is empty")
    return head, rest


def _is_canary(line: str) -> bool:
    """Harbor takes such lines off the head of a text before an agent sees it."""
    comment = line.startswith("<!--") and line.endswith("-->") and "canary" in line[4:-3]
    return comment or (line.startswith("#") and "canary" in line)


# --- records -----------------------------------------------------------------------------------------------
def _package(name: str, title: str, task: Read, origin: Origin, out: Mapping[str, bytes]) -> Package:
    ids = {c: tree_of({p[len(c) + 1 :]: d for p, d in out.items() if p.startswith(f"{c}/")}) for c in COMPONENTS}
    edges = [
        Edge(source="task", target="context", version=ids["context"]),
        Edge(source="harness", target="context", version=ids["context"]),
        *(Edge(source="verifier", target=t, version=ids[t]) for t in ("context", "task", "harness")),
    ]
    about = task.config.get("task") or {}
    known = {"task": about.get("name", ""), "folder": origin.folder, "dataset": origin.dataset,
             "digest": content_digest(task.tree)}  # fmt: skip
    sources = [SourceFile(path=p, sha256=hashlib.sha256(i.data).hexdigest()) for p, i in task.tree.items()]
    return Package(
        name=name,
        title=title,
        workspace=slug((origin.dataset or about.get("name", "") or origin.folder).rpartition("/")[2], 60),
        tags=tags_of(task.config) or None,
        provenance=Provenance(
            builder="harbor",
            version=str(task.config.get("schema_version") or task.config.get("version") or ""),
            config={key: value for key, value in known.items() if value},
            sources=tuple(sources[:MOST_SOURCES]),
            license=word((task.config.get("metadata") or {}).get("license")),
        ),
        edges=tuple(edges),
    )


def _notes(task: Read) -> tuple[str, ...]:
    notes = [*task.stage.notes, *(task.inside.notes if task.inside else ())]
    plain = task.records.environment == Environment()  # else scripts are made to be run
    runs = sorted(p for p, item in task.start.items() if item.executable and (plain or not is_script(item.data)))
    if runs:
        notes.append(f"a workspace keeps no modes: {runs[0]} may be run there, and here by its interpreter alone")
    if task.keys_from:
        notes.append(f"rewards {', '.join(task.keys)}, as {task.keys_from} says")
    if needs.is_separate(task.config):
        notes.append("its verifier sees the whole workspace here, there the artifacts alone")
    if (task.config.get("environment") or {}).get("skills_dir"):
        notes.append("environment.skills_dir: its skills are files like others here")
    if not any(path.startswith("solution/") for path in task.tree):
        notes.append("it brings no solution")
    return tuple(notes)
