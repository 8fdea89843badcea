"""A model of one layer, a store with two small packages, and RL on them within a second or two.

    store(folder)          a store with two packages (workspaces `shop` and `yard`) that `answers` solves
    model_folder(folder)   a folder with tokenizer, chat template and a model that transformers load
    config(**sections)     settings for runs of a few steps
    train(out, ...)        begin the run of a folder, or go on with it

`python tests/tiny_rl.py FOLDER` is the kill drill: a training that is killed three times, and one that is not. It
prints one JSON line.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import packages

from rover.policy.scripted import ScriptedPolicy
from rover.rollout.env import below, tree_of
from rover.sandbox.local import LocalRuntime
from rover_store.records import Contract, Criterion, Deliverable, Edge, Harness, Package, Split, SplitPart, ToolCall
from rover_store.records.contract import Column, FormatRule, ProtectedRule, Requirement
from rover_store.store import Store
from rover_train.config import Config, check

TOOLS = ("read_table", "write_table")
#: tokens of a turn that solves the task
TURN = 24
TEXT = """list_files read_table write_table path= where columns rows set orders.csv report.csv notes.md region orders
total North South East West 1001 1002 1003 1 2 310.1 219.75 125.75 1200.0 Copy the regions of into done Wrote
""" * 4
CHECKS = '''"""Checks of the copied regions."""

import rover_checks as rc


def report_format(ev):
    return rc.has_columns(rc.table(ev.end("report.csv")), ["region"])


def report_rows(ev):
    rows = rc.table(ev.end("report.csv")).rows
    return sum(str(row[0]) in ("East", "West") for row in rows) / max(2, len(rows)) if rows else 0.0


def sources_kept(ev):
    return rc.protected(ev, ["orders.csv", "notes.md"])
'''
INSTRUCTION = "Write report.csv with the column region and the rows East and West of orders.csv\n"


def package(name: str, workspace: str) -> dict[str, bytes]:
    """A task of two turns: read, write."""
    files = packages.summary_package(name)
    report = {"deliverable": "report"}
    files["task/instruction.md"] = INSTRUCTION.encode()
    files["task/contract.json"] = Contract(
        deliverables=(
            Deliverable(
                id="report", path="report.csv", type="csv", key=("region",),
                columns=(Column(name="region", type="text", meaning="region"),),
            ),
        ),
        requirements=(
            Requirement(id="format", statement="report.csv has the column", rule=FormatRule(), **report),
            Requirement(
                id="sources", statement="the sources stay as they are", role="constraint",
                rule=ProtectedRule(paths=("orders.csv", "notes.md")), critical=True,
            ),
        ),
    ).dump()  # fmt: skip
    files["harness/harness.json"] = Harness(tools=TOOLS).dump()
    files["verifier/checks/main.py"] = CHECKS.encode()
    kept = Criterion(
        id="sources", requirement="sources", layer="state", evidence="state_difference", critical=True,
        paths=("orders.csv", "notes.md"), check="checks/main.py:sources_kept",
    )  # fmt: skip
    paths = ("report.csv",)
    files["verifier/verifier.json"] = packages.Verifier(
        criteria=(
            kept,
            Criterion(id="format", requirement="format", paths=paths, check="checks/main.py:report_format"),
            Criterion(id="rows", requirement="format", paths=paths, check="checks/main.py:report_rows", weight=2.0),
        )
    ).dump()
    for path in [p for p in files if p.startswith(("verifier/cases/", "verifier/reference/", "verifier/anchors"))]:
        del files[path]
    ids = {c: tree_of(below(files, f"{c}/")) for c in ("context", "task", "harness", "verifier")}
    resource = tree_of(packages.summary_resources()["files/orders"])
    edges = [Edge(source="context", target="resources/files/orders", version=resource)]
    edges += [Edge(source=s, target="context", version=ids["context"]) for s in ("task", "harness", "verifier")]
    edges += [Edge(source="verifier", target=t, version=ids[t]) for t in ("task", "harness")]
    record = Package(name=name, title="Copy regions", workspace=workspace, edges=tuple(edges))
    return dict(sorted({**files, "package.json": record.dump()}.items()))


def answers() -> tuple[ToolCall, ...]:
    """Calls that solve it."""
    report = {"path": "report.csv", "columns": ["region"], "rows": [["East"], ["West"]]}
    return (
        ToolCall(id="1", tool="read_table", arguments={"path": "orders.csv"}),
        ToolCall(id="2", tool="write_table", arguments=report),
    )


def solution() -> ScriptedPolicy:
    return ScriptedPolicy([(call,) for call in answers()], "done")


def store(folder: Path) -> tuple[Store, str]:
    """The store and its one commit."""
    made = Store.init(folder)
    with made.write(command="build") as tx:
        tx.set_resource("files/orders", tx.tree(packages.summary_resources()["files/orders"]))
        for name, workspace in (("copy-shop", "shop"), ("copy-yard", "yard")):
            tx.set_package(name, tx.tree(package(name, workspace)))
        commit = tx.commit("Two packages", time=1)
    return made, commit


def split(commit: str) -> Split:
    def part(name: str) -> SplitPart:
        return SplitPart(workspaces=(name.removeprefix("copy-"),), packages=(name,))

    return Split(
        revision=commit, train=part("copy-shop"), validation=part("copy-yard"), held_out=SplitPart(), shares=None
    )


def model_folder(folder: Path, width: int = 32, text: str = TEXT) -> Path:
    """One layer over a byte-level vocabulary of 320 entries; always the same bytes."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    from rover_train.render import chat_template

    special = ["<|user|>", "<|assistant|>", "<|tool|>", "<|system|>", "<|end|>"]
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    options = {"special_tokens": special, "initial_alphabet": alphabet, "show_progress": False}
    trainer = trainers.BpeTrainer(vocab_size=340, **options)
    bpe.train_from_iterator([text], trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<|end|>", pad_token="<|end|>")
    tokenizer.add_special_tokens({"additional_special_tokens": special})
    tokenizer.chat_template = chat_template("plain")
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer), hidden_size=width, intermediate_size=2 * width, num_hidden_layers=1,
            num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=1024, tie_word_embeddings=True,
        )
    )  # fmt: skip
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def config(commit: str, **sections: Mapping[str, Any]) -> Config:
    """Two steps of one package with four rollouts each."""
    values: dict[str, Any] = {
        "revision": commit,
        "method": "vtca-grpo",
        "seed": 3,
        "render": {"window": 400, "observation_tokens": 64},
        "optim": {"lr": 1e-3},
        "rl": {"steps": 2, "tasks": 1, "group": 4, "max_turn_tokens": 12, "pass_tokens": 2048, "samples": 1},
        "eval": {"every": 1},
        "checkpoint": {"every": 1, "keep_last": 9},
    }
    for name, some in sections.items():
        values[name] = {**values.get(name, {}), **some} if isinstance(some, Mapping) else some
    return check(values, "test")


