"""Checkers that misbehave, servers that do, and interrupts: what a person at the command line gets to see.

What each checker may not do is tested closer to the grader; here a whole run of them is one table.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from packages import runtime, summary_package, summary_resources, with_checks
from refusals import INTERRUPTED, SCRIPT, Said, environment, rover, script, state
from workspaces import shop

from rover_store.ids import blob_id
from rover_store.records import Budget, Harness
from rover_store.store import Store
from rover_store.trees import tree_id


@pytest.fixture(scope="module")
def kind() -> str:
    made = runtime()
    made.close()  # type: ignore[attr-defined]
    return made.kind


def _store(folder: Path, packages: dict[str, dict[str, bytes]]) -> None:
    store = Store.init(folder, clock=lambda: 0)
    with store.write("test") as tx:
        for name, files in packages.items():
            tx.set_package(name, tx.tree(files))
        tx.set_resource("files/orders", tx.tree(summary_resources()["files/orders"]))
        tx.commit("packages")


# --- checkers ----------------------------------------------------------------------------------------------
CHECKS: dict[str, tuple[str, str]] = {
    "hangs": ("time.sleep(1000)", "did not end in time"),
    "forks": ("while True: os.fork()", ""),
    "fills-disk": ("[open(f'/tmp/{i}', 'wb').write(bytes(900_000)) for i in range(100_000)]; return 1.0", ""),
    "fills-memory": ("return len(b'x' * (8 << 30))", "MemoryError"),
    "prints": ("[os.write(1, b'x' * (1 << 20)) for _ in range(1024)]; return 1.0", "printed more than"),
    "raises": ("raise KeyError('two\\nlines')", "raised KeyError"),
    "nan": ("return float('nan')", "returned nan"),
    "edits": ("open('end/orders.csv', 'w').close(); return 1.0", "changed the workspace"),
    "network": ("socket.create_connection(('127.0.0.1', PORT), 2); return 1.0", "raised"),
    "reference": ("open('verifier/reference/reference.json'); return 1.0", "raised FileNotFoundError"),
    "host": ("open(SECRET); return 1.0", "raised FileNotFoundError"),
}


@pytest.fixture(scope="module")
def checked(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Said, tuple[object, ...]]]:
    """A store with a package for each bad checker and a good one, and what a run of all of them said."""
    if kind == "local":
        pytest.skip("this machine has no sandbox that confines")
    home = tmp_path_factory.mktemp("checkers")
    (home / "secret").write_text("secret")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        head = f"import os, socket, time\nPORT, SECRET = {listening.getsockname()[1]}, {str(home / 'secret')!r}\n"
        packages = {
            name: with_checks(f"{head}\n\ndef bad(ev):\n    {body}\n", ("bad",), name)
            for name, (body, _) in CHECKS.items()
        }
        _store(home, packages | {"zz-good": summary_package("zz-good")})
        before = state(home)
        words = ("--store", str(home), "run", "*", "--policy", "null:nothing", "--json", "--sandbox", kind)
        yield home, rover(*words), before


def test_a_run_goes_on_past_bad_checkers(checked: tuple[Path, Said, tuple[object, ...]]) -> None:
    home, said, before = checked
    assert said.code == 0, said  # a checker's fault is an outcome, not an exit code
    assert "Traceback" not in said.err
    assert f"{len(CHECKS) + 1} rollouts: {len(CHECKS)} verifier_error, 1 failed" in said.err, said.err
    assert state(home) == before
    assert rover("--store", str(home), "fsck").code == 0


@pytest.mark.parametrize("name", CHECKS)
def test_a_bad_checker_is_the_verifiers_fault(name: str, checked: tuple[Path, Said, tuple[object, ...]]) -> None:
    rows = {row["package"]: row for row in map(json.loads, checked[1].out.splitlines())}
    assert rows[name]["outcome"] == "verifier_error", rows[name]
    assert rows[name]["score"] is None
    assert rows[name]["reason"].startswith("bad: ")
    assert CHECKS[name][1] in rows[name]["reason"]
    assert "\n" not in rows[name]["reason"]
    assert rows["zz-good"]["outcome"] == "failed"


# --- servers -----------------------------------------------------------------------------------------------
def _answer(status: str, body: bytes, *headers: bytes) -> Callable[[socket.socket], None]:
    def answer(peer: socket.socket) -> None:
        lines = [f"HTTP/1.1 {status}".encode(), b"Content-Length: %d" % len(body), *headers, b"", body]
        peer.sendall(b"\r\n".join(lines))

    return answer


def _stall(peer: socket.socket) -> None:
    peer.settimeout(20)
    peer.recv(1)


def _for_ever(peer: socket.socket) -> None:
    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    while True:
        peer.sendall(b" ")
        time.sleep(0.01)


def _flood(peer: socket.socket) -> None:
    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    while True:
        peer.sendall(b"x" * 100_000)


def _events(peer: socket.socket) -> None:
    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
    while True:
        peer.sendall(b"data: {}\n\n")
        time.sleep(0.01)


#: nonsense that is a completion in form; what a model does with it is the policy's
CHOICE = b'{"choices": [{"message": {"role": "assistant", "content": "\\u001b[31m\\ud83d done"}}]}'
SERVERS: dict[str, tuple[Callable[[socket.socket], None], str]] = {
    "refuses": (_answer("401 Unauthorized", b'{"error": {"message": "no key\\nfor you"}}'), "infra_error"),
    "is not one": (_answer("404 Not Found", b"<html>\x1b[31m\xff"), "infra_error"),
    "has too much to do": (_answer("429 Too Many", b"", b"Retry-After: 100000"), "infra_error"),
    "stalls": (_stall, "infra_error"),
    "streams for ever": (_for_ever, "infra_error"),
    "streams events": (_events, "infra_error"),
    "floods": (_flood, "infra_error"),
    "closes": (lambda peer: None, "infra_error"),
    "speaks something else": (lambda peer: peer.sendall(b"SSH-2.0-OpenSSH_9.6\r\n"), "infra_error"),
    "answers no JSON": (_answer("200 OK", b"<html>hello"), "infra_error"),
    "answers an empty object": (_answer("200 OK", b"{}"), "infra_error"),
    "answers deep JSON": (_answer("200 OK", b"[" * 100_000), "infra_error"),
    "answers half a letter": (_answer("200 OK", CHOICE), "failed"),
}


@contextmanager
def serving(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server of plain bytes: each connection is read once and then answered."""
    over = threading.Event()

    def one(peer: socket.socket) -> None:
        with peer:
            try:
                peer.recv(1 << 16)
                answer(peer)
                peer.shutdown(socket.SHUT_WR)
            except OSError:
                pass

    def accept(listening: socket.socket) -> None:
        while not over.is_set():
            try:
                peer, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(peer,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=accept, args=(listening,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        finally:
            over.set()
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(5)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder, the working one: two packages whose rollouts may take a second."""
    files = {}
    for name in ("orders-a", "orders-b"):
        files[name] = summary_package(name)
        harness = Harness.load(files[name]["harness/harness.json"], "harness/harness.json")
        short = harness.model_copy(update={"budget": Budget(seconds=1.0)}).dump()
        old, new = (tree_id({"harness.json": (0o100644, blob_id(data))}) for data in (harness.dump(), short))
        files[name]["harness/harness.json"] = short
        files[name]["package.json"] = files[name]["package.json"].replace(old.encode(), new.encode())
    _store(tmp_path, files)
    monkeypatch.chdir(tmp_path)
    for name in ("ROVER_STORE", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize("name", SERVERS)
def test_a_bad_server(name: str, home: Path, kind: str) -> None:
    answer, outcome = SERVERS[name]
    before = state(home)
    began = time.monotonic()
    with serving(answer) as url:
        said = rover("run", "orders-a", "--policy", "openai:x", "--server", url, "--json", "--sandbox", kind)
    assert time.monotonic() - began < 15
    assert said.code == (3 if outcome == "infra_error" else 0), said
    assert said.err == f"1 rollout: 1 {outcome}; 1 run, 0 reused\n", said
    row = json.loads(said.out)
    assert (row["outcome"], "\n" in row["reason"]) == (outcome, False)
    assert state(home) == before
    if outcome == "infra_error":
        assert row["reason"].startswith(f"ProviderError: {url}: "), row
        assert len(row["reason"]) < 500
        assert list(Store.open(home).evidence.iter_verdicts()) == []  # no fault of a server stands as evidence


@pytest.mark.parametrize("url", ["not a url", "http://", "ftp://x", "http://127.0.0.1:99999/v1", "http://a b/", "x\ny"])
def test_what_is_no_address(url: str, home: Path, kind: str) -> None:
    said = rover("run", "*", "--policy", "openai:x", "--server", url, "--sandbox", kind)
    assert (said.code, said.out) == (2, ""), said
    assert said.err.startswith("rover: server ")
    assert len(said.err.splitlines()) == 2


# --- interrupts --------------------------------------------------------------------------------------------
class Process:
    """The script as a process, in a session of its own, so that what it leaves behind can be found."""

    def __init__(self, *words: str, cwd: Path) -> None:
        pipe = subprocess.PIPE
        env = environment(SOURCE_DATE_EPOCH="1700000000")
        self.process = subprocess.Popen(
            [*SCRIPT, *words], cwd=cwd, env=env, stdout=pipe, stderr=pipe, text=True, start_new_session=True
        )

    def interrupt(self, *, group: bool) -> Said:
        if group:  # as a terminal does
            os.killpg(self.process.pid, signal.SIGINT)
        else:
            self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=30)
        return Said(self.process.returncode, out, err)

    def wait_for(self, ready: Callable[[], bool]) -> None:
        until = time.monotonic() + 60
        while not ready():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < until
            time.sleep(0.02)


def _boxes(folder: Path) -> list[str]:
    """Command lines of sandboxes and launchers that run beside or below a process of this folder."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/cwd") == str(folder):
                found.append(Path(f"/proc/{pid}/cmdline").read_text())
        except OSError:
            continue
    return [line for line in found if re.search("bwrap|launcher|supervisor", line)]


def _interrupted(said: Said) -> None:
    assert said.code == 130, said
    assert said.err.splitlines()[-1] == INTERRUPTED
    assert "Traceback" not in said.err
    assert "Exception" not in said.err


def _kept(folder: Path) -> set[str]:
    return set(Store.open(folder).evidence.ids())


@pytest.mark.parametrize("group", [False, True])
def test_a_run_is_interrupted_and_goes_on(group: bool, home: Path, kind: str) -> None:
    (home / "slow.json").write_text(json.dumps([{"tool": "shell", "arguments": {"command": "sleep 0.1"}}]))
    words = ("run", "orders-a", "--policy", "scripted:slow.json", "-k", "24", "-n", "2", "--json", "--sandbox", kind)
    before = state(home)
    process = Process(*words, cwd=home)
    process.wait_for(lambda: len(_kept(home)) >= 2)
    _interrupted(process.interrupt(group=group))
    assert _boxes(home) == []
    assert state(home) == before
    kept = _kept(home)
    assert 2 <= len(kept) < 24
    again = rover(*words)
    assert again.code == 0, again
    rows = [json.loads(line) for line in again.out.splitlines()]
    assert {row["rollout"] for row in rows if row["reused"]} == kept
    assert len(rows) == 24
    assert rover("fsck").code == 0


def test_a_run_is_interrupted_while_a_server_stalls(home: Path, kind: str) -> None:
    asked = threading.Event()

    def stall(peer: socket.socket) -> None:
        asked.set()
        _stall(peer)

    with serving(stall) as url:
        process = Process("run", "*", "--policy", "openai:x", "--server", url, "--sandbox", kind, cwd=home)
        process.wait_for(asked.is_set)
        began = time.monotonic()
        _interrupted(process.interrupt(group=False))
    assert time.monotonic() - began < 10
    assert _boxes(home) == []


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder, the working one, with an empty store and a shop's files in `in`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROVER_STORE", raising=False)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert rover("init").code == 0
    shop(tmp_path / "in")
    return tmp_path


def _json(said: Said) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(said.out)
    return value


def test_a_build_and_a_repair_are_interrupted_and_go_on(project: Path, kind: str) -> None:
    build = ("build", "--from", "in", "--count", "1", "--family", "summarise", "--json", "--sandbox", kind)
    before = state(project)
    process = Process(*build, cwd=project)
    process.wait_for(lambda: len(_kept(project)) >= 3)
    _interrupted(process.interrupt(group=True))
    assert (state(project), _boxes(project)) == (before, [])
    kept = _kept(project)
    built = _json(rover(*build))
    assert built["rollouts_reused"] >= len(kept) >= 3
    assert rover("fsck").code == 0

    package = built["admitted"][0]
    assert rover("inject", package, "missing_given", "--seed", "1").code == 0
    before, known = state(project), len(_kept(project))
    repair = ("repair", package, "--json", "--sandbox", kind)
    process = Process(*repair, cwd=project)
    process.wait_for(lambda: len(_kept(project)) >= known + 4)
    _interrupted(process.interrupt(group=False))
    assert (state(project)[:3], _boxes(project)) == (before[:3], [])  # proposals may lie in packs of their own
    assert len(_kept(project)) >= known + 4
    repaired = rover(*repair)
    assert repaired.code == 0, repaired
    assert _json(repaired)["outcome"] == "promoted"
    assert rover("fsck").code == 0


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.1, 0.2, 0.4])
def test_an_interrupt_at_any_time_is_quiet(delay: float, project: Path) -> None:
    """Python needs a moment before anything of rover's runs; from then on no interrupt ends in a traceback."""
    started = "from rover.cli.entry import main; print(flush=True); main()"
    process = subprocess.Popen(
        [SCRIPT[0], "-c", started, "list"], cwd=project, env=environment(), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.05 + delay)  # main itself needs a moment before it listens
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode in (0, 130, -signal.SIGINT)
    assert "Traceback" not in err
    assert script("fsck", cwd=project).code == 0
