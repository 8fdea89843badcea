"""Every form that `rover help revisions` shows resolves in a store that has what it names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from store_samples import add, edit

from rover_store.history import ancestry
from rover_store.store import Store

PAGE = (Path(__file__).parents[2] / "rover/docs/revisions.md").read_text()
START = 1_769_000_000  # 2026-01-21


def _forms(section: str) -> Iterator[str]:
    text = PAGE[PAGE.index(f"## {section}\n") :].split("\n## ", 1)[0]
    for line in re.findall(r"^    (\S.*)$", text, re.MULTILINE):
        if line[28 - 4 :].strip() and line[28 - 5] == " ":
            line = line[: 28 - 4]
        yield from re.split(r"  +", line.strip())


def _store(folder: Path) -> Store:
    seconds = [START]
    store = Store.init(folder, clock=lambda: seconds[0])
    add(store, "my-task", resources={"files/x": b"1"})
    store.create_branch("topic/x")
    store.create_branch("v1")
    store.tag("v1")
    for n, message in enumerate(("Fix: a fix rule", "More", "Other", "Last")):
        seconds[0] += 86400
        edit(store, "my-task", {"context/files/data.csv": str(n).encode()}, message)
    store.switch("topic/x")
    side = edit(store, "my-task", {"task/instruction.md": b"Side"}, "Side")
    store.switch("main")
    with store.write("merge") as tx:
        tx.set_package("my-task", store.package("my-task").tree)
        tx.commit("Merge", parents=[store.resolve("main"), side])
    seconds[0] += 20 * 86400
    return store


def test_every_form_resolves(tmp_path: Path) -> None:
    store = _store(tmp_path)
    digits = store.resolve()[:8]
    forms = [f for section in ("Names", "Before", "Steps", "What lies there") for f in _forms(section)]
    assert len(forms) > 30
    for form in forms:
        assert store.find(form.replace("1f3a9c0d", digits)).id, form
    assert store.find("@{-1}").id == store.resolve("topic/x")
    assert store.find("main@{2026-01-31}").id == store.resolve("main")


def test_every_range_is_read(tmp_path: Path) -> None:
    store = _store(tmp_path)
    ranges = list(_forms("Ranges"))
    assert len(ranges) == 5
    for form in ranges:
        assert list(ancestry.commits(store, store.revisions.range(form))), form
