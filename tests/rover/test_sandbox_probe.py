"""Where bubblewrap cannot run: one line that says what is wrong and what to do, and never a silent fall back. `auto`
takes the next kind that works, and says why."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rover.sandbox.bubblewrap import BubblewrapRuntime
from rover.sandbox.landlock.level import LEAST, level
from rover.sandbox.remedies import TABLE, explain
from rover_store.errors import SandboxError

SAID = {
    "bwrap: No permissions to creating new namespace, likely because the kernel does not allow "
    "non-privileged user namespaces.": "seccomp=unconfined",
    "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)": (
        "sysctl -w user.max_user_namespaces"
    ),
    "bwrap: Can't mount proc on /newroot/proc: Operation not permitted": "systempaths=unconfined",
    "bwrap: setting up uid map: Permission denied": "kernel.apparmor_restrict_unprivileged_userns=0",
    "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted": "kernel.apparmor_restrict_unprivileged_userns=0",
    "bwrap: Can't find source path /root/.pyenv/versions/3.11.7: Permission denied": "chmod -R a+rX",
}


@pytest.mark.parametrize("said", list(SAID))
def test_each_refusal_has_a_remedy(said: str) -> None:
    line = explain(said)
    assert SAID[said] in line
    assert said in line, "what was said is kept"
    assert "\n" not in line


def test_what_is_not_known_is_passed_on_as_one_line() -> None:
    assert explain("bwrap: something\n  new") == "bwrap: something new"
    assert len({part for part, _, _ in TABLE}) == len(TABLE)


def test_missing_program_is_an_error() -> None:
    runtime = BubblewrapRuntime(bwrap="/nowhere/bwrap")
    probe = runtime.probe()
    assert not probe.works
    assert "a file that the sandbox needs is missing; reinstall" in probe.reason
    with pytest.raises(SandboxError, match="is missing"):
        runtime.open({})


NO_NAMESPACES = """
import ctypes, os
ready, go = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    ctypes.CDLL(None).unshare(0x10000000)
    os.write(ready[1], b"1")
    os.read(go[0], 1)
    open("/proc/sys/user/max_user_namespaces", "w").write("0")
    import logging
    from rover.sandbox.registry import log, open_runtime
    try:
        open_runtime("bubblewrap")
    except Exception as error:
        print(type(error).__name__, error, flush=True)
    log.setLevel(logging.INFO)
    log.addHandler(logging.StreamHandler())
    for _ in range(2):
        runtime = open_runtime()
        box = runtime.open({"a": b"1"})
        print(runtime.kind, box.run(["cat", "a"]).stdout, flush=True)
        box.close()
        runtime.close()
    os._exit(0)
os.read(ready[0], 1)
for kind in ("uid", "gid"):
    open(f"/proc/{child}/{kind}_map", "w").write("0 0 65536")
os.write(go[1], b"1")
os.waitpid(child, 0)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take namespaces away from itself")
def test_a_machine_without_namespaces() -> None:
    done = subprocess.run([sys.executable, "-c", NO_NAMESPACES], capture_output=True, text=True)
    if "Permission denied" in done.stderr or "Operation not permitted" in done.stderr:
        pytest.skip("root may not make a user namespace here")
    assert done.stdout.startswith("SandboxError the bubblewrap sandbox cannot run here: ")
    assert "sysctl -w user.max_user_namespaces" in done.stdout
    if level() < LEAST:
        pytest.skip("this kernel has no Landlock that is new enough")
    assert done.stdout.splitlines()[1:] == ["landlock b'1'"] * 2
    said = done.stderr.splitlines()
    assert len(said) == 1, "what auto passed over is said once"
    assert said[0] == "landlock is used: bubblewrap cannot run here; `rover doctor` says why"
