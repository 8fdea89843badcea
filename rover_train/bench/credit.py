"""`rover bench credit`: build, collect, SFT once, then every method on every set and seed, evaluated and compared.

Everything is kept in a folder of work as soon as it is finished; the same call goes on where the last one ended.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rover_store.errors import UsageError
from rover_train import split as splits
from rover_train.bench.plan import FAMILIES, Plan
from rover_train.bench.results import result
from rover_train.bench.stages import Stages
from rover_train.bench.work import Stage, Work

#: what is done now, how much is done, how much there is
Told = Callable[[str, int, int], None]
#: names the bench's own folders, so that no other folder is taken for one
MARK = "rover-bench-credit"


def run(
    work: Path, plan: Plan, *, workers: int = 2, told: Told = lambda what, done, total: None
) -> dict[str, Any]:
    """The comparison, and its result. UsageError where `work` is a folder of something else; StageFailed where a
    command failed, which keeps what others finished."""
    _claim(work)
    stages = Stages(work, plan)
    todo = plan.runs()
    chains = stages.prepared(workers)
    total = sum(map(len, chains)) + 2 + 3 * len(todo)
    now = [0]

    def began(name: str) -> None:
        told(name, now[0], total)

    worker = Work(work, began)
    worker.all(chains, 2, lambda done, of: None)
    now[0] += sum(map(len, chains))
    revision = _revision(stages)
    worker.one(stages.sft(revision))
    now[0] += 1

    def tick(before: int, each: int) -> Callable[[int, int], None]:
        def moved(done: int, of: int) -> None:
            now[0] = before + each * done
            told(f"{done} of {of} runs" if each > 1 else "measuring the shared checkpoint", now[0], total)

        return moved

    worker.all([[s] for s in stages.base(revision)], workers, tick(now[0], 0))
    now[0] += 1
    runs: list[list[Stage]] = [
        [stages.run(revision, name, arm, seed), *stages.measured(revision, name, arm, seed)] for name, arm, seed in todo
    ]
    worker.all(runs, workers, tick(now[0], 3))
    return result(stages, revision)


def found(work: Path, plan: Plan) -> dict[str, Any]:
    """The result of what is finished in a folder of work."""
    if not (work / MARK).is_file():
        raise UsageError(f"{work}: no comparison was made there")
    stages = Stages(work, plan)
    return result(stages, splits.load(stages.split("all")).revision)


def _claim(work: Path) -> None:
    if work.exists() and not work.is_dir():
        raise UsageError(f"{work}: is not a folder")
    if work.is_dir() and any(work.iterdir()) and not (work / MARK).is_file():
        raise UsageError(f"{work}: holds something else; name a new folder")
    try:
        work.mkdir(parents=True, exist_ok=True)
        (work / MARK).touch()
    except OSError as error:
        raise UsageError(f"{work}: cannot be written: {error.strerror}") from None


def _revision(stages: Stages) -> str:
    """The commit that all runs are pinned to, and the splits of it: one for all, narrowed to each set."""
    from rover_store.store import Store

    plan = stages.plan
    store = Store.open(stages.work / "store")
    commit = store.resolve("HEAD")
    families = [f"family:{FAMILIES[name]}" for name in plan.sets]
    whole = splits.make(store, commit, tags=families, shares=plan.scale.shares, seed=plan.seed)
    made = {"all": whole} | {n: splits.narrowed(store, whole, tags=[f"family:{FAMILIES[n]}"]) for n in plan.sets}
    for name, split in made.items():
        stages.split(name).parent.mkdir(exist_ok=True)
        splits.write(split, stages.split(name))
    return commit
