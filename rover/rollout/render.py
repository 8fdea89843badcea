"""A rollout as plain text: what the policy saw and did, turn by turn, and what the verifier made of it."""

from __future__ import annotations

import json
import textwrap
from typing import Any

from rover_store.records import Call, ProgramExit, Score, Trajectory, Turn, Verdict

WIDTH = 80
#: an output is shown by its first lines; `--json` has all of it
OUTPUT_LINES = 6


def render(rollout: str, trajectory: Trajectory, verdict: Verdict | None = None) -> str:
    """The whole rollout, at most WIDTH columns wide."""
    key = trajectory.key
    tokens = trajectory.usage.prompt_tokens + trajectory.usage.completion_tokens
    calls = [call for turn in trajectory.turns for call in turn.calls]
    errors = sum(call.status == "error" for call in calls)
    counted = f"{len(trajectory.turns)} turns, {len(calls)} calls" + (f", {errors} with an error" if errors else "")
    lines = [
        f"rollout  {rollout}",
        f"package  {trajectory.package}  (context {key.context[:8]}, task {key.task[:8]}, harness {key.harness[:8]})",
        f"policy   {key.policy}, seed {key.seed}",
        f"budget   {key.budget.turns} turns, {key.budget.seconds:g} s, {key.budget.tokens} tokens",
        f"used     {counted}" + (f", {tokens} tokens" if tokens else ""),
        f"end      {trajectory.end}" + (f": {trajectory.error}" if trajectory.error else ""),
    ]
    if trajectory.program is not None:
        lines.append(_program(trajectory.program))
    if trajectory.retried:
        lines.append(f"again    tried once more; the try before was given up: {trajectory.retried}")
    if trajectory.pruned:
        lines.append(f"pruned   turns and workspaces were dropped; it ended at the tree {trajectory.pruned[:12]}")
    out = [_wrapped(line, 9) for line in lines]
    before = trajectory.start
    for turn in trajectory.turns:
        out += ["", *_turn(turn, before)]
        before = turn.tree
    for path, reason in (trajectory.irregular or {}).items():
        out += ["", _wrapped(f"left in the workspace: {_line(path)} ({reason})", 2)]
    last = trajectory.turns[-1] if trajectory.turns else None
    if trajectory.final_message and (last is None or last.message != trajectory.final_message):
        out += ["", "final message", *_text(trajectory.final_message, "  ", OUTPUT_LINES)]
    return "\n".join([*out, "", *_verdict(verdict)])


def _program(program: ProgramExit) -> str:
    code = "ended from outside" if program.exit_code is None else f"exit code {program.exit_code}"
    models = f"; asked for {', '.join(map(_line, program.models))}" if any(program.models) else "; asked no model"
    refused = f"; {program.refused} requests that were none" if program.refused else ""
    return f"program  {code}{models}{refused}"


def _turn(turn: Turn, before: str) -> list[str]:
    out = [f"turn {turn.index + 1}" + ("" if turn.calls else "  (the last: no call)")]
    if turn.message:
        out += _text(turn.message, "  ", OUTPUT_LINES)
    for call in turn.calls:
        out += _call(call)
    if turn.tree != before:
        out.append(f"  workspace is now {turn.tree[:12]}")
    return out


def _call(call: Call) -> list[str]:
    out = [_wrapped(f"  > {call.tool} {_arguments(call.arguments)}", 6)]
    mark = "!" if call.status == "error" else "|"
    out += _text(_output(call), f"    {mark} ", OUTPUT_LINES)
    if call.truncated:
        out.append("    (the output was cut)")
    for verb, artifacts in (("read", call.reads), ("wrote", call.writes)):
        if artifacts:
            named = ", ".join(f"{_line(a.path)} {a.blob[:8] if a.blob else 'deleted'}" for a in artifacts[:5])
            more = f" and {len(artifacts) - 5} more" if len(artifacts) > 5 else ""
            out.append(_wrapped(f"    {verb} {named}{more}", 6))
    return out


def _output(call: Call) -> str:
    """What a call gave; of a command its streams rather than their JSON."""
    if call.tool != "shell":
        return call.output
    try:
        said = json.loads(call.output)
        ended = f"limit on {said['limit']} reached" if "limit" in said else f"exit {said['exit_code']}"
        streams = [said["stdout"], *(f"stderr: {line}" for line in said["stderr"].splitlines())]
    except (ValueError, TypeError, KeyError, AttributeError):
        return call.output
    return "\n".join([*([ended] if call.status == "error" else []), *(s.rstrip("\n") for s in streams if s)])


def _verdict(verdict: Verdict | None) -> list[str]:
    if verdict is None:
        return ["verdict  none yet"]
    score = "" if verdict.score is None else f", {verdict.score:.2f} of the weight, gate {verdict.gate}"
    out = [f"verdict  {verdict.outcome}{score}  (verifier {verdict.verifier[:8]})"]
    out += [line for score_ in verdict.scores for line in _score(score_)]
    if verdict.reason and not verdict.scores:
        out.append(_wrapped(f"  {verdict.reason}", 2))
    return out


def _score(score: Score) -> list[str]:
    found = "error" if score.status == "error" else f"{score.score:.2f}"
    critical = " critical" if score.critical else ""
    return [_wrapped(f"  {found:>5}  {score.criterion} (weight {score.weight:g}{critical}): {score.reason}", 9)]


def _arguments(arguments: dict[str, Any]) -> str:
    """Arguments in one line; long ones cut, a command or path alone without its name."""
    if len(arguments) == 1:
        name, value = next(iter(arguments.items()))
        if name in ("path", "command") and isinstance(value, str):
            return _short(_line(value))
    return " ".join(f"{name}={_short(json.dumps(value, ensure_ascii=False))}" for name, value in arguments.items())


def _short(text: str, limit: int = 160) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def _text(text: str, indent: str, most: int) -> list[str]:
    """The first lines of a text, each cut at the width."""
    lines = text.splitlines()
    shown = [indent + _line(line) for line in lines[:most]]
    shown = [line if len(line) <= WIDTH else line[: WIDTH - 1] + "…" for line in shown]
    if len(lines) > most:
        shown.append(f"{indent}… {len(lines) - most} more lines")
    return shown


def _line(text: str) -> str:
    """A text without what would move the cursor."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _wrapped(line: str, indent: int) -> str:
    return "\n".join(
        textwrap.wrap(
            line,
            WIDTH,
            subsequent_indent=" " * indent,
            drop_whitespace=True,
            break_on_hyphens=False,
            replace_whitespace=False,
        )
    )
