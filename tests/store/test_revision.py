"""Revision syntax, checked against real git where git knows it too."""

from __future__ import annotations

from pathlib import Path

import pytest
from foreign_git import set_ref, write_object, write_tag, write_tree
from store_samples import START, add, edit, git, new_store

from rover_store.errors import Ambiguous, NotFound, StoreError, UsageError
from rover_store.history.ancestry import bisect_order
from rover_store.names import blob_id
from rover_store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path)
    first = add(store, "one")
    second = edit(store, "one", {"context/files/data.csv": b"2"})
    store.create_branch("side", first)
    store.switch("side")
    third = edit(store, "one", {"task/instruction.md": b"Other."})
    store.switch("main")
    with store.write() as tx:
        tx.commit("Merge", parents=[second, third])
    store.tag("v1", "HEAD~1", "the first")
    return store


@pytest.mark.parametrize(
    "rev",
    ["HEAD", "main", "refs/heads/main", "heads/main", "v1", "tags/v1", "side", "HEAD~1", "HEAD~2", "HEAD^", "HEAD^2",
     "HEAD^2~1", "main~1^1", "HEAD^0", "HEAD~0", "v1~1", "HEAD^^"],
)  # fmt: skip
def test_as_git_resolves(store: Store, rev: str) -> None:
    assert store.resolve(rev) == git(store.git, "rev-parse", f"{rev}^{{commit}}").strip()


def test_ids(store: Store) -> None:
    head = store.resolve()
    assert store.resolve(head) == head
    assert store.resolve(head[:10]) == head
    assert store.resolve(head[:10] + "~1") == store.resolve("HEAD~1")
    assert store.find(store.package("one").tree[:12]).kind == "tree"


@pytest.mark.parametrize(
    "rev", ["nope", "HEAD~9", "HEAD^3", "ab" * 20, "deadbeef", "a b", "../x", "HEAD:nope", "x\n", "\0", "é" * 300]
)
def test_unknown(store: Store, rev: str) -> None:
    with pytest.raises(NotFound, match="not found"):
        store.find(rev)


def test_paths_name_packages_without_the_fan_out(store: Store) -> None:
    package = store.package("one")
    assert store.find("HEAD:one").id == package.tree
    assert store.find("main:one/task").id == package.components["task"]
    assert store.find("HEAD:one/context/files/data.csv").id == blob_id(b"2")
    assert store.find(":one/task/instruction.md").kind == "blob"
    assert store.find("HEAD:packages").kind == "tree"
    assert store.find("HEAD:").id == store.commit().tree


