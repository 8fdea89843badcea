"""What every sandbox must do: run, call, snapshot, reset, limits of time and output, errors as data."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from boxes import START

from rover.sandbox import runtime_id
from rover.sandbox.box import BubblewrapSandbox
from rover.sandbox.docker.box import DockerSandbox
from rover.sandbox.pool import Pool
from rover.sandbox.protocol import Completed, Runtime, Sandbox
from rover.sandbox.registry import kinds, make_runtime
from rover_store.errors import SandboxError, UsageError
from rover_store.ids import blob_id
from rover_store.records import Limits


def sh(box: Sandbox, text: str, **more: Any) -> Completed:
    return box.run(["sh", "-c", text], **more)


def contents(box: Sandbox) -> dict[str, str]:
    return {path: entry.blob for path, entry in box.snapshot().entries.items()}


START_IDS = {path: blob_id(data) for path, data in START.items()}


def test_protocols_hold(runtime: Runtime, box: Sandbox) -> None:
    assert isinstance(runtime, Runtime)
    assert isinstance(box, Sandbox)
    probe = runtime.probe()
    assert probe.works
    assert set(probe.unmet) == set(getattr(runtime, "unmet", probe.unmet)), "known before it is probed"
    assert probe.kind == "docker" or probe.unmet, "without cgroups no runtime gives every guarantee"
    assert len(runtime.runtime_id()) == 64
    assert runtime.runtime_id() == runtime.runtime_id()


# --- commands ------------------------------------------------------------------------------------------------
def test_command_streams_and_code(box: Sandbox) -> None:
    done = sh(box, "cat a/b.txt; echo oops >&2; exit 3")
    assert (done.exit_code, done.stdout, done.stderr, done.breach) == (3, b"hello\n", b"oops\n", None)
    assert done.wall_s > 0


def test_command_reads_stdin_and_environment(box: Sandbox) -> None:
    data = bytes(range(256)) * 5000
    assert box.run(["cat"], stdin=data, limits=Limits(output_bytes=2 << 20)).stdout == data
    assert sh(box, "cat; echo $A-$ROVER_W", env={"A": "1"}).stdout.startswith(b"1-/")


def test_no_stdin_is_an_empty_one(box: Sandbox) -> None:
    assert box.run(["wc", "-c"]).stdout.strip() == b"0"


@pytest.mark.parametrize(
    ("argv", "code"), [(["nothing-of-this-name"], 127), (["./a/b.txt"], 126), (["sh", "-c", "kill -9 $$"], 137)]
)
def test_codes_of_a_shell(box: Sandbox, argv: list[str], code: int) -> None:
    done = box.run(argv)
    assert (done.exit_code, done.breach) == (code, None)


def test_python_with_libraries_is_on_the_path(box: Sandbox) -> None:
    done = box.run(["python3", "-c", "import openpyxl, pandas; print(pandas.__name__)"], limits=Limits())
    assert done.stdout == b"pandas\n", done.stderr


@pytest.mark.parametrize("argv", [[], [""], ["true", "null\0byte"], ["true", "\ud800"], ["true", "x" * 300_000]])
def test_what_is_no_command_is_data(box: Sandbox, argv: list[str]) -> None:
    done = box.run(argv)
    assert done.exit_code in (126, 127)
    assert done.stderr.endswith(b"\n")


def test_arguments_are_not_touched_by_a_shell(box: Sandbox) -> None:
    words = ["a b", "$HOME", "'", "é\n"]
    assert box.run(["printf", "%s|", *words]).stdout.decode() == "a b|$HOME|'|é\n|"


def test_wall_limit(box: Sandbox) -> None:
    started = time.monotonic()
    done = sh(box, "echo before; sleep 30", limits=Limits(wall_s=0.3))
    assert (done.exit_code, done.stdout, done.breach) == (None, b"before\n", "wall")
    assert time.monotonic() - started < 3


def test_output_limit_cuts_and_kills(box: Sandbox) -> None:
    done = sh(box, "yes", limits=Limits(output_bytes=1000))
    assert (done.exit_code, done.breach, len(done.stdout)) == (None, "output", 1000)
    assert sh(box, "printf 1234", limits=Limits(output_bytes=4)).breach is None


def test_background_process_does_not_hold_the_command_up(box: Sandbox) -> None:
    started = time.monotonic()
    done = sh(box, "sleep 20 & echo started")
    assert (done.exit_code, done.stdout) == (0, b"started\n")
    assert time.monotonic() - started < 3


# --- calls ---------------------------------------------------------------------------------------------------
def test_call_gives_value(box: Sandbox) -> None:
    assert sorted(box.call("os:listdir", ".").value) == ["a", "same1", "same2", "z z"]
    assert box.call("json:dumps", {"a": [1, None, "é"]}).value == '{"a": [1, null, "\\u00e9"]}'


def test_call_errors_are_data(box: Sandbox) -> None:
    failed = box.call("os:listdir", "nowhere")
    assert failed.error.startswith("FileNotFoundError: ")
    assert "Traceback" in failed.traceback
    assert "no_such_module" in box.call("no_such_module:f", None).error
    assert "no_such_function" in box.call("os:no_such_function", None).error
    assert "value" in box.call("os:_exit", 3).error
    assert box.call("os:abort", None).error


def test_call_value_that_is_no_json(box: Sandbox) -> None:
    assert "JSON" in box.call("builtins:set", [1]).error


def test_call_streams_are_kept_apart_from_the_value(box: Sandbox) -> None:
    result = box.call("builtins:print", "hello")
    assert (result.value, result.error, result.stdout) == (None, "", b"hello\n")


def test_call_may_change_the_workspace(box: Sandbox) -> None:
    assert box.call("os:mkdir", "new").error == ""
    assert box.call("os:removedirs", "new").error == ""
    assert box.call("os:remove", "same1").error == ""
    assert "same1" not in box.snapshot().entries


def test_call_wall_limit(box: Sandbox) -> None:
    assert box.call("time:sleep", 30, limits=Limits(wall_s=0.5)).breach == "wall"
    assert box.call("os:listdir", ".").error == ""


def test_call_output_limit(box: Sandbox) -> None:
    result = box.call("builtins:print", "x" * 100_000, limits=Limits(output_bytes=1000))
    assert (result.breach, len(result.stdout)) == ("output", 1000)


# --- snapshots and resets ------------------------------------------------------------------------------------
def test_snapshot_of_the_start(box: Sandbox) -> None:
    found = box.snapshot()
    assert {p: e.blob for p, e in found.entries.items()} == START_IDS
    assert list(found.entries) == sorted(found.entries)
    assert found.entries["a/b.txt"].size == 6
    assert (found.new, found.refused) == ({}, {}), "the host has the bytes of the start"


def test_snapshot_gives_new_bytes_once(box: Sandbox) -> None:
    sh(box, "printf new > n; printf new > n2; printf 1 > n3")
    first = box.snapshot()
    assert first.new == {blob_id(b"new"): b"new"}
    assert {p: e.blob for p, e in first.entries.items()} == START_IDS | {
        "n": blob_id(b"new"),
        "n2": blob_id(b"new"),
        "n3": blob_id(b"1"),
    }
    assert box.snapshot().new == {}


CHANGES = {
    "overwrite": "echo other > a/b.txt",
    "append": "echo more >> a/b.txt",
    "same bytes": "cat a/b.txt > t; cat t > a/b.txt; rm t",
    "delete": "rm a/b.txt",
    "delete a folder": "rm -r a",
    "delete all": "rm -rf * .[!.]*",
    "folder put back": "rm -r a; mkdir a; echo q > a/q",
    "file to folder": "rm same1; mkdir same1; echo 1 > same1/x",
    "folder to file": "rm -r a; echo 1 > a",
    "rename a file": "mv a/b.txt b2",
    "rename a folder": "mv a/c a/e && mv a a2",
    "swap equal files": "mv same1 same2",
    "copy over an equal file": "cp same1 same2",
    "executable": "chmod +x same1; printf '#!/bin/sh' > run; chmod 755 run",
    "no rights": "chmod 000 a/b.txt a/c",
    "empty folder": "mkdir -p e/f/g",
    "links": "ln -s a/b.txt l; ln -s /etc/passwd out; ln -s a d; ln same1 hard",
    "link over a file": "ln -sf /etc/shadow same1",
    "hidden": "mkdir .git; echo x > .git/config; echo y > .wh.same1",
    "newline and unicode": "printf 1 > 'n\newline'; printf 2 > 'ü 😀'",
    "large": "head -c 3000000 /dev/zero > big",
}


@pytest.mark.parametrize("change", list(CHANGES))
def test_snapshot_sees_every_change_and_reset_undoes_it(
    runtime: Runtime, box: Sandbox, change: str, tmp_path: Path
) -> None:
    """The snapshot agrees with what the same commands leave in a plain folder, and a reset is exact."""
    if change == "no rights" and runtime.kind == "local" and os.geteuid() != 0:
        pytest.skip("the plain runtime has no more rights than its user")
    expected = plain(CHANGES[change] if change != "no rights" else "true", tmp_path)
    done = sh(box, CHANGES[change])
    assert (done.exit_code, done.stderr) == (0, b"")
    found = box.snapshot()
    assert {p: (e.blob, e.kind) for p, e in found.entries.items()} == expected
    assert not found.refused
    box.reset()
    assert contents(box) == START_IDS
    done = sh(box, "find . -type d | sort; cat a/b.txt; find . ! -perm -u+r")
    assert done.stdout == b".\n./a\n./a/c\nhello\n"


def plain(script: str, folder: Path) -> dict[str, tuple[str, str]]:
    """What a script leaves in a plain folder: path -> (blob id, kind)."""
    for path, data in START.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    subprocess.run(["sh", "-c", script], cwd=folder, check=True)
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = (blob_id(os.readlink(path).encode()), "link")
        elif path.is_file():
            found[name] = (blob_id(path.read_bytes()), "executable" if path.stat().st_mode & 0o100 else "file")
    return found


def test_reset_to_other_files(box: Sandbox) -> None:
    sh(box, "echo x > junk")
    other = {"only": b"this", "deep/er/file": b"\0\xff" * 1000}
    box.reset(other)
    assert contents(box) == {path: blob_id(data) for path, data in other.items()}
    sh(box, "rm only")
    box.reset()
    assert contents(box) == {path: blob_id(data) for path, data in other.items()}
    box.reset({})
    assert contents(box) == {}
    assert sh(box, "ls -A").stdout == b""


def test_many_files(box: Sandbox) -> None:
    many = {f"d{i % 7}/f{i}": str(i % 50).encode() for i in range(400)}
    box.reset(many)
    sh(box, "rm -r d3; echo 7 > d1/f1")
    expected = {p: blob_id(d) for p, d in many.items() if not p.startswith("d3/")} | {"d1/f1": blob_id(b"7\n")}
    assert contents(box) == expected
    box.reset()
    assert len(contents(box)) == 400


def test_refused_are_named_with_the_reason(box: Sandbox) -> None:
    script = "import os; os.mkfifo('fifo'); open(b'bad\\xff', 'w'); os.mkfifo('a/p')"
    assert box.run(["python3", "-c", script]).exit_code == 0
    found = box.snapshot()
    assert {p: e.blob for p, e in found.entries.items()} == START_IDS
    assert set(found.refused) == {"fifo", "a/p", "bad\\xff"}
    assert "UTF-8" in found.refused["bad\\xff"]
    box.reset()
    assert not box.snapshot().refused


@pytest.mark.parametrize("path", ["../x", "/abs", "a/../../x", "a//b", "", ".", "nul\0"])
def test_paths_of_a_start_state_stay_inside(box: Sandbox, path: str) -> None:
    with pytest.raises(SandboxError, match="not a path"):
        box.reset({path: b""})
    box.reset(START)
    assert contents(box) == START_IDS


def test_a_start_state_that_cannot_be(real_runtime: Runtime) -> None:
    box = real_runtime.open(START)
    with pytest.raises(SandboxError, match=r"exists|directory"):
        box.reset({"x": b"1", "x/y": b"2"})
    with pytest.raises(SandboxError, match="no start state"):
        box.reset()
    box.reset(START)
    assert contents(box) == START_IDS
    box.close()


# --- life and death ------------------------------------------------------------------------------------------
def test_closed_box_refuses(runtime: Runtime) -> None:
    box = runtime.open({})
    box.close()
    box.close()
    with pytest.raises(SandboxError, match="closed"):
        box.run(["true"])
    with pytest.raises(SandboxError, match="closed"):
        box.reset()


def test_boxes_are_apart(runtime: Runtime) -> None:
    first, second = runtime.open({"a": b"1"}), runtime.open({"a": b"2"})
    sh(first, "echo 3 > a; echo 4 > b")
    assert contents(second) == {"a": blob_id(b"2")}
    first.close()
    assert sh(second, "cat a").stdout == b"2"
    second.close()


def test_close_cancels_a_running_command(real_runtime: Runtime) -> None:
    box = real_runtime.open({})
    threading.Timer(0.2, box.close).start()
    done = box.run(["sleep", "20"])
    assert (done.exit_code, done.breach) == (None, "cancelled")


def test_pool_reuses_and_replaces(runtime: Runtime) -> None:
    with Pool(runtime, 1) as pool:
        with pool.box({"a": b"1"}) as first:
            sh(first, "echo x > junk")
        with pool.box({"b": b"2"}) as second:
            assert second is first
            assert contents(second) == {"b": blob_id(b"2")}
        with pytest.raises(ZeroDivisionError), pool.box({}) as third:
            raise ZeroDivisionError
        with pool.box({"c": b"3"}) as fourth:
            assert fourth is not third
            fourth.close()
        with pool.box({"d": b"4"}) as fifth:
            assert contents(fifth) == {"d": blob_id(b"4")}, "a box that died is replaced"
    with pytest.raises(SandboxError, match="closed"), pool.box({}):
        pass


def test_pool_is_shared_by_threads(runtime: Runtime) -> None:
    seen: list[dict[str, str]] = []

    def work(number: int) -> None:
        with pool.box({f"f{number}": b"%d" % number}) as box:
            sh(box, "cat f* > out")
            seen.append(contents(box))

    with Pool(runtime, 2) as pool:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    wanted = [{f"f{i}": blob_id(b"%d" % i), "out": blob_id(b"%d" % i)} for i in range(6)]
    assert sorted(seen, key=str) == sorted(wanted, key=str)


# --- choosing ------------------------------------------------------------------------------------------------
def test_local_is_only_had_by_name() -> None:
    assert make_runtime().kind == "bubblewrap"
    local = make_runtime("local").probe()
    assert local.tier == 0
    assert "network" in local.unmet
    assert set(kinds()) >= {"bubblewrap", "local"}
    with pytest.raises(UsageError, match="no sandbox of kind"):
        make_runtime("nothing")


def test_nothing_is_left_open(runtime: Runtime) -> None:
    runtime.open({}).close()
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(3):
        box = runtime.open({"a": b"1"})
        box.run(["cat"], stdin=b"x")
        box.run(["sleep", "9"], limits=Limits(wall_s=0.05))
        box.call("os:listdir", "nowhere")
        box.snapshot()
        box.close()
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_nothing_is_left_open_in_the_box(real_runtime: Runtime) -> None:
    """A box that lives for long keeps as many descriptors as at first."""
    box = real_runtime.open({"a": b"1"})
    if not isinstance(box, BubblewrapSandbox | DockerSandbox):
        pytest.skip("this kind does not tell")
    counts = []
    for _ in range(2):
        for _ in range(5):
            box.run(["cat"], stdin=b"x")
            box.run([])
            box.run(["yes"], limits=Limits(output_bytes=10))
            box.call("os:_exit", 1)
            box.call("builtins:print", "x" * 1000, limits=Limits(output_bytes=10))
            box.snapshot()
            box.reset({"a": b"2"})
            box.reset({"a": b"1"})
        counts.append(box.descriptors())
    assert counts[0] == counts[1]
    box.close()


def test_a_forked_process_does_not_end_the_boxes_of_its_parent(real_runtime: Runtime) -> None:
    code = (
        "import os, sys; from boxes import make; r = make(sys.argv[1]); b = r.open({'a': b'1'})\n"
        "pid = os.fork()\n"
        "if pid == 0: b.close(); r.close(); sys.exit(0)\n"
        "os.waitpid(pid, 0); print(b.run(['cat', 'a']).stdout); b.close(); r.close()"
    )
    tests = str(Path(__file__).parent.parent)
    env = {**os.environ, "PYTHONPATH": f"{tests}:{os.environ.get('PYTHONPATH', '')}"}
    kind = real_runtime.kind
    done = subprocess.run([sys.executable, "-c", code, kind], capture_output=True, env=env, check=True)
    assert done.stdout == b"b'1'\n"


def test_code_that_counts_for_the_runtime_id_exists() -> None:
    root = Path(runtime_id.__file__).parent.parent
    assert [name for name in runtime_id.INSIDE if not (root / name).exists()] == []


def test_runtime_ids_differ_by_kind() -> None:
    assert make_runtime("local").runtime_id() != make_runtime("bubblewrap").runtime_id()
