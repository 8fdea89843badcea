"""How long commands take to start, against `python -c 'import typer'` in the same interpreter, taken in turns."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rover.bench.rows import Row, median_row

BASE = [sys.executable, "-c", "import typer"]
ROVER = [sys.executable, "-c", "from rover.cli.main import main; main()"]
#: a command may take at most so many times the baseline
BAR = 3.0


def measure(repeats: int = 15, progress: Callable[[int, int], None] | None = None) -> list[Row]:
    """Wall time of `rover --help`, `log` and `show` on a store with one package, as ratios to the baseline."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        _make_store(store)
        commands = {
            "import typer": BASE,
            "rover --help": [*ROVER, "--help"],
            "rover log": [*ROVER, "--store", str(store), "log"],
            "rover show": [*ROVER, "--store", str(store), "show", "HEAD"],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        env = _environment(Path(folder) / "bytecode")
        for words in commands.values():  # once unmeasured: bytecode and page cache
            _time(words, env)
        for done in range(repeats):
            for name, words in commands.items():
                times[name].append(_time(words, env))
            if progress:
                progress(done + 1, repeats)
    base = times.pop("import typer")
    rows = [median_row("python -c 'import typer'", [1000 * t for t in base], "ms")]
    for name, found in times.items():
        ratio = statistics.median(found) / statistics.median(base)
        samples = tuple(a / b for a, b in zip(found, base, strict=True))
        note = f"{1000 * statistics.median(found):.0f} ms"
        rows.append(Row(f"{name} / import typer", ratio, "ratio", BAR, False, note, samples))
    return rows


def _make_store(folder: Path) -> None:
    for words in (
        ["init", str(folder)],
        ["new", str(folder / "my-task")],
        ["--store", str(folder), "commit", str(folder / "my-task")],
    ):
        subprocess.run([*ROVER, *words], check=True, capture_output=True)


def _environment(bytecode: Path) -> dict[str, str]:
    """As an installed rover starts: compiled modules are kept, in a folder of our own."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**env, "PYTHONPYCACHEPREFIX": str(bytecode)}


def _time(words: list[str], env: dict[str, str]) -> float:
    begin = time.perf_counter()
    subprocess.run(words, check=True, capture_output=True, env=env)
    return time.perf_counter() - begin
