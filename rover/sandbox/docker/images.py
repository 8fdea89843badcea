"""The images that boxes run in: an empty one with rover's few files, a package's own, or one built from its folder.

Each image that is made here carries the label `rover.image` and is named by the digest of what it was made from, so
it is made once. Nothing is ever downloaded: an image that is not there is named, with the command that fetches it.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Mapping
from typing import Any

from rover.sandbox.docker.dockerfile import wants
from rover.sandbox.docker.engine import Engine
from rover.sandbox.paths import check_paths
from rover.sandbox.protocol import Place
from rover_store.errors import SandboxError
from rover_store.ids import blob_id, digest

REPOSITORY = "rover-box"
LABEL = "rover.image"
#: A folder that an image is built from: bytes, files.
MAX_BYTES, MAX_FILES = 256 << 20, 20_000
#: What a step of a build says where it misses the network.
OFFLINE = (
    "temporary failure", "could not resolve", "unable to resolve", "network is unreachable", "network unreachable",
    "name or service not known", "dial tcp", "bad address", "enotfound", "eai_again", "failed to establish a new",
)  # fmt: skip


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


def own_image(engine: Engine, place: Place) -> dict[str, Any]:
    """What the engine knows of the image of a place, built where it has to be."""
    if place.image:
        found = engine.image(place.image)
        if found is None:
            raise SandboxError(f"there is no image {place.image} here", hint=f"docker pull {place.image}")
    else:
        found = _built(engine, place)
    if found.get("Os") != "linux":
        raise SandboxError(f"the image is for {found.get('Os')}, a box needs one for linux")
    return found


def linked(engine: Engine, image: str, links: Mapping[str, str]) -> str:
    """The id of an image that is like this one, but that each of these paths is a link."""
    if not links:
        return image
    tag = digest({"image": image, "links": dict(links)})[:24]
    name = f"{REPOSITORY}:{tag}"
    if engine.image(name) is None:
        engine.add_files(image, packed(links.items(), parents=False), REPOSITORY, tag, LABEL)
    found = engine.image(name)
    assert found is not None
    return str(found["Id"])


def _built(engine: Engine, place: Place) -> dict[str, Any]:
    files = dict(place.build)
    if place.dockerfile not in files:
        raise SandboxError(f"the image cannot be built: there is no {place.dockerfile}")
    check_paths(files)
    if len(files) > MAX_FILES or sum(map(len, files.values())) > MAX_BYTES:
        most = f"{MAX_FILES} files or {MAX_BYTES >> 20} MiB"
        raise SandboxError(f"the image cannot be built: its folder has more than {most}")
    tag = digest({"dockerfile": place.dockerfile, "files": {p: blob_id(files[p]) for p in sorted(files)}})[:24]
    name = f"{REPOSITORY}:{tag}"
    found = engine.image(name)
    if found is None:
        needed = wants(files[place.dockerfile].decode("utf-8", "replace"))
        if needed.addresses:
            raise SandboxError(f"the image needs the network to be built: ADD {needed.addresses[0]}")
        for base in needed.images:
            if engine.image(base) is None:
                raise SandboxError(f"the image needs {base}, which is not here", hint=f"docker pull {base}")
        said = engine.build(packed(files.items()), place.dockerfile, name, {LABEL: tag})
        if any(part in said.lower() for part in OFFLINE):
            raise SandboxError(f"the image needs the network to be built: {_last(said)}")
        if said:
            raise SandboxError(f"the image cannot be built: {_last(said)}")
        found = engine.image(name)
        assert found is not None
    return found


def _last(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return " / ".join(lines[-2:])[:400]


def packed(items: Iterable[tuple[str, bytes | str]], *, parents: bool = True, mode: int = 0o644) -> bytes:
    """A tar of files (bytes) and links (text) at absolute paths, with the folders above them unless those are there."""
    buffer = io.BytesIO()
    made: set[str] = set()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, content in sorted(items):
            parts = path.strip("/").split("/")
            for depth in range(1, len(parts) if parents else 1):
                folder = "/".join(parts[:depth])
                if folder not in made:
                    made.add(folder)
                    tar.addfile(_entry(folder, tarfile.DIRTYPE, 0o755))
            entry = _entry("/".join(parts), tarfile.SYMTYPE if isinstance(content, str) else tarfile.REGTYPE, mode)
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


