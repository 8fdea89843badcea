"""The registry of commands: name -> module below rover.cli, one line of help, group on the help page.

Kept apart from the modules so that `rover --help` imports none of them. A module defines `command`, a
function that Typer can take (or `app`, a Typer with sub-commands). A test checks both sides against each other.
"""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    module: str
    summary: str
    group: str


COMMANDS: dict[str, Entry] = {
    # start
    "demo": Entry("demo", "Build, break and repair packages on files that ship with rover.", "Start here"),
    "doctor": Entry("doctor", "Probe this machine and say what works.", "Start here"),
    "help": Entry("help_topics", "Read about a topic, or list the topics.", "Start here"),
    "init": Entry("init", "Make a store in this folder.", "Start here"),
    # packages
    "build": Entry("build", "Build packages from a folder of real files.", "Packages"),
    "new": Entry("new", "Write a commented package folder to fill in by hand.", "Packages"),
    "commit": Entry("commit", "Take a package folder into the store.", "Packages"),
    "checkout": Entry("checkout", "Write a package out as a folder.", "Packages"),
    "list": Entry("list_packages", "List the packages of a revision.", "Packages"),
    "import": Entry("import_", "Take in tasks of other tools: Harbor and others.", "Packages"),
    "export": Entry("export", "Write packages in other tools' formats.", "Packages"),
    "status": Entry("status", "Say what is stale, without evidence, or under repair.", "Packages"),
    # run
    "run": Entry("run", "Run a policy on packages and grade the rollouts.", "Run and repair"),
    "check": Entry("check", "Check packages: reference, start state, attackers, cases.", "Run and repair"),
    "diagnose": Entry("diagnose", "Tell an environment defect from an agent's mistake.", "Run and repair"),
    "inject": Entry("inject", "Break a package on purpose, in a known way.", "Run and repair"),
    "repair": Entry("repair", "Repair a package by Factorial Compatibility Replay.", "Run and repair"),
    "explain": Entry("explain", "Say why a repair chose this combination and not that.", "Run and repair"),
    "evolve": Entry("evolve", "Run, diagnose, repair, re-admit, and again.", "Run and repair"),
    "promote": Entry("promote", "Take or drop what waits on a branch for review.", "Run and repair"),
    # train
    "world": Entry("world", "Make a small world to train in: workspaces and a model.", "Train"),
    "split": Entry("split", "Split packages by workspace: train, validation, held-out.", "Train"),
    "collect": Entry("collect", "Gather demonstrations by a policy; keep what passes.", "Train"),
    "train": Entry("train", "Train a model on a pinned revision: sft or RL.", "Train"),
    "eval": Entry("evaluate", "Measure a model or a policy on packages of a revision.", "Train"),
    "pilot": Entry("pilot", "Try tasks before RL; keep those it can learn from.", "Train"),
    "dataset": Entry("dataset", "Write demonstrations as a Hugging Face dataset.", "Train"),
    "compare": Entry("compare", "Compare runs pair by pair, with intervals.", "Train"),
    "report": Entry("report", "Write a run's page: curves, credit turn by turn.", "Train"),
    # history
    "show": Entry("show", "Show a commit, package, component, file, rollout or case.", "History"),
    "log": Entry("log", "Show the history of the store, a package, component or file.", "History"),
    "sql": Entry("sql", "Ask packages, history and evidence in SQL, read-only.", "History"),
    "graph": Entry("graph", "Show what depends on what, and which edges are stale.", "History"),
    "impact": Entry("impact", "Say which recorded scores survive a change.", "History"),
    "release": Entry("release", "Release a revision: signed-off tag, manifest, checksums.", "History"),
    "diff": Entry("diff", "Compare revisions, packages or a folder: fields, cells, lines.", "History"),
    "branch": Entry("branch", "List, make, move to or delete branches.", "History"),
    "tag": Entry("tag", "List, make or delete tags.", "History"),
    "merge": Entry("merge", "Merge another branch, and settle conflicts.", "History"),
    "blame": Entry("blame", "Say who last changed each field or line.", "History"),
    "bisect": Entry("bisect", "Find the first bad commit with a command that judges one.", "History"),
    "undo": Entry("undo", "Take back the last operation.", "History"),
    "op": Entry("op", "Show the log of operations, or go back to a state of it.", "History"),
    # sharing
    "clone": Entry("clone", "Make a store from another one.", "Sharing"),
    "pull": Entry("pull", "Fetch a remote and merge its branch.", "Sharing"),
    "push": Entry("push", "Give a branch to a remote.", "Sharing"),
    "evidence": Entry("evidence", "Bring evidence of several machines together.", "Sharing"),
    "remote": Entry("remote", "Name the places that this store is shared with.", "Sharing"),
    # care
    "fsck": Entry("fsck", "Check the store; mend what is derived.", "Care"),
    "gc": Entry("gc", "Collect what nothing needs; a dry run unless told.", "Care"),
    "prune": Entry("prune", "Drop what rollouts did; keep their scores.", "Care"),
    "stats": Entry("stats", "Say what takes the space.", "Care"),
    "du": Entry("du", "Say who takes the space, by package or evidence.", "Care"),
    "reindex": Entry("reindex", "Rebuild the index from git.", "Care"),
    "bench": Entry("bench", "Measure rover: tables and JSON.", "Care"),
}
