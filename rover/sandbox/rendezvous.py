"""Lanes: threads that run side by side and wait together, so that what they ask for can be answered in batches.

A lane asks and waits. When no lane is running, the first kind of request that anybody waits for is answered: its
handler gets every pending request of that kind, sorted by lane. So which requests meet in a batch depends on what
the lanes ask alone, never on how fast their threads are: same lanes, same batches.

Handlers run in the thread that drives, one at a time. What a handler raises, every lane that waits for that kind
gets; what it answers with an exception, that one lane gets. An interrupt of the driving thread ends all lanes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

#: gets every pending request of its kind as (lane, payload), sorted by lane; answers at least one of them. An answer
#: that is an exception is raised in that lane.
Handler = Callable[[list[tuple[int, Any]]], dict[int, Any]]


class Abandoned(BaseException):  # like an interrupt: no lane may take it for an error of its own
    """The lanes were told to end."""


class _Here(threading.local):
    """Which lane of which rendezvous this thread is."""

    rendezvous: Rendezvous | None = None
    lane = -1


_here = _Here()


def current() -> Rendezvous | None:
    """The rendezvous that this thread is a lane of."""
    return _here.rendezvous


def ask(kind: str, payload: Any) -> Any:
    """Ask at the rendezvous that this thread is a lane of, and wait for the answer."""
    if _here.rendezvous is None:
        raise RuntimeError(f"{kind} was asked for by a thread that is no lane")
    return _here.rendezvous.ask(kind, payload)


class _Seat:
    """Where one lane waits."""

    def __init__(self) -> None:
        self.kind = ""
        self.payload: Any = None
        self.answer: Any = None
        self.waits = False  # from the question until the lane itself goes on
        self.ready = threading.Semaphore(0)


class Rendezvous:
    """Some lanes, and the handlers by kind of request: of two kinds that are waited for, the first one is served.

    `expect` the lanes, start their threads, each inside `lane(k)`, and `drive`.
    """

    def __init__(self, handlers: Sequence[tuple[str, Handler]]) -> None:
        self._handlers = dict(handlers)
        self._lock = threading.Condition(threading.Lock())
        self._seats: dict[int, _Seat] = {}
        self._running: set[int] = set()
        self._ended: BaseException | None = None

    def expect(self, lanes: Iterable[int]) -> None:
        """Count these lanes as running from now on, before their threads have started."""
        with self._lock:
            for lane in lanes:
                if lane in self._seats:
                    raise ValueError(f"lane {lane} is there already")
                self._seats[lane] = _Seat()
                self._running.add(lane)

    @contextmanager
    def lane(self, lane: int) -> Iterator[None]:
        """This thread is the lane while the block runs. A lane that was not expected is counted from here on."""
        if lane not in self._seats:
            self.expect([lane])
        _here.rendezvous, _here.lane = self, lane
        try:
            yield
        finally:
            _here.rendezvous = None
            self.leave(lane)

    def leave(self, lane: int) -> None:
        """A lane is over, or its thread never came to be."""
        with self._lock:
            self._seats.pop(lane, None)
            self._running.discard(lane)
            self._lock.notify_all()

    def ask(self, kind: str, payload: Any) -> Any:
        """The handler's answer for this thread's lane; waits until it is its turn."""
        lane = _here.lane
        if _here.rendezvous is not self:
            raise RuntimeError(f"{kind} was asked for by a thread that is no lane")
        if kind not in self._handlers:
            raise LookupError(f"nothing here answers {kind!r}; there are {', '.join(self._handlers) or 'no handlers'}")
        with self._lock:
            if self._ended is not None:
                raise Abandoned from self._ended
            seat = self._seats[lane]
            seat.kind, seat.payload, seat.waits = kind, payload, True
            self._running.discard(lane)
            if not self._running:
                self._lock.notify_all()
        seat.ready.acquire()
        seat.waits = False
        answer, seat.answer = seat.answer, None
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def drive(self, ending: Callable[[], None] = lambda: None) -> None:
        """Answer until every lane has left.

        An interrupt ends all lanes: each is raised Abandoned where it waits or at its next request, and when all have
        left the interrupt goes on. `ending` is called first: it cancels what lanes wait for elsewhere.
        """
        try:
            while self._wait():
                self._serve(*self._pending())
        except BaseException as error:
            self.abandon(error)
            ending()
            while self._wait():
                pass  # what still runs finds out when it asks
            raise

    def abandon(self, why: BaseException) -> None:
        """End all lanes: those that wait are woken with Abandoned, the others get it at their next request.

        An interrupt may have come in the midst of answering: a lane that has its answer and sleeps on waits as well.
        """
        with self._lock:
            self._ended = self._ended or why
            self._answer({lane: Abandoned() for lane, seat in self._seats.items() if seat.waits})

    def _wait(self) -> bool:
        """Wait until no lane is running; False where none is left."""
        with self._lock:
            while self._running:
                self._lock.wait()
            return bool(self._seats)

    def _pending(self) -> tuple[str, list[tuple[int, Any]]]:
        with self._lock:
            for kind in self._handlers:
                found = [(k, seat.payload) for k, seat in sorted(self._seats.items()) if seat.kind == kind]
                if found:
                    return kind, found
        raise RuntimeError("lanes wait for nothing")  # unreachable: who is not running waits for a kind

    def _serve(self, kind: str, pending: list[tuple[int, Any]]) -> None:
        answers: dict[int, Any]
        try:
            answers = self._handlers[kind](pending)
            lanes = {lane for lane, _ in pending}
            if not answers or not answers.keys() <= lanes:
                raise RuntimeError(f"the handler of {kind!r} answered {sorted(answers)} of {sorted(lanes)}")
        except Exception as error:
            answers = {lane: error for lane, _ in pending}
        with self._lock:
            self._answer(answers)

    def _answer(self, answers: Mapping[int, Any]) -> None:
        """Wake lanes with their answers. The lock is held, so that no lane is half woken when another one asks."""
        for lane, answer in answers.items():
            seat = self._seats[lane]
            seat.kind, seat.payload, seat.answer = "", None, answer
            self._running.add(lane)
            seat.ready.release()
