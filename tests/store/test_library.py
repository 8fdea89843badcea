"""rover_store alone: what it exports, what an import costs, and the page of examples as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rover_store

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "rover/docs/library.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def python(code: str, folder: Path) -> str:
    env = {k: v for k, v in os.environ.items() if k != "ROVER_STORE"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_all_names_are_there_and_sorted() -> None:
    assert rover_store.__all__ == sorted(rover_store.__all__)
    assert set(rover_store.__all__) <= set(dir(rover_store))
    for name in rover_store.__all__:
        assert getattr(rover_store, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        rover_store.nothing  # noqa: B018
    assert (ROOT / "rover_store/py.typed").exists()


def test_an_import_brings_no_rover_and_nothing_slow(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from rover_store import Store, StoreError, NotFound
Store.init(Path("s")).packages()
slow = {"rover", "pydantic", "sqlmodel", "networkx", "typer", "rich", "pandas", "numpy"}
print(sorted(slow & set(sys.modules)))
"""
    assert python(code, tmp_path) == "[]\n"


def test_every_module_imports_without_rover(tmp_path: Path) -> None:
    modules = [".".join(p.relative_to(ROOT).with_suffix("").parts) for p in (ROOT / "rover_store").rglob("*.py")]
    names = sorted(m.removesuffix(".__init__") for m in modules if not m.endswith("__main__"))
    code = f"import sys, importlib\nfor m in {names!r}: importlib.import_module(m)\nprint('rover' in sys.modules)"
    assert python(code, tmp_path) == "False\n"


def test_the_examples_run_one_after_another(tmp_path: Path) -> None:
    assert len(BLOCKS) == 4
    said = python("\n".join(BLOCKS), tmp_path).splitlines()
    assert said == [
        "True",
        "Sum the orders of May.",
        "",
        "['orders-1']",
        "['Add orders-1']",
        "package not found: nothing",
        "[('orders-1', ['task'])]",
        "orders-1 task/instruction.md text",
        "1 True",
        "True",
        "fast-forward",
        "[('orders-1', 'Sum'), ('orders-2', 'Sum')]",
        "1 [] []",
        "0",
    ]
