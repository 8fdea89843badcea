"""Proposals by rule for packages whose verifier is a program: the request by its names, the test script by its habits.

A test script that rejects nothing, or writes no reward, has one of a few usual mistakes; each is put right where it
stands and nothing else of the tests is touched.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex

from rover.repair.program_intent import called
from rover.repair.proposals.program_values import with_value
from rover.repair.proposals.protocol import Draft, PackageView, Style, suspected
from rover_store.ids import ComponentName
from rover_store.records import Diagnosis, Finding

REWARD = "/logs/verifier/reward"
_WRITES = re.compile(r">\s*[\"']?(?:[\w.$/{}-]*/)?reward\.(txt|json)[\"']?")
_ELSEWHERE = re.compile(r"(>\s*[\"']?)((?:[\w.$/{}-]*/)?)(reward\.(?:txt|json))")
#: a line that gives full marks whatever went before
_FULL = re.compile(
    r"^[ \t]*(?:echo|printf)\s+(?:-n\s+)?['\"]?1(?:\.0+)?(?:\\n)?['\"]?\s*>\s*\S*reward\.txt[\"']?[ \t]*$"
)
#: a line that runs the tests
_RUNS = re.compile(
    r"^\s*(?:[A-Z_]+=\S+\s+)*(?:uvx?\s|pytest|python3?\s|bash\s|sh\s|/tests/|\./|node\s|go\s|cargo\s|make\b)"
)
_MASKED = re.compile(r"\s*(?:\|\||;)\s*(?:true|:)\s*$")


class TaskOfProgram:
    """The request names the files that solution and tests have."""

    name = "task-program"
    component: ComponentName = "task"
    style: Style = "rule"
    written_for = frozenset({"renamed_deliverable", "missing_given"})

    def propose(self, view: PackageView, diagnosis: Diagnosis) -> Draft | None:
        text, done = view.env.instruction, list[str]()
        for finding in suspected("task", diagnosis):
            path, found = (str(finding.details.get(k) or "") for k in ("path", "found"))
            if finding.probe != "deliverable_names" or finding.components[0] != "task" or not path:
                continue
            if finding.kind == "renamed_deliverable" and found:
                text = called(text, found, path)
                done.append(f"ask for {path} instead of {found}, as solution and tests have it")
            elif finding.kind == "missing_given":
                text = f"{text.rstrip()}\n\nWrite the result to `{posixpath.join(view.env.workdir, path)}`.\n"
                done.append(f"say that the result has to go to {path}")
        if text == view.env.instruction:
            return None
        files = {**view.component("task"), "instruction.md": text.encode()}
        return Draft("task", files, rationale="; ".join(done), writes=("file:task/instruction.md",))


class VerifierOfProgram:
    """The tests read what request and solution have, and the script says what they found."""

    name = "verifier-program"
    component: ComponentName = "verifier"
    style: Style = "rule"
    written_for = frozenset({"renamed_deliverable", "verifier_crash", "lax_verifier", "strict_verifier"})

    def propose(self, view: PackageView, diagnosis: Diagnosis) -> Draft | None:
        files, done = view.component("verifier"), list[str]()
        script = script_of(view)
        for finding in suspected("verifier", diagnosis):
            if finding.kind == "renamed_deliverable" and finding.components[0] == "verifier":
                done += _renamed(view, files, finding)
            elif script in files and finding.kind in ("verifier_crash", "lax_verifier"):
                text = files[script].decode("utf-8", "replace")
                crash = finding.kind == "verifier_crash"
                new, what = rewarded(text, keys(view)) if crash else judging(text)
                if new != text:
                    files[script] = new.encode()
                    done.append(what)
            elif finding.kind == "strict_verifier":
                files, what = with_value(view, files)
                done += [what] if what else []
        if not done:
            return None
        return Draft("verifier", files, rationale="; ".join(dict.fromkeys(done)), writes=(f"file:verifier/{script}",))


def script_of(view: PackageView) -> str:
    """The script that the program runs, as a path of the component; empty where it runs none of its own."""
    program = view.env.verifier.program
    words = program.argv if program is not None else ()
    own = [word.removeprefix("/tests/") for word in words if word.startswith("/tests/")]
    return f"{program.files.strip('/')}/{own[0]}" if program is not None and own else ""


def keys(view: PackageView) -> list[str]:
    return [c.id for c in view.env.verifier.criteria]


def rewarded(text: str, names: list[str]) -> tuple[str, str]:
    """The script with its reward where it is looked for, and with none at all for a mark of 0.

    A script that writes the reward elsewhere writes it there; one that may end before it writes any begins with 0.
    """
    moved = _ELSEWHERE.sub(lambda m: f"{m[1]}{REWARD.rpartition('/')[0]}/{m[3]}", text)
    if moved != text:
        return moved, "write the reward where it is looked for"
    written = _WRITES.search(text)
    kind = written[1] if written else "txt"
    zero = "0" if kind == "txt" else json.dumps(dict.fromkeys(names, 0))
    first = f"echo {shlex.quote(zero)} > {REWARD}.{kind}"
    if first in text:
        return text, ""
    return _after_shebang(text, first), "begin with a reward of 0, for a script that ends before it writes one"


def judging(text: str) -> tuple[str, str]:
    """The script with a reward that depends on its tests, where it gives full marks whatever they say."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if _RUNS.match(line) and _MASKED.search(line) and _asks_status(lines, number + 1):
            lines[number] = _MASKED.sub("", line)
            return _joined(lines), "let the tests' failure be seen"
    full = [n for n, line in enumerate(lines) if _FULL.match(line)]
    runs = [n for n, line in enumerate(lines) if _RUNS.match(line)]
    if len(full) == 1 and runs and runs[-1] < full[0] and not _depends(lines, runs[-1], full[0]):
        at = runs[-1]
        target = lines[full[0]].partition(">")[2].strip()
        test = _MASKED.sub("", lines[at]).strip()
        between = lines[at + 1 : full[0]]
        said = [f"if {test}; then", f"  echo 1 > {target}", "else", f"  echo 0 > {target}", "fi"]
        lines[at : full[0] + 1] = [*said, *between]
        return _joined(lines), "give the full mark only where the tests hold"
    if "| tee" in text and "$?" in text and "pipefail" not in text:
        return _after_shebang(text, "set -o pipefail"), "let a failure before a pipe be seen"
    return text, ""


