"""What `rover show` takes, and how the read commands bear what another git pushed."""

from __future__ import annotations

from pathlib import Path

import pytest
from foreign_git import Entry, set_ref, write_commit, write_object, write_tag, write_tree

from rover.cli.main import _streams, run
from rover_store.names import package_path
from rover_store.store import Store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Store:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    for words in (["init"], ["new", "one"], ["commit", "one", "-m", "A first: task"]):
        assert run(words) == 0
    (tmp_path / "one/task/instruction.md").write_text("Do it otherwise.\n")
    for words in (["commit", "one", "-m", "Other words"], ["tag", "v1"], ["branch", "topic/v1"], ["branch", "v1"]):
        assert run(words) == 0
    capsys.readouterr()
    return Store.open(tmp_path)


@pytest.mark.parametrize(
    ("rev", "said"),
    [
        ("HEAD", "Other words"), ("@~1", "A first: task"), ("HEAD^{/A first: task}", "A first: task"),
        (":/A first:", "A first: task"), ("main@{1}", "A first: task"), ("@{now}", "Other words"),
        ("topic/v1", "Other words"), ("refs/heads/topic/v1~1", "A first: task"), ("HEAD^{tree}", "packages/"),
        ("v1^{tag}", "type commit"), ("HEAD~1:one/task", "instruction.md"), ("HEAD:one", "verifier"),
        ("main@{1}:one/task/instruction.md", ""), (":one/task/instruction.md", "otherwise"),
        ("HEAD^{/Other}:one/task/instruction.md", "otherwise"), ("heads/v1", "Other words"),
    ],
)  # fmt: skip
def test_forms(store: Store, capsys: pytest.CaptureFixture[str], rev: str, said: str) -> None:
    assert run(["show", rev]) == 0
    assert said in capsys.readouterr().out
    assert run(["show", rev, "--json"]) == 0
    assert capsys.readouterr().out.startswith("{")


def test_a_name_of_two_refs_is_noted(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", "v1"]) == 0
    assert capsys.readouterr().err == "v1 is refs/tags/v1; there is also refs/heads/v1\n"


@pytest.mark.parametrize(
    ("rev", "said"),
    [
        ("HEAD~999999999999", "revision not found"), ("HEAD" + "^" * 10_000, "revision not found"),
        ("main@{99999}", "main has 2 recorded move(s)"), ("main@{soon}", "is not a date"),
        ("main@{2020-01-01}", "main did not exist then"), ("@{-1}", "not so many branches"), ("\x00", "not found"),
        ("Ünknown", "not found"), ("HEAD:one/nope", "path not found"), ("HEAD^{blob}", "it names a commit"),
    ],
)  # fmt: skip
def test_what_is_refused(store: Store, capsys: pytest.CaptureFixture[str], rev: str, said: str) -> None:
    assert run(["show", rev]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) <= 2


def test_read_commands_bear_what_another_git_pushed(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _streams()  # as the command line has them
    blob = write_object(store.git, "blob", b"[1, {\"requirements\": 3}]")
    files: list[Entry] = [("100644", b"..", blob), ("120000", b".git", blob), ("160000", b"sub", "12" * 20),
                          ("100644", b"\xff\x1b[2J", blob), ("100644", b"\xff\x1b[2J", blob)]  # fmt: skip
    task: list[Entry] = [("100644", b"contract.json", write_object(store.git, "blob", b'{"requirements": [3]}')),
                         ("40000", b"d", write_tree(store.git, files))]  # fmt: skip
    package: list[Entry] = [("100644", b"package.json", write_object(store.git, "blob", b'{"edges": 3, "title": []}')),
                            ("40000", b"task", write_tree(store.git, task))]  # fmt: skip
    tree = write_tree(store.git, package)
    for part in reversed(package_path("bad").split("/")):
        tree = write_tree(store.git, [("40000", part.encode(), tree)])
    commit = write_commit(store.git, tree, [store.resolve()], -5, "\x1b[31mPushed\nbad")
    set_ref(store.git, "refs/heads/main", commit)
    set_ref(store.git, "refs/tags/blob", write_tag(store.git, blob, "blob", "blob"))
    for words in (
        ["list"], ["log"], ["log", "bad"], ["show", "HEAD"], ["show", "bad"], ["show", "bad/task"], ["show", "blob"],
        ["show", "HEAD:bad/task/d"], ["show", "HEAD:bad/task/d/sub"], ["show", "bad/task/d/.."], ["diff", "HEAD~1"],
        ["diff", "HEAD~1", "--stat"], ["blame", "bad"], ["blame", "bad/task/d/.."], ["tag"], ["branch"], ["op", "log"],
        ["status"], ["graph", "bad"],
    ):  # fmt: skip
        for more in ([], ["--json"]):
            assert run([*words, *more]) in (0, 1), words
            said = capsys.readouterr()
            assert "internal error" not in said.err
            assert "\x1b" not in said.out
    assert run(["checkout", "bad", "out"]) == 2
    assert "bad/task/d/" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == [".rover", "one"]
