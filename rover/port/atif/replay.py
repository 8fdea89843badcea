"""A document back into the evidence: its calls are made again, and what comes of them is compared with what it says.

A document of rover's is the rollout itself: where every call gives what was recorded, and every turn leaves the tree
that was recorded, it is kept as it was, under its own id. Nothing else of it is believed: the verdict is given here.
Where something differs, what happened here is recorded instead, as of another tool's document: a rollout of the policy
`atif:AGENT/VERSION`, whose outputs and trees are those of this sandbox. Who can be made here (rover.port.atif.acting:
attackers, solutions, solvers, scripts) acts itself: nobody's document makes a rollout theirs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rover.policy.replay import ReplayPolicy
from rover.port.atif import model as atif
from rover.port.atif.acting import acting, acts
from rover.port.atif.foreign import ForeignPolicy, Plan, plan_of, text
from rover.port.atif.recorded import own_of, trajectory_of
from rover.port.protocol import Replayed
from rover.rollout.engine import Engine
from rover.rollout.env import Env, load_env
from rover.rollout.records import RolloutRequest, RolloutResult, rollout_id
from rover_store.errors import PackageError
from rover_store.evidence import Recorded
from rover_store.records import Budget, Call, Trajectory, Turn, Verdict

if TYPE_CHECKING:
    from rover_store.layout import PackageEntry
    from rover_store.store import Store

PURPOSE = "replay"
#: a replay of a rollout that was allowed longer is given up after so many seconds
LONGEST_S = 600.0
#: differences that are named; the others are counted
NAMED = 3


def replay(store: Store, engine: Engine, document: atif.Document, file: str, package: str = "") -> Replayed:
    """Make the calls of a document again and record what came of it. `package`: what it ran on, by name.

    `engine` keeps its evidence in memory. PackageError where the document, or the package for it, is not to be had.
    """
    if own_of(document) is None:
        entry = _named(store, package, file)
        return _foreign(store, engine, document, load_env(store, entry.tree))
    recorded = trajectory_of(document, file)
    if recorded.end == "infra_error":
        raise PackageError(file, "extra.rover.end", "is infra_error: nothing of such a rollout is kept")
    entry = _same(store, recorded, package, file)
    env = load_env(store, entry.tree)
    rollout = rollout_id(recorded.key)
    held = store.evidence.get_rollout(rollout)
    if held is not None and not held.pruned:
        differs = [*differences(held, recorded, env)]
        said = (f"what is held differs: {_few(differs)}",) if differs else ()
        return Replayed("held", env.package, rollout, notes=said)
    result, differs, notes = _again(engine, document, recorded, env)
    if result.trajectory.end == "infra_error":
        return Replayed("refused", env.package, reason=result.trajectory.error)
    if differs:
        found = _foreign(store, engine, document, env)
        return Replayed(
            "differs", found.package, found.rollout, found.verdict, _few(differs),
            ("recorded as it went here", *found.notes),
        )  # fmt: skip
    mine = RolloutResult(rollout, recorded, result.end, False)
    verdict = engine.grade([(mine, env)])[0]
    _keep(store, engine, recorded, verdict)
    notes += tuple(_claims(document, verdict, env))
    return Replayed("recorded", env.package, rollout, verdict.outcome, notes=notes)


def _again(
    engine: Engine, document: atif.Document, recorded: Trajectory, env: Env
) -> tuple[RolloutResult, list[str], tuple[str, ...]]:
    """The replay of a rollout, what it did otherwise, and what of it cannot be compared."""
    key, own = recorded.key, env.harness
    if acts(key.policy):
        result, differs = _acted(engine, recorded, env)
        return result, differs, ()
    budget = _budget(recorded, env, len(recorded.turns) + 1)
    if all(call.tool in own.tools for turn in recorded.turns for call in turn.calls) or recorded.program is None:
        result = engine.rollouts([RolloutRequest(env, ReplayPolicy(recorded), key.seed, budget, PURPOSE)])[0]
        differs = [*differences(recorded, result.trajectory, env)]
        if recorded.end == result.trajectory.end and recorded.final_message != result.trajectory.final_message:
            differs.append("another last message")
        return result, differs, ()
    plan = plan_of(document, own.tools)
    result = engine.rollouts([RolloutRequest(env, ForeignPolicy(document, plan), key.seed, budget, PURPOSE)])[0]
    note = "its calls are an agent program's own: workspaces are compared, outputs are not"
    return result, [*other_trees(recorded, result.trajectory, plan, env)], (note,)


def _acted(engine: Engine, recorded: Trajectory, env: Env) -> tuple[RolloutResult, list[str]]:
    """What whoever is named does here, whole, and where the document says otherwise."""
    key = recorded.key
    policy = acting(recorded, env)
    budget = _budget(recorded, env, key.budget.turns)
    result = engine.rollouts([RolloutRequest(env, policy or ReplayPolicy(recorded), key.seed, budget, PURPOSE)])[0]
    if policy is None:
        return result, [f"nobody here acts as {key.policy[:60]}"]
    now = result.trajectory
    differs = [*differences(recorded, now, env)]
    more = len(now.turns) - len(recorded.turns)
    if more > 0:
        differs.append(f"{more} more turns")
    if recorded.end != now.end:
        differs.append(f"it ends as {now.end}, not {recorded.end}")
    elif recorded.final_message != now.final_message:
        differs.append("another last message")
    return result, differs


def _budget(recorded: Trajectory, env: Env, turns: int) -> Budget:
    """Its own, but for the time: a file may ask for any."""
    own = recorded.key.budget
    seconds = min(own.seconds, max(LONGEST_S, env.harness.budget.seconds))
    return Budget(turns=turns, tokens=own.tokens, seconds=seconds)


def other_trees(recorded: Trajectory, now: Trajectory, plan: Plan, env: Env) -> Iterator[str]:
    """Where the workspaces of an agent program's rollout are not those that its commands lead to here."""
    reached = {move.step: turn.tree for move, turn in zip(plan.moves, now.turns, strict=False) if move.step}
    if recorded.start != env.start_tree:
        yield f"it began with the workspace {recorded.start[:12]}, not {env.start_tree[:12]}"
    tree = env.start_tree
    for turn in recorded.turns:
        tree = reached.get(turn.index + 2, tree)  # steps count from 1, and the first is the instruction
        if tree != turn.tree:
            yield f"turn {turn.index + 1}: it leaves the workspace {tree[:12]}, not {turn.tree[:12]}"
    if recorded.irregular != now.irregular:
        yield "other files that no tree can keep"


