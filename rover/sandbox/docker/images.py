"""The images that boxes run in: an empty one with rover's few files, a package's own, or one built from its folder.

Each image that is made here carries the label `rover.image` and is named by the digest of what it was made from, so
it is made once. Nothing is ever downloaded: an image that is not there is named, with the command that fetches it.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Mapping
from typing import Any

from rover.sandbox.docker.engine import Engine
from rover_store.ids import digest

REPOSITORY = "rover-box"
LABEL = "rover.image"


def empty_image(engine: Engine, files: Mapping[str, str], links: Mapping[str, str]) -> str:
    """The id of an image that holds nothing but these files and links."""
    tag = digest({"files": dict(files), "links": dict(links)})[:24]
    name = f"{REPOSITORY}:{tag}"
    found = engine.image(name)
    if found is None:
        data = packed([*((path, text.encode()) for path, text in files.items()), *links.items()])
        engine.import_image(data, REPOSITORY, tag, LABEL)
        found = engine.image(name)
    assert found is not None
    return str(found["Id"])


def packed(items: Iterable[tuple[str, bytes | str]]) -> bytes:
    """A tar of files (bytes) and links (text) at absolute paths, with the folders above them."""
    buffer = io.BytesIO()
    made: set[str] = set()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, content in sorted(items):
            parts = path.strip("/").split("/")
            for depth in range(1, len(parts)):
                folder = "/".join(parts[:depth])
                if folder not in made:
                    made.add(folder)
                    tar.addfile(_entry(folder, tarfile.DIRTYPE, 0o755))
            entry = _entry("/".join(parts), tarfile.SYMTYPE if isinstance(content, str) else tarfile.REGTYPE, 0o644)
            if isinstance(content, str):
                entry.linkname = content
                tar.addfile(entry)
            else:
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _entry(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = kind, mode
    return entry


def environment(image: dict[str, Any]) -> dict[str, str]:
    """The variables that an image sets."""
    return dict(item.partition("=")[::2] for item in image["Config"].get("Env") or ())
