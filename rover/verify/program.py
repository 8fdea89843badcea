"""A verifier that is a program: it runs where the agent worked, on the end state, and what it writes is the reward.

The box holds the end state at the package's workdir, the program's files at /tests and an empty /logs; never the
reference or a solution. The reward is read from a snapshot of the box, not through it. A program that ends with a
failure and wrote a reward has said what it had to say, as test runners do; one that a limit killed, or that wrote
none that can be believed, is a fault of the verifier.

What the agent left is hostile: plain files are laid out, and links that stay inside the end state. So nothing of it
can stand for the program's files or for a reward.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from rover.harness.manifest import is_script
from rover.sandbox.paths import check_paths
from rover.sandbox.protocol import Completed, Files, Place, Sandbox
from rover.verify.links import folders_of, inside
from rover.verify.plan import Graded, regular
from rover.verify.reward import BARE, NoReward, rewards_of
from rover.verify.shown import Memo
from rover_store.errors import SandboxError
from rover_store.ids import digest
from rover_store.records import Limits, Program, Score, Verifier

#: folders of the workspace in which a program runs
APP, TESTS, LOGS = "app", "tests", "logs"
#: where the reward lies
OUT = f"{LOGS}/verifier"
CHECK = "program"
#: room beside the end state for what a program writes
ROOM_BYTES, ROOM_FILES = 64 << 20, 2_000

#: the call that lays out what plain files cannot say, and what it may use whatever the package's own limits are
PREPARE = "rover.verify.inside_layout:prepare"
PREPARING = Limits(wall_s=60.0, cpu_s=60.0, file_bytes=4 << 30)

#: lends a box that holds some files, at a place
Borrow = Callable[..., AbstractContextManager[Sandbox]]


@dataclass(frozen=True, slots=True)
class Said:
    """What a program said: rewards by key and in words how it ended, or in `error` why there are none.

    `failed`: the state could not even be shown to it, which counts as nothing done.
    """

    rewards: Mapping[str, float]
    reason: str
    error: str = ""
    failed: bool = False


class Prepared(NamedTuple):
    """What is laid out beside plain files, for the call, and in words what is not."""

    payload: dict[str, Any]
    note: str = ""


def program_scores(
    box: Sandbox | Borrow,
    verifier: Verifier,
    verifier_files: Files,
    graded: Graded,
    *,
    place: Place | None = None,
    limits: Limits | None = None,
    memo: Memo | None = None,
) -> tuple[Score, ...]:
    """A score for each criterion of a verifier that is a program: what it said under the criterion's id."""
    said = run_program(box, verifier, verifier_files, graded, place=place, limits=limits, memo=memo)
    return tuple(
        Score(
            criterion=c.id,
            requirement=c.requirement,
            score=0.0 if (error := _missing(c.id, said)) or said.failed else said.rewards[c.id],
            weight=c.weight,
            critical=c.critical,
            reason=error or said.reason,
            status="error" if error else "scored",
        )
        for c in verifier.criteria
    )


def run_program(
    box: Sandbox | Borrow,
    verifier: Verifier,
    verifier_files: Files,
    graded: Graded,
    *,
    place: Place | None = None,
    limits: Limits | None = None,
    memo: Memo | None = None,
) -> Said:
    """Run the program of a verifier on an end state. SandboxError where the box itself fails."""
    assert verifier.program is not None
    program, place = verifier.program, place or Place()
    state, _ = regular(graded)
    if why := unholdable(state):
        return unlaid(why)
    files = layout(program, verifier_files, state)
    prepared = preparation(files, graded, place)
    where, room = grading_place(place), bounds(program, limits or Limits(), files, prepared)
    key = ""
    if memo is not None:
        # everything of the place counts; of its files the ids do
        at = {**asdict(replace(where, build=())), "build": memo.ids(dict(where.build))}
        seen = [program.model_dump(mode="json"), memo.ids(files), list(prepared), at, room.model_dump(mode="json")]
        key = digest(["program", *seen, graded.conditions.seed])
        if (known := memo.known.get(key)) is not None:
            return Said(known["rewards"], known["reason"])
    said = _run(box, program, files, prepared, where, room, graded)
    if memo is not None and not (said.error or said.failed):
        memo.known[key] = {"rewards": dict(said.rewards), "reason": said.reason}
    return said