def _asks_status(lines: list[str], after: int) -> bool:
    return any("$?" in line for line in lines[after : after + 3])


def _depends(lines: list[str], first: int, last: int) -> bool:
    """Whether what stands between says when the full mark is given."""
    words = " ".join(lines[first : last + 1])
    return any(mark in words for mark in ("$?", "&&", "if ", "then", "exit", "set -e")) or any(
        line.strip().startswith("set -e") for line in lines[:first]
    )


def _after_shebang(text: str, line: str) -> str:
    head, newline, rest = text.partition("\n")
    if head.startswith("#!"):
        return f"{head}{newline}{line}\n{rest}"
    return f"{line}\n{text}"


def _joined(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def _renamed(view: PackageView, files: dict[str, bytes], finding: Finding) -> list[str]:
    """Text files of the tests with the name that request and solution have."""
    path, found = str(finding.details.get("path") or ""), str(finding.details.get("found") or "")
    program = view.env.verifier.program
    if not path or not found or program is None:
        return []
    done = []
    for name, data in list(files.items()):
        if not name.startswith(f"{program.files.strip('/')}/"):
            continue
        try:
            text = data.decode()
        except UnicodeDecodeError:
            continue
        new = called(text, found, path)
        if new != text:
            files[name] = new.encode()
            done.append(f"read {path} instead of {found} in {name}")
    return done
