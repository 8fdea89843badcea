"""A dataset from a store with many rollouts: seconds and peak memory, from the evidence and from demonstrations/.

    python tests/benchmarks/dataset.py --rollouts 10000 --out dataset.json

The rollouts are made up: a dozen turns that read, look up and write, each with a workspace tree, put into the evidence
in batches as a run does. Each measurement is a process of its own. `--store DIR` keeps the store for another time.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from learnable import Place, tagged, with_demonstrations

from rover_store.ids import blob_id, digest
from rover_store.layout import PackageEntry
from rover_store.records import Budget, Call, Demonstration, RolloutKey, Trajectory, Turn, Verdict
from rover_store.records.evidence import Score
from rover_store.store import Store
from rover_store.trees import FILE, TreeItem, tree_id

EACH, TURNS, BATCH = 20, 12, 64


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rollouts", type=int, default=10_000)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--measure", choices=("evidence", "demonstrations"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        print(json.dumps(measured(asked.store, asked.measure)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        place = asked.store or Path(folder)
        if not (place / ".rover").exists():
            began = time.perf_counter()
            make(place, asked.rollouts)
            print(f"store made in {time.perf_counter() - began:.0f} s", file=sys.stderr)
        words = [sys.executable, __file__, "--store", str(place), "--measure"]
        found = {
            kind: json.loads(subprocess.run([*words, kind], check=True, capture_output=True, text=True).stdout)
            for kind in ("evidence", "demonstrations")
        }
    print(json.dumps(found, indent=2))
    if asked.out is not None:
        asked.out.write_text(json.dumps(found, indent=2) + "\n")
    return 0


def measured(place: Path, kind: str) -> dict[str, float | int | str]:
    """Write the dataset as `rover dataset --all` does."""
    from rover_train.dataset import build

    began, cpu = time.perf_counter(), time.process_time()
    store = Store.open(place)
    selection = build.Selection(store, "HEAD", from_evidence=kind == "evidence", curation=None)
    with tempfile.TemporaryDirectory() as folder:
        report = build.write(selection, Path(folder) / "out")
        size = sum(p.stat().st_size for p in Path(folder).rglob("*") if p.is_file())
    return {
        "from": kind, "packages": report.packages, "demonstrations": report.kept, "bytes": size,
        "seconds": round(time.perf_counter() - began, 2), "cpu_seconds": round(time.process_time() - cpu, 2),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }  # fmt: skip


def make(place: Path, rollouts: int) -> None:
    """Packages of 50 workspaces, 20 passed rollouts each: in the evidence, and as demonstrations."""
    ticks = count(1_700_000_000)
    store = Store.init(place, clock=lambda: next(ticks))
    number = max(1, rollouts // EACH)
    tagged(store, {f"task-{n:05}": Place(f"w{n % 50:02}", level=n % 6, family="edit") for n in range(number)})
    waiting: list[Demonstration] = []
    trees: dict[str, dict[str, TreeItem]] = {}
    blobs: dict[str, bytes] = {}
    all_of: dict[str, list[Demonstration]] = {}
    for entry in store.packages():
        for seed in range(EACH):
            waiting.append(demonstrated(entry, seed, trees, blobs))
            all_of.setdefault(entry.name, []).append(waiting[-1])
            if len(waiting) == BATCH:
                put(store, waiting, trees, blobs)
    put(store, waiting, trees, blobs)
    with_demonstrations(store, all_of)


def put(
    store: Store, waiting: list[Demonstration], trees: dict[str, dict[str, TreeItem]], blobs: dict[str, bytes]
) -> None:
    first = [(one.trajectory, blobs if n == 0 else {}, trees if n == 0 else {}) for n, one in enumerate(waiting)]
    store.evidence.put(first, [one.verdict for one in waiting])
    waiting.clear()
    trees.clear()
    blobs.clear()


def demonstrated(
    entry: PackageEntry, seed: int, trees: dict[str, dict[str, TreeItem]], blobs: dict[str, bytes]
) -> Demonstration:
    """A rollout that reads and writes tables of its own."""
    key = RolloutKey(
        context=entry.components["context"], task=entry.components["task"], harness=entry.components["harness"],
        policy=f"hf:model-{seed % 4}", seed=seed, budget=Budget(), runtime="made-up",
    )  # fmt: skip
    rollout = digest(key.model_dump(mode="json"))

    def workspace(turn: int) -> str:
        data = f"region,total\n{entry.name},{seed},{turn // 3}\n".encode()
        files = {"orders.csv": TreeItem(FILE, blob_id(b"x")), "report.csv": TreeItem(FILE, blob_id(data))}
        blobs.update({blob_id(b"x"): b"x", blob_id(data): data})
        tree = tree_id(files)
        trees[tree] = files
        return tree

    rows = [[f"{entry.name}-{n}", n * seed, n % 7, f"2024-01-{n % 28 + 1:02}"] for n in range(24)]
    turns = tuple(
        Turn(
            index=n,
            calls=(
                Call(
                    id=f"c{n}", tool="write_table" if n % 3 == 2 else "read_table",
                    arguments={"path": "report.csv", "columns": ["region", "total"], "rows": rows[: n + 1]}
                    if n % 3 == 2 else {"path": "orders.csv", "where": {"key": f"k{n}"}, "limit": 200},
                    output=json.dumps({"columns": ["a", "b", "c", "d"], "rows": rows[: 24 - n], "total": 24}),
                ),
            ),
            tree=workspace(n),
        )
        for n in range(TURNS)
    )  # fmt: skip
    trajectory = Trajectory(
        key=key, package=entry.name, start=workspace(0), turns=turns, final_message=f"Done, {seed}.",
    )  # fmt: skip
    scores = tuple(Score(criterion=f"c{n}", requirement=f"r{n}", score=1.0, weight=1.0) for n in range(6))
    verdict = Verdict(
        rollout=rollout, verifier=entry.components["verifier"], outcome="passed", score=1.0, gate=1, scores=scores
    )
    return Demonstration(
        package=entry.name, components=dict(entry.components), policy=key.policy, seed=seed, rollout=rollout,
        trajectory=trajectory, verdict=verdict,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
