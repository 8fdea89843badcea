"""Grades one end state by a package's checks, with nothing but this folder and a Python of 3.11 or newer.

    python3 grade.py END [--message FILE] [--reward DIR]

END is the folder that an agent left. What the checks say is printed as one JSON object; with --reward it is also
written to DIR/verdict.json (`gate`: whether all critical criteria hold; a score and a reason for each), and the reward
to DIR/reward.json: `reward` is 1 where the state passes, else 0; `share` the weighted share of the criteria.

A check that fails is no reward: then no reward is written, and the exit code is 3. Exit code 0 otherwise, pass or not.

Beside this file: plan.json (criteria, anchors, what each is shown), checks/, start/ (files of the start state that
checks are shown), lib/ (the library of checks), vendor/ (openpyxl, where a check reads workbooks).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

Json = dict[str, Any]
#: plain files, and a reason for everything else
Found = tuple[list[str], dict[str, str]]

HERE = Path(__file__).resolve().parent
MAX_FILE_BYTES = 64 << 20
#: as in a grading by rover: rounding slack of the pass mark, tries where a check fails
EPSILON = 1e-9
TRIES = 2
#: beyond the time of the checks themselves: start of Python, reading
SLACK_S = 30.0
FAILED = 3
INSIDE = "--inside"


def main(argv: list[str] | None = None) -> int:
    words = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    words.add_argument("end", type=Path)
    words.add_argument("--message", type=Path, help="file with the agent's final message")
    words.add_argument("--reward", type=Path, help="folder for reward.json and verdict.json")
    asked = words.parse_args(argv)
    verdict = graded(asked.end, message_of(asked.message))
    text = json.dumps(verdict, indent=1, ensure_ascii=False) + "\n"
    print(text, end="")
    if asked.reward:
        asked.reward.mkdir(parents=True, exist_ok=True)
        for name in ("reward.json", "reward.txt"):
            (asked.reward / name).unlink(missing_ok=True)
        (asked.reward / "verdict.json").write_text(text, encoding="utf-8")
        if "error" not in verdict:
            (asked.reward / "reward.json").write_text(json.dumps(rewards(verdict), indent=1) + "\n", encoding="utf-8")
    if "error" in verdict:
        print(f"no reward: {verdict['error']}", file=sys.stderr)
        return FAILED
    return 0


def message_of(path: Path | None) -> str:
    """The final message, empty where there is none."""
    if path is None or path.is_symlink() or not path.is_file():
        return ""
    return path.read_bytes()[:MAX_FILE_BYTES].decode("utf-8", "replace").removesuffix("\n")


def graded(end: Path, message: str) -> Json:
    """The verdict: passed, share, gate, scores; or `error` where a check failed twice."""
    plan = json.loads((HERE / "plan.json").read_bytes())
    found = state(end)
    said: dict[str, Json] = {}
    for _ in range(TRIES):
        for parts in plan["calls"]:
            said |= call(plan, parts, end, found, message)
        failed = [c["id"] for c in plan["criteria"] if "error" in said[c["id"]]]
        if not failed:
            return judged(plan, said)
    first = failed[0]
    return {"error": f"{first}: {said[first]['error']}", "scores": said}


def judged(plan: Json, said: dict[str, Json]) -> Json:
    """All critical criteria, and the share of the weight that a pass needs."""
    criteria = plan["criteria"]
    scores = {c["id"]: float(said[c["id"]]["score"]) for c in criteria}
    total = sum(c["weight"] for c in criteria)
    share = sum(c["weight"] * scores[c["id"]] for c in criteria) / total if total > 0 else 0.0
    if all(score == 1 for score in scores.values()) and total > 0:
        share = 1.0
    share = min(1.0, share)
    gate = int(all(scores[c["id"]] >= 1 for c in criteria if c["critical"]))
    passed = gate == 1 and share >= plan["pass_weight"] - EPSILON and share > 0
    return {"passed": passed, "share": share, "gate": gate, "scores": said}


def rewards(verdict: Json) -> dict[str, float]:
    """A flat object of numbers, of the same keys for every package."""
    return {"reward": int(verdict["passed"]), "share": verdict["share"]}


# --- the end state -----------------------------------------------------------------------------------------
def state(root: Path) -> Found:
    """Plain files of a folder, and a reason for everything else in it. Nothing is followed."""
    files: list[str] = []
    irregular: dict[str, str] = {}
    for folder, inner, names in os.walk(root):
        links = [name for name in inner if os.path.islink(os.path.join(folder, name))]
        inner[:] = sorted(set(inner) - set(links))
        for name in (*names, *links):
            path = os.path.relpath(os.path.join(folder, name), root)
            reason = _irregular(os.path.join(folder, name))
            shown = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            if shown != path:
                irregular[shown] = "its name is not UTF-8"
            elif reason:
                irregular[path] = reason
            else:
                files.append(path)
    return sorted(files), dict(sorted(irregular.items()))


def _irregular(path: str) -> str:
    info = os.lstat(path)
    if stat.S_ISLNK(info.st_mode):
        return "is a link, not a file"
    if not stat.S_ISREG(info.st_mode):
        return "is no plain file"
    if info.st_size > MAX_FILE_BYTES:
        return f"is too large ({info.st_size} bytes, at most {MAX_FILE_BYTES})"
    return ""


def has(paths: list[str] | None, path: str) -> bool:
    """Whether a criterion that declares these paths is shown this one; None: everything."""
    return paths is None or any(path == p or path.startswith(p.rstrip("/") + "/") for p in paths)


def irregular_for(paths: list[str] | None, found: dict[str, str]) -> dict[str, str]:
    if paths is None:
        return dict(found)
    return {k: why for k, why in found.items() if has(paths, k) or any(p.startswith(k + "/") for p in paths)}


# --- one grading -------------------------------------------------------------------------------------------
def call(plan: Json, parts: list[Json], end: Path, found: Found, message: str) -> dict[str, Json]:
    """What the criteria of some parts say. They run in a process and a folder of their own."""
    files, irregular = found
    start, _ = state(HERE / "start")
    first = parts[0]
    with tempfile.TemporaryDirectory(prefix="grade-") as scratch:
        box = Path(scratch)
        for name, root, paths in (("start", HERE / "start", start), ("end", end, files)):
            (box / name).mkdir()
            for path in paths:
                if has(first["paths"], path):
                    target = box / name / path
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(root / path, target, follow_symlinks=False)
        shutil.copytree(HERE / "checks", box / "verifier" / "checks")
        payload = {
            "parts": [
                {
                    "criteria": part["criteria"],
                    "irregular": irregular_for(part["paths"], irregular),
                    "start": [p for p in start if has(part["paths"], p)],
                    "end": [p for p in files if has(part["paths"], p)],
                }
                for part in parts
            ],
            "message": message if first["message"] else "",
            "check_wall_s": plan["check_wall_s"],
            "wall_s": plan["wall_s"],
        }
        return answered(parts, payload, box, plan["wall_s"] + SLACK_S)


def answered(parts: list[Json], payload: Json, box: Path, seconds: float) -> dict[str, Json]:
    """Run the checks of a payload in `box`; an error for each of them where the process gave nothing."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-B", str(Path(__file__).resolve()), INSIDE],
            input=json.dumps(payload).encode(),
            stdout=subprocess.PIPE,
            cwd=box,
            timeout=seconds,
            check=True,
        )
        return {found["criterion"]: found for found in json.loads(done.stdout)}
    except subprocess.TimeoutExpired:
        why = "the checks broke the wall limit"
    except (subprocess.CalledProcessError, ValueError) as error:
        why = f"the checks gave no scores ({error})"
    return {c["id"]: {"criterion": c["id"], "error": why} for part in parts for c in part["criteria"]}


def inside() -> int:
    """In the process of its own: the payload from standard input, the scores to standard output."""
    out = os.dup(1)
    os.dup2(2, 1)  # what a check prints is no score
    sys.path[:0] = [str(HERE / "lib"), *sorted(str(p) for p in (HERE / "vendor").glob("*.zip"))]
    from rover.verify.inside import grade

    scores = grade(json.loads(sys.stdin.buffer.read()))
    with os.fdopen(out, "wb") as stream:
        stream.write(json.dumps(scores).encode())
    return 0


if __name__ == "__main__":
    if sys.version_info < (3, 11):  # noqa: UP036  # it is run by whatever Python is there
        sys.exit(f"Python 3.11 or newer is needed, and this is {sys.version.split()[0]}")
    sys.exit(inside() if sys.argv[1:] == [INSIDE] else main())