def differences(recorded: Trajectory, now: Trajectory, env: Env) -> Iterator[str]:
    """What a replay did otherwise, turn by turn. Words that call nothing are the policy's own, and the same."""
    if recorded.start != env.start_tree:
        yield f"it began with the workspace {recorded.start[:12]}, not {env.start_tree[:12]}"
    for turn, again in zip(recorded.turns, now.turns, strict=False):
        yield from _turn(turn, again)
    missing = len(recorded.turns) - len(now.turns)
    if missing > 0:
        yield f"{missing} turns are missing: {now.error or now.end}"
    if recorded.irregular != now.irregular:
        yield "other files that no tree can keep"


def _turn(turn: Turn, again: Turn) -> Iterator[str]:
    where = f"turn {turn.index + 1}"
    for number, (call, other) in enumerate(zip(turn.calls, again.calls, strict=False), 1):
        fields = [name for name in Call.model_fields if getattr(call, name) != getattr(other, name)]
        if fields:
            yield f"{where}: call {number} ({call.tool}): another {', '.join(fields)}"
    if len(turn.calls) != len(again.calls):
        yield f"{where}: {len(again.calls)} calls, not {len(turn.calls)}"
    if turn.tree != again.tree:
        yield f"{where}: it leaves the workspace {again.tree[:12]}, not {turn.tree[:12]}"


def _few(lines: list[str]) -> str:
    more = f"; {len(lines) - NAMED} more" if len(lines) > NAMED else ""
    return "; ".join(lines[:NAMED]) + more


