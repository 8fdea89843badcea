"""Pilot rollouts before RL: what varies and is graded consistently is kept, anything else has its reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from packages import REPORT, runtime, summary_package, summary_resources, with_checks
from store_samples import new_store

from rover.policy.protocol import Action, PolicyView, Session
from rover.sandbox.protocol import Runtime
from rover_store.errors import ProviderError, UsageError
from rover_store.layout import PackageEntry
from rover_store.records import Call, Split, SplitPart, ToolCall
from rover_store.store import Store
from rover_train.dataset.consistency import ConsistencySettings, consistency, filtered

FICKLE = """
import time

import rover_checks as rc


def rows(ev):
    return 1.0 if ev.end("report.csv").exists() and time.time() < {} else 0.0
"""
CRASHING = "def rows(ev):\n    raise RuntimeError('broken')\n"


class Sometimes:
    """Writes the right report for some seeds, nothing for the others. A policy."""

    attacker = False

    def __init__(self, share: int) -> None:
        self.share = share
        self.id = f"sometimes:{share}"

    def start(self, view: PolicyView, seed: int) -> Session:
        return _Session(seed % 10 < self.share)


class _Session:
    def __init__(self, works: bool) -> None:
        self._works = works

    def act(self, results: tuple[Call, ...], *, deadline_s: float) -> Action:
        if results or not self._works:
            return Action(message="Wrote report.csv.")
        report = {"path": "report.csv", "content": REPORT.decode()}
        return Action((ToolCall(id="1", tool="write_file", arguments=report),))

    def close(self) -> None:
        pass


class Unreachable:
    """A policy whose server is gone."""

    attacker = False
    id = "unreachable"

    def start(self, view: PolicyView, seed: int) -> Session:
        return _Gone()


class _Gone:
    def act(self, results: tuple[Call, ...], *, deadline_s: float) -> Action:
        raise ProviderError("http://127.0.0.1:9: connection refused")

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def box() -> Iterator[Runtime]:
    made = runtime()
    yield made
    made.close()  # type: ignore[attr-defined]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    import time

    store = new_store(tmp_path / "s")
    with store.write("test") as tx:
        tx.set_resource("files/orders", tx.tree(summary_resources()["files/orders"]))
        soon = int(time.time()) + 20 * 86_400
        for files, name in (
            (summary_package("sound"), "sound"),
            (with_checks(FICKLE.format(soon), ("rows",), "fickle"), "fickle"),
            (with_checks(CRASHING, ("rows",), "crashing"), "crashing"),
        ):
            tx.set_package(name, tx.tree(files))
        tx.commit("packages")
    return store


def test_what_is_kept_and_why_not_the_rest(store: Store, box: Runtime) -> None:
    def policy(entry: PackageEntry) -> Sometimes:
        return Sometimes(5)

    settings = ConsistencySettings(attempts=8)
    found = consistency(store, box, "HEAD", None, policy, settings=settings, workers=1)
    tasks = {task.package: task for task in found.tasks}
    assert found.kept == ("sound",)
    assert {name: task.reason for name, task in tasks.items()} == {
        "sound": "", "fickle": "inconsistent", "crashing": "verifier_error",
    }  # fmt: skip
    assert (tasks["sound"].rollouts, tasks["sound"].errors, tasks["sound"].regraded) == (8, 0, 2)
    assert 0 < tasks["sound"].passed < 8
    assert tasks["crashing"].rollouts == 0
    assert (found.policy, found.revision) == ("sometimes:5", store.resolve())
    ran = list(store.evidence.ids())
    assert consistency(store, box, "HEAD", None, policy, settings=settings, workers=1) == found
    assert list(store.evidence.ids()) == ran


@pytest.mark.parametrize(("share", "reason"), [(10, "always"), (0, "tied")])
def test_tied_groups_teach_nothing(store: Store, box: Runtime, share: int, reason: str) -> None:
    found = consistency(store, box, "HEAD", ["sound"], lambda entry: Sometimes(share), workers=1)
    assert [(task.kept, task.reason) for task in found.tasks] == [(False, reason)]
    split = Split(
        revision=found.revision, train=SplitPart(packages=("sound",)), validation=SplitPart(), held_out=SplitPart()
    )
    with pytest.raises(UsageError, match="no task was kept"):
        filtered(split, found)


def test_a_reward_of_ones_own(store: Store, box: Runtime) -> None:
    found = consistency(
        store, box, "HEAD", ["sound"], lambda entry: Sometimes(5), workers=1,
        settings=ConsistencySettings(attempts=8), reward=lambda verdict: 0.0,
    )  # fmt: skip
    assert found.tasks[0].reason == "never"


def test_a_server_that_is_gone_ends_the_pilot(store: Store, box: Runtime) -> None:
    seen: list[str] = []
    with pytest.raises(ProviderError, match=r"none of \d+ pilot rollouts came to an end: .*connection refused"):
        consistency(
            store, box, store.resolve("HEAD"), None, lambda entry: Unreachable(),
            told=lambda task, done, total: seen.append(task.package),
        )  # fmt: skip
    assert seen == []
