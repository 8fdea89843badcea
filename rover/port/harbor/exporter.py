"""`rover export harbor`: task folders, and a dataset.toml that names each with its digest.

A package that came from Harbor goes back as it came, but for what was changed since. One of rover's own becomes a task
with its checks as a program.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

from rover.port.harbor import config as configs
from rover.port.harbor.config import FILE
from rover.port.harbor.digest import content_digest
from rover.port.harbor.find import DATASET
from rover.port.harbor.native import IMAGE, Settings, Written, task_of
from rover.port.harbor.restore import is_task, restore
from rover.port.harbor.tree import write
from rover.port.protocol import Export, Exported
from rover.rollout.env import Env, load_env
from rover_store.errors import PackageError, UsageError
from rover_store.files.safe_names import refusal

OPTIONS = {
    "org": "organisation of the names of rover's own packages (rover)",
    "dataset": "name of the dataset (rover/tasks)",
    "image": f"image of rover's own packages ({IMAGE.partition('@')[0]}, pinned)",
    "workdir": "where their workspace lies (/app)",
    "network": "no-network (default) or public",
    "environment": "bubblewrap: also write a Harbor environment that needs no Docker",
}
RUNNER = "bubblewrap_environment.py"


class HarborExporter:
    """Writes tasks."""

    kind = "harbor"

    def write(self, job: Export, folder: Path) -> Iterable[Exported]:
        settings, dataset = _settings(job.options)
        taken = {DATASET, RUNNER}
        tasks: list[dict[str, str]] = []
        for entry in job.entries:
            try:
                env = load_env(job.store, entry.tree)
                made = _made(env, job.revision, settings)
            except PackageError as error:
                yield Exported(entry.name, "", (f"{error.file}: {error.field}: {error.reason}".replace(": : ", ": "),))
                continue
            place = _folder(env, taken)
            write(made.tree, folder / place)
            notes = made.notes
            digest = content_digest(made.tree)
            if made.name and digest:
                tasks.append({"name": made.name, "digest": digest})
            else:
                why = "its own ignore rules decide its digest" if made.name else "it has no name of the form org/name"
                notes = (*notes, f"{why}: dataset.toml does not list it")
            yield Exported(entry.name, place, notes)
        if tasks:
            (folder / DATASET).write_bytes(_dataset(dataset, job.revision, tasks))
        if job.options.get("environment") == "bubblewrap":
            (folder / RUNNER).write_bytes((resources("rover.port.harbor") / RUNNER).read_bytes())


def _settings(options: Mapping[str, str]) -> tuple[Settings, str]:
    for key in options:
        if key not in OPTIONS:
            raise UsageError(f"--set {key}: no such option of harbor", hint=f"known: {', '.join(OPTIONS)}")
    settings = Settings(
        org=options.get("org", "rover"),
        image=options.get("image", IMAGE),
        workdir=options.get("workdir", "/app"),
        network=options.get("network", "no-network"),
    )
    if not re.fullmatch(r"(/(?!\.{1,2}(/|$))[A-Za-z0-9._-]+)+", settings.workdir):
        raise UsageError(f"--set workdir={settings.workdir}: is no absolute path of plain names")
    if not settings.image or not settings.image.isprintable() or " " in settings.image:
        raise UsageError(f"--set image={settings.image!r}: is no image")
    if settings.network not in ("no-network", "public"):
        raise UsageError(f"--set network={settings.network}: is neither no-network nor public")
    if options.get("environment", "bubblewrap") != "bubblewrap":
        raise UsageError(f"--set environment={options['environment']}: only bubblewrap is known")
    dataset = options.get("dataset", f"{settings.org}/tasks")
    for option, name in (("org", f"{settings.org}/x"), ("dataset", dataset)):
        if not configs.is_name(name):
            raise UsageError(f"--set {option}={options.get(option)}: gives no name of the form org/name")
    return settings, dataset


def _made(env: Env, revision: str, settings: Settings) -> Written:
    if not is_task(env.files):
        return task_of(env, revision, settings)
    tree = restore(env.files)
    about = configs.parse(tree[FILE].data).get("task")
    name = str(about.get("name", "")) if isinstance(about, dict) else ""
    return Written(tree, name, _unsaid(env))


def _unsaid(env: Env) -> tuple[str, ...]:
    """What a package that came from Harbor has got since, and Harbor has no form for."""
    notes = []
    if env.verifier_files.keys() & {p for p in env.verifier_files if p.startswith("checks/")}:
        notes.append("its checks are rover's, and stay here")
    if any(server.env for server in env.harness.mcp_servers or ()):
        notes.append("variables of its tool servers are left out")
    return tuple(notes)


def _folder(env: Env, taken: set[str]) -> str:
    """The folder's name: the one that the task came with, else the package's; no two have one."""
    came = env.record.provenance.config.get("folder")
    for name in (came, env.package):
        if isinstance(name, str) and not refusal(name) and name.casefold() not in taken:
            taken.add(name.casefold())
            return name
    name = f"{env.package}-{hashlib.sha256(env.tree.encode()).hexdigest()[:6]}"
    taken.add(name)
    return name


def _dataset(name: str, revision: str, tasks: list[dict[str, str]]) -> bytes:
    import tomli_w

    manifest: dict[str, Any] = {
        "schema_version": "1.0",
        "dataset": {"name": name, "description": f"{len(tasks)} tasks of rover revision {revision}"},
        "tasks": sorted(tasks, key=lambda t: t["name"]),
        "metadata": {"rover": {"revision": revision}},
    }
    return tomli_w.dumps(manifest).encode()


def tasks_in(folder: Path) -> Iterator[Path]:
    """The task folders of an export."""
    return (p.parent for p in sorted(folder.glob(f"*/{FILE}")))