def runtime() -> LocalRuntime:
    return LocalRuntime()


def taught(folder: Path, made: Store, commit: str, raw: Path, steps: int = 150) -> Path:
    """The model of a folder, taught until it solves the packages; saved as a folder of its own."""
    import torch

    from rover.harness.tools.specs import offered
    from rover.policy.protocol import PolicyView
    from rover.rollout.engine import Engine
    from rover.rollout.env import load_env
    from rover.rollout.records import RolloutRequest
    from rover_train import models
    from rover_train.rl.forward import chosen, log_probs, tensors
    from rover_train.rl.packing import Piece
    from rover_train.rows import WeightedRow
    from rover_train.train import optim
    from rover_train.train.settings import OptimSettings

    torch.set_num_threads(1)
    env = load_env(made, made.package("copy-shop", commit).tree)
    boxes = runtime()
    with Engine(boxes) as engine:
        (result,) = engine.rollouts([RolloutRequest(env, solution(), 1)])
    boxes.close()
    loaded = models.load(str(raw))
    renderer = loaded.renderer(config(commit).render, turn_tokens=TURN)
    view = PolicyView(env.instruction, offered(env.harness.tools))
    (row,) = renderer.demonstration(view, result.trajectory)
    batch = tensors([Piece(WeightedRow(row, [float(m) for m in row.loss_mask]))])
    optimiser = optim.build(loaded.model, OptimSettings(name="muon", lr=3e-3))
    for step in range(steps):
        optimiser.zero_grad()
        (-chosen(log_probs(loaded.model, batch, 1.0), batch).mean()).backward()
        optimiser.step(step, steps)
    models.save_servable(loaded, folder)
    return folder


def train(
    out: Path, made: Store, settings: Config, model: Path, *, disk: Any = None,
    told: Sequence[Callable[[Mapping[str, Any]], object]] = (),
) -> Any:  # fmt: skip
    """Begin the run of a folder, or go on with it, to its end; the state at the end."""
    from rover_train import models
    from rover_train.rl import loop
    from rover_train.train import run as runs

    parts = split(settings.revision)
    if (out / "config.toml").exists():
        run = runs.resume(out, expect=settings, disk=disk)
    else:
        run = runs.begin(out, settings, split=parts.model_dump(mode="json"), facts={"versions": {}}, disk=disk)
    boxes = runtime()
    try:
        with run:
            run.open_log(told)
            loaded = models.load(str(model), dtype=settings.model.dtype, lora=settings.model.lora)
            return loop.train(run, made, boxes, loaded, parts)
    finally:
        boxes.close()


# --- the drill -----------------------------------------------------------------------------------------------
def drill(folder: Path) -> None:
    """Equal stores, one unbroken run, one that is killed in a step, behind an update, and while it saves."""
    import small_training as drills

    made, commit = store(folder / "a")
    good = taught(folder / "model", made, commit, model_folder(folder / "raw"), steps=60)
    shutil.copytree(folder / "a", folder / "b")
    settings = config(commit, rl={"steps": 3, "max_turn_tokens": TURN, "keep": "all"}, checkpoint={"every": 2})
    assert drills.forked(lambda: train(folder / "whole", made, settings, good))

    def broken(**how: Any) -> bool:
        return drills.forked(lambda: train(folder / "broken", Store.open(folder / "b"), settings, good, **how))

    def at(kind: str, step: int) -> Callable[[Mapping[str, Any]], object]:
        return lambda row: drills.killed() if (row["kind"], row["step"]) == (kind, step) else None

    ended = [
        broken(told=[at("train", 1)]),
        broken(disk=drills.Counting(14, drills.killed)),
        broken(told=[at("train", 3)]),
        broken(),
    ]
    whole, again = (drills.left(folder / name) for name in ("whole", "broken"))
    print(json.dumps({"ended": ended, "same": whole == again, "log": len(whole["log"]), "steps": whole["steps"]}))


if __name__ == "__main__":
    drill(Path(sys.argv[1]))
