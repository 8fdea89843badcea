"""What a package is called, and the words that it is found by."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass

from rover.port.harbor import config as configs
from rover.port.harbor.config import Config
from rover_store.names import check_name


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a task was found: its folder's name, and the dataset that lists it."""

    folder: str
    dataset: str = ""


def name_of(config: Config, origin: Origin) -> str:
    """The package's name: org and name, or the folder's. The original stays in task.toml and provenance."""
    original = str((config.get("task") or {}).get("name") or origin.folder)
    return check_name(slug(original), configs.FILE, "task.name")


def slug(original: str, most: int = 100) -> str:
    """A legal name; one that lost more than case and slashes carries six digits of what it was."""
    plain = unicodedata.normalize("NFKD", original).encode("ascii", "ignore").decode().lower()
    found = re.sub(r"\.{2,}", ".", re.sub(r"[^a-z0-9._-]+", "-", plain)).strip("-._")
    exact = found == original.lower().replace("/", "-") and len(found) <= most and not found.endswith(".lock")
    if exact:
        return found
    short = found.removesuffix(".lock")[: most - 7].strip("-._") or "task"
    return f"{short}-{hashlib.sha256(original.encode()).hexdigest()[:6]}"


def title_of(config: Config, origin: Origin) -> str:
    about = config.get("task") or {}
    said = " ".join(str(about.get("description") or "").split())
    return said[:120] or about.get("name") or origin.folder


def tags_of(config: Config) -> tuple[str, ...]:
    """Words to select by: the author's keywords and tags, difficulty and category."""
    meta = config.get("metadata") or {}
    tags = meta.get("tags") if isinstance(meta.get("tags"), list) else []
    words = [*((config.get("task") or {}).get("keywords") or ()), *(tags or ())]
    words += [f"{key}:{meta[key]}" for key in ("category", "difficulty") if isinstance(meta.get(key), str)]
    return tuple(dict.fromkeys(["harbor", *(w.strip()[:60] for w in words if isinstance(w, str) and w.strip())]))


def word(value: object) -> str:
    return " ".join(value.split())[:200] if isinstance(value, str) else ""