def _claims(document: atif.Document, verdict: Verdict, env: Env) -> Iterator[str]:
    """Where the document says another verdict of the same verifier."""
    claimed = (document.extra or {}).get("verdicts", [])
    for one in claimed if isinstance(claimed, list) else []:
        if isinstance(one, dict) and one.get("verifier") == env.verifier_id and one.get("outcome") != verdict.outcome:
            yield f"the file says {str(one.get('outcome'))[:40]}, the same verifier says {verdict.outcome} here"


def _keep(store: Store, engine: Engine, trajectory: Trajectory, verdict: Verdict) -> None:
    """Record it with the trees that the replay left in the engine's memory."""
    evidence = engine.evidence
    trees = {tree: evidence.tree(tree) for tree in {trajectory.start, *(turn.tree for turn in trajectory.turns)}}
    blobs = {item.id: evidence.read(item.id) for manifest in trees.values() for item in manifest.values()}
    store.evidence.put([Recorded(trajectory, blobs, trees)], [verdict] if verdict.outcome != "infra_error" else [])


# --- documents of other tools --------------------------------------------------------------------------------------
def _foreign(store: Store, engine: Engine, document: atif.Document, env: Env) -> Replayed:
    """Play what can be played, record what happens here."""
    plan = plan_of(document, env.harness.tools)
    policy = ForeignPolicy(document, plan)
    notes = [*plan.notes()]
    if text(document.steps[0].message).strip() != env.instruction.strip() and document.steps[0].source == "user":
        notes.insert(0, "its first message is not the package's instruction")
    harness = env.harness.budget
    used = sum(m.action.usage.prompt_tokens + m.action.usage.completion_tokens for m in plan.moves)
    budget = Budget(
        turns=max(harness.turns, len(plan.moves)), tokens=max(harness.tokens, used), seconds=harness.seconds
    )
    request = RolloutRequest(env, policy, policy.seed, budget)
    result, verdict = engine.run([request])[0]
    known = store.evidence.get_rollout(result.id)
    if result.trajectory.end == "infra_error":
        return Replayed("refused", env.package, reason=result.trajectory.error)
    if known is not None and not known.pruned:
        return Replayed("held", env.package, result.id, verdict.outcome, notes=tuple(notes))
    calls = [call for turn in result.trajectory.turns for call in turn.calls]
    outputs = [output for move in plan.moves for output in move.outputs]
    same = sum(_alike(call, output) for call, output in zip(calls, outputs, strict=False))
    told = sum(output is not None for output in outputs)
    notes.append(f"{len(calls)} calls played: {same} of {told} outputs as they were recorded")
    _keep(store, engine, result.trajectory, verdict)
    return Replayed("recorded", env.package, result.id, verdict.outcome, notes=tuple(notes))


def _alike(call: Call, output: str | None) -> bool:
    """Whether an output says what was recorded; of a command, in whatever form its streams were."""
    if output is None:
        return False
    forms = {call.output.strip()}
    if call.tool == "shell":
        try:
            said = json.loads(call.output)
            forms |= {said["stdout"].strip(), (said["stdout"] + said["stderr"]).strip()}
        except (ValueError, KeyError, TypeError):
            pass
    return output.strip() in forms


# --- the package ---------------------------------------------------------------------------------------------------
def _named(store: Store, package: str, file: str) -> PackageEntry:
    if not package:
        raise PackageError(file, "extra.rover", "is missing: the file does not say what it ran on",
                           hint="--package NAME plays it on that package")  # fmt: skip
    return store.package(package)


def _same(store: Store, recorded: Trajectory, package: str, file: str) -> PackageEntry:
    """The package at the very versions of a rollout."""
    key = recorded.key
    wanted = {"context": key.context, "task": key.task, "harness": key.harness}
    entries = [store.package(package)] if package else store.packages()
    fit = [e for e in entries if all(e.components.get(c) == tree for c, tree in wanted.items())]
    for entry in sorted(fit, key=lambda e: e.name != recorded.package):
        return entry
    near = [e for e in entries if package or e.name == recorded.package]
    if not near:
        raise PackageError(file, "extra.rover.package", f"{recorded.package} is not in this store, nor is one like it")
    moved = ", ".join(c for c, tree in wanted.items() if near[0].components.get(c) != tree)
    raise PackageError(file, "extra.rover.key", f"it ran on another {moved} than {near[0].name} has here")
