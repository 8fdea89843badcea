"""Lanes in lockstep: batches depend on what is asked alone, nothing deadlocks, errors reach whom they concern."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rover.sandbox.rendezvous import Abandoned, Handler, Rendezvous, ask, current

KINDS = ("tools", "act")
Told = dict[int, list[Any]]


def ran(
    scripts: dict[int, list[str]], handlers: list[tuple[str, Handler]], *, pause: float = 0.0, seed: int = 0
) -> Told:
    """What each lane was answered, one thread a lane; each sleeps for random times."""
    meeting = Rendezvous(handlers)
    told: Told = {lane: [] for lane in scripts}

    def lane(number: int) -> None:
        rng = random.Random(seed * 1000 + number)
        with meeting.lane(number):
            for kind in scripts[number]:
                if pause:
                    time.sleep(rng.random() * pause)
                try:
                    told[number].append(ask(kind, (number, len(told[number]))))
                except ArithmeticError as error:
                    told[number].append(error)

    meeting.expect(scripts)
    threads = [threading.Thread(target=lane, args=(number,)) for number in scripts]
    for thread in threads:
        thread.start()
    meeting.drive()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    return told


class Log:
    """Handlers that note their batches; `tools` answers all, `act` those that a rule chooses."""

    def __init__(self, chosen: Callable[[list[int]], list[int]] = lambda lanes: lanes) -> None:
        self.batches: list[tuple[str, list[tuple[int, Any]]]] = []
        self._chosen = chosen

    def tools(self, pending: list[tuple[int, Any]]) -> dict[int, Any]:
        self.batches.append(("tools", pending))
        return {lane: ("done", payload) for lane, payload in pending}

    def act(self, pending: list[tuple[int, Any]]) -> dict[int, Any]:
        self.batches.append(("act", pending))
        chosen = self._chosen([lane for lane, _ in pending])
        return {lane: ("acted", payload) for lane, payload in pending if lane in chosen}

    def handlers(self) -> list[tuple[str, Handler]]:
        return [("tools", self.tools), ("act", self.act)]


scripts = st.dictionaries(st.integers(0, 12), st.lists(st.sampled_from(KINDS), max_size=6), max_size=8)


@settings(max_examples=60, deadline=None)
@given(scripts, st.integers(0, 3), st.booleans())
def test_batches_follow_from_what_is_asked(lanes: dict[int, list[str]], seed: int, half: bool) -> None:
    def first_half(pending: list[int]) -> list[int]:
        return pending[: (len(pending) + 1) // 2] if half else pending

    quick, slow = Log(first_half), Log(first_half)
    told = ran(lanes, quick.handlers())
    assert told == ran(lanes, slow.handlers(), pause=0.0005, seed=seed)
    assert quick.batches == slow.batches
    for lane, kinds in lanes.items():
        assert told[lane] == [("done" if kind == "tools" else "acted", (lane, n)) for n, kind in enumerate(kinds)]
    for kind, pending in quick.batches:
        assert [lane for lane, _ in pending] == sorted(lane for lane, _ in pending)
        assert kind in KINDS


def test_a_lane_that_waits_for_a_tool_is_served_before_any_acts() -> None:
    log = Log()
    ran({0: ["act"], 1: ["tools", "act"], 2: ["tools"]}, log.handlers())
    assert [(kind, [lane for lane, _ in pending]) for kind, pending in log.batches] == [
        ("tools", [1, 2]),
        ("act", [0, 1]),
    ]


def test_what_a_handler_raises_every_waiting_lane_gets_and_goes_on() -> None:
    def act(pending: list[tuple[int, Any]]) -> dict[int, Any]:
        raise ZeroDivisionError("no model")

    told = ran({0: ["act", "tools"], 1: ["act"]}, [("tools", Log().tools), ("act", act)])
    assert [type(told[0][0]), told[0][1], type(told[1][0])] == [
        ZeroDivisionError,
        ("done", (0, 1)),
        ZeroDivisionError,
    ]


def test_an_answer_that_is_an_exception_is_raised_in_its_lane_alone() -> None:
    def act(pending: list[tuple[int, Any]]) -> dict[int, Any]:
        return {lane: OverflowError("window") if lane == 1 else "fine" for lane, _ in pending}

    told = ran({0: ["act"], 1: ["act"]}, [("act", act)])
    assert told[0] == ["fine"]
    assert type(told[1][0]) is OverflowError


@pytest.mark.parametrize("answers", [{}, {7: "for nobody"}])
def test_a_handler_that_answers_nobody_is_an_error_and_no_endless_loop(answers: dict[int, Any]) -> None:
    meeting = Rendezvous([("act", lambda pending: answers)])
    failed: list[str] = []

    def lane() -> None:
        with meeting.lane(0):
            try:
                meeting.ask("act", 1)
            except RuntimeError as error:
                failed.append(str(error))

    meeting.expect([0])
    thread = threading.Thread(target=lane)
    thread.start()
    meeting.drive()
    thread.join(5)
    assert failed == [f"the handler of 'act' answered {sorted(answers)} of [0]"]


def test_a_lane_that_dies_holds_nobody_up() -> None:
    meeting = Rendezvous(Log().handlers())
    told: list[Any] = []

    def dies() -> None:
        try:
            with meeting.lane(0):
                raise KeyError("the policy broke")
        except KeyError:
            pass

    def lives() -> None:
        with meeting.lane(1):
            told.append(ask("act", 5))

    meeting.expect([0, 1, 2])
    meeting.leave(2)  # its thread could not be started
    threads = [threading.Thread(target=dies), threading.Thread(target=lives)]
    for thread in threads:
        thread.start()
    meeting.drive()
    for thread in threads:
        thread.join(5)
    assert told == [("acted", 5)]


def test_an_interrupt_ends_all_lanes_and_goes_on() -> None:
    ended: list[int] = []
    cancelled = threading.Event()

    def act(pending: list[tuple[int, Any]]) -> dict[int, Any]:
        raise KeyboardInterrupt

    meeting = Rendezvous([("tools", Log().tools), ("act", act)])

    def lane(number: int) -> None:
        with meeting.lane(number):
            try:
                if number == 2:
                    ask("tools", 0)
                    cancelled.wait(5)  # elsewhere when the interrupt comes: finds out at its next request
                try:
                    ask("act", 0)
                except Exception:  # as a policy would
                    ask("act", 0)
            except Abandoned:
                ended.append(number)
                raise

    def guarded(number: int) -> None:
        with contextlib.suppress(Abandoned):
            lane(number)

    meeting.expect(range(3))
    threads = [threading.Thread(target=guarded, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    threading.Timer(0.05, cancelled.set).start()
    with pytest.raises(KeyboardInterrupt):
        meeting.drive(ending=cancelled.set)
    for thread in threads:
        thread.join(5)
    assert sorted(ended) == [0, 1, 2]


class Interrupted(threading.Semaphore):
    """The interrupt comes just before the first one who waits is woken."""

    def __init__(self) -> None:
        super().__init__(0)
        self.came = False

    def release(self, n: int = 1) -> None:
        if not self.came:
            self.came = True
            raise KeyboardInterrupt
        super().release(n)


def test_an_interrupt_in_the_midst_of_answers_leaves_nobody_asleep() -> None:
    meeting = Rendezvous(Log().handlers())
    ended: list[object] = []

    def lane(number: int) -> None:
        with contextlib.suppress(Abandoned), meeting.lane(number):
            try:
                while True:
                    ask("act", number)
            except Abandoned:
                ended.append(number)
                raise

    def drive() -> None:
        try:
            meeting.drive()
        except KeyboardInterrupt as error:
            ended.append(type(error))

    meeting.expect([0, 1])
    meeting._seats[0].ready = Interrupted()
    threads = [threading.Thread(target=lane, args=(n,), daemon=True) for n in range(2)]
    threads.append(threading.Thread(target=drive, daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert sorted(map(str, ended)) == ["0", "1", "<class 'KeyboardInterrupt'>"]


def test_who_is_no_lane_is_told_so() -> None:
    assert current() is None
    with pytest.raises(RuntimeError, match="by a thread that is no lane"):
        ask("tools", 1)
    meeting = Rendezvous([("tools", Log().tools)])
    with meeting.lane(3):
        assert current() is meeting
        with pytest.raises(LookupError, match="nothing here answers 'act'; there are tools"):
            meeting.ask("act", 1)
        with pytest.raises(ValueError, match="lane 3 is there already"):
            meeting.expect([3])
