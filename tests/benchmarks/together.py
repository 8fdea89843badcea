"""Processor time of rollouts and gradings, one by one by the engine and many at a time in lockstep.

    python tests/benchmarks/together.py --packages 8 --rollouts 8 --out together.json

Builds small packages (chores on made-up tables), plays solvers with and without habits and slips on them, both ways,
grades every tree both ways, and prints seconds of processor time, of this process and of all boxes. Results must be
equal, or it fails.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rover.construct.families.registry import family
from rover.ops.build import BuildRequest, build
from rover.policy.registry import get_policy
from rover.rollout.engine import Engine
from rover.rollout.env import Env, load_env
from rover.rollout.progress import TreeGrader
from rover.rollout.records import EndState, RolloutRequest, seed_for
from rover.rollout.together import Done, Together
from rover.sandbox.bubblewrap import BubblewrapRuntime
from rover.sandbox.protocol import Sandbox
from rover.verify.grade import run_checks
from rover.verify.plan import Graded as State
from rover.verify.shown import Memo
from rover_store.store import Store
from rover_train.world.workspaces import write

SPECS = ("solver:hasty", "solver:hasty+perturb_number", "solver", "solver+drop_row")


class Meter:
    """Processor time of what runs, as rows of a table."""

    def __init__(self, runtime: BubblewrapRuntime) -> None:
        self._runtime = runtime
        self.rows: list[dict[str, Any]] = []

    def measure(self, what: str, work: Callable[[], Any]) -> Any:
        host, boxes, wall = time.process_time(), self._boxes(), time.monotonic()
        found = work()
        row = {
            "what": what,
            "host": round(time.process_time() - host, 3),
            "boxes": round(self._boxes() - boxes, 3),
            "wall": round(time.monotonic() - wall, 3),
        }
        self.rows.append(row)
        print(f"{what:44} host {row['host']:7.3f}  boxes {row['boxes']:7.3f}  wall {row['wall']:7.3f}", flush=True)
        return found

    def _boxes(self) -> float:
        return sum(box.processor_time() for box in list(self._runtime._boxes) if not box._closed)


def requests(store: Store, rollouts: int) -> list[RolloutRequest]:
    """The same number of rollouts of each package, over the policies in turn."""
    out = []
    for entry in store.packages():
        env = load_env(store, entry.tree)
        found = [get_policy(spec, family=family(str(env.record.family))) for spec in SPECS]
        for number in range(rollouts):
            policy = found[number % len(found)]
            out.append(RolloutRequest(env, policy, seed_for("benchmark", policy.id, number)))
    return out


def one_by_one(box: Sandbox, done: Sequence[Done], memo: Memo) -> list[list[tuple[Any, ...]]]:
    """Statuses of all trees, each tree in a call of its own; equal evidence is judged once here too."""
    out = []
    for one in done:
        env, rows = one.env, []
        for tree in (one.result.trajectory.start, *(turn.tree for turn in one.result.trajectory.turns)):
            state = State(env.start, EndState(one.played.trees[tree], one.result.end.read))
            scores = run_checks(box, env.verifier.criteria, env.verifier_files, state, memo=memo)
            rows.append(tuple(s.score for s in scores))
        out.append(rows)
    return out


def run(packages: int, rollouts: int, out: Path | None) -> int:
    """The whole benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        runtime = BubblewrapRuntime()
        store = Store.init(Path(folder), clock=lambda: 0)
        for workspace in write(Path(folder) / "world", packages, 1):
            build(store, runtime, BuildRequest(workspace, 1, families=("chores",)))
        wanted = requests(store, rollouts)
        meter = Meter(runtime)
        with Engine(runtime) as engine, Together(runtime) as together, TreeGrader(runtime) as grader:
            # somebody watches: so the engine does not play them in lockstep by itself
            watched = partial(engine.rollouts, wanted, progress=lambda _: None)
            alone = meter.measure(f"{len(wanted)} rollouts, one by one", watched)
            done = meter.measure("in lockstep", lambda: together.play(wanted))
            again = meter.measure("in lockstep, box and start states there", lambda: together.play(wanted))
            graded = meter.measure("all trees and verdicts, in few calls", lambda: grader.grade(_pairs(done)))
            meter.measure("the same again", lambda: grader.grade(_pairs(again)))
            verdicts = meter.measure("verdicts alone, one by one", lambda: engine.grade([_turned(d) for d in done]))
            box = runtime.open({})
            single = meter.measure("all trees, one by one", lambda: one_by_one(box, done, Memo()))
        same = [d.result.trajectory for d in done] == [r.trajectory for r in alone]
        same = same and [g.verdict for g in graded] == verdicts
        same = same and all(list(g.statuses[:-1]) == rows[:-1] for g, rows in zip(graded, single, strict=True))
        turns = sum(len(d.result.trajectory.turns) for d in done)
        report = {"rollouts": len(done), "turns": turns, "checks": grader.checks, "equal": same, "rows": meter.rows}
        print(f"{turns} turns, {grader.checks} checks of distinct evidence, {'equal' if same else 'NOT EQUAL'}")
        if out is not None:
            out.write_text(json.dumps(report, indent=1) + "\n")
        runtime.close()
    return 0 if same else 1


def _pairs(done: Sequence[Done]) -> list[tuple[Env, Done]]:
    return [(one.env, one) for one in done]


def _turned(done: Done) -> tuple[Any, Env]:
    return done.result, done.env


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=int, default=8)
    parser.add_argument("--rollouts", type=int, default=8)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    return run(given.packages, given.rollouts, given.out)


if __name__ == "__main__":
    sys.exit(main())