def test_ambiguous_names_the_candidates(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    seen: dict[str, str] = {}
    for i in range(2000):
        with store.write() as tx:
            commits = [tx.detached_commit(f"{i} {k}", base=store.resolve()) for k in range(400)] if i else [
                tx.commit("First", parents=())
            ]
        for commit in commits:
            if commit[:4] in seen:
                with pytest.raises(Ambiguous) as caught:
                    store.resolve(commit[:4])
                assert {commit, seen[commit[:4]]} <= set(caught.value.candidates)
                assert caught.value.exit_code == 2
                assert f"{commit[:12]} (commit 2023-" in caught.value.message
                assert f'"{store.commit(commit).subject}")' in caught.value.message
                assert store.resolve(commit[:12]) == commit
                return
            seen[commit[:4]] = commit
    raise AssertionError("no two of many ids share four digits")


def test_a_short_id_of_two_kinds_is_settled_by_what_is_asked_for(store: Store) -> None:
    """One tree and one blob whose ids share four digits; a path asks for the tree, `find` names both."""
    trees = [write_tree(store.git, [("100644", str(n).encode(), "1" * 40)]) for n in range(3000)]
    by_prefix = {tree[:4]: tree for tree in trees}
    for n in range(3000):
        blob = write_object(store.git, "blob", str(n).encode())
        if blob[:4] in by_prefix:
            break
    tree = by_prefix[blob[:4]]
    assert store.objects.matching(blob[:4]) == sorted((blob, tree))
    assert store.find(f"{blob[:4]}^{{tree}}").id == tree
    with pytest.raises(Ambiguous, match=f"{tree[:12]} \\(tree\\), {blob[:12]} \\(blob\\)$"):
        store.find(blob[:4])
    with pytest.raises(Ambiguous):  # none of them is a commit
        store.resolve(blob[:4])


def test_a_tag_wins_over_a_branch_of_its_name(store: Store) -> None:
    store.create_branch("v1")
    assert store.resolve("v1") == store.resolve("tags/v1") == git(store.git, "rev-parse", "tags/v1^{}").strip()
    assert store.resolve("heads/v1") == store.resolve("HEAD") != store.resolve("v1")
    assert store.revisions.named("v1") == ["refs/tags/v1", "refs/heads/v1"]
    assert store.revisions.named("main") == ["refs/heads/main"]


def test_the_branch_before(store: Store) -> None:
    store.switch("side")
    assert store.resolve("@{-1}") == store.resolve("main")
    assert store.resolve("@{-2}") == store.resolve("side")
    assert store.resolve("@{-1}~1") == store.resolve("main~1")
    assert store.resolve("@{-1}@{1}") == store.resolve("main@{1}")
    store.delete_branch("main")
    with pytest.raises(NotFound, match="branch not found: main"):
        store.resolve("@{-1}")
    with pytest.raises(NotFound, match=r"revision not found: @\{-9\}"):
        store.resolve("@{-9}")


def test_head_moves_with_its_branch_and_between_branches(store: Store) -> None:
    """main: first, second; to side; third; to main; merge."""
    merge, second, third = store.resolve(), store.resolve("HEAD~1"), store.resolve("side")
    first = store.resolve("side~1")
    assert [store.resolve(f"HEAD@{{{n}}}") for n in range(6)] == [merge, second, third, first, second, first]
    assert [store.resolve(f"@{{{n}}}") for n in range(3)] == [merge, second, first]
    store.undo(next(op.id for op in store.op_log() if op.moves[0].new == merge))
    assert store.resolve("main@{1}") == merge
    assert store.resolve("main") == store.resolve("main@{0}") == second
    with pytest.raises(NotFound) as caught:
        store.resolve("main@{4}")
    assert "main has 4 recorded move(s)" in caught.value.hint


def test_a_move_of_another_git_counts_before_it_is_recorded(store: Store) -> None:
    merge = store.resolve()
    git(store.git, "update-ref", "refs/heads/main", "side")
    assert store.resolve("main@{0}") == store.resolve("HEAD@{0}") == store.resolve("side")
    assert store.resolve("main@{1}") == store.resolve("HEAD@{1}") == merge


def test_a_deleted_branch_is_named_by_its_past(store: Store) -> None:
    side = store.resolve("side")
    store.delete_branch("side")
    assert store.resolve("side@{1}") == side
    with pytest.raises(NotFound):
        store.resolve("side")
    with pytest.raises(NotFound) as caught:
        store.resolve("side@{0}")
    assert caught.value.hint == "side did not exist then"


def test_dates(tmp_path: Path) -> None:
    seconds = [START]
    store = Store.init(tmp_path, clock=lambda: seconds[0])  # 2023-11-14 22:13:20 UTC
    first = add(store, "one")
    seconds[0] += 86400
    second = edit(store, "one", {"context/files/data.csv": b"2"})
    seconds[0] += 86400
    for date, commit in (
        ("2023-11-15", first), ("2023-11-14 22:13:20", first), ("2023-11-15T22:13:19", first), ("2023-11-16", second),
        ("2023-11-15T22:13:20Z", second), ("2023-11-15T23:13:20+01:00", second), ("yesterday", first), ("now", second),
        ("1 day ago", second), ("25 hours ago", first), ("1.day.2.hours.ago", first), ("last monday", None),
        ("2023-11-01", None), ("1 month ago", None), ("today", second), (str(START), first), ("a day ago", second),
    ):  # fmt: skip
        rev = f"main@{{{date}}}"
        if commit is None:
            with pytest.raises(NotFound) as caught:
                store.resolve(rev)
            assert caught.value.hint == "main did not exist then", date
        else:
            assert store.resolve(rev) == commit, date
    assert store.resolve("@{yesterday}") == store.resolve("HEAD@{yesterday}") == first


def test_refs_that_name_no_commit(store: Store) -> None:
    """Tags on blobs and trees are git's right; a branch moved to one by hand is named in one line."""
    blob, tree = store.find("HEAD:one/task/instruction.md").id, store.commit().tree
    set_ref(store.git, "refs/tags/words", blob)
    set_ref(store.git, "refs/tags/all", write_tag(store.git, write_tag(store.git, tree, "tree", "t"), "tag", "all"))
    assert store.find("words") == ("blob", blob, 0)
    assert store.find("all") == ("tree", tree, 0)
    assert store.find("all^{tag}").kind == "tag"
    assert store.find("all:one/task").kind == "tree"
    for rev in ("words", "all", "words~1", "words^{tree}", "all^{commit}"):
        with pytest.raises(NotFound, match="not found"):
            store.resolve(rev)
    assert store.tags()["words"] == blob
    add(store, "two")  # and writing goes on
    assert git(store.git, "fsck", "--full", "--no-dangling").strip() == ""
    set_ref(store.git, "refs/heads/main", blob)
    with pytest.raises(StoreError, match=f"refs/heads/main names {blob}, which is a blob, not a commit") as caught:
        store.resolve()
    assert caught.value.exit_code == 3
    assert store.resolve("main@{1}") == store.resolve("HEAD@{1}")


def test_a_ref_to_nothing(store: Store) -> None:
    set_ref(store.git, "refs/heads/lost", "12" * 20)
    set_ref(store.git, "refs/heads/odd", "no id at all")
    for rev in ("lost", "lost~1"):
        with pytest.raises(StoreError):
            store.resolve(rev)
    with pytest.raises(NotFound):
        store.resolve("12" * 20)
    with pytest.raises(StoreError, match="refs/heads/odd is damaged"):
        store.resolve("odd")


def test_ranges(store: Store) -> None:
    one, two = store.resolve("side"), store.resolve("HEAD~1")
    read = store.revisions.range
    assert read("side..HEAD~1") == read("^side HEAD~1") == ((two,), (one,), False)
    assert read("side...HEAD~1") == ((one, two), (), True)
    assert read("side..") == ((store.resolve(),), (one,), False)
    assert read("HEAD^!").exclude == (two, one)
    assert read("HEAD^@").include == (two, one)
    assert read("").include == (store.resolve(),)
    assert read("main@{0 days ago}..side") == ((one,), (store.resolve(),), False)
    for text in ("..", "...", "a b...c"):
        with pytest.raises(UsageError):
            read(text)
    with pytest.raises(NotFound):
        read("side..nope")


def test_the_middle_of_a_bisection(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    line = [add(store, "one")] + [edit(store, "one", {"context/files/data.csv": str(n).encode()}) for n in range(20)]
    for culprit in range(1, 21):
        good, bad, tried = line[0], line[-1], 0
        while (step := bisect_order(store, good, bad)).commit is not None:
            tried += 1
            good, bad = (step.commit, bad) if line.index(step.commit) < culprit else (good, step.commit)
        assert step.first == line[culprit]
        assert tried <= 5
    assert bisect_order(store, line[0], line[3], skipped=[line[1], line[2]]) == (None, 3, line[3])
    for good, bad in ((line[3], line[1]), (line[2], line[2])):
        with pytest.raises(UsageError, match=r"first-parent line|both"):
            bisect_order(store, good, bad)
