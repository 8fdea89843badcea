"""kill -9 to commands of rover, and a look at everything that they may leave behind.

A drill repeats one command on a store: killed at some moment, inspected, killed again, then run to its end and
inspected once more. The tests do a few kills of each; `python tests/kills.py FOLDER --kills 15` does many.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from descendants import adopting, mounts, processor_time, until_gone

from rover_store.store import Store

ROVER = [sys.executable, "-c", "from rover.cli.main import main; main()"]
#: seconds: any command ends by then
BOUND = 300.0
EPOCH = "1700000000"


class Done(NamedTuple):
    """A command that ended by itself or was killed."""

    code: int
    out: str
    err: str
    seconds: float
    used: float  # processor time, where it was watched

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL

    def rows(self) -> list[dict[str, Any]]:
        """What a stream of JSON said; a line that broke off was not said."""
        return [json.loads(line) for line in self.out.splitlines(keepends=True) if line.endswith("\n")]


class Stage:
    """A project folder with a store, and a folder for temporary files that nobody else uses."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.tmp = folder / "tmp"
        for made in (self.project, self.tmp):
            made.mkdir(parents=True, exist_ok=True)
        self.gits = [self.project / ".rover" / name for name in ("store.git", "evidence.git")]

    @property
    def store(self) -> Store:
        return Store.open(self.project)

    def copy(self, folder: Path) -> Stage:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder, folder, symlinks=True)
        return Stage(folder)

    def start(self, *words: str, log: str = "one") -> subprocess.Popen[bytes]:
        """Start a command; its output goes to files, so that nothing it said is lost with it."""
        env = {**os.environ, "TMPDIR": str(self.tmp), "SOURCE_DATE_EPOCH": EPOCH}
        env.pop("ROVER_STORE", None)
        with open(self.folder / f"{log}.out", "wb") as out, open(self.folder / f"{log}.err", "wb") as err:
            return subprocess.Popen([*ROVER, *words], stdout=out, stderr=err, cwd=self.project, env=env)

    def end(self, process: subprocess.Popen[bytes], began: float, used: float = 0.0, log: str = "one") -> Done:
        try:
            code = process.wait(BOUND)
        except BaseException:
            process.kill()
            process.wait()
            raise
        seconds = time.monotonic() - began
        out, err = ((self.folder / f"{log}.{name}").read_text() for name in ("out", "err"))
        return Done(code, out, err, seconds, used)

    def rover(self, *words: str) -> Done:
        """Run a command to its end, within bounded time."""
        return self.at_once(words)[0]

    def at_once(self, *commands: tuple[str, ...]) -> list[Done]:
        """Run commands beside each other."""
        began = time.monotonic()
        running = [self.start(*words, log=str(n)) for n, words in enumerate(commands)]
        return [self.end(process, began, log=str(n)) for n, process in enumerate(running)]

    def measured(self, *words: str) -> Done:
        """The same, and how much processor time it took."""
        return self.kill(words, BOUND, False)[0]

    def kill(self, words: tuple[str, ...], after: float, writing: bool) -> tuple[Done, float]:
        """Kill a command when it has used some seconds of processor time (a clock that does not depend on what else
        the machine does); with `writing`, when it begins to write after that.

        The second value: seconds until the last process that it had started was gone.
        """
        with adopting() as ours:
            began, used = time.monotonic(), 0.0
            process = self.start(*words)
            while process.poll() is None and used < after and time.monotonic() < began + BOUND:
                time.sleep(0.005)
                used = max(used, processor_time(process.pid))
            while writing and process.poll() is None and not self._writing():
                time.sleep(0.0005)
            process.send_signal(signal.SIGKILL)
            done = self.end(process, began, used)
            return done, until_gone(ours)

    def _writing(self) -> bool:
        return any((git / "rover.flock").exists() and (git / "rover.flock").stat().st_size for git in self.gits)

    def left_over(self) -> list[str]:
        """Names of unfinished packs and locks in both repositories."""
        found = [p for git in self.gits for p in git.rglob("*") if p.name.endswith(".lock") or "tmp_" in p.name]
        return sorted(str(p.relative_to(self.project)) for p in found)


# --- what must hold after every kill -------------------------------------------------------------------------


@dataclass
class Tally:
    """What was counted over the kills of one command."""

    kills: int = 0
    while_writing: int = 0
    ended_first: int = 0
    completed: int = 0
    went_on: int = 0
    reused: int = 0
    told: int = 0
    acknowledged: list[str] = field(default_factory=list)  # those that the present store must still have
    slowest_check: float = 0.0
    slowest_gone: float = 0.0

    def line(self) -> str:
        return (
            f"{self.kills:3} kills ({self.while_writing} while it wrote), {self.ended_first} ended before, "
            f"{self.completed} run to the end; {self.told} commits acknowledged, none lost; "
            f"{self.went_on} of the runs to the end found rollouts, {self.reused} in all; "
            f"next command at most {self.slowest_check:.1f} s, processes gone after {self.slowest_gone:.2f} s"
        )


