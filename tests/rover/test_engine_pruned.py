"""The engine and pruned evidence: a known score is a known score, and what needs an end state runs again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from packages import runtime, solution_calls, summary_package, summary_resources, with_checks

from rover.policy.scripted import ScriptedPolicy
from rover.repair.history import recorded
from rover.rollout.engine import Engine
from rover.rollout.env import load_env
from rover.rollout.records import RolloutRequest
from rover.sandbox.protocol import Runtime
from rover_store.care.prune import prune_trajectories
from rover_store.errors import StoreError
from rover_store.store import Store

SOLVER = ScriptedPolicy([(c,) for c in solution_calls()], "Wrote report.csv.")


@pytest.fixture(scope="module")
def box_runtime() -> Iterator[Runtime]:
    made = runtime()
    yield made
    made.close()  # type: ignore[attr-defined]


def test_scores_are_reused_and_end_states_run_again(tmp_path: Path, box_runtime: Runtime) -> None:
    store = Store.init(tmp_path, clock=lambda: 0)
    files, resources = summary_package(), summary_resources()
    with store.write("test") as tx:
        tx.set_package("order-summary", tx.tree(files))
        tx.set_resource("files/orders", tx.tree(resources["files/orders"]))
        tx.commit("a package")
    env = load_env(store, store.package("order-summary").tree)
    request = RolloutRequest(env, SOLVER, 1)
    with Engine(box_runtime, store.evidence) as engine:
        ((first, verdict),) = engine.run([request])
    assert not first.reused
    prune_trajectories(store, dry_run=False)
    with Engine(box_runtime, store.evidence) as engine:
        ((stub, again),) = engine.run([request])
        assert (stub.reused, again, stub.trajectory.turns) == (True, verdict, ())
        assert engine.ran == 0
        with pytest.raises(StoreError, match="were pruned"):
            dict(stub.end)
        assert recorded(store, env) == ()
    tree = store.put_files(with_checks("def rows(ev):\n    return 0.0\n", ("rows",)))
    changed = load_env(store, tree)
    with Engine(box_runtime, store.evidence) as engine:
        ((whole, other),) = engine.run([RolloutRequest(changed, SOLVER, 1)])
    assert (whole.reused, len(whole.trajectory.turns) > 0) == (False, True)
    assert other.verifier == changed.verifier_id != verdict.verifier
    kept = store.evidence.get_rollout(first.id)
    assert kept is not None
    assert kept.pruned is None
    assert store.evidence.get_verdict(first.id, verdict.verifier) == verdict
