"""Defects of what the workspace shows: the answer, or what the verifier compares with."""

from __future__ import annotations

import json
import random

from rover.diagnose.inject.edits import added
from rover.diagnose.inject.protocol import C, Components, Damage, Expects, Masks, Unfit, rng_for
from rover.rollout.env import Env
from rover_store.records import Anchor, Table


class LeakedAnswer:
    kind = "leaked_answer"
    summary = "a file of the workspace shows the answer: a note, an earlier result, an old repository"
    repair = "C: take the file out"
    expects: Expects = (("leaked_answer", "context"),)
    components: Components = ("context",)
    right: Masks = (C,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        tables = worth_telling(env)
        way = rng.choice(("note", "copy", "repository"))
        if tables and way == "note":
            return noted(env, rng, self.kind)
        return copied(env, rng, self.kind) if way != "repository" else _repository(env, rng, self.kind)


class VerifierReadable:
    kind = "verifier_readable"
    summary = "checks or expected values of the verifier lie in the workspace, where the policy can read them"
    repair = "C: take them out"
    expects: Expects = (("verifier_readable", "context"),)
    components: Components = ("context",)
    right: Masks = (C,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        folder = rng.choice(("tests", "qa", ".ci", "acceptance"))
        expected = [{"id": a.id, **a.value.model_dump(mode="json")} for a in env.anchors.anchors]
        checks = {p: d for p, d in env.verifier_files.items() if p.startswith("checks/")}
        if not expected:
            raise Unfit(self.kind, "the verifier holds no expected value")
        files = {f"{folder}/expected.json": (json.dumps(expected, indent=1, ensure_ascii=False) + "\n").encode()}
        if rng.random() < 0.6:
            files |= {f"{folder}/{p.rpartition('/')[2]}": d for p, d in checks.items()}
        if rng.random() < 0.4:
            files |= {f"{folder}/expected/{t.rpartition('/')[2]}": d for t, d in made(env).items()}
        return added(env, self.kind, files, f"{folder}/ holds {len(files)} files of the verifier")


def noted(env: Env, rng: random.Random, kind: str, ending: str = "md") -> Damage:
    """The package with a note of an anchor's rows. Unfit where no anchor is worth telling."""
    tables = worth_telling(env)
    if not tables:
        raise Unfit(kind, "no anchor holds figures that a note would tell")
    start = rng.choice(("Worked this out earlier, for later use:", "From the last time:", "For the record:"))
    path = f"{rng.choice(('notes', 'handover', 'draft', 'worklog'))}.{ending}"
    return with_file(env, kind, path, told(rng.choice(tables), start))


def copied(env: Env, rng: random.Random, kind: str) -> Damage:
    """The package with a copy of a deliverable of the reference, as an earlier worker would leave it."""
    target, data = _one_made(env, rng, kind)
    stem, _, ending = target.rpartition("/")[2].rpartition(".")
    name = rng.choice((f"{stem}_final.{ending}", f"{stem}_final_v2.{ending}", f"{stem}.{ending}"))
    return with_file(env, kind, f"{rng.choice(('old', 'archive', 'backup', 'done'))}/{name}", data)


def with_file(env: Env, kind: str, path: str, data: bytes) -> Damage:
    """The package with one more file of its own."""
    return added(env, kind, {path: data}, f"added {path}, which shows an answer")


def made(env: Env) -> dict[str, bytes]:
    """Deliverables as the reference makes them."""
    files = {
        path.removeprefix("reference/files/"): data
        for path, data in env.verifier_files.items()
        if path.startswith("reference/files/")
    }
    return {p: d for p, d in sorted(files.items()) if p in env.targets()}


def worth_telling(env: Env) -> list[Anchor]:
    """Anchors that hold figures beside keys, or more than one figure."""
    return [a for a in env.anchors.anchors if a.value.rows and _digits(a.value) >= 5]


def told(anchor: Anchor, start: str = "Worked this out earlier, for later use:") -> bytes:
    """An anchor's rows as somebody would note them."""
    lines = [start, "", " ".join(anchor.value.columns)]
    lines += [" ".join("" if cell is None else str(cell) for cell in row) for row in anchor.value.rows]
    return ("\n".join(lines) + "\n").encode()


def _one_made(env: Env, rng: random.Random, kind: str) -> tuple[str, bytes]:
    done = list(made(env).items())
    if not done:
        raise Unfit(kind, "the reference holds no deliverable")
    return rng.choice(done)


def _repository(env: Env, rng: random.Random, kind: str) -> Damage:
    """A folder of a version control that somebody copied along, with a later state in it."""
    target, data = _one_made(env, rng, kind)
    root = rng.choice(("repo.bak", "dot_git_backup", ".hg.old", "old_checkout"))
    files = {
        f"{root}/HEAD": b"ref: refs/heads/main\n",
        f"{root}/COMMIT_EDITMSG": rng.choice((b"Add the result\n", b"Finish it\n", b"Done, for review\n")),
        f"{root}/worktree/{target}": data,
    }
    return added(env, kind, files, f"added {root}/, which holds the finished {target}")


def _digits(table: Table) -> int:
    numbers = [c for row in table.rows for c in row if isinstance(c, int | float) and not isinstance(c, bool)]
    return sum(len(json.dumps(abs(n)).replace(".", "").strip("0")) for n in numbers)
