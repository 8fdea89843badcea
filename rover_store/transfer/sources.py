"""Where evidence may come from: a store, a git repository, a bundle, a folder of bundles, a URL, a remote's name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rover_store.errors import UsageError
from rover_store.objects import Objects
from rover_store.refs import EVIDENCE, Refs
from rover_store.transfer import remotes, wire
from rover_store.transfer.bundle import is_bundle, unpacked
from rover_store.transfer.foreign import Foreign
from rover_store.transfer.incoming import incoming

if TYPE_CHECKING:
    from rover_store.store import Store

#: of the files in a folder, those that are taken for evidence
ENDING = ".bundle"
_MOST_FILES = 10_000


@contextlib.contextmanager
def opened(store: Store, named: tuple[str, ...]) -> Iterator[list[Foreign]]:
    """The evidence that is meant, in the given order. UsageError for what is no such place; one without is empty."""
    with contextlib.ExitStack() as stack:
        found: list[Foreign] = []
        for text in named:
            for part in _files(text):
                found += stack.enter_context(_bundle(store, part))
            if not _files(text):
                found += stack.enter_context(_place(store, text))
        yield found


def _files(text: str) -> list[Path]:
    """Bundles that a path means: itself, or those below a folder that is neither a store nor a repository."""
    path = Path(text)
    if path.is_file():
        if not is_bundle(path):
            raise UsageError(f"{text}: not a file of evidence", hint="rover evidence pack writes one")
        return [path]
    if not path.is_dir() or any((path / name).exists() for name in (".rover", ".git", "HEAD", "store.git")):
        return []
    found = sorted(path.rglob(f"*{ENDING}"))
    if len(found) > _MOST_FILES:
        raise UsageError(f"{text}: more than {_MOST_FILES} files end in {ENDING}")
    if not found:
        raise UsageError(f"{text}: neither a store nor a repository, and no file in it ends in {ENDING}")
    return found


@contextlib.contextmanager
def _bundle(store: Store, file: Path) -> Iterator[list[Foreign]]:
    with unpacked(store, file) as (git, commit):
        yield [Foreign(str(file), Objects(git), commit)]


@contextlib.contextmanager
def _place(store: Store, text: str) -> Iterator[list[Foreign]]:
    where = remotes.place(remotes.chosen(store, text).url)
    if where.git is not None:
        git = where.git.parent / "evidence.git" if where.kind == "rover" else where.git
        if git.resolve() == store.evidence.git.resolve():
            raise UsageError("a store cannot be pulled from itself")
        yield _of(git, text)
        return
    refs, _ = wire.heads(where)
    if EVIDENCE not in refs:
        yield []
        return
    with incoming(store, where, [f"+{EVIDENCE}:{EVIDENCE}"], ("store.git", "evidence.git")) as git:
        yield _of(git, text)


def _of(git: Path, text: str) -> list[Foreign]:
    commit = Refs(git).get(EVIDENCE)
    return [Foreign(remotes.without_secrets(text), Objects(git), commit)] if commit is not None else []
