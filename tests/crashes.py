"""Kills and disk faults at every system call of a script of writes: `python tests/crashes.py --runs 1000 --seed 1`.

Prints a line for each loss and a table of the runs by call and fault, exits 1 on a loss. `--runs 0` does every call
with every fault. With `--work DIR` a second start goes on where the first ended.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from injection import Call, Fault, copy, judge, kinds, play, template


def plan(calls: list[Call], seed: int, runs: int) -> list[Fault]:
    """Faults in an order in which any beginning covers steps, calls and kinds evenly. runs 0: all of them."""
    rng = random.Random(seed)
    groups: dict[tuple[str, str, str], list[Fault]] = {}
    for number, call in enumerate(calls):
        for kind in kinds(call.name):
            groups.setdefault((call.step, call.name, kind), []).append(Fault(number, kind))
    queues = [rng.sample(group, len(group)) for group in groups.values()]
    out: list[Fault] = []
    while queues:
        rng.shuffle(queues)
        out += [queue.pop() for queue in queues]
        queues = [queue for queue in queues if queue]
    return out[:runs] if runs else out


def measure(work: Path, seed: int, runs: int) -> Iterator[tuple[Fault, Call, dict[str, Any]]]:
    """Play and judge each fault of the plan: what was acknowledged, and what was wrong."""
    source = work / "template"
    if not source.exists():
        template(work / "unfinished")
        os.rename(work / "unfinished", source)
    clean = work / "clean"
    shutil.rmtree(clean, ignore_errors=True)
    copy(source, clean)
    calls = play(clean, None).calls
    known = work / f"results-{seed}.jsonl"
    rows = [json.loads(line) for line in known.read_text().splitlines()] if known.exists() else []
    done = {Fault(row["at"], row["kind"]): row for row in rows if row["of"] == len(calls)}
    with open(known, "a") as file:
        for fault in plan(calls, seed, runs):
            row = done.get(fault)
            if row is None:
                row = {"at": fault.at, "kind": fault.kind, "of": len(calls), **run(source, work / "run", fault)}
                file.write(json.dumps(row) + "\n")
                file.flush()
            yield fault, calls[fault.at], row


def run(source: Path, folder: Path, fault: Fault) -> dict[str, Any]:
    """One fault on a fresh copy. The judge is a child too, so that no run sees the memory of another."""
    shutil.rmtree(folder, ignore_errors=True)
    copy(source, folder)
    played = play(folder, fault)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            wrong = judge(folder, played)
        except BaseException as error:
            wrong = [f"judging failed: {type(error).__name__}: {error}"]
        os.write(writing, json.dumps(wrong).encode()[:60_000])
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        wrong = json.loads(pipe.read())
    os.waitpid(child, 0)
    steps = [row for row in played.said if "step" in row]
    failed = sum("failed" in row for row in played.said)
    return {"wrong": wrong, "acknowledged": len(steps), "failed": failed, "killed": played.killed}


def table(counts: Counter[tuple[str, str]]) -> str:
    """Counts by row and column."""
    rows, columns = sorted({r for r, _ in counts}), sorted({c for _, c in counts})
    lines = [["", *columns, "all"]]
    for row in rows:
        lines.append([row, *(str(counts[row, c] or "") for c in columns), str(sum(counts[row, c] for c in columns))])
    lines.append(["all", *(str(sum(counts[r, c] for r in rows)) for c in columns), str(sum(counts.values()))])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=Path)
    given = parser.parse_args()
    work = given.work or Path(tempfile.mkdtemp())
    work.mkdir(parents=True, exist_ok=True)
    by_call: Counter[tuple[str, str]] = Counter()
    by_step: Counter[tuple[str, str]] = Counter()
    losses = acknowledged = killed = failed = total = 0
    began = time.process_time()
    for fault, call, row in measure(work, given.seed, given.runs):
        total += 1
        by_call[call.name, fault.kind] += 1
        by_step[call.step, fault.kind] += 1
        acknowledged, failed = acknowledged + row["acknowledged"], failed + row["failed"]
        killed, losses = killed + row["killed"], losses + bool(row["wrong"])
        for what in row["wrong"]:
            print(f"call {fault.at} ({call.step}: {call.name}), {fault.kind}: {what}")
        if total % 50 == 0:
            print(f"{total} runs, {losses} with something wrong", file=sys.stderr, flush=True)
    print(f"{total} runs: {killed} killed, {failed} steps failed, {acknowledged} steps acknowledged, "
          f"{losses} runs with something wrong; {time.process_time() - began:.0f} s CPU of the parent")  # fmt: skip
    print(table(by_step))
    print(table(by_call))
    if given.work is None:
        shutil.rmtree(work)
    return 1 if losses else 0


if __name__ == "__main__":
    sys.exit(main())
