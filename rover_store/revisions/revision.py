"""Git's revision syntax, resolved against one repository; `rover help store` has the table of all forms.

A path may begin with a package's name (`main:orders-1/task/task.json`); the fan-out of the tree stays hidden.
What a ref named before is read from the operation log. The sealed audit is never named by any revision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from rover_store.commits import Commit, parse_commit
from rover_store.errors import NotFound, StoreError, UsageError
from rover_store.names import package_path
from rover_store.objects import Objects
from rover_store.oplog import Operation
from rover_store.packs import COMMIT, KIND_NAME, TAG, TREE
from rover_store.refs import DAMAGED_HINT, HEADS, TAGS, Refs
from rover_store.revisions import syntax as revision_syntax
from rover_store.revisions.names import Names, peeled
from rover_store.revisions.search import first_with_text
from rover_store.revisions.syntax import Step
from rover_store.trees import SUBMODULE, TreeItem


class Found(NamedTuple):
    """What a revision names."""

    kind: str  # commit, tree, blob, tag
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
    """Resolves revisions against one repository. `operations` gives its log, `clock` the seconds for dates."""

    def __init__(
        self, objects: Objects, refs: Refs, operations: Callable[[], Iterable[Operation]] = tuple,
        clock: Callable[[], int] = int,
    ) -> None:  # fmt: skip
        self._objects = objects
        self._refs = refs
        self._names = Names(objects, refs, operations, clock)

    # --- what a revision names ---------------------------------------------------------------------------
    def commit(self, rev: str) -> str:
        """Full id of the commit that a revision names. NotFound, or Ambiguous with the candidates."""
        found = self.peel(self._object(rev, rev, COMMIT), rev)
        if self._names.hides(found):
            raise NotFound("revision", rev)
        return found

    def find(self, rev: str) -> Found:
        """What REV or REV:PATH names, tags followed to what they name (except for `^{tag}` and `^{object}`)."""
        name, path = (rev, None) if rev.startswith(":/") else revision_syntax.split_path(rev)
        if path is not None:
            item = self.path(name, path)
            kind = "tree" if item.is_folder else "commit" if item.mode == SUBMODULE else "blob"
            return Found(kind, item.id, item.mode)
        found = self._object(rev, rev, None)
        if not rev.endswith(("^{tag}", "^{object}")):
            found = peeled(self._objects, found, "", rev)
        kind = self._objects.kind(found)
        if self._names.hides(found):
            raise NotFound("revision", rev)
        return Found(kind, found)

    def object(self, rev: str) -> str:
        """Id of what REV or REV:PATH names, as `git rev-parse` gives it: a tag stays a tag."""
        if ":" in rev and not rev.startswith(":/"):
            name, path = revision_syntax.split_path(rev)
            if path is not None:
                return self.path(name, path).id
        found = self._object(rev, rev, None)
        if self._names.hides(found):
            raise NotFound("revision", rev)
        return found

    def path(self, rev: str, path: str) -> TreeItem:
        """What lies at a path of a revision (empty: HEAD). A first part that is no folder is a package's name."""
        tree = self._tree(rev or "HEAD")
        plain = path.strip("/")
        first, _, rest = plain.partition("/")
        full = plain
        if plain and first not in ("packages", "resources"):
            full = package_path(first) + (f"/{rest}" if rest else "")
        item = self._objects.subtree(tree, full) or self._objects.subtree(tree, plain)
        if item is None or (path.endswith("/") and not item.is_folder):
            raise NotFound("path", f"{rev}:{path}")
        return item

    def range(self, text: str) -> Range:
        """`A..B`, `A...B`, `^A B`, `A^@` (its parents), `A^!` (itself alone), or plain revisions, spaces between.

        An empty side of the dots is HEAD. A...B stands alone.
        """
        include: list[str] = []
        exclude: list[str] = []
        words = [(word, *revision_syntax.split_dots(word)) for word in revision_syntax.split_words(text) or ["HEAD"]]
        for word, left, dots, right in words:
            if dots and not (left or right):
                raise UsageError(f"{word!r} names no range", hint="A..B")
            if dots == "..." and len(words) > 1:
                raise UsageError(f"{text!r}: A...B stands alone")
        for word, left, dots, right in words:
            if dots == "...":
                return Range((self.commit(left or "HEAD"), self.commit(right or "HEAD")), (), True)
            if dots:
                exclude.append(self.commit(left or "HEAD"))
                include.append(self.commit(right or "HEAD"))
            elif word.startswith("^"):
                exclude.append(self.commit(word[1:]))
            elif word.endswith("^@"):
                include += self.load(self.commit(word[:-2])).parents
            elif word.endswith("^!"):
                include.append(self.commit(word[:-2]))
                exclude += self.load(include[-1]).parents
            else:
                include.append(self.commit(word))
        return Range(tuple(dict.fromkeys(include)), tuple(dict.fromkeys(exclude)))

    def named(self, name: str) -> list[str]:
        """Full names of the refs that a short name could mean; the first is the one that it does (a tag wins)."""
        return self._names.refs(name)

    def load(self, commit_hex: str) -> Commit:
        """A commit by its full id."""
        return parse_commit(commit_hex, self._objects.read_commit(commit_hex))

    def target(self, object_hex: str) -> str:
        """What an id names once tags are followed: mostly a commit. An id without an object stays as it is."""
        try:
            return peeled(self._objects, object_hex, "", object_hex)
        except NotFound:
            return object_hex

    def peel(self, object_hex: str, rev: str = "") -> str:
        """The commit behind an id that may be a tag's. NotFound where it names something else."""
        try:
            found = peeled(self._objects, object_hex, "", rev or object_hex)
        except NotFound:
            self._check_branch(object_hex, rev, "which does not exist")
            raise
        kind = self._objects.get(found)[0]
        if kind != COMMIT:
            self._check_branch(object_hex, rev, f"which is a {KIND_NAME[kind]}, not a commit")
            raise NotFound("commit", rev or object_hex, hint=f"it names a {KIND_NAME[kind]}")
        return found

    def _check_branch(self, object_hex: str, rev: str, what: str) -> None:
        """StoreError where a branch was moved to this by hand: the store is wrong, not who asks."""
        for ref, value in self._refs.all(HEADS, damaged=True).items():
            if value == object_hex != rev:
                raise StoreError(f"{ref} names {object_hex}, {what}", hint=DAMAGED_HINT)

    # --- steps -------------------------------------------------------------------------------------------
    def _object(self, text: str, rev: str, wanted: int | None) -> str:
        """Id of the object that a text without path names. `wanted` settles short ids."""
        if text.startswith(":/"):
            return self._search(self._tips(), text[2:], rev)
        base, steps = revision_syntax.split_steps(text)
        if steps:
            wanted = {"tree": TREE, "blob": None, "object": None, "tag": TAG}.get(
                steps[0].text if steps[0].sign == "{" else "commit", COMMIT
            )
        here = self._names.object(base, rev, wanted)
        for step in steps:
            here = self._step(here, step, rev)
        return here

    def _step(self, here: str, step: Step, rev: str) -> str:
        if step.sign == "{":
            return peeled(self._objects, here, step.text, rev)
        here = self.peel(here, rev)
        if step.sign == "/":
            return self._search([here], step.text, rev)
        if step.sign == "^":
            parents = self.load(here).parents
            if step.n > len(parents):
                raise NotFound("revision", rev, hint=f"{here[:12]} has {len(parents)} parent(s)")
            return parents[step.n - 1] if step.n else here
        for done in range(step.n):
            parents = self.load(here).parents
            if not parents:
                raise NotFound("revision", rev, hint=f"history begins {done} commit(s) before, at {here[:12]}")
            here = parents[0]
        return here

    def _tree(self, rev: str) -> str:
        found = peeled(self._objects, self._object(rev, rev, TREE), "tree", rev)
        if self._names.hides(found):
            raise NotFound("revision", rev)
        return found

    def _search(self, start: Iterable[str], text: str, rev: str) -> str:
        found = first_with_text(self.load, start, text, rev)
        if found is None:
            raise NotFound("revision", rev, hint="no message holds that text")
        return found

    def _tips(self) -> Iterator[str]:
        """Commits that HEAD, branches and tags name, in the order in which git looks at them."""
        head = self._refs.head_id()
        values = [*self._refs.all(HEADS).values(), *self._refs.all(TAGS).values(), *([head] if head else [])]
        for value in reversed(values):
            try:
                yield self.peel(value)
            except NotFound:  # a tag may name a blob
                continue
