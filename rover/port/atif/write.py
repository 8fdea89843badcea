"""A recorded rollout as an ATIF document.

What ATIF has no field for stands under `extra.rover` of the document, its steps and results: everything of the record,
so that `recorded.trajectory_of` gives it back. Rewards and verdicts stand under `extra`. There are no times: rover
keeps none.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from rover.harness.tools.specs import offered
from rover.policy.tokens import whole_prompts
from rover.port.atif import model as atif
from rover.rollout.records import rollout_id
from rover_store.records import Call, Harness, RolloutKey, Trajectory, Turn, TurnTokens, Usage, Verdict

OWN = "rover"
#: what stands at a turn that no model wrote
_PLAYED = ("solver", "scripted", "null", "replay", "solution")
_MODELS = ("openai", "hf")
#: fields of the records that the document has a place for; all others stand under `rover`
TRAJECTORY = {"schema_version", "key", "turns"}
TURN = {"index", "message", "calls", "tokens"}
CALL = {"id", "tool", "arguments", "output"}


def document_of(
    trajectory: Trajectory, instruction: str, harness: Harness, verdicts: Sequence[Verdict] = ()
) -> atif.Document:
    """The document of a rollout that was not pruned. The first verdict gives the reward; all of them stand there."""
    rollout = rollout_id(trajectory.key)
    own: dict[str, Any] = {"rollout": rollout, "key": trajectory.key.model_dump(mode="json")}
    own |= trajectory.model_dump(mode="json", exclude=TRAJECTORY, exclude_defaults=True)
    extra = _rewards(verdicts) | {OWN: own}
    steps = [atif.Step(step_id=1, source="user", message=instruction)]
    prompts = whole_prompts(trajectory.turns)
    for turn, prompt in zip(trajectory.turns, prompts, strict=True):
        steps.append(_step(turn, prompt, len(steps) + 1, _calls_of_models(trajectory.key.policy)))
    return atif.Document(
        session_id=rollout,
        trajectory_id=rollout,
        agent=_agent(trajectory.key, harness),
        steps=tuple(steps),
        notes=f"ended early, {trajectory.end}: {trajectory.error}" if trajectory.error else None,
        final_metrics=_totals(steps),
        extra=extra,
    )


def _agent(key: RolloutKey, harness: Harness) -> atif.Agent:
    kind, _, rest = key.policy.partition(":")
    if kind == "atif":  # it came from such a document
        name, _, number = rest.partition(":")[0].partition("/")
        named = atif.Agent(name=name, version=number, model_name=rest.partition(":")[2] or None)
    else:
        model = rest.rpartition(":")[0] if kind == "openai" else key.policy if kind == "hf" else None
        named = atif.Agent(name=OWN, version=version("workrover"), model_name=model)
    tools = tuple(
        {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.parameters}}
        for t in offered(harness.tools)
    )
    return named.model_copy(update={"tool_definitions": tools, "extra": {"policy": key.policy, "seed": key.seed}})


def _calls_of_models(policy: str) -> int | None:
    """How many inferences a turn is; None where nobody counted."""
    kind = policy.partition(":")[0].partition("+")[0]
    return 0 if kind in _PLAYED else 1 if kind in _MODELS else None


def _step(turn: Turn, prompt: tuple[int, ...], number: int, inferences: int | None) -> atif.Step:
    calls = tuple(
        atif.ToolCall(tool_call_id=call.id, function_name=call.tool, arguments=call.arguments) for call in turn.calls
    )
    return atif.Step(
        step_id=number,
        source="agent",
        message=turn.message,
        tool_calls=calls or None,
        observation=atif.Observation(results=tuple(_result(call) for call in turn.calls)) if calls else None,
        metrics=_metrics(turn, prompt) if inferences != 0 else None,
        llm_call_count=inferences,
        extra={OWN: turn.model_dump(mode="json", exclude=TURN, exclude_defaults=True)},
    )


def _result(call: Call) -> atif.Result:
    own = call.model_dump(mode="json", exclude=CALL, exclude_defaults=True)
    return atif.Result(source_call_id=call.id, content=call.output, extra={OWN: own} if own else None)


def _metrics(turn: Turn, prompt: tuple[int, ...]) -> atif.Metrics | None:
    """What a turn took. A prompt whose tokens are known is counted by them: `usage` may count what was new alone."""
    tokens = turn.tokens or TurnTokens()
    if turn.usage == Usage() and turn.tokens is None:
        return None
    return atif.Metrics(
        prompt_tokens=len(prompt) or turn.usage.prompt_tokens,
        completion_tokens=len(tokens.completion) or turn.usage.completion_tokens,
        prompt_token_ids=prompt or None,
        completion_token_ids=tokens.completion or None,
        logprobs=tokens.logprobs or None,
    )


def _totals(steps: Sequence[atif.Step]) -> atif.FinalMetrics:
    known = [step.metrics for step in steps if step.metrics is not None]
    return atif.FinalMetrics(
        total_prompt_tokens=sum(m.prompt_tokens or 0 for m in known) if known else None,
        total_completion_tokens=sum(m.completion_tokens or 0 for m in known) if known else None,
        total_steps=len(steps),
    )


def _rewards(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """`reward` is 1 where the first verdict says passed, 0 where it says that it did not; an error has none."""
    if not verdicts:
        return {}
    first = verdicts[0]
    out: dict[str, Any] = {"outcome": first.outcome}
    if first.outcome in ("passed", "failed", "policy_error"):
        out |= {"reward": float(first.outcome == "passed"), "score": first.score}
        out["rewards"] = {score.criterion: score.score for score in first.scores}
    return out | {"verdicts": [one.model_dump(mode="json", exclude_none=True) for one in verdicts]}
