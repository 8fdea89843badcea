"""Remotes: where a store pulls from and pushes to, kept as git's own in store.git/config so that any git agrees.

A place is a rover project folder, a git repository on this machine, or a URL (https, http, ssh, git, host:path).
What git would run as a program (`ext::`, `--upload-pack=`, a host that begins with `-`) is refused.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import unquote, urlsplit

from rover_store import config
from rover_store.errors import NotFound, StoreError, UsageError

if TYPE_CHECKING:
    from rover_store.store import Store

#: what stands for the name of a place that was given by its URL
UNNAMED = "fetched"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SCP = re.compile(r"(?:[A-Za-z0-9._~-]+@)?(?!-)[A-Za-z0-9._-]+:(?!//).+")
_SCHEMES = frozenset({"https", "http", "ssh", "git", "git+ssh", "ssh+git"})
_PASSWORD = re.compile(r"(://[^/@\s:]*):[^/@\s]*@")
_TOKEN = re.compile(r"(https?://)([^/@\s:]+)@")


class Place(NamedTuple):
    """Somewhere that has refs. `git` is the folder of a repository on this machine, None across a network."""

    kind: Literal["rover", "git", "network"]
    url: str
    git: Path | None = None

    @property
    def shown(self) -> str:
        return without_secrets(self.url)


class Remote(NamedTuple):
    """A name for a place."""

    name: str
    url: str
    #: globs of the packages that are held, where only a part is
    packages: tuple[str, ...] = ()


def without_secrets(text: str) -> str:
    """Text with the passwords and tokens of its URLs taken out."""
    return _TOKEN.sub(r"\1***@", _PASSWORD.sub(r"\1:***@", text))


def place(text: str) -> Place:
    """What a URL or path names. UsageError for what is neither, or what would run a program."""
    if not text or text.startswith("-") or _CONTROL.search(text):
        raise UsageError(f"{text!r} is not a place to clone from or push to")
    if re.match(r"[A-Za-z0-9+.-]*::", text):
        raise UsageError(f"{without_secrets(text)!r}: a URL that runs a program is refused")
    scheme = _SCHEME.match(text)
    if scheme is not None and scheme[1].lower() == "file":
        parts = urlsplit(text)
        if parts.netloc not in ("", "localhost"):
            raise UsageError(f"{text!r}: a file URL names no host", hint="file:///path/to/repository")
        return _local(Path(unquote(parts.path)), text)
    if scheme is not None:
        return _network(text, scheme[1].lower())
    if not Path(text).exists() and _SCP.fullmatch(text):
        return Place("network", text)
    return _local(Path(text), text)


def add(store: Store, name: str, url: str, packages: tuple[str, ...] = ()) -> Remote:
    """Remember a place by a name."""
    if not _NAME.fullmatch(name) or name.endswith(".lock") or ".." in name:
        raise UsageError(f"{name!r} is not a name that a remote can have")
    if any(not pattern or _CONTROL.search(pattern) for pattern in packages):
        raise UsageError(f"{next(p for p in packages if not p or _CONTROL.search(p))!r} is no glob on package names")
    found = place(url)
    kept = found.url if found.git is None else str(found.git)  # so plain git can use it as well
    with store.lock:
        if name == UNNAMED or name in remotes(store):
            raise UsageError(f"the remote {name} exists already", hint=f"rover remote remove {name}")
        lines = [f'[remote "{name}"]', f"\turl = {_quoted(kept)}", f"\tfetch = +refs/heads/*:refs/remotes/{name}/*"]
        lines += [f"\troverPackages = {_quoted(pattern)}" for pattern in packages]
        _write(store, _text(store).rstrip("\n") + "\n" + "\n".join(lines) + "\n")
    return Remote(name, kept, packages)


def remove(store: Store, name: str, *, command: str = "") -> Remote:
    """Forget a remote, and the branches that were fetched from it. NotFound."""
    with store.write(command or f"remote remove {name}") as tx:
        gone = require(store, name)
        lines, out, inside = _text(store).splitlines(), [], False
        for line in lines:
            if line.lstrip().startswith("["):
                inside = line.strip() == f'[remote "{name}"]'
            if not inside:
                out.append(line)
        for ref, value in store.refs.all(f"refs/remotes/{name}/").items():
            tx.move_ref(ref, value, None)
        _write(store, "\n".join(out) + "\n")
    return gone


def remotes(store: Store) -> dict[str, Remote]:
    """All remotes by name."""
    from dulwich.config import ConfigFile

    try:
        found = ConfigFile.from_path(str(store.git / "config"))
    except (OSError, ValueError) as error:
        raise StoreError(f"{store.git / 'config'}: cannot be read ({error})") from None
    out: dict[str, Remote] = {}
    for section in found.sections():
        if len(section) == 2 and section[0] == b"remote":
            name = section[1].decode("utf-8", "replace")
            try:
                url = found.get(section, b"url").decode("utf-8", "replace")
            except KeyError:
                continue
            try:
                globs = tuple(v.decode("utf-8", "replace") for v in found.get_multivar(section, b"roverPackages"))
            except KeyError:
                globs = ()
            out[name] = Remote(name, url, globs)
    return dict(sorted(out.items()))


def require(store: Store, name: str) -> Remote:
    """A remote that must be known."""
    found = remotes(store).get(name)
    if found is None:
        raise NotFound("remote", name, hint="`rover remote` lists them; rover remote add NAME URL")
    return found


def chosen(store: Store, text: str = "") -> Remote:
    """The remote of a name, or a place that has none: its branches are known as fetched/BRANCH. Empty: the default."""
    if not text:
        return default(store)
    known = remotes(store)
    if text in known or (_NAME.fullmatch(text) and not Path(text).exists()):
        return require(store, text)
    found = place(text)
    return Remote(UNNAMED, found.url if found.git is None else str(found.git))


def default(store: Store) -> Remote:
    """`origin`, or the only remote there is. UsageError."""
    found = remotes(store)
    if "origin" in found:
        return found["origin"]
    if len(found) == 1:
        return next(iter(found.values()))
    raise UsageError("name a remote: there is " + ("none yet" if not found else "more than one"),
                     hint="rover remote add origin URL")  # fmt: skip


# --- within ----------------------------------------------------------------------------------------------
def _network(text: str, scheme: str) -> Place:
    if scheme not in _SCHEMES:
        raise UsageError(f"{without_secrets(text)!r}: the scheme {scheme} is not supported",
                         hint="https, http, ssh, git, file, or a path")  # fmt: skip
    try:
        host = urlsplit(text).hostname or ""
        urlsplit(text).port  # noqa: B018  # a port that is no number is a ValueError
    except ValueError:
        host = ""
    if not host or host.startswith("-") or urlsplit(text).netloc.startswith("-"):
        raise UsageError(f"{without_secrets(text)!r}: not a URL with a host")
    return Place("network", text)


def _local(path: Path, text: str) -> Place:
    root = path.expanduser()
    if (root / config.FOLDER / "store.git").is_dir():
        return Place("rover", text, (root / config.FOLDER / "store.git").absolute())
    if root.name == config.FOLDER and (root / "store.git").is_dir():
        return Place("rover", text, (root / "store.git").absolute())
    if root.name == "store.git" and root.parent.name == config.FOLDER and _bare(root):
        return Place("rover", text, root.absolute())
    for git in (root, root / ".git"):
        if _bare(git):
            inside = git.resolve()
            if inside.parent.name == config.FOLDER:  # evidence and sealed audits, which have no branches
                raise UsageError(f"{text}: a part of a store", hint=f"name the store itself: {inside.parent.parent}")
            return Place("git", text, git.absolute())
    if not root.exists():
        raise UsageError(f"{text}: no such folder, and no URL")
    raise UsageError(f"{text}: neither a rover store nor a git repository")


def _bare(git: Path) -> bool:
    return (git / "objects").is_dir() and (git / "HEAD").is_file()


def _text(store: Store) -> str:
    return (store.git / "config").read_text("utf-8", "surrogateescape")


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _write(store: Store, text: str) -> None:
    """Replace the config as git does: by config.lock and a rename."""
    path = store.git / "config"
    lock = store.git / "config.lock"
    try:
        with open(lock, "x", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.rename(lock, path)
    except FileExistsError:
        raise StoreError(f"{lock} is held by another program", hint="remove it if none is running") from None
    except OSError as error:
        lock.unlink(missing_ok=True)
        raise StoreError(f"cannot write {path}: {error.strerror}") from None
