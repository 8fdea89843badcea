"""Revisions and ancestry agree with real git on histories of any shape."""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path

import pytest
from foreign_git import WORDS, random_history
from store_samples import git, new_store

from rover_store.errors import Ambiguous, NotFound, StoreError
from rover_store.history import ancestry
from rover_store.store import Store

SEEDS = range(8)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return new_store(tmp_path)


def _revisions(dice: random.Random, commits: list[str]) -> list[str]:
    names = ["HEAD", "@", "main", "both", "heads/both", "tags/both", "refs/heads/both", "v1", "nested", "of-a-blob",
             "blob", "topic/0", "topic/1", "side-2", "nope", "refs", "heads", "tags/v1"]  # fmt: skip
    steps = ["~", "^", "~0", "^0", "~2", "^2", "^3", "~1^2", "^^", "~~~", "^{}", "^{commit}", "^{tree}", "^{blob}",
             "^{tag}", "^{object}", "^{nonsense}", "~7", "~999999999999", "^00", "~02"]  # fmt: skip
    paths = ["", ":folder", ":folder/1.txt", ":folder/", ":nope", ":folder/0.txt/x", ":"]
    out = []
    for _ in range(150):
        base = dice.choice(names) if dice.random() < 0.7 else dice.choice(commits)[: dice.choice((4, 5, 7, 12, 40))]
        base += dice.choice(("", "", "", f"-3-g{dice.choice(commits)[:8]}"))
        tail = "".join(dice.choices(steps, k=dice.randrange(3)))
        text = dice.choice(("", "", "", f"^{{/{dice.choice(WORDS[:3])}}}", f"^{{/!-{dice.choice(WORDS[:3])}}}"))
        out.append(base + tail + text + dice.choice(paths if dice.random() < 0.3 else [""]))
    return out + [f":/{word}" for word in WORDS] + [":/!-fix", ":/!!", ":/^tidy", ":/Body: fix", ":/no such text"]