def inspect(stage: Stage, tally: Tally, around: Around) -> None:
    """The next command ends soon and finds nothing wrong; git agrees; nothing acknowledged is lost or lies about."""
    checked = stage.rover("fsck")
    assert checked.code == 0, checked  # evidence on what is in no commit is a warning
    tally.slowest_check = max(tally.slowest_check, checked.seconds)
    for git in stage.gits:
        said = _git(git, "fsck", "--full", "--strict", "--no-dangling")
        assert not [line for line in said.splitlines() if not line.startswith("notice: ")], said
    reachable = set(_git(stage.gits[0], "rev-list", "--branches").split())
    assert [c for c in tally.acknowledged if c not in reachable] == []
    assert len(stage.left_over()) <= 2, stage.left_over()  # of one write: the next one removes them
    assert around == Around.of(stage)


class Around(NamedTuple):
    """What a command must not change outside the store."""

    temporary: list[str]
    project: list[str]
    mounts: list[str]

    @classmethod
    def of(cls, stage: Stage) -> Around:
        return cls(sorted(os.listdir(stage.tmp)), sorted(os.listdir(stage.project)), mounts())


def _git(git: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=git, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    return done.stdout + done.stderr


# --- drills --------------------------------------------------------------------------------------------------


class Drill:
    """One command, killed again and again. `base` is a stage with a store to begin on."""

    def __init__(self, base: Stage, folder: Path, rng: random.Random) -> None:
        self.base = base
        self.folder = folder
        self.rng = rng
        self.tally = Tally()
        self.number = 0
        self.stage = base
        self.words: tuple[str, ...] = ()
        self.begin()
        done = self.stage.measured(*self.words)
        self.used = done.used
        self.first(done)

    def begin(self) -> None:
        """Lay out what the command works on next; set `stage` and `words`."""
        raise NotImplementedError

    def first(self, done: Done) -> None:
        """The run that was not disturbed: what the others are held against."""
        self.finished(done, set())

    def finished(self, done: Done, before: set[str]) -> None:
        """The command came to its end, with these rollouts in the evidence at its start."""
        raise NotImplementedError

    def run(self, kills: int, at_once: int = 3) -> Tally:
        """So many kills, at moments spread over the running time; after every few the command may end."""
        moments = [(n + self.rng.random()) / kills for n in range(kills)]
        self.rng.shuffle(moments)
        fresh, in_row = True, 0
        while self.tally.kills < kills:
            if fresh:
                self.begin()
                fresh, in_row = False, 0
            before = self.evidence()
            around = Around.of(self.stage)
            writing = self.tally.kills % 3 == 2
            after = moments[self.tally.kills] * self.used * (0.8 if writing else 1.0)
            done, gone = self.stage.kill(self.words, after, writing)
            self.note(done)
            if done.killed:
                self.tally.kills += 1
                self.tally.while_writing += writing
                self.tally.slowest_gone = max(self.tally.slowest_gone, gone)
                inspect(self.stage, self.tally, around)
                assert before <= self.evidence()
                in_row += 1
            else:
                self.tally.ended_first += 1
                self.finished(done, before)
                fresh = True
            if in_row == at_once or (in_row and self.tally.kills == kills):
                self.complete()
                fresh = True
        return self.tally

    def complete(self) -> None:
        """The same command again, to its end: it goes on with what was kept."""
        before = self.evidence()
        around = Around.of(self.stage)
        done = self.stage.rover(*self.words)
        self.note(done)
        self.tally.completed += 1
        self.finished(done, before)
        inspect(self.stage, self.tally, around)
        left = [name for name in self.stage.left_over() if "store.git" in name]
        assert left == []

    def reused(self, rollouts: int) -> None:
        """Count rollouts that the command found in the evidence."""
        self.tally.went_on += rollouts > 0
        self.tally.reused += rollouts

    def evidence(self) -> set[str]:
        return set(self.stage.store.evidence.ids())

    def note(self, done: Done) -> None:
        """Remember what was acknowledged."""
        told = self.acknowledged(done)
        self.tally.told += len(told)
        self.tally.acknowledged += told

    def acknowledged(self, done: Done) -> list[str]:
        """Ids of the commits that the command spoke of."""
        return []


class CommitDrill(Drill):
    """`rover commit` of a folder that changes every time."""

    def begin(self) -> None:
        if self.number == 0:
            self.stage = self.base.copy(self.folder)
        self.number += 1
        edited = self.stage.project / "my-task" / "context" / "files" / "edited.txt"
        edited.write_bytes(b"%d\n" % self.number * 2000)
        self.words = ("commit", "my-task", "-m", f"Edit {self.number}", "--json")

    def finished(self, done: Done, before: set[str]) -> None:
        assert done.code == 0, done
        tree = self.stage.store.package("my-task").tree
        item = self.stage.store.objects.subtree(tree, "context/files/edited.txt")
        assert item is not None
        assert self.stage.store.objects.read(item.id) == b"%d\n" % self.number * 2000

    def acknowledged(self, done: Done) -> list[str]:
        return [] if done.killed and not done.out.endswith("}\n") else [json.loads(done.out)["commit"]]


class RunDrill(Drill):
    """`rover run`; other seeds every time."""

    attempts = 30

    def begin(self) -> None:
        if self.number == 0:
            self.stage = self.base.copy(self.folder)
        self.number += 1
        many = ("-k", str(self.attempts), "-n", "2", "--seed", str(self.number))
        self.words = ("run", "shop-*", *many, "--json")

    def finished(self, done: Done, before: set[str]) -> None:
        assert done.code == 0, done
        rows = done.rows()
        assert len(rows) == self.attempts
        assert {row["outcome"] for row in rows} == {"passed"}
        known = {row["rollout"] for row in rows} & before
        assert {row["rollout"] for row in rows if row["reused"]} == known
        self.reused(len(known))
        assert {row["rollout"] for row in rows} <= self.evidence()


class BuildDrill(Drill):
    """`rover build` of the same folder into a new store each time."""

    attempts = 2
    families: tuple[str, ...] = ()
    whole = ("", frozenset[str](), 0)

    def begin(self) -> None:
        self.stage = Stage(self.folder)
        shutil.rmtree(self.stage.project)
        self.stage = self.base.copy(self.folder)
        shutil.rmtree(self.stage.project / ".rover")
        assert self.stage.rover("init").code == 0
        chosen = [word for name in self.families for word in ("--family", name)]
        self.words = ("build", "--from", "shop", "--count", str(self.attempts), "--seed", "1", *chosen, "--json")
        self.tally.acknowledged.clear()

    def first(self, done: Done) -> None:
        assert done.code == 0, done
        self.whole = (self.tree(), frozenset(self.evidence()), sum(self.rollouts(done)))

    def finished(self, done: Done, before: set[str]) -> None:
        assert done.code == 0, done
        assert (self.tree(), self.evidence()) == self.whole[:2]
        ran, reused = self.rollouts(done)
        assert ran == len(self.evidence() - before)  # what was kept did not run again
        assert ran + reused == self.whole[2]
        self.reused(len(before))

    def rollouts(self, done: Done) -> tuple[int, int]:
        said = json.loads(done.out)
        return said["rollouts_run"], said["rollouts_reused"]

    def tree(self) -> str:
        return self.stage.store.commit("HEAD").tree

    def acknowledged(self, done: Done) -> list[str]:
        return [json.loads(done.out)["commit"]] if done.out.endswith("}\n") else []


class RepairDrill(Drill):
    """`rover repair` of a copy of the same broken package each time."""

    whole = ("", frozenset[str](), 0)
    package = ""
    first_rollouts = frozenset[str]()

    def begin(self) -> None:
        self.stage = self.base.copy(self.folder)
        self.package = next(p.name for p in self.stage.store.packages(pattern="shop-*"))
        assert self.stage.rover("inject", self.package, "lax_verifier", "--seed", "1").code == 0
        self.words = ("repair", self.package, "--json")
        self.tally.acknowledged = [self.stage.store.resolve()]
        self.first_rollouts = frozenset(self.evidence())

    def first(self, done: Done) -> None:
        assert done.code == 0, done
        said = json.loads(done.out)
        total = said["rollouts_run"] + said["rollouts_reused"]
        self.whole = (self.tree(), frozenset(self.evidence()), total)

    def finished(self, done: Done, before: set[str]) -> None:
        said = json.loads(done.out)
        if said["promoted"]:
            assert done.code == 0
            assert said["rollouts_run"] + said["rollouts_reused"] == self.whole[2]
            assert said["rollouts_run"] <= len(self.evidence() - before)  # what was kept did not run again
            self.reused(len(before - self.first_rollouts))
        else:  # the killed one had promoted already
            assert (done.code, said["outcome"]) == (1, "abstained")
        assert self.tree() == self.whole[0]
        assert self.evidence() >= self.whole[1]

    def tree(self) -> str:
        return self.stage.store.package(self.package).tree

    def acknowledged(self, done: Done) -> list[str]:
        said = json.loads(done.out) if done.out.endswith("}\n") else {}
        return [said[key] for key in ("promoted",) if said.get(key)]


DRILLS: dict[str, type[Drill]] = {"commit": CommitDrill, "run": RunDrill, "build": BuildDrill, "repair": RepairDrill}


def prepared(folder: Path) -> Stage:
    """A stage with a package made by hand, one that was built, and the files that it was built from."""
    from workspaces import shop

    stage = Stage(folder)
    shop(stage.project / "shop")
    building = ("build", "--from", "shop", "--count", "1", "--seed", "1", "--family", "summarise")
    for words in (("init",), ("new", "my-task"), ("commit", "my-task", "-m", "First"), building):
        done = stage.rover(*words)
        assert done.code == 0, done
    return stage


def main() -> None:
    """Many kills of some commands, told line by line."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path, help="where the stores are made")
    parser.add_argument("--kills", type=int, default=15, help="of each command")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=DRILLS, action="append")
    asked = parser.parse_args()
    base = prepared(asked.folder.resolve() / "base")
    for name in asked.only or DRILLS:
        drill = DRILLS[name](base, asked.folder.resolve() / name, random.Random(f"{name} {asked.seed}"))
        print(f"{name:7} {drill.run(asked.kills).line()}", flush=True)


if __name__ == "__main__":
    main()