def workdir_of(place: Place) -> str:
    """Where the workspace stands at this place; empty where it stands at no other path than its own."""
    return next((path for path, folder in place.links if not folder), "")


def grading_place(place: Place) -> Place:
    """The place of a grading: the end state where the workspace stood, the program's files, and its logs."""
    workdir = workdir_of(place)
    links = ((workdir, APP),) if workdir else ()
    return replace(place, links=(*links, ("/tests", TESTS), ("/logs", LOGS)), shows=())


def layout(program: Program, verifier_files: Files, end: Files) -> dict[str, bytes]:
    """The workspace of a grading: app/ and tests/. logs/ is made empty, so no reward lies there."""
    folder = program.files.strip("/")
    where = f"{folder}/" if folder else ""
    out = {f"{APP}/{path}": data for path, data in end.items()}
    return out | {f"{TESTS}/{p[len(where) :]}": d for p, d in verifier_files.items() if p.startswith(where)}


def preparation(files: Files, graded: Graded, place: Place) -> Prepared:
    """What plain files cannot say: empty folders, modes, links that stay inside the end state."""
    run = {path for path, data in files.items() if path.startswith(f"{TESTS}/") and is_script(data)}
    run |= {f"{APP}/{path}" for path in executables(graded)} & files.keys()
    found = inside(graded.links, graded.end, workdir_of(place))
    links = [[f"{APP}/{path}", target] for path, target in found.links.items()]
    folders = [APP, TESTS, OUT, f"{LOGS}/agent", f"{LOGS}/artifacts"]
    note = f"{found.left} of {len(graded.links)} links are left out: {found.why}" if found.left else ""
    return Prepared({"folders": folders, "executables": sorted(run), "links": links}, note)


def executables(graded: Graded) -> set[str]:
    """Files of an end state that may be run: as it was recorded, and scripts of the start, whose modes are not kept."""
    if graded.executable is None:
        return {path for path, data in graded.end.items() if is_script(data)}
    start = {path for path, data in graded.start.items() if is_script(data)}
    return set(graded.executable) | {path for path in start if graded.end.get(path) == graded.start[path]}


def bounds(program: Program, limits: Limits, files: Files, prepared: Prepared) -> Limits:
    """The limits of a grading: the program's own time, and room for what is laid out beside what a workspace may hold.

    A file whose mode is changed takes its room once more, and so do the folders that it lies in.
    """
    run, links = prepared.payload["executables"], [path for path, _ in prepared.payload["links"]]
    tests = (path for path in files if path.startswith(f"{TESTS}/"))
    laid = sum(len(files[path]) for path in {*tests, *run})
    folders = folders_of([*files, *links])
    return limits.model_copy(
        update={
            "wall_s": program.seconds,
            "cpu_s": max(limits.cpu_s, program.seconds),
            "disk_bytes": limits.disk_bytes + laid + ROOM_BYTES,
            "inodes": limits.inodes + len(files) + len(folders) + len(links) + ROOM_FILES,
        }
    )


def _run(
    box: Sandbox | Borrow,
    program: Program,
    files: Files,
    prepared: Prepared,
    place: Place,
    limits: Limits,
    graded: Graded,
) -> Said:
    env, unknown = environment(program)
    if unknown:
        return Said({}, "", f"the program asks for the variable {unknown}, which no package states")
    if graded.conditions.seed:
        env = {**env, "PYTHONHASHSEED": str(graded.conditions.seed % (1 << 32))}
    workdir = next((path for path, folder in place.links if folder == APP), APP)
    argv = ["sh", "-c", 'cd "$0" && exec "$@"', workdir, *program.argv]
    with _lent(box, files, limits, place) as lent:
        made = lent.call(PREPARE, prepared.payload, limits=PREPARING)
        if made.breach == "cancelled":
            raise SandboxError("the box was closed meanwhile")
        if made.error:
            return unlaid(made.error)
        done = lent.run(argv, env=env, limits=limits)
        if done.breach == "cancelled":
            raise SandboxError("the box was closed meanwhile")
        if done.breach and done.breach != "output":
            return Said({}, "", f"the program broke the {done.breach} limit")
        snapshot = lent.snapshot()
    try:
        rewards = rewards_of(snapshot, OUT, files)
    except NoReward as error:
        return Said({}, "", f"the program gave no reward that can be believed: {error}; it {_ended(done)}")
    gave = ", ".join(f"{value:g}" if key == BARE else f"{key} {value:g}" for key, value in sorted(rewards.items()))
    notes = "".join(f"; {note}" for note in (prepared.note, _not_made(made.value)) if note)
    return Said(rewards, f"the program gives {gave[:200]}; it {_ended(done)}{failures(done)}{notes}")


