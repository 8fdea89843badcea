"""kill -9 to a running agent program, its relay, its box, or rover itself, at random moments: what is left of it.

    python tests/agent_kills.py FOLDER --kills 100

After each kill but of rover itself the same run goes on: the rollout is tried again, passes, and says so. Rover
itself, killed, takes everything along; the same command then runs to its end.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from chat_server import ChatServer, call
from descendants import adopting, mounts, until_gone
from packages import REPORT, summary_package, summary_resources

from rover_store.store import Store

AGENTS = Path(__file__).parent / "agents"
ROVER = [sys.executable, "-c", "from rover.cli.main import main; main()"]
VICTIMS = ("agent", "relay", "box", "rover")
#: seconds by which any run is over
BOUND = 60.0
#: seconds that the agent lives, about: kills are spread over them
LIFE_S = 0.4
POLICY = "command:python3 -S {agent}/tool_agent.py {instruction} "


class Scripted(ChatServer):
    """Solves the summary, slowly; every conversation gets the same answers."""

    def next(self, asked: dict, key: str) -> tuple:  # type: ignore[type-arg]
        time.sleep(0.05)
        said = sum(message["role"] == "assistant" for message in asked["messages"])
        write = f"rm draft; cat > report.csv <<'X'\n{REPORT.decode()}X"
        steps = (call("cat orders.csv"), call("echo x > draft"), call(write))
        return (steps[said] if said < len(steps) else "Wrote report.csv."), said + 1


@dataclass
class Tally:
    kills: Counter[str] = field(default_factory=Counter)
    retried: Counter[str] = field(default_factory=Counter)  # the rollout says that it was tried again
    whole: Counter[str] = field(default_factory=Counter)  # the rollout had ended already
    slowest_gone: float = 0.0

    def line(self) -> str:
        told = ((k, self.kills[k], self.retried[k], self.whole[k]) for k in VICTIMS)
        parts = [f"{k}: {kills} kills, {again} tried again, {late} after its end" for k, kills, again, late in told]
        return "; ".join(parts) + f"; all processes gone after {self.slowest_gone:.2f} s"


class Drill:
    """Runs `rover run` on one package and kills a process of it. `kind`: of the sandbox."""

    def __init__(self, folder: Path, rng: random.Random, kind: str = "bubblewrap") -> None:
        self.project, self.tmp = folder / "project", folder / "tmp"
        self.project.mkdir(parents=True)
        self.tmp.mkdir()
        self.rng = rng
        self.kind = kind
        self.tally = Tally()
        self.seed = 0
        self.marker = f"drill-{os.getpid()}"
        store = Store.init(self.project, clock=lambda: 0)
        with store.write("test") as tx:
            tx.set_package("orders", tx.tree(summary_package("orders")))
            tx.set_resource("files/orders", tx.tree(summary_resources()["files/orders"]))
            tx.commit("a package")

    def run(self, kills: int) -> Tally:
        with Scripted() as server, adopting() as ours:
            self._once(server, None, 0.0, ours)
            for number in range(kills):
                self._once(server, VICTIMS[number % len(VICTIMS)], self.rng.random() * LIFE_S, ours)
        return self.tally

    def _once(self, server: ChatServer, victim: str | None, after: float, ours: set[int]) -> None:
        """One rollout, with a victim killed so many seconds after the agent's process appears."""
        self.seed += 1
        before = self._around()
        process, out = self._start(server)
        killed = False
        if victim is not None:
            pid = _until(lambda: self._find(process.pid, victim), process)
            if pid is not None:
                time.sleep(after)
                pid = self._find(process.pid, victim)
            if pid is not None:
                killed = True
                self.tally.kills[victim] += 1
                os.kill(pid, signal.SIGKILL)
            else:  # over before
                self.tally.kills[victim] += 1
                self.tally.whole[victim] += 1
        code = process.wait(BOUND)
        if killed and victim == "rover":
            self.tally.slowest_gone = max(self.tally.slowest_gone, until_gone(ours))
            self._same(before)
            process, out = self._start(server)
            code = process.wait(BOUND)
        self.tally.slowest_gone = max(self.tally.slowest_gone, until_gone(ours))
        self._same(before)
        row = json.loads(out.read_text().splitlines()[-1])
        assert (code, row["outcome"]) == (0, "passed"), (victim, row, self._errors())
        if killed and victim != "rover":
            again = row["retried"] is not None
            self.tally.retried[victim] += again
            self.tally.whole[victim] += not again  # it had ended, and its verdict was given by another box
            assert again or after > 0
        elif victim != "rover":
            assert row["retried"] is None
        elif killed:
            self.tally.retried[victim] += not row["reused"]
            self.tally.whole[victim] += row["reused"]

    def _find(self, rover: int, victim: str) -> int | None:
        """The victim, once there is an agent."""
        if victim == "rover":
            return rover if find(self.marker, "agent") else None
        return find(self.marker, victim)

    def _start(self, server: ChatServer) -> tuple[subprocess.Popen[bytes], Path]:
        env = {**os.environ, "TMPDIR": str(self.tmp), "OPENAI_API_KEY": "k"}
        env.pop("ROVER_STORE", None)
        words = ["run", "orders", "--policy", POLICY + self.marker, "--agent", str(AGENTS), "--server", server.url]
        words += ["--model", "m"]
        words += ["--sandbox", self.kind, "--seed", str(self.seed), "--json"]
        out = self.project.parent / "out"
        with out.open("wb") as to, (self.project.parent / "err").open("wb") as err:
            return subprocess.Popen([*ROVER, *words], cwd=self.project, env=env, stdout=to, stderr=err), out

    def _errors(self) -> str:
        return (self.project.parent / "err").read_text()

    def _same(self, before: tuple[list[str], list[str]]) -> None:
        ends = time.monotonic() + 5.0  # an engine takes its time
        while marked(self.marker) and time.monotonic() < ends:
            time.sleep(0.02)
        assert marked(self.marker) == []
        now = self._around()
        new = [set(found) - set(known) for found, known in zip(now, before, strict=True)]
        assert new == [set(), set()], new

    def _around(self) -> tuple[list[str], list[str]]:
        return sorted(os.listdir(self.tmp)), mounts()


def find(marker: str, what: str) -> int | None:
    """A process of a running rollout: the agent, which bears this marker; its relay; the first one of its box."""
    for pid in marked(marker):
        try:
            relay = parent(pid)
            return {"agent": pid, "relay": relay, "box": parent(parent(relay))}[what]
        except OSError:
            continue
    return None


def marked(marker: str) -> list[int]:
    """Processes with this word in their command, wherever they run."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if marker.encode() in Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0"):
                found.append(int(name))
        except OSError:
            continue
    return found


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])


def _until(found: Callable[[], int | None], process: subprocess.Popen[bytes]) -> int | None:
    end = time.monotonic() + BOUND
    while time.monotonic() < end and process.poll() is None:
        if (one := found()) is not None:
            return one
        time.sleep(0.01)
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=main.__doc__ or __doc__)
    parser.add_argument("folder", type=Path, help="where the store is made")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sandbox", default="bubblewrap")
    asked = parser.parse_args()
    print(Drill(asked.folder.resolve(), random.Random(asked.seed), asked.sandbox).run(asked.kills).line())


if __name__ == "__main__":
    main()
