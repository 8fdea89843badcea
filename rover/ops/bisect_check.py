"""The commit that brought a defect of one package: a search that judges versions, by evidence where there is some.

Candidates are the commits of the first-parent line that changed the package or a resource which it binds; versions
that the check cannot tell apart count as one. A version that cannot be read or judged is skipped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rover.ops.check_expression import Check, parse
from rover.ops.judge import Judge, Judged, Version
from rover_store.errors import NotFound, UsageError
from rover_store.history.ancestry import is_ancestor
from rover_store.history.log import Filter, log

if TYPE_CHECKING:
    from rover.sandbox.protocol import Runtime
    from rover_store.store import Store


@dataclass(frozen=True, slots=True)
class Asked:
    """What to look for, and between which revisions: `good` empty means from the first version on."""

    package: str
    check: str
    good: str = ""
    bad: str = "HEAD"
    seed: int = 0
    workers: int = 1
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Judgement:
    """One commit that was judged. `left`: how many may still be the one after it."""

    commit: str
    good: bool | None
    by: str
    reason: str
    left: int


@dataclass(frozen=True, slots=True)
class Brought:
    """The first bad commit. `since_start`: the package was never good before. `skipped`: right before it, not judged.

    `commits` changed the package or its resources, `versions` of them differ in what the check looks at.
    """

    package: str
    check: str
    commit: str
    author: str
    time: int
    subject: str
    reason: str
    evidence: tuple[str, ...]
    since_start: bool
    skipped: tuple[str, ...]
    judged: tuple[Judgement, ...]
    commits: int
    versions: int

    def count(self, by: str) -> int:
        return sum(j.by == by for j in self.judged)


def bisect_check(
    store: Store, runtime: Callable[[], Runtime], asked: Asked, tell: Callable[[Judgement], None] = lambda step: None
) -> Brought:
    """Search. `runtime` is called where a version has to be replayed, and not before.

    UsageError where the expression is none, where the bad end fulfils the check or the good end does not, and where
    nothing can be judged; NotFound for a package that the bad revision does not hold.
    """
    check = parse(asked.check)
    bad = store.resolve(asked.bad)
    found, commits = _versions(store, asked.package, bad, asked.good)
    line = _distinct(found, check)
    with Judge(store, check, runtime, asked.seed, asked.workers, dict(asked.options)) as judge:
        return _Search(store, asked, line, judge, tell).run(commits)


# --- which versions there are --------------------------------------------------------------------------------
def _versions(store: Store, name: str, bad: str, good: str) -> tuple[list[Version], int]:
    """Versions of a package up to `bad`, oldest first, from the one at `good` on, and how many commits they are."""
    last = _version(store, name, bad)
    if last is None:
        raise NotFound("package", name, hint="`rover list` shows all names")
    start, rev, first = None, bad, ""
    if good:
        first = store.resolve(good)
        if first == bad:
            raise UsageError(f"{first[:12]} is both good and bad")
        if not is_ancestor(store, first, bad):
            raise UsageError(f"{good} is not before {bad[:12]}")
        start, rev = _version(store, name, first), f"{first}..{bad}"
        if start is None:
            raise NotFound("package", name, hint=f"in {good}")
    names = {r for v in (start, last) if v is not None for r, _ in v.resources}
    nodes = (name, *(f"resources/{r}" for r in sorted(names)))
    entries = list(log(store, rev, Filter(nodes, first_parent=True, changes=1)))
    made = (_version(store, name, entry.id) for entry in reversed(entries))
    found = [v for v in made if v is not None]
    return ([start] if start else []) + found, len(found)


def _version(store: Store, name: str, commit: str) -> Version | None:
    """The package at a commit; None where it is not there."""
    try:
        entry = store.package(name, commit)
    except NotFound:
        return None
    item = store.objects.subtree(entry.tree, "package.json")
    root = store.revisions.load(commit).tree
    bound = []
    for resource in _bound(store, entry.tree):
        there = store.objects.subtree(root, f"resources/{resource}")
        bound.append((resource, there.id if there else ""))
    return Version(commit, entry, item.id if item else "", tuple(bound))


def _bound(store: Store, tree: str) -> list[str]:
    """Resources that a context lists, whatever else is wrong with it."""
    item = store.objects.subtree(tree, "context/context.json")
    try:
        record = json.loads(store.objects.read(item.id)) if item is not None and not item.is_folder else {}
        found = {f"{r['kind']}/{r['name']}" for r in record.get("resources", ())}
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return []
    return sorted(name for name in found if all(name.split("/")) and ".." not in name.split("/"))


def _distinct(found: Iterable[Version], check: Check) -> list[Version]:
    """Versions, each where it began; what the check cannot tell from the one before is left out."""
    out: list[Version] = []
    for version in found:
        if not out or version.key(check) != out[-1].key(check):
            out.append(version)
    return out


# --- the search ----------------------------------------------------------------------------------------------
class _Search:
    """A halving of the line between a good and a bad version."""

    def __init__(
        self, store: Store, asked: Asked, line: list[Version], judge: Judge, tell: Callable[[Judgement], None]
    ) -> None:
        self.store = store
        self.asked = asked
        self.line = line
        self.judge = judge
        self.tell = tell
        self.judged: list[Judgement] = []
        self.skipped: set[int] = set()

    def run(self, commits: int) -> Brought:
        high = len(self.line) - 1
        last = self._try(high, high)
        if last.good is None:
            raise UsageError(f"{self._at(high)} cannot be judged: {last.reason}")
        if last.good:
            raise UsageError(
                f"{self._at(high)} fulfils the check: {last.reason}", hint="--bad names a revision that does not"
            )
        low, first = self._good_end(high)
        if first.good is False:
            return self._brought(low, first, commits, since_start=True)
        while (middle := self._middle(low, high)) is not None:
            said = self._try(middle, high - low - 1)
            if said.good is None:
                self.skipped.add(middle)
            elif said.good:
                low = middle
            else:
                high = middle
        return self._brought(high, self.judge(self.line[high]), commits, since_start=False)

    def _good_end(self, high: int) -> tuple[int, Judged]:
        """The first version that can be judged. A bad one is the answer, unless somebody called it good."""
        for number in range(high):
            said = self._try(number, high)
            if self.asked.good and number == 0 and said.good is not True:
                why = "cannot be judged" if said.good is None else "does not fulfil the check"
                raise UsageError(f"--good {self.asked.good} {why}: {said.reason}")
            if said.good is not None:
                return number, said
            self.skipped.add(number)
        return high, self.judge(self.line[high])

    def _try(self, number: int, left: int) -> Judged:
        said = self.judge(self.line[number])
        step = Judgement(self.line[number].commit, said.good, said.by, said.reason, max(0, left // 2))
        self.judged.append(step)
        self.tell(step)
        return said

    def _middle(self, low: int, high: int) -> int | None:
        middle = (low + high) / 2
        open_ = [n for n in range(low + 1, high) if n not in self.skipped]
        return min(open_, key=lambda n: (abs(n - middle), n), default=None)

    def _brought(self, number: int, said: Judged, commits: int, *, since_start: bool) -> Brought:
        found = self.store.commit(self.line[number].commit)
        before = number - 1
        while before in self.skipped:
            before -= 1
        return Brought(
            package=self.asked.package,
            check=self.asked.check,
            commit=found.id,
            author=found.author,
            time=found.time,
            subject=found.subject,
            reason=said.reason,
            evidence=said.evidence,
            since_start=since_start,
            skipped=tuple(self.line[n].commit for n in range(before + 1, number)),
            judged=tuple(self.judged),
            commits=commits,
            versions=len(self.line),
        )

    def _at(self, number: int) -> str:
        return f"{self.asked.package} at {self.line[number].commit[:12]}"
