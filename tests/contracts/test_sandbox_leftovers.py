"""What hostile commands leave behind: files that no tree can hold, and nothing that a later command or call finds."""


import contextlib
import time

import pytest
from boxes import START, START_IDS, py, refused, sh, shut, temporary

from rover.sandbox.protocol import Runtime, Sandbox
from rover_store.ids import blob_id


# --- hostile files -------------------------------------------------------------------------------------------
def test_links_out_are_recorded_not_followed(jail: Sandbox) -> None:
    sh(jail, "ln -s /etc/passwd out; ln -s / root; ln -s ../../../etc/shadow up; ln -sf /proc/1/environ same1")
    found = jail.snapshot()
    assert {found.entries[p].kind for p in ("out", "root", "up", "same1")} == {"link"}
    assert found.entries["out"].blob == blob_id(b"/etc/passwd")


def test_fifo_over_a_file(jail: Sandbox) -> None:
    sh(jail, "rm same1; mkfifo same1; mkfifo a/p")
    found = jail.snapshot()
    assert "same1" not in found.entries
    assert set(found.refused) == {"same1", "a/p"}


def test_socket_file(jail: Sandbox) -> None:
    py(jail, "import socket\nsocket.socket(socket.AF_UNIX).bind('s')")
    assert set(jail.snapshot().refused) == {"s"}


def test_mode_000(jail: Sandbox) -> None:
    sh(jail, "mkdir locked; echo x > locked/f; chmod 000 locked/f locked a a/c a/b.txt .")
    found = jail.snapshot()
    assert found.entries["locked/f"].blob == blob_id(b"x\n")
    assert set(START) < set(found.entries)


def test_very_deep_folders(jail: Sandbox) -> None:
    script = "import os\nfor i in range(400): os.mkdir('d' * 250); os.chdir('d' * 250)\nopen('f', 'w')"
    assert py(jail, script).exit_code == 0
    found = jail.snapshot()
    assert {p: e.blob for p, e in found.entries.items()} == START_IDS
    assert len(found.refused) == 1


def test_deep_folders_of_short_names(jail: Sandbox) -> None:
    assert py(jail, "import os\nfor i in range(490): os.mkdir('d'); os.chdir('d')\nopen('f', 'w')").exit_code == 0
    assert "d/" * 490 + "f" in jail.snapshot().entries


def test_names_that_are_not_utf8(jail: Sandbox) -> None:
    py(jail, "import os\nos.mkdir(b'\\xfe'); open(b'\\xfe/in', 'w'); os.symlink('x', b'\\xfd')")
    assert set(jail.snapshot().refused) == {"\\xfe", "\\xfd"}


def test_mapped_write_is_seen(jail: Sandbox) -> None:
    script = "import mmap, os\nm = mmap.mmap(os.open('a/c/d.csv', os.O_RDWR), 8)\nm[%d] = 57"
    blobs = set()
    for place in range(3):
        assert py(jail, script % place).exit_code == 0
        blobs.add(jail.snapshot().entries["a/c/d.csv"].blob)
    assert len(blobs) == 3


def test_overlay_marks_cannot_be_forged(jail: Sandbox) -> None:
    for name in ("user.overlay.opaque", "user.overlay.whiteout", "trusted.overlay.opaque"):
        with contextlib.suppress(AssertionError):
            refused(jail, f"os.setxattr('a', {name!r}, b'y')")
        assert {p: e.blob for p, e in jail.snapshot().entries.items()} == START_IDS
    py(jail, "import os\nos.mknod('same1', 0o20644, 0); os.mknod('z', 0o20644, 0)")
    assert set(START) <= {*jail.snapshot().entries}


# --- nothing is left -----------------------------------------------------------------------------------------
def test_leftovers_between_commands(real_runtime: Runtime, jail: Sandbox) -> None:
    for folder in temporary(real_runtime):
        assert sh(jail, f"echo x > {folder}/left; mkdir -p {folder}/a/b; (sleep 60 &)").exit_code == 0
    py(jail, "import os, socket\nsocket.socket(1).bind(b'\\0left')\nos.fork()")
    for folder in temporary(real_runtime):
        assert sh(jail, f"ls -A {folder}; pgrep sleep; cat /proc/net/unix | grep left").stdout == b""


