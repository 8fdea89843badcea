"""What a name means, before any step: a ref, what a ref named before, a full or a short id.

The sealed audit is never named.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable

from rover_store.commits import parse_commit, parse_tag
from rover_store.errors import NotFound, StoreError
from rover_store.history import reflog
from rover_store.objects import Objects
from rover_store.oplog import Operation
from rover_store.packs import COMMIT, KIND_NAME, TAG, TREE
from rover_store.refs import HEADS, SEALED, TAGS, Refs
from rover_store.revisions import syntax as revision_syntax
from rover_store.revisions.search import ambiguous, sealed_objects
from rover_store.revisions.syntax import Name

_ID = re.compile(r"[0-9a-f]{40}")
_SHORT = re.compile(r"[0-9a-f]{4,40}")
_DESCRIBED = re.compile(r".-g([0-9a-f]{4,40})$")
#: where git looks for a short name of a ref, the first that exists wins
_PLACES = ("{}", "refs/{}", "refs/tags/{}", "refs/heads/{}", "refs/remotes/{}", "refs/remotes/{}/HEAD")
#: a larger number in @{...} is a time, as in git
_MANY = 100_000_000
#: beside the repository, where it is a store's
_SEALED_GIT = "sealed.git"


class Names:
    """The names of one repository."""

    def __init__(
        self, objects: Objects, refs: Refs, operations: Callable[[], Iterable[Operation]], clock: Callable[[], int]
    ) -> None:
        self._objects = objects
        self._refs = refs
        self._operations = operations
        self._clock = clock
        self._apart = Objects(refs.git.parent / _SEALED_GIT)
        self._inside: tuple[str | None, frozenset[str]] = (None, frozenset())

    def refs(self, name: str) -> list[str]:
        """Full names of the refs that a short name could mean, the one that it does first."""
        return [full for place in _PLACES if self._ref(full := place.format(name)) is not None]

    def object(self, text: str, rev: str, wanted: int | None) -> str:
        """Id of the object that a name means, before any step. `rev` is the whole, for messages."""
        if _ID.fullmatch(text):
            if not self._objects.exists(text) or self.hides(text):
                raise NotFound("revision", rev)
            return text
        name = revision_syntax.split_at(text)
        if name.at is not None:
            return self._before(name, rev)
        ref = self._full(text)
        value = self._ref(ref) if ref else None
        if value is not None:
            return value
        if text in ("HEAD", "@"):
            raise NotFound("revision", rev, hint="the store has no commit yet")
        described = _DESCRIBED.search(text)
        if described is not None:
            text, wanted = described[1], COMMIT
        if not _SHORT.fullmatch(text):
            raise NotFound("revision", rev)
        return self._short(text, rev, wanted)

    def _full(self, name: str) -> str | None:
        """Full name of the ref that a name means: `HEAD`, or one below refs/."""
        if name in ("HEAD", "@"):
            return "HEAD"
        left = revision_syntax.split_at(name)
        if left.name == "" and left.at and left.at[:1] == "-":
            return self._left(left.at, name)
        return next(iter(self.refs(name)), None)

    def _ref(self, full: str) -> str | None:
        """What a ref holds; None for what is no ref, and for the sealed audits."""
        if full == "HEAD":
            return self._refs.head_id()
        if not full.startswith("refs/") or not _plain(full) or f"{full}/".startswith(f"{SEALED}/"):
            return None
        return self._refs.get(full)

    def _before(self, name: Name, rev: str) -> str:
        """`NAME@{n}`, `NAME@{date}`, `@{-n}`: what a ref named before."""
        at = name.at or ""
        if at.lower() in ("u", "upstream", "push"):
            raise NotFound("revision", rev, hint="a branch of a store has no upstream")
        if not name.name and re.fullmatch(r"-\d{1,9}", at):
            ref = self._left(at, rev)
            value = self._ref(ref)
            if value is None:
                raise NotFound("branch", ref.removeprefix(HEADS), hint=f"{rev} means it; it exists no more")
            return value
        full = self._full(name.name) if name.name else self._refs.head()
        if full is None:  # a branch that was deleted is named by its past alone
            full = name.name if name.name.startswith("refs/") else HEADS + name.name
        value = self._was(full, at, rev)
        if value is None or not self._objects.exists(value):
            raise NotFound("revision", rev, hint=f"{_short_name(full)} did not exist then" if value is None else "")
        return value

    def _was(self, full: str, at: str, rev: str) -> str | None:
        from rover_store.history.dates import parse_date

        operations, now = self._operations(), self._clock()
        if full == "HEAD":
            moves = reflog.head_history(operations, self._refs.all(), self._refs.head(), now)
        else:
            moves = reflog.history(operations, full, self._ref(full), now)
        if re.fullmatch(r"\d{1,18}", at):
            if int(at) > _MANY:
                return reflog.at_time(moves, int(at))
            try:
                return reflog.nth(moves, int(at))
            except IndexError as error:
                hint = f"{_short_name(full)} has {error.args[0]} recorded move(s)"
                raise NotFound("revision", rev, hint=hint) from None
        try:
            time = parse_date(at, now)
        except ValueError as error:
            raise NotFound("revision", rev, hint=str(error)) from None
        return reflog.at_time(moves, time)

    def _left(self, at: str, rev: str) -> str:
        n = int(at[1:])
        for i, ref in enumerate(reflog.branches_left(self._operations()), 1):
            if i == n:
                return ref
        raise NotFound("revision", rev, hint="not so many branches were left")

    def _short(self, text: str, rev: str, wanted: int | None) -> str:
        """The object whose id begins so. Of several, those of the wanted kind (a tag may name a commit)."""
        ids = [i for i in self._objects.matching(text) if not self.hides(i)]
        if len(ids) > 1 and wanted is not None:
            ids = [i for i in ids if self._fits(i, wanted)] or ids
        if len(ids) > 1:
            raise ambiguous(self._objects, text, ids)
        if not ids:
            raise NotFound("revision", rev)
        return ids[0]

    def _fits(self, object_hex: str, wanted: int) -> bool:
        try:
            kind = self._objects.get(object_hex)[0]
            if kind == TAG and wanted != TAG:
                kind = self._objects.get(peeled(self._objects, object_hex, "", object_hex))[0]
        except StoreError:
            return False
        return kind == wanted or (wanted == TREE and kind == COMMIT)

    def hides(self, object_hex: str) -> bool:
        """Whether an id is of the sealed audits: they lie apart, but a store may hold bytes of an older one yet."""
        if os.path.isdir(self._apart.folder) and self._apart.exists(object_hex) and self._audits(object_hex):
            return True
        head = self._refs.get(SEALED)
        if head != self._inside[0]:
            self._inside = (head, sealed_objects(self._objects, head) if head else frozenset())
        return object_hex in self._inside[1]

    def _audits(self, object_hex: str) -> bool:
        """Whether an id of the repository apart is of its chain. What any git pushed there hides no commit of ours."""
        try:
            head = Refs(self._apart.git).get(SEALED)
            return head is not None and object_hex in sealed_objects(self._apart, head)
        except (StoreError, NotFound):
            return True  # a damaged chain cannot tell: nothing of there is shown


def peeled(objects: Objects, here: str, wanted: str, rev: str) -> str:
    """Follow tags, and a commit to its tree, until the object is of the kind that is asked for.

    An empty kind is whatever is no tag, `object` whatever is there.
    """
    while True:
        kind, data = objects.get(here)
        if wanted in (KIND_NAME[kind], "object") or (not wanted and kind != TAG):
            return here
        if kind == TAG:
            here = parse_tag(here, data)[0]
        elif kind == COMMIT and wanted == "tree":
            here = parse_commit(here, data).tree
        else:
            raise NotFound(wanted, rev, hint=f"it names a {KIND_NAME[kind]}")


def _plain(name: str) -> bool:
    if re.search(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//", name) or name.endswith(("/", ".", ".lock")):
        return False
    try:
        name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return not any(part.startswith(".") for part in name.split("/"))


def _short_name(full: str) -> str:
    return full.removeprefix(HEADS).removeprefix(TAGS)
