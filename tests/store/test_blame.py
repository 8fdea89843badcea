"""Who last changed a field of a record, or a line of a text."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest
from store_samples import add, edit, git, new_store

from rover_store.errors import NotFound, UsageError
from rover_store.history.blame import Blamed, blame, flat
from rover_store.store import Store

CONTRACT = "task/contract.json"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path)
    add(store, "other")
    add(store, "one", "First.\nSecond.\nThird.\n")
    return store


def _contract(*requirements: dict[str, Any]) -> bytes:
    return json.dumps({"schema_version": 1, "requirements": list(requirements)}).encode()


def _who(rows: list[Blamed]) -> dict[str, str]:
    return {row.field: row.commit for row in rows}


def test_fields_of_a_list_by_id(store: Store) -> None:
    first = edit(store, "one", {CONTRACT: _contract({"id": "a", "text": "A"}, {"id": "b", "text": "B"})})
    edit(store, "other", {CONTRACT: _contract({"id": "a", "text": "elsewhere"})})
    second = edit(store, "one", {CONTRACT: _contract({"id": "a", "text": "A"}, {"id": "b", "text": "B2"})})
    third = edit(store, "one", {CONTRACT: _contract(
        {"id": "c", "text": "C"}, {"id": "b", "text": "B2"}, {"id": "a", "text": "A", "critical": True})})  # fmt: skip
    edit(store, "one", {"context/files/data.csv": b"x"})
    rows = blame(store, f"one/{CONTRACT}")
    assert _who(rows) == {
        "schema_version": store.resolve(f"{first}~1"), "requirements[a].id": first, "requirements[a].text": first,
        "requirements[a].critical": third, "requirements[b].id": first, "requirements[b].text": second,
        "requirements[c].id": third, "requirements[c].text": third,
    }  # fmt: skip
    assert [r.value for r in rows if r.field == "requirements[b].text"] == ["B2"]
    assert _who(blame(store, f"one/{CONTRACT}", field="requirements[b]")) == {
        "requirements[b].id": first, "requirements[b].text": second,
    }  # fmt: skip
    assert set(_who(blame(store, "one", field="requirements[*].text"))) == {f"requirements[{i}].text" for i in "abc"}
    assert _who(blame(store, f"one/{CONTRACT}", "HEAD~2", "requirements[b].text")) == {"requirements[b].text": second}


def test_a_whole_package_and_a_component(store: Store) -> None:
    rows = blame(store, "one")
    assert {r.file for r in rows} == {
        "package.json", "context/context.json", "task/task.json", CONTRACT, "harness/harness.json",
        "verifier/verifier.json",
    }  # fmt: skip
    assert {r.commit for r in rows} == {store.resolve()}
    assert {r.file for r in blame(store, "one/task")} == {"task/task.json", CONTRACT}
    assert blame(store, "one", field="tools")[0].value == ["read_file"]


def test_lines_of_a_text(store: Store) -> None:
    first = store.resolve()
    second = edit(store, "one", {"task/instruction.md": b"First.\nNew.\nSecond.\nThird.\n"})
    third = edit(store, "one", {"task/instruction.md": b"First.\nNew.\nSecond!\nThird.\nFourth.\n"})
    rows = blame(store, "one/task/instruction.md")
    assert [(r.field, r.value, r.commit) for r in rows] == [
        ("1", "First.", first), ("2", "New.", second), ("3", "Second!", third), ("4", "Third.", first),
        ("5", "Fourth.", third),
    ]  # fmt: skip


def test_a_merge_is_followed_to_the_side_that_a_value_came_from(store: Store) -> None:
    base = edit(store, "one", {CONTRACT: _contract({"id": "a", "text": "A"}, {"id": "b", "text": "B"})})
    store.create_branch("side")
    main = edit(store, "one", {CONTRACT: _contract({"id": "a", "text": "A2"}, {"id": "b", "text": "B"})})
    store.switch("side")
    side = edit(store, "one", {CONTRACT: _contract({"id": "a", "text": "A"}, {"id": "b", "text": "B2"})})
    store.switch("main")
    both = _contract({"id": "a", "text": "A2"}, {"id": "b", "text": "B2"}, {"id": "c", "text": "resolved"})
    with store.write() as tx:
        tx.set_package("one", tx.edit_tree(store.package("one").tree, {CONTRACT: both}))
        merge = tx.commit("Merge", parents=[main, side])
    expected = {"requirements[a].text": main, "requirements[a].id": base, "requirements[b].text": side,
                "requirements[b].id": base, "requirements[c].text": merge, "requirements[c].id": merge}  # fmt: skip
    assert _who(blame(store, f"one/{CONTRACT}", field="requirements")) == expected
    assert _who(blame(store, f"one/{CONTRACT}", side, "requirements[b].text")) == {"requirements[b].text": side}
    store.create_branch("later", f"{merge}")
    store.switch("side")  # what the index does not show is walked in git
    assert _who(blame(store, f"one/{CONTRACT}", "main", "requirements")) == expected


def test_files_that_are_no_records(store: Store) -> None:
    first = edit(store, "one", {"context/files/a.json": b'{"x": 1, "y": 2}\n', "context/files/b.bin": b"\0\1"})
    second = edit(store, "one", {"context/files/a.json": b'{"x": 1, "y": 3}\n'})
    assert _who(blame(store, "one/context/files/a.json")) == {"1": second}
    assert _who(blame(store, "one/context/files/a.json", field="x")) == {"x": first}
    assert blame(store, "one/context/files/b.bin") == [
        Blamed("context/files/b.bin", "", "2 bytes", first, "rover <rover@localhost>", store.commit(first).time,
               "Edit one")
    ]  # fmt: skip
    add(store, "two", resources={"files/shared": b"1\n2\n"})
    assert _who(blame(store, "resources/files/shared/files/data.csv")) == dict.fromkeys("12", store.resolve())


@pytest.mark.parametrize(
    ("path", "field", "message"),
    [
        ("nope", None, "package not found: nope"), ("one/nope", None, "component or file not found"),
        ("one/context/files", None, "is a folder without records"), ("", None, "an empty word"),
        ("one/task/instruction.md", "x", "is not JSON"), ("one", "nope", "field not found: nope"),
        ("resources/files", None, "names no resource"), ("resources/files/x", None, "resource or file not found"),
    ],
)  # fmt: skip
def test_what_is_not_there(store: Store, path: str, field: str | None, message: str) -> None:
    with pytest.raises((NotFound, UsageError)) as caught:
        blame(store, path, field=field)
    assert message in caught.value.message
    assert caught.value.exit_code == 2


def test_a_record_that_was_no_json_for_a_while(store: Store) -> None:
    edit(store, "one", {CONTRACT: b"{broken"})
    assert _who(blame(store, f"one/{CONTRACT}")) == {"1": store.resolve()}
    fixed = edit(store, "one", {CONTRACT: _contract({"id": "a"})})
    assert set(_who(blame(store, f"one/{CONTRACT}")).values()) == {fixed}
    edit(store, "one", {CONTRACT: b"[" * 200_000})
    assert len(blame(store, f"one/{CONTRACT}")) == 1


def test_lines_agree_with_git(store: Store) -> None:
    """A history without merges, of lines that are all different: there is one answer."""
    dice = random.Random(3)
    lines = [f"line {n}" for n in range(40)]
    for n in range(40):
        at = dice.randrange(len(lines))
        if n % 3 == 0:
            del lines[at]
        else:
            lines[at : at + (n % 2)] = [f"line {n}.{k}" for k in range(dice.randrange(1, 3))]
        edit(store, "one", {"task/instruction.md": ("\n".join(lines) + "\n").encode()})
    path = store.revisions.path("HEAD", "one/task/instruction.md")
    where = next(p for p, i in store.objects.read_tree(store.commit().tree).items()
                 if i == path and "/one/" in p)  # fmt: skip
    out = git(store.git, "blame", "-s", "-l", "--root", "main", "--", where).splitlines()
    assert [r.commit for r in blame(store, "one/task/instruction.md")] == [line.split()[0] for line in out]


def test_a_thousand_versions_are_quick(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    items = [{"id": f"r{n}", "text": "as it was", "weight": 1} for n in range(30)]
    with store.write() as tx:
        for n in range(1000):
            items[n % 30] = {**items[n % 30], "text": f"version {n}"}
            tx.set_package("one", tx.edit_tree(store.package("one").tree, {CONTRACT: _contract(*items)}))
            tx.commit(f"Version {n}")
    store.index.sync()
    start = time.process_time()
    rows = blame(store, f"one/{CONTRACT}")
    spent = time.process_time() - start
    assert len({r.commit for r in rows}) > 30
    assert spent < 5


def test_flat_is_total() -> None:
    deep: Any = 1
    for _ in range(300):
        deep = {"x": deep}
    assert len(flat(deep)) == 1
    assert flat([]) == {"": []}
    assert flat({"a": {}, "b.c": [1], "d": [{"id": "x"}, {"id": "x"}]}) == {
        "a": {}, '"b.c"': [1], "d": [{"id": "x"}, {"id": "x"}],
    }  # fmt: skip


def _rename(store: Store, old: str, new: str, files: dict[str, bytes] | None = None) -> str:
    with store.write(f"rename {old}") as tx:
        tree = tx.edit_tree(store.package(old).tree, files or {})
        tx.remove_package(old)
        tx.set_package(new, tree)
        return tx.commit(f"Rename {old} to {new}")


def test_a_renamed_package_is_followed_where_asked(store: Store) -> None:
    first = store.resolve()
    text = "task/instruction.md"
    second = edit(store, "one", {text: b"First.\n2nd.\nThird.\n", CONTRACT: _contract({"id": "a", "text": "A"})})
    renamed = _rename(store, "one", "uno", {"harness/harness.json": b'{"tools": ["shell"]}'})
    again = _rename(store, "uno", "eins", {text: b"New.\nFirst.\n2nd.\nThird.\n"})
    add(store, "one", "Another of that name.\n")
    last = edit(store, "eins", {CONTRACT: _contract({"id": "a", "text": "A"}, {"id": "b", "text": "B"})})
    assert set(_who(blame(store, f"eins/{text}")).values()) == {again}
    assert [*_who(blame(store, f"eins/{text}", follow=True)).values()] == [again, first, second, first]
    assert _who(blame(store, f"eins/{CONTRACT}", field="requirements", follow=True)) == {
        "requirements[a].id": second, "requirements[a].text": second,
        "requirements[b].id": last, "requirements[b].text": last,
    }  # fmt: skip
    assert _who(store.blame("eins/harness", field="tools", follow=True)) == {"tools": renamed}
    assert blame(store, f"other/{text}", follow=True) == blame(store, f"other/{text}")
    assert blame(store, f"one/{text}", follow=True) == blame(store, f"one/{text}")


def test_what_shares_neither_context_nor_task_is_another_package(store: Store) -> None:
    swapped = _rename(store, "one", "three", {"task/instruction.md": b"First.\n", "context/files/data.csv": b"x"})
    assert {*_who(blame(store, "three/task/instruction.md", follow=True)).values()} == {swapped}


def test_a_rename_on_one_side_of_a_merge(store: Store) -> None:
    first = store.resolve()
    store.create_branch("side", "HEAD")
    renamed = _rename(store, "one", "uno")
    store.switch("side")
    edit(store, "other", {"task/instruction.md": b"Side."})
    store.merge("main")
    assert {*_who(blame(store, "uno/task/instruction.md", follow=True)).values()} == {first}
    assert {*_who(blame(store, "uno/task/instruction.md")).values()} == {renamed}
