"""The commands of a comparison, from an empty folder to evaluations: build, collect, split, SFT, RL, eval.

    WORK/files, base    workspaces and the pretrained small model
    WORK/store          packages and demonstrations
    WORK/splits         all.json, and one a task set: the same workspaces are held out for all
    WORK/sft            the checkpoint that every run begins at
    WORK/runs/SET/ARM-SEED, WORK/evals/SET/...
"""

from __future__ import annotations

from pathlib import Path

from rover_train.bench.plan import ARMS, FAMILIES, Plan
from rover_train.bench.work import Stage

#: seed of the rollouts of all evaluations
EVAL_SEED = 1
HABITS = "solver:hasty"


class Stages:
    """The stages of one plan in one folder."""

    def __init__(self, work: Path, plan: Plan) -> None:
        self.work = work
        self.plan = plan

    def prepared(self, workers: int) -> list[list[Stage]]:
        """Up to the demonstrations: chains that can run side by side, behind the first stage."""
        work, scale, seed = self.work, self.plan.scale, str(self.plan.seed)
        files, base, store = work / "files", work / "base", work / "store"
        built = ["build", "--from", str(files), "--each", "--count", str(scale.count), "--seed", seed]
        model = ["world", "--model", str(base), "--steps", str(scale.pretraining), "--seed", seed]
        gathered = ["collect", "*", "--policy", HABITS, "-k", str(scale.demonstrations), "--seed", seed]
        gathered += ["--keep", str(scale.demonstrations)]
        side = ("-n", str(workers))
        made = Stage(
            "files", ["world", str(files), "--workspaces", str(scale.workspaces), "--seed", seed], clears=(files,)
        )
        chain = [made, Stage("init", ["init", str(store)], rests_on=(made,), clears=(store,))]
        for name in self.plan.sets:
            chain.append(Stage(f"build-{name}", [*built, "--family", FAMILIES[name]], tuple(chain), side))
        chain.append(Stage("collect", gathered, tuple(chain), side))
        return [[Stage("base", model, clears=(base,))], chain]

    def sft(self, revision: str) -> Stage:
        """The shared checkpoint."""
        out = self.work / "sft"
        command = ["train", "--method", "sft", "--revision", revision, "--model", f"small:{self.work / 'base'}"]
        command += ["--config", "recipe:sft", "--out", str(out), "--seed", str(self.plan.seed)]
        command += _set("data.split", str(self.split("all")), *self.plan.scale.sft)
        return Stage("sft", command, rests_on=self.prepared(1)[0], resumes=out)

    def base(self, revision: str) -> list[Stage]:
        """The shared checkpoint, measured on every set."""
        sft = self.sft(revision)
        sets = self.plan.sets
        return [s for name in sets for s in self._measured(sft, self.work / "sft", name, "sft", validation=True)]

    def run(self, revision: str, name: str, arm: str, seed: int) -> Stage:
        """One run of RL."""
        out = self.folder(name, arm, seed)
        spec = ARMS[arm]
        command = ["train", "--method", spec.method, "--revision", revision, "--from", str(self.work / "sft")]
        command += ["--config", "recipe:rl", "--out", str(out), "--seed", str(seed)]
        command += _set("data.split", str(self.split(name)), *self.plan.scale.rl, *spec.sets)
        return Stage(f"runs/{name}/{arm}-{seed}", command, rests_on=(self.sft(revision),), resumes=out)

    def measured(self, revision: str, name: str, arm: str, seed: int) -> list[Stage]:
        """A run of RL at its last step, on held-out packages: all arms have had the same rollouts."""
        newest = self.folder(name, arm, seed) / "checkpoints"
        run = self.run(revision, name, arm, seed)
        return self._measured(run, newest, name, f"{arm}-{seed}", validation=False)

    def _measured(self, of: Stage, model: Path, name: str, label: str, *, validation: bool) -> list[Stage]:
        attempts = self.plan.scale.attempts
        asked = [("greedy", "held-out", 1, 0.0), ("sampled", "held-out", attempts, 1.0)]
        if validation:
            asked.append(("validation", "validation", 1, 0.0))
        out = []
        for what, part, k, temperature in asked:
            file = self.evaluation(name, label, what)
            command = ["eval", "--model", str(model), "--split", str(self.split(name)), "--part", part]
            command += ["-k", str(k), "--temperature", f"{temperature:g}", "--seed", str(EVAL_SEED)]
            command += ["--out", str(file)]
            out.append(Stage(f"evals/{name}/{label}-{what}", command, rests_on=(of,), clears=(file,)))
        return out

    # --- where things are --------------------------------------------------------------------------------
    def split(self, name: str) -> Path:
        return self.work / "splits" / f"{name}.json"

    def folder(self, name: str, arm: str, seed: int) -> Path:
        return self.work / "runs" / name / f"{arm}-{seed}"

    def evaluation(self, name: str, label: str, what: str) -> Path:
        """`what`: greedy or sampled on held-out packages, validation for the shared checkpoint."""
        return self.work / "evals" / name / f"{label}-{what}.json"


def _set(key: str, value: str, *others: str) -> list[str]:
    return [word for text in (f"{key}={value}", *others) for word in ("--set", text)]
