"""Which packages a revision holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rover_store.errors import NotFound, UsageError

if TYPE_CHECKING:
    from rover_store.store import Store


@dataclass(frozen=True, slots=True)
class Listed:
    """One package of a listing. Ids are git tree ids."""

    name: str
    title: str
    family: str
    tree: str
    components: dict[str, str]
    admitted: bool


def list_packages(store: Store, pattern: str = "*", rev: str = "HEAD", limit: int | None = None) -> tuple[Listed, ...]:
    """Packages whose name matches a glob. UsageError where a glob matches nothing in a store that has packages."""
    entries = store.packages(rev, pattern)
    if not entries and pattern != "*":
        raise UsageError(f"no package of {rev} matches {pattern!r}", hint="`rover list` shows all names")
    return tuple(_listed(store, entry) for entry in entries[:limit])


def _listed(store: Store, entry: Any) -> Listed:
    record = package_json(store, entry.tree)
    present = dict(entry.components)
    admission = record.get("admission")
    return Listed(
        name=entry.name,
        title=str(record.get("title", "")),
        family=str(record.get("family") or "hand"),
        tree=entry.tree,
        components=present,
        admitted=isinstance(admission, dict) and admission.get("components") == present,
    )


def package_json(store: Store, tree: str) -> dict[str, Any]:
    """package.json of a package tree as plain data: read verbs need no record of it. Empty where it is no object."""
    import json

    item = store.objects.subtree(tree, "package.json")
    if item is None:
        raise NotFound("file", "package.json")
    try:
        value = json.loads(store.objects.read(item.id))
    except (ValueError, RecursionError):  # pushed by another git; `rover fsck` names it
        return {}
    return value if isinstance(value, dict) else {}
