"""Lanes of one box against boxes of their own: the same answers and the same workspaces, whatever one of them does."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from boxes import make

from rover.harness.tools.specs import WRITERS
from rover.sandbox.lanes import LaneBox
from rover.sandbox.protocol import CallResult, Runtime, Sandbox
from rover_store.errors import SandboxError
from rover_store.ids import blob_id
from rover_store.records import Limits

TOOL = "rover.harness.inside:tool"
START = {"data/orders.csv": b"id,city\n1,Bern\n2,Oslo\n", "notes.md": b"# notes\n", "same": b"1", "also/same": b"1"}
LIMITS = Limits(wall_s=10, cpu_s=5, memory_bytes=256 << 20, disk_bytes=4 << 20, inodes=400, file_bytes=1 << 20)


@pytest.fixture(scope="module", params=["bubblewrap", "docker", "local"])
def kind(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    made = make(request.param)
    yield made
    made.close()


@pytest.fixture
def lanes(kind: Runtime) -> Iterator[LaneBox]:
    with LaneBox(kind, writes=lambda payload: payload["tool"] in WRITERS) as made:
        yield made


class Others:
    """Lanes that are asked together: each call gets one answer a lane."""

    def __init__(self, lanes: LaneBox, count: int, limits: Limits = LIMITS) -> None:
        self.lanes = lanes
        self.boxes: list[Any] = [lanes.sandbox(n, lambda request, n=n: self._alone(n, request)) for n in range(count)]
        for box in self.boxes:
            box.reset(START, limits=limits)

    def _alone(self, number: int, request: Any) -> Any:
        answer = self.lanes.serve([(number, request)])[number]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def all(self, payloads: dict[int, dict[str, Any]]) -> dict[int, CallResult]:
        """One rendezvous."""
        asked = [(n, self.lanes.call_of(n, TOOL, payload, None)) for n, payload in sorted(payloads.items())]
        return self.lanes.serve(asked)


def use(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"tool": tool, "arguments": arguments, "output_bytes": 1 << 16}


def said(result: CallResult) -> Any:
    return result.value["output"] if isinstance(result.value, dict) else (result.breach, result.error)


def told(result: CallResult) -> tuple[Any, ...]:
    """All of a result that a rollout records."""
    return result.value, result.error, result.breach


PATHS = ["data/orders.csv", "notes.md", "new.csv", "deep/er/file.txt", "data", "also/same", "./a/../b.txt", "ü/ß.csv"]
HOSTILE = [
    "../lane-0/notes.md", "/w/lane-0/notes.md", "lane-0/notes.md", "..", "/", "/w", "/w/..", "data/../../lane-1/x",
    "/etc/passwd", "/proc/self/cwd/../lane-0/notes.md", "../starts", "/w/notes.md", "~/x", "a\0b", "x/" * 600 + "y",
    "n" * 300, ".git/config", "//w/notes.md", "/w/./data/orders.csv", "-", " ", "../w/notes.md",
]  # fmt: skip


def drawn(rng: random.Random, outside: bool) -> dict[str, Any]:
    path = rng.choice(PATHS + HOSTILE if outside else PATHS)
    row = [str(rng.randrange(4)), rng.choice(["Bern", "Rome", ""])]
    return rng.choice(
        [
            use("list_files"),
            use("list_files", path=path),
            use("read_file", path=path),
            use("read_table", path="data/orders.csv", where={"city": row[1]}),
            use("read_table", path=path),
            use("write_file", path=path, content=rng.choice(["", "one\n", "two\n"])),
            use("delete_file", path=path),
            use("write_table", path=path, columns=["id", "city"], rows=[row]),
            use("edit_table", path="data/orders.csv", where={"id": row[0]}, set={"city": row[1]}),
        ]
    )


@pytest.mark.parametrize("seed", range(2))
def test_lanes_answer_and_hold_what_boxes_of_their_own_do(lanes: LaneBox, kind: Runtime, seed: int) -> None:
    rng = random.Random(seed)
    confined = kind.kind != "local"  # there every call starts Python, and `/w` is no path of the workspace
    count, length = (4, 12) if confined else (2, 4)
    together = Others(lanes, count)
    turns = [{n: drawn(rng, confined) for n in range(count) if rng.random() < 0.8} for _ in range(length)]
    answers: dict[int, list[Any]] = {n: [] for n in range(count)}
    for turn in turns:
        if not turn:
            continue
        for n, result in together.all(turn).items():
            shot = together.boxes[n].snapshot() if turn[n]["tool"] in WRITERS else None
            answers[n].append((told(result), shot and (dict(shot.entries), shot.refused)))
    for n in range(count):
        with own_box(kind) as own:
            expected = []
            for turn in turns:
                if n in turn:
                    result = own.call(TOOL, turn[n])
                    shot = own.snapshot() if turn[n]["tool"] in WRITERS else None
                    expected.append((told(result), shot and (dict(shot.entries), shot.refused)))
        assert answers[n] == expected


@contextmanager
def own_box(kind: Runtime) -> Iterator[Sandbox]:
    """A box for one lane alone."""
    box = kind.open(START, limits=LIMITS)
    yield box
    box.close()


def test_no_tool_reaches_another_lane(lanes: LaneBox, kind: Runtime) -> None:
    together = Others(lanes, 7)
    secret = "a,b\nthe other lane's,1\n"
    together.boxes[0].call(TOOL, use("write_file", path="secret.csv", content=secret))
    before = together.boxes[0].snapshot().entries
    names = [name for path in HOSTILE for name in dict.fromkeys((path, path.replace("notes.md", "secret.csv")))]
    for name in names if kind.kind != "local" else names[:6]:
        calls = [
            use("read_file", path=name),
            use("list_files", path=name),
            use("read_table", path=name),
            use("write_file", path=name, content="mine"),
            use("edit_table", path=name, where={"a": "the other lane's"}, set={"b": "2"}),
            use("delete_file", path=name),
        ]
        got = together.all(dict(enumerate(calls, 1)))
        assert not [result for result in got.values() if "the other lane's" in str(result.value)]
    assert said(together.boxes[0].call(TOOL, use("read_file", path="secret.csv"))) == secret
    together.boxes[0].call(TOOL, use("delete_file", path="nothing"))  # is scanned, as after any write
    assert together.boxes[0].snapshot().entries == before


def test_a_breach_is_that_lanes_alone(lanes: LaneBox, kind: Runtime) -> None:
    together = Others(lanes, 3)
    together.all({n: use("write_file", path="mine.txt", content=f"{n}") for n in range(3)})
    large = use("write_file", path="large.txt", content="x" * (2 << 20))  # over the limit on one file
    with own_box(kind) as own:
        own.call(TOOL, use("write_file", path="mine.txt", content="1"))
        expected, after = own.call(TOOL, large), own.snapshot().entries
    got = together.all({0: use("read_file", path="mine.txt"), 1: large, 2: use("delete_file", path="mine.txt")})
    assert (said(got[0]), got[2].value["status"]) == ("0", "ok")
    assert told(got[1]) == told(expected)
    assert together.boxes[1].snapshot().entries == after
    assert "mine.txt" not in together.boxes[2].snapshot().entries
    again = together.all({n: use("list_files") for n in range(3)})
    assert ["mine.txt" in said(again[n]) for n in range(3)] == [True, True, False]


def test_a_workspace_that_grows_has_its_own_limits(lanes: LaneBox, kind: Runtime) -> None:
    if kind.kind == "local":
        pytest.skip("it has no limit on the size of a workspace")
    together = Others(lanes, 2)
    with own_box(kind) as own:
        for number in range(6):
            call = use("write_file", path=f"{number}.txt", content="x" * (900 << 10))
            got = together.all({0: call, 1: use("write_file", path="small", content=str(number))})
            assert (told(got[0]), got[1].value["status"]) == (told(own.call(TOOL, call)), "ok")
            assert together.boxes[0].snapshot().entries == own.snapshot().entries
    assert got[0].value["status"] == "error"


def test_a_command_gets_its_own_box_with_all_that_was_done(lanes: LaneBox, kind: Runtime) -> None:
    together = Others(lanes, 2)
    together.all({n: use("write_file", path="mine.txt", content=f"lane {n}\n") for n in range(2)})
    done = together.boxes[0].run(["sh", "-c", "cat mine.txt; ls ..; ln -s mine.txt link; echo more >> mine.txt"])
    assert done.stdout.splitlines()[0] == b"lane 0"
    assert b"lane-1" not in done.stdout
    entries = together.boxes[0].snapshot().entries
    assert (entries["link"].kind, entries["mine.txt"].blob) == ("link", blob_id(b"lane 0\nmore\n"))
    got = together.all({n: use("read_file", path="mine.txt") for n in range(2)})
    assert [said(got[n]) for n in range(2)] == ["lane 0\nmore\n", "lane 1\n"]
    together.boxes[0].reset(START, limits=LIMITS)
    assert "mine.txt" not in said(together.boxes[0].call(TOOL, use("list_files")))


def test_a_box_that_dies_costs_no_lane_its_work(lanes: LaneBox) -> None:
    together = Others(lanes, 2)
    together.all({n: use("write_file", path="mine.txt", content=f"lane {n}\n") for n in range(2)})
    assert lanes._box is not None
    lanes._box.close()
    got = together.all({n: use("read_file", path="mine.txt") for n in range(2)})
    assert [said(got[n]) for n in range(2)] == ["lane 0\n", "lane 1\n"]


def test_a_snapshot_has_the_bytes_of_what_is_new(lanes: LaneBox) -> None:
    box = Others(lanes, 1).boxes[0]
    box.call(TOOL, use("write_file", path="new.txt", content="new"))
    box.call(TOOL, use("write_file", path="copy.md", content="# notes\n"))
    first, second = box.snapshot(), box.snapshot()
    assert first.new == {blob_id(b"new"): b"new"}
    assert (second.new, second.entries) == ({}, first.entries)
    assert list(first.entries) == sorted([*START, "copy.md", "new.txt"])


def test_closed_lanes_say_so(kind: Runtime) -> None:
    lanes = LaneBox(kind)
    box = Others(lanes, 1).boxes[0]
    box.call(TOOL, use("list_files"))
    lanes.close()
    with pytest.raises(SandboxError, match="closed"):
        box.call(TOOL, use("list_files"))
