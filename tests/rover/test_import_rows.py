"""Imports: what changed meanwhile is not replaced unasked, and a refusal says where the reason lies."""

from __future__ import annotations

from pathlib import Path

import harbor_tasks
import pytest

from rover.ops.check_folder import check_folder
from rover.ops.import_ import ImportRequest, import_
from rover.port.harbor.about import Origin
from rover.port.harbor.package import make
from rover.port.harbor.tree import read_folder
from rover_store.errors import UsageError
from rover_store.store import Store


def test_what_changed_between_looking_and_writing_is_not_replaced_unasked(tmp_path: Path) -> None:
    folder = harbor_tasks.write(harbor_tasks.tasks()["copies"], tmp_path / "copies")
    store = Store.init(tmp_path / "s", clock=lambda: 1)
    import_(store, ImportRequest("harbor", folder))
    (folder / "instruction.md").write_text("Something else.\n")

    def meanwhile(names: tuple[str, ...]) -> bool:
        files = {**make(read_folder(folder), Origin("copies")).files, "task/instruction.md": b"A third thing.\n"}
        with store.write("another") as tx:
            tx.set_package(names[0], tx.tree(files))
            tx.commit("Another")
        return True

    with pytest.raises(UsageError, match="changed by another command meanwhile: acme-copies; nothing is imported"):
        import_(store, ImportRequest("harbor", folder), replace=meanwhile)
    held = store.objects.read_tree(store.package("acme-copies").tree)["task/instruction.md"]
    assert store.objects.read(held.id) == b"A third thing.\n"
    assert import_(store, ImportRequest("harbor", folder), replace=lambda names: True).count("replaced") == 1


def test_a_refusal_has_file_field_and_reason_apart(tmp_path: Path) -> None:
    """Also where a file's name looks like a message."""
    odd = "a: b.txt"
    folder = harbor_tasks.write(harbor_tasks.tasks()["copies"], tmp_path / "tasks" / "odd")
    (folder / "tests" / odd).symlink_to("/etc/passwd")
    store = Store.init(tmp_path / "s", clock=lambda: 1)
    row = import_(store, ImportRequest("harbor", tmp_path / "tasks", keep_going=True)).rows[0]
    assert (row.file, row.field) == (f"tests/{odd}", "")
    assert row.reason.startswith("is a link out of the task")
    assert row.line() == f"odd/tests/{odd}: {row.reason}"
    [found] = check_folder(tmp_path / "tasks", None)
    assert found.problems == ((f"tests/{odd}", "", row.reason),)
    assert (found.folder, [one.file for one in found.said]) == ("odd/", [f"tests/{odd}"])
    (folder / "tests" / odd).unlink()
    (folder / "task.toml").write_text("[task]\nname = 3\n")
    [found] = check_folder(tmp_path / "tasks", None)
    assert found.problems == (("task.toml", "task.name", "3 is not of type 'string'"),)