def unlaid(why: str) -> Said:
    """What is said of an end state that no box can hold: it is no work, whoever left it, and no fault of the box."""
    return Said({}, f"the end state cannot be laid out: {why}", failed=True)


def unholdable(state: Files) -> str:
    """Why no file system can hold a state; empty where one can."""
    try:
        check_paths(state)
    except SandboxError as error:
        return error.message
    both = folders_of(state) & state.keys()
    return f"{min(both)[:100]!r} is a file and a folder" if both else ""


def _not_made(value: Mapping[str, Any]) -> str:
    """What of links and modes could not be made, in words."""
    if not value["failed"]:
        return ""
    return f"{value['failed']} links or modes could not be laid out ({', '.join(value['told'])})"


_TEMPLATE = re.compile(r"\$\{([^}:]+)(?::-(.*))?\}")


def environment(program: Program) -> tuple[dict[str, str], str]:
    """The variables of a program, and the first one that it wants of whoever runs it. `${NAME:-text}` is the text."""
    out = {}
    for name, value in program.env.items():
        template = _TEMPLATE.fullmatch(value)
        if template is None:
            out[name] = value
        elif template[2] is None:
            return {}, template[1]
        else:
            out[name] = template[2]
    return out, ""


#: lines of its output in which a test runner says what failed, and what differs there from run to run
_FAILED = re.compile(
    r"^(?:FAILED |ERROR |FAIL: |E  +|not ok\b|[\w.]*(?:Error|Exception)\b|.*: No such file or directory).*$",
    re.MULTILINE,
)
_FICKLE = re.compile(r"0x[0-9a-fA-F]{4,}|\b\d+\.\d+ ?s\b|/tmp/\S+")
MOST_LINES, LINE_CHARS = 3, 160


def failures(done: Completed) -> str:
    """What a test runner said of failures, without times and addresses: a verdict is the same in every run."""
    lines = [line for out in (done.stdout, done.stderr) for line in _FAILED.findall(out.decode("utf-8", "replace"))]
    said = dict.fromkeys(" ".join(_FICKLE.sub("...", line).split())[:LINE_CHARS] for line in lines[:MOST_LINES])
    return "".join(f"; {line}" for line in said)


def _ended(done: Completed) -> str:
    """How a program ended."""
    if done.breach:
        return f"broke the {done.breach} limit"
    said = f"ended with exit code {done.exit_code}"
    return said if done.exit_code in (0, 1) else f"{said}{_told(done.stderr)}"


def _told(stderr: bytes) -> str:
    lines = stderr.decode("utf-8", "replace").strip().splitlines()
    return f" ({' '.join(_FICKLE.sub('...', lines[-1]).split())[:LINE_CHARS]})" if lines else ""


def _missing(key: str, said: Said) -> str:
    """Why there is no score under a key; empty where there is one."""
    if said.error or said.failed or key in said.rewards:
        return said.error
    others = ", ".join(sorted(said.rewards))[:120]
    return f"the program gave no reward called {key!r} (it gave {others})"


def _lent(box: Sandbox | Borrow, files: Files, limits: Limits, place: Place) -> AbstractContextManager[Sandbox]:
    if callable(box):
        return box(files, limits, place)
    box.reset(files, limits=limits)
    return nullcontext(box)
