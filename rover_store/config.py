""".rover/config.toml and finding the store of a folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from rover_store.commits import check_person
from rover_store.errors import StoreError, UsageError
from rover_store.plain_file import read_plain

FOLDER = ".rover"
FORMAT = 1
_TEXT = f"""# Settings of this rover store.
# The format of what lies beside this file. A rover that does not know it refuses to touch the store.
format = {FORMAT}
"""


class Config(NamedTuple):
    """Settings of a store."""

    format: int = FORMAT
    database: str = ""  # SQLAlchemy URL of a second database that follows the index
    author: str = ""  # who commits, where a call names nobody: "Name <address>"
    sandbox: str = ""  # kind of sandbox, where a call and ROVER_SANDBOX name none


def find(folder: Path | None) -> Path:
    """Project folder that holds .rover: the one given, ROVER_STORE, or the nearest above the working folder."""
    given = folder or (Path(os.environ["ROVER_STORE"]) if os.environ.get("ROVER_STORE") else None)
    if given is not None:
        root = given.parent if given.name == FOLDER and (given / "config.toml").exists() else given
        if not (root / FOLDER).is_dir():
            raise NotAStore(root)
        return root.absolute()
    here = Path.cwd()
    for root in (here, *here.parents):
        if (root / FOLDER / "config.toml").exists():
            return root
    raise NotAStore(here)


def above(place: Path) -> Path | None:
    """The .rover of a store that a path is, or lies in, also by a link; None where it is in no store's."""
    real = Path(os.path.realpath(place))
    for folder in (real, *real.parents):
        if os.path.isfile(folder / "config.toml") and os.path.isdir(folder / "store.git"):  # no error for odd paths
            return folder
    return None


class NotAStore(StoreError):
    """No store here nor in any folder above."""

    exit_code = 2

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder}: not a rover store", hint="make one with `rover init`, or name one with --store")
        self.folder = folder


def text() -> str:
    """config.toml of a new store."""
    return _TEXT


def read(root: Path) -> Config:
    """Settings of a store. StoreError if it is of a newer format."""
    import tomllib

    file = root / FOLDER / "config.toml"
    try:
        values = tomllib.loads(read_plain(file).decode())
    except FileNotFoundError:
        raise StoreError(f"{file}: missing", hint="the store's format is unknown without it") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StoreError(f"{file}: not valid TOML ({error})") from None
    version = values.get("format")
    if type(version) is not int or version < 1:
        raise StoreError(f"{file}: format: must be a positive whole number")
    if version > FORMAT:
        message = f"{file}: format: {version} was written by a newer rover; this one reads {FORMAT}"
        raise StoreError(message, hint="pip install --upgrade workrover")
    database = values.get("database", "")
    if not isinstance(database, str):
        raise StoreError(f"{file}: database: must be a URL in quotes")
    author = values.get("author", "")
    try:
        author = check_person(author) if author else ""
    except (TypeError, UsageError):
        raise StoreError(f'{file}: author: must be "Name <address>", in quotes') from None
    sandbox = values.get("sandbox", "")
    if not isinstance(sandbox, str):
        raise StoreError(f"{file}: sandbox: must be a kind of sandbox, in quotes")
    return Config(version, database, author, sandbox)
