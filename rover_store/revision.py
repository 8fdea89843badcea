"""Git's revision syntax: HEAD, branch, tag, full and short ids, `~n`, `^n`, and REV:PATH.

A path may begin with a package's name (`main:orders-1/task/task.json`); the fan-out of the tree stays hidden.
The sealed audit is never named by any revision.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rover_store.commits import Commit, parse_commit, parse_tag
from rover_store.errors import Ambiguous, NotFound, UsageError
from rover_store.names import package_path
from rover_store.objects import Objects
from rover_store.packs import COMMIT, KIND_NAME, TAG
from rover_store.refs import SEALED, Refs
from rover_store.trees import TreeItem

_STEP = re.compile(r"([~^])(\d*)")
_TAIL = re.compile(r"(?:[~^]\d*)+$")
_SHORT = re.compile(r"[0-9a-f]{4,40}")


class Found(NamedTuple):
    """What a revision names."""

    kind: str  # commit, tree, blob
    id: str
    mode: int = 0


class Range(NamedTuple):
    """Commits that a range names: reachable from `include` and not from `exclude`.

    `symmetric` (A...B): `include` is (A, B), and what both share is left out (`ancestry.commits` does that).
    """

    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    symmetric: bool = False


class Revisions:
    """Resolves revisions against one repository."""

    def __init__(self, objects: Objects, refs: Refs) -> None:
        self._objects = objects
        self._refs = refs

    def commit(self, rev: str) -> str:
        """Full id of the commit that a revision names. NotFound, or Ambiguous with the candidates."""
        tail = _TAIL.search(rev)
        base = rev[: tail.start()] if tail else rev
        here = self._base(base or "HEAD", rev)
        for kind, digits in _STEP.findall(tail[0] if tail else ""):
            n = int(digits) if digits else 1
            for _ in range(n if kind == "~" else 1):
                parents = self.load(here).parents
                which = 0 if kind == "~" else n - 1
                if kind == "^" and n == 0:
                    break
                if which >= len(parents):
                    raise NotFound("revision", rev, hint=f"{here[:12]} has {len(parents)} parent(s)")
                here = parents[which]
        return here

    def range(self, text: str) -> Range:
        """`A..B`, `A...B`, `^A B`, or plain revisions with spaces between. An empty side is HEAD."""
        include: list[str] = []
        exclude: list[str] = []
        for word in text.split() or ["HEAD"]:
            left, dots, right = word.partition("...")
            if dots:
                if include or exclude or len(text.split()) > 1:
                    raise UsageError(f"{text}: A...B stands alone")
                return Range((self.commit(left or "HEAD"), self.commit(right or "HEAD")), (), True)
            left, dots, right = word.partition("..")
            if dots:
                exclude.append(self.commit(left or "HEAD"))
                include.append(self.commit(right or "HEAD"))
            elif word.startswith("^"):
                exclude.append(self.commit(word[1:]))
            else:
                include.append(self.commit(word))
        return Range(tuple(include), tuple(exclude))

    def find(self, rev: str) -> Found:
        """What REV or REV:PATH names."""
        name, colon, path = rev.partition(":")
        if colon:
            item = self.path(name or "HEAD", path.strip("/"))
            return Found("tree" if item.is_folder else "blob", item.id, item.mode)
        try:
            return Found("commit", self.commit(rev))
        except NotFound:
            if not _SHORT.fullmatch(rev):
                raise
        hidden = self._sealed_objects()
        ids = [i for i in ([rev] if len(rev) == 40 else self._objects.matching(rev)) if i not in hidden]
        if len(ids) > 1:
            raise Ambiguous(rev, tuple(f"{i[:12]} ({self._objects.kind(i)})" for i in ids))
        if not ids or not self._objects.exists(ids[0]):
            raise NotFound("revision", rev)
        return Found(self._objects.kind(ids[0]), ids[0])

    def path(self, rev: str, path: str) -> TreeItem:
        """What lies at a path of a revision. A first part that is no folder of the tree is a package's name."""
        tree = self.load(self.commit(rev)).tree
        first, _, rest = path.partition("/")
        if first in ("packages", "resources") or not path:
            full = path
        else:
            full = package_path(first) + (f"/{rest}" if rest else "")
        item = self._objects.subtree(tree, full) or self._objects.subtree(tree, path)
        if item is None:
            raise NotFound("path", f"{rev}:{path}")
        return item

    def load(self, commit_hex: str) -> Commit:
        return parse_commit(commit_hex, self._objects.read_commit(commit_hex))

    def _base(self, name: str, rev: str) -> str:
        if name in ("HEAD", "@"):
            found = self._refs.head_id()
            if found is None:
                raise NotFound("revision", rev, hint="the store has no commit yet")
            return found
        for full in (name if name.startswith("refs/") else f"refs/{name}", f"refs/tags/{name}", f"refs/heads/{name}"):
            if _plain(full) and not full.startswith(SEALED) and (value := self._refs.get(full)):
                return self._peel(value, rev)
        if not _SHORT.fullmatch(name):
            raise NotFound("revision", rev)
        if len(name) == 40:
            if not self._objects.exists(name) or self._sealed(name):
                raise NotFound("revision", rev)
            return self._peel(name, rev)
        return self._short(name, rev)

    def _short(self, name: str, rev: str) -> str:
        commits = []
        for candidate in self._objects.matching(name):
            kind = self._objects.get(candidate)[0]
            if kind in (COMMIT, TAG) and not self._sealed(candidate):
                commits.append(candidate)
        if len(commits) > 1:
            raise Ambiguous(name, tuple(commits))
        if not commits:
            raise NotFound("revision", rev)
        return self._peel(commits[0], rev)

    def peel(self, object_hex: str) -> str:
        """The commit behind an id that may be a tag's."""
        return self._peel(object_hex, object_hex)

    def _peel(self, object_hex: str, rev: str) -> str:
        for _ in range(10):
            kind, data = self._objects.get(object_hex)
            if kind == COMMIT:
                return object_hex
            if kind != TAG:
                raise NotFound("commit", rev, hint=f"it names a {KIND_NAME[kind]}")
            object_hex = parse_tag(object_hex, data)[0]
        raise NotFound("commit", rev)

    def _sealed_objects(self) -> set[str]:
        """Everything that the sealed audits hold, in their repository and where an older rover left them."""
        from rover_store.sealed import hidden

        return hidden(self._objects.git.parent)

    def _sealed(self, object_hex: str) -> bool:
        kind, data = self._objects.get(object_hex)
        if kind != COMMIT:
            return False
        tree = parse_commit(object_hex, data).tree
        return "sealed" in self._objects.list_tree(tree)


def _plain(name: str) -> bool:
    return not re.search(r"[\x00-\x20~^:?*\[\\]|\.\.|@\{|//", name) and not name.endswith(("/", ".lock"))