def _as_git(repository: Path, revisions: list[str]) -> dict[str, str | None]:
    done = subprocess.run(
        ["git", "cat-file", "--batch-check=%(objectname)"], cwd=repository, input="\n".join(revisions) + "\n",
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    answers = done.stdout.splitlines()
    assert len(answers) == len(revisions)
    ids = [answer if re.fullmatch("[0-9a-f]{40}", answer) else None for answer in answers]
    return dict(zip(revisions, ids, strict=True))


def _ours(store: Store, rev: str) -> str | None:
    try:
        found = store.revisions.object(rev)
    except (NotFound, Ambiguous):
        return None
    return found if store.objects.exists(found) else None


@pytest.mark.parametrize("seed", SEEDS)
def test_every_form_that_git_shares(store: Store, seed: int) -> None:
    commits = random_history(store.git, seed)
    revisions = _revisions(random.Random(seed), commits)
    wanted = _as_git(store.git, revisions)
    assert {rev: _ours(store, rev) for rev in revisions} == wanted
    assert sum(value is not None for value in wanted.values()) > 40


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("known", [True, False])
def test_ancestry(store: Store, seed: int, known: bool) -> None:
    """The same answers where the index knows the commits and where it knows a part of them."""
    commits = random_history(store.git, seed)
    if not known:
        git(store.git, "symbolic-ref", "HEAD", "refs/heads/topic/0")
    dice = random.Random(seed)
    for _ in range(8):
        a, b = dice.choice(commits), dice.choice(commits)
        wanted = subprocess.run(
            ["git", "merge-base", "--all", a, b], cwd=store.git, capture_output=True, text=True, check=False
        )
        assert ancestry.merge_bases(store, a, b) == sorted(wanted.stdout.split())
        left, right = ancestry.sides(store, a, b)
        found = git(store.git, "rev-list", "--left-right", f"{a}...{b}").split()
        assert {"<" + i for i in left} | {">" + i for i in right} == set(found)
        assert ancestry.is_ancestor(store, a, b) == (not left)
        for text in (f"{a}..{b}", f"^{a} {b} {commits[-1]}", f"{a}...{b}", f"{b}^!", f"{b}^@", "main"):
            got = list(ancestry.commits(store, store.revisions.range(text)))
            assert set(got) == set(git(store.git, "rev-list", *text.split()).split())
            _newest_first(store, got)
        line = [c.id for c in ancestry.first_parents(store, b)]
        assert line == git(store.git, "rev-list", "--first-parent", b).split()


def _newest_first(store: Store, commits: list[str]) -> None:
    assert len(set(commits)) == len(commits)
    place = {commit: i for i, commit in enumerate(commits)}
    for commit in commits:
        assert all(place[commit] < place[p] for p in store.revisions.load(commit).parents if p in place)


def test_what_a_branch_named_before(store: Store, tmp_path: Path) -> None:
    """The operation log answers as the reflog of a git that made the same moves."""
    mirror = tmp_path / "mirror"
    git(tmp_path, "init", "-q", "--bare", "mirror")
    git(mirror, "symbolic-ref", "HEAD", "refs/heads/main")
    git(mirror, "config", "core.logAllRefUpdates", "always")
    (mirror / "objects/info/alternates").write_text(f"{store.git}/objects\n")
    dice = random.Random(5)
    times = []
    with store.write() as tx:
        commits = [tx.commit("First")]
    for i in range(12):
        with store.write(f"move {i}") as tx:
            old = tx.ref("refs/heads/main")
            new = dice.choice(commits) if dice.random() < 0.3 else tx.detached_commit(f"commit {i}")
            tx.move_ref("refs/heads/main", old, new)
            commits.append(new)
    for operation in reversed(store.op_log()):
        for move in operation.moves:
            assert move.new is not None
            subprocess.run(
                ["git", "update-ref", "-m", "x", move.ref, move.new], cwd=mirror, check=True,
                env={"PATH": "/usr/bin:/bin", "GIT_COMMITTER_NAME": "o", "GIT_COMMITTER_EMAIL": "o@e",
                     "GIT_COMMITTER_DATE": f"{operation.time} +0000"},
            )  # fmt: skip
            times.append(operation.time)
    revisions = [f"main@{{{n}}}" for n in range(13)] + [f"@{{{n}}}" for n in (0, 1, 3)]
    revisions += [f"main@{{{time}}}" for time in times] + [f"main@{{{times[3]}}}^{{commit}}", "main@{2}^{tree}"]
    assert {rev: _ours(store, rev) for rev in revisions} == _as_git(mirror, revisions)
    assert _ours(store, "main@{14}") is None


def test_a_name_that_is_no_text_or_too_long_is_not_found(store: Store) -> None:
    random_history(store.git, 1)
    for rev in (
        "", " ", "\0", "a\0b", "HEAD\0", "é", "\udcff", "\ud800", "x" * 5000, "/", "//", ".", "..", "refs/", "^", "~",
        "^{}", "@{", "@{}", "HEAD@{", "{}", ":/(", ":/!x", "HEAD^{/(}", "HEAD^{/" + "(" * 5000 + "}",
        "HEAD" + "^" * 10_000, "HEAD~" + "9" * 5000, "HEAD^" + "9" * 5000, "main@{99999}", "main@{" + "9" * 400 + "}",
        "@{-1}", "@{u}", "main@{upstream}", "main@{soon}", "main@{2026-13-01}", "nope@{1}", "HEAD@{yesterday}",
        "ab" * 20, "HEAD:\0", "HEAD:" + "a/" * 5000, "config", "packed-refs", "description",
    ):  # fmt: skip
        with pytest.raises(StoreError) as caught:
            store.find(rev)
        assert caught.value.exit_code == 2, rev
        assert "\n" not in caught.value.message
