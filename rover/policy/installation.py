"""Where an agent program is installed on the host: what a box has to show of it, and its identity by content.

A virtual environment is known by its distributions: name, version and the digests in each RECORD, of what lies in
site-packages (scripts carry paths of this machine). Files that were changed after their installation are hashed as
they are, and so is what lies in it and belongs to no distribution: an agent may be a script in a plain environment.
Any other folder is known by its files, up to a size. The same files give the same id wherever they lie.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rover_store.errors import UsageError
from rover_store.ids import digest

MOST_FILES, MOST_BYTES = 20_000, 512 << 20
#: where a folder appears that lies on the host where a box has something else
ELSEWHERE = "/agent"
_TAKEN = ("/tmp", "/w", "/v", "/r", "/dev", "/proc", "/sys", "/etc")
#: neither is what an agent runs on
_SKIPPED = ("__pycache__", ".git")
#: written by an installer, with paths or times of one machine
_OF_INSTALLER = ("INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_cache.json")
#: what makes a virtual environment puts there: paths and versions of one machine, no program of an agent
_OF_VENV = re.compile(
    r"(pyvenv\.cfg|lib64|\.gitignore|\.lock|CACHEDIR\.TAG"
    r"|bin/(activate.*|Activate\.ps1|deactivate.*|pydoc.*|python[\d.]*))\Z"
)
_FIRST_LINE = 1024
#: seconds by which an installer may be done with a RECORD before a file
_SLACK_S = 2.0


@dataclass(frozen=True, slots=True)
class Installation:
    """`id` is by content; `folder` is its path on the host, `at` in a box. `shows` is for a Place: folder of the host
    -> where it appears; `path` holds programs."""

    id: str
    folder: str
    at: str
    shows: tuple[tuple[str, str], ...]
    path: tuple[str, ...]


def installation(folder: Path) -> Installation:
    """Of a virtual environment or any folder. UsageError where a box could not run it."""
    spelled = os.path.abspath(folder)
    if not os.path.isdir(spelled):
        raise UsageError(f"--agent {folder}: not a folder")
    _refuse_wide(spelled, str(folder))
    venv = os.path.exists(os.path.join(spelled, "pyvenv.cfg"))
    # scripts of a virtual environment name their interpreter by its path; other folders may stand elsewhere
    at = ELSEWHERE if not venv and any(_within(spelled, taken) for taken in _TAKEN) else spelled
    shows = {at: os.path.realpath(spelled)}
    path = (f"{at}/bin",) if os.path.isdir(os.path.join(spelled, "bin")) else (at,)
    if venv:
        config = _config(spelled)
        shows |= _interpreter(spelled, config, str(folder))
        version = config.get("version_info") or config.get("version", "")
        distributions, owned = _distributions(spelled, str(folder))
        beside = _beside(spelled, owned, str(folder))
        identity = digest(["venv", version, distributions, *([beside] if beside else [])])
    else:
        identity = digest(["folder", _files(spelled, str(folder))])
    return Installation(identity, spelled, at, tuple((real, there) for there, real in sorted(shows.items())), path)


def _refuse_wide(spelled: str, named: str) -> None:
    """A folder that would show the agent what it must not see: everything, a home, a store with its verifiers."""
    real = os.path.realpath(spelled)
    home = os.path.realpath(os.path.expanduser("~"))
    if real == "/" or real == home or home.startswith(real + "/") or "/" not in real[1:]:
        raise UsageError(f"--agent {named}: too much would be shown to the agent", hint="name the agent's own folder")
    if os.path.exists(os.path.join(real, ".rover")):
        raise UsageError(f"--agent {named}: it holds a store, whose verifiers no agent may see")


# --- virtual environments ----------------------------------------------------------------------------------------
def _config(venv: str) -> dict[str, str]:
    lines = Path(venv, "pyvenv.cfg").read_text("utf-8", "replace").splitlines()
    pairs = [line.partition("=") for line in lines]
    return {key.strip().lower(): value.strip() for key, mark, value in pairs if mark}


def _interpreter(venv: str, config: dict[str, str], named: str) -> dict[str, str]:
    """What else the interpreter of a virtual environment needs: where it appears -> folder of the host."""
    if config.get("include-system-site-packages", "false").lower() == "true":
        raise UsageError(f"--agent {named}: it uses the system's packages, which a box does not have")
    program = os.path.join(venv, "bin", "python")
    if not os.access(program, os.X_OK):
        raise UsageError(f"--agent {named}: a virtual environment whose bin/python is no program")
    shows: dict[str, str] = {}
    for place in _hops(program):
        if _within(place, venv) or _within(place, "/usr"):
            continue
        prefix = os.path.dirname(os.path.dirname(place))  # of PREFIX/bin/python
        if os.path.basename(os.path.dirname(place)) != "bin" or prefix.count("/") < 2:
            raise UsageError(f"--agent {named}: its interpreter {place} is in no folder of its own")
        shows[prefix] = os.path.realpath(prefix)
    return shows


def _hops(program: str) -> list[str]:
    """The path of an interpreter and of all that it links to."""
    places = [program]
    while os.path.islink(places[-1]) and len(places) < 20:
        target = os.path.join(os.path.dirname(places[-1]), os.readlink(places[-1]))
        places.append(os.path.normpath(target))
    real = os.path.realpath(program)
    return [*places, real] if real not in places else places


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _distributions(venv: str, named: str) -> tuple[list[list[str]], set[str]]:
    """Name, version and digest of every installed distribution, and what was changed by hand, sorted; and the paths
    that they own outside site-packages."""
    found: list[list[str]] = []
    owned: set[str] = set()
    for site in sorted(Path(venv, "lib").glob("python*/site-packages")):
        kept: set[str] = set()
        for folder in sorted(site.glob("*.dist-info")):
            record = folder / "RECORD"
            if not record.is_file():
                raise UsageError(f"--agent {named}: {folder.name} has no RECORD of its files", hint="install it again")
            if re.search(rb'"editable"\s*:\s*true', _bytes(folder / "direct_url.json")):
                hint = "install it as a wheel: pip install PATH, without -e"
                raise UsageError(f"--agent {named}: {folder.name} is installed in editable mode", hint=hint)
            name, _, version = folder.name.removesuffix(".dist-info").partition("-")
            rows, changed, outside = _record(site, record)
            owned |= {os.path.relpath(path, venv) for path in outside}
            kept |= rows.keys()
            body = sorted([path, said] for path, said in rows.items() if not _of_installer(path))
            found.append([name.lower().replace("_", "-"), version, digest([body, changed])])
        loose = _loose(site, {path.partition("/")[0] for path in kept})
        if loose:
            found.append(["", "", digest(loose)])
    return sorted(found), owned


def _record(site: Path, record: Path) -> tuple[dict[str, str], list[list[str]], list[str]]:
    """The files of a distribution in site-packages with their digests, those that are not what it says, and the paths
    of what it has elsewhere."""
    rows: dict[str, str] = {}
    changed, outside = [], []
    written = record.stat().st_mtime + _SLACK_S
    for row in csv.reader(record.read_text("utf-8", "replace").splitlines()):
        if len(row) == 3 and row[0].startswith(("/", "..")):
            outside.append(os.path.normpath(site / row[0]))
        if len(row) != 3 or row[0].startswith(("/", "..")) or row[0].endswith(".pyc"):
            continue
        path, said, size = row
        rows[path] = said
        if not said or _of_installer(path):
            continue
        try:
            stat = (site / path).stat()
        except OSError:
            changed.append([path, "gone"])
            continue
        if stat.st_mtime > written or str(stat.st_size) != size:
            found = base64.urlsafe_b64encode(hashlib.sha256(_bytes(site / path)).digest())
            now = "sha256=" + found.decode().rstrip("=")
            if now != said:
                changed.append([path, now])
    return rows, sorted(changed), outside


def _beside(venv: str, owned: set[str], named: str) -> list[list[str]]:
    """What lies in a virtual environment outside site-packages, belongs to no distribution and was put there."""
    sites = {os.path.relpath(site, venv) for site in Path(venv, "lib").glob("python*/site-packages")}
    return _files(venv, named, lambda path: path in owned or path in sites or bool(_OF_VENV.match(path)))


def _loose(site: Path, owned: set[str]) -> list[list[str]]:
    """What lies in site-packages and belongs to no distribution."""
    found = []
    for entry in sorted(site.iterdir()):
        if entry.name in owned or entry.name in _SKIPPED or entry.name.endswith(".dist-info"):
            continue
        files = _files(str(entry), str(entry)) if entry.is_dir() else [["", "file", _hash(entry)]]
        found += [[f"{entry.name}/{path}", kind, said] for path, kind, said in files]
    return found


def _of_installer(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return folder.endswith(".dist-info") and name in _OF_INSTALLER


# --- any folder ----------------------------------------------------------------------------------------------------
def _files(folder: str, named: str, but: Callable[[str], bool] = lambda path: False) -> list[list[str]]:
    """Every file below a folder: path, kind, digest; sorted. Without what `but` says of a path."""
    found: list[list[str]] = []
    left = MOST_BYTES
    for at, folders, names in os.walk(folder):
        if ".rover" in folders:
            raise UsageError(f"--agent {named}: it holds a store, whose verifiers no agent may see")
        links = [n for n in folders if os.path.islink(os.path.join(at, n))]
        above = os.path.relpath(at, folder)
        folders[:] = sorted(
            n for n in folders if n not in (*_SKIPPED, *links) and not but(os.path.normpath(os.path.join(above, n)))
        )
        for name in [*names, *links]:
            path = os.path.join(at, name)
            inside = os.path.normpath(os.path.join(above, name))
            if but(inside):
                continue
            if os.path.islink(path):
                found.append([inside, "link", _target(path, folder)])
            elif os.path.isfile(path):
                left -= os.path.getsize(path)
                if left < 0 or len(found) >= MOST_FILES:
                    bounds = f"{MOST_FILES} files or {MOST_BYTES >> 20} MB"
                    raise UsageError(f"--agent {named}: holds more than {bounds}", hint="a virtual environment may")
                kind = "program" if os.access(path, os.X_OK) else "file"
                found.append([inside, kind, _hash(Path(path), folder if inside.startswith("bin/") else "")])
    return sorted(found)


def _target(link: str, folder: str) -> str:
    """Where a link leads, as far as it is inside: a place of the host is no part of an identity."""
    target = os.path.normpath(os.path.join(os.path.dirname(link), os.readlink(link)))
    return os.path.relpath(target, folder) if _within(target, folder) else "outside"


def _hash(path: Path, folder: str = "") -> str:
    """Of a file's content. A script names its interpreter by a path in `folder`, which is of this machine."""
    h = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            head = stream.readline(_FIRST_LINE)
            h.update(head.replace(os.fsencode(folder), b"{agent}") if folder and head.startswith(b"#!") else head)
            while piece := stream.read(1 << 20):
                h.update(piece)
    except OSError as error:
        raise UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    return h.hexdigest()


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