def test_leftovers_between_calls(jail: Sandbox) -> None:
    code = "import json, tempfile; json.left = 1; open(tempfile.gettempdir() + '/left', 'w')"
    assert jail.call("builtins:exec", code).error == ""
    assert "left" in jail.call("builtins:eval", "__import__('json').left").error
    assert jail.call("builtins:eval", "__import__('os').listdir(__import__('tempfile').gettempdir())").value == []


@pytest.mark.needs("fixed paths")  # the scan finds its way by /proc/self
def test_no_call_finds_another_ones_job(jail: Sandbox) -> None:
    """A scan of all readable memory finds neither the payload nor the output of an earlier call or command."""
    for _ in range(3):
        jail.call("builtins:print", "SWORD" + "FISH" * 2000)
        jail.run(["cat"], stdin=("SWORD" + "FISH" * 2000).encode())
    scan = """
import ctypes, re
found = 0
for line in open('/proc/self/maps').read().splitlines():
    start, end = (int(x, 16) for x in line.split()[0].split('-'))
    if line.split()[1].startswith('r') and '[v' not in line:
        found += len(re.findall(b'(?:FISH){40}', ctypes.string_at(start, end - start)))
print(found)
"""
    result = jail.call("builtins:exec", scan)
    assert (result.error, result.stdout) == ("", b"0\n")
    own = jail.call("builtins:exec", "x = 'FI' + 'SHFISH' * 0 + 'SHFI' * 90\n" + scan)
    assert int(own.stdout) > 0, "the scan finds what is there"


@pytest.mark.needs("fixed paths", "hidden host files")
def test_calls_stand_in_namespaces_of_their_own(real_runtime: Runtime, jail: Sandbox) -> None:
    assert "No such file" in jail.call("os:stat", "/etc/shadow").error
    assert shut(real_runtime, jail.call("os:mkdir", "/r/x").error)
    assert real_runtime.kind == "docker" or jail.call("builtins:eval", "__import__('os').getpid()").value == 1


def test_calls_are_confined_like_commands(real_runtime: Runtime, jail: Sandbox) -> None:
    assert shut(real_runtime, jail.call("os:listdir", "/etc").error) or real_runtime.kind != "landlock"
    assert shut(real_runtime, jail.call("builtins:open", "/etc/shadow").error)
    assert shut(real_runtime, jail.call("os:mkdir", "/usr/x").error)
    assert "Invalid argument" in (said := jail.call("os:setuid", 0).error) or "not permitted" in said
    assert jail.call("os:getpid", None).error
    code = "__import__('ctypes').CDLL(None).unshare(0x10000000)"
    assert jail.call("builtins:eval", code).value == -1
    assert jail.call("builtins:eval", "[b'x' * (400 << 20), __import__('time').sleep(5)]").breach == "memory"
    assert "large" in jail.call("builtins:eval", "open('f', 'wb').write(b'x' * (20 << 20))").error
    assert jail.call("builtins:eval", "'x' * (20 << 20)").error


def test_calls_leave_no_process(jail: Sandbox) -> None:
    code = "__import__('subprocess').Popen(['sh', '-c', 'while :; do date > late; done']).pid"
    assert jail.call("builtins:eval", code).value > 1
    first = jail.snapshot().entries.get("late")
    time.sleep(0.05)
    assert jail.snapshot().entries.get("late") == first


def test_names_in_the_workspace_shadow_no_library(jail: Sandbox) -> None:
    jail.reset({**START, "json.py": b"raise SystemExit", "rover/__init__.py": b"raise SystemExit"})
    assert jail.call("colorsys:rgb_to_hls", 1).error.startswith("TypeError")
    jail.reset(START)


def test_a_workspace_that_is_closed_to_its_owner_ends_nothing(jail: Sandbox) -> None:
    assert sh(jail, "chmod 000 a z* .").exit_code == 0
    assert sh(jail, "echo goes on").stdout == b"goes on\n"
    assert jail.call("builtins:eval", "1 + 1").value == 2
    assert {p: e.blob for p, e in jail.snapshot().entries.items()} == START_IDS
