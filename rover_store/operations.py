"""What a store can do beyond reading and writing, as methods: each imports its module when it is called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

if TYPE_CHECKING:
    from rover_store.care.gc import GcReport
    from rover_store.care.prune import PruneReport
    from rover_store.explain import Link
    from rover_store.history.blame import Blamed
    from rover_store.impact import Impact
    from rover_store.index.sql import Rows
    from rover_store.merging.merge import MergeResult
    from rover_store.oplog import Operation
    from rover_store.release import Released
    from rover_store.store import Store
    from rover_store.transfer.transfer import Pulled, Transferred


class Operations:
    """The larger operations of a store. They are functions of their own modules, which say what each raises."""

    @property
    def _store(self) -> Store:
        return cast("Store", self)

    # --- questions ---------------------------------------------------------------------------------------
    def query(
        self, sql: str, values: Sequence[Any] | Mapping[str, Any] = (), *, timeout: float | None = 60.0
    ) -> Rows:
        """Answer one SELECT over the documented views (`rover help sql`); `values` fill `?` or `:name`."""
        from rover_store.index.sql import ask

        return ask(self._store, sql, values, timeout=timeout)

    def blame(
        self, path: str, rev: str = "HEAD", field: str | None = None, *, follow: bool = False
    ) -> list[Blamed]:
        """The commit that gave each field (of a record) or line (of a text) its value."""
        from rover_store.history.blame import blame

        return blame(self._store, path, rev, field, follow=follow)

    def explain(self, node: str, other: str, rev: str = "HEAD", limit: int = 10) -> list[tuple[Link, ...]]:
        """Why a node is affected by another: the shortest chains of dependencies from the first to the second."""
        from rover_store.explain import explain

        return explain(self._store, node, other, rev, limit)

    def impact(self, old: str, new: str = "HEAD", pattern: str = "*") -> Impact:
        """Which recorded scores stay comparable from one revision to another, and what must be done for the rest."""
        from rover_store.impact import impact

        return impact(self._store, old, new, pattern)

    def merge_bases(self, one: str, other: str) -> list[str]:
        """Best common ancestors of two revisions, sorted by id; empty for unrelated histories."""
        from rover_store.history.ancestry import merge_bases

        return merge_bases(self._store, self._store.resolve(one), self._store.resolve(other))

    # --- branches that meet ------------------------------------------------------------------------------
    def merge(
        self, other: str, *, into: str | None = None, message: str = "", author: str | None = None,
        time: int | None = None, favour: Literal["ours", "theirs"] | None = None, fast_forward: bool = True,
        unrelated: bool = False, command: str = "",
    ) -> MergeResult:  # fmt: skip
        """Merge a revision into a branch, by component, file, line and field. Conflicts move no branch."""
        from rover_store.merging.merge import merge

        return merge(
            self._store, other, into=into, message=message, author=author, time=time, favour=favour,
            fast_forward=fast_forward, unrelated=unrelated, command=command,
        )  # fmt: skip

    def fetch(self, remote: str = "", *, evidence: bool = False, sealed: bool = False) -> Transferred:
        """Take the branches (as REMOTE/BRANCH) and new tags of a remote. No branch of this store moves."""
        from rover_store.transfer.transfer import fetch

        return fetch(self._store, remote, evidence=evidence, sealed=sealed)

    def pull(self, remote: str = "", branch: str = "", *, evidence: bool = False, sealed: bool = False) -> Pulled:
        """Fetch, then merge the remote's branch into the current one."""
        from rover_store.transfer.transfer import pull

        return pull(self._store, remote, branch, evidence=evidence, sealed=sealed)

    def push(
        self, remote: str = "", branch: str = "", *, tags: bool = False, evidence: bool = False, sealed: bool = False
    ) -> Transferred:
        """Give a branch to a remote; UsageError where that would take back what others pushed."""
        from rover_store.transfer.transfer import push

        return push(self._store, remote, branch, tags=tags, evidence=evidence, sealed=sealed)

    # --- marks and care ----------------------------------------------------------------------------------
    def release(
        self, tag: str, rev: str = "HEAD", *, sign_off: str, message: str = "", allow: Iterable[str] = (),
        command: str = "",
    ) -> Released:  # fmt: skip
        """A signed-off tag with a manifest of every component id, counts, licences and checksums."""
        from rover_store.release import release

        return release(self._store, tag, rev, sign_off=sign_off, message=message, allow=allow, command=command)

    def restore(self, operation: str) -> Operation:
        """Set branches, tags, cases and HEAD to what they were after an operation. `undo` takes it back."""
        from rover_store.oplog import restore

        return restore(self._store, operation)

    def gc(self, *, dry_run: bool = True, grace: float | None = None, now: float | None = None) -> GcReport:
        """Collect what nothing needs and is older than `grace` seconds. Only says what would go, unless told."""
        from rover_store.care.gc import GRACE, gc

        return gc(self._store, dry_run=dry_run, grace=GRACE if grace is None else grace, now=now)

    def prune(
        self, pattern: str = "*", *, policy: str | None = None, before: int | None = None, dry_run: bool = True
    ) -> PruneReport:
        """Shallow evidence: trajectories go, keys and verdicts stay. Only says what would go, unless told."""
        from rover_store.care.prune import prune_trajectories

        return prune_trajectories(self._store, pattern, policy=policy, before=before, dry_run=dry_run)
