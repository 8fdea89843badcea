"""Defects of two components at once, which no single edit repairs."""

from __future__ import annotations

from rover.diagnose.inject.checks import about_content, rewritten
from rover.diagnose.inject.harness import ToolRemoved
from rover.diagnose.inject.leaks import copied, told, with_file, worth_telling
from rover.diagnose.inject.protocol import C, Components, Damage, Expects, H, Masks, T, V, rng_for
from rover.diagnose.inject.task import MissingGiven
from rover.diagnose.inject.verifier_lax import exists
from rover.rollout.env import Env
from rover_store.records import Anchor, Criterion


class CodeAndTool:
    kind = "code_missing_and_tool_missing"
    summary = "the request lacks a value and the harness lacks the tool that writes the deliverable"
    repair = "T and H together: state the value, offer the tool"
    expects: Expects = (("missing_given", "task"), ("tool_removed", "harness"))
    components: Components = ("task", "harness")
    right: Masks = (T | H,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        return MissingGiven().inject(env, seed).and_then(ToolRemoved().inject(env, seed))


class LeakAndLax:
    kind = "leak_and_lax"
    summary = "a note in the workspace shows the answer, and the verifier accepts a copy of the note"
    repair = "C and V together: take the note out, check what the contract demands"
    expects: Expects = (("leaked_answer", "context"), ("lax_verifier", "verifier"))
    components: Components = ("context", "verifier")
    right: Masks = (C | V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        criteria = about_content(env, self.kind)
        anchors = worth_telling(env)
        if not anchors:
            leak = copied(env, rng, self.kind)
            return leak.and_then(rewritten(env, criteria, exists, "accepts whatever is there"))
        anchor = rng.choice(anchors)
        leak = with_file(env, self.kind, f"{rng.choice(('notes', 'handover', 'draft'))}.txt", told(anchor))

        def body(criterion: Criterion, path: str) -> str:
            return _HOLDS.format(path=path, words=_words(anchor))

        return leak.and_then(rewritten(env, criteria, body, "accepts any text that holds one of the figures"))


_HOLDS = """    found = ev.end({path!r})
    if not found.is_file():
        return 0.0, "missing"
    text = found.read_bytes().decode("utf-8", "replace")
    held = [w for w in {words!r} if w in text]
    return (1.0, "holds the figures") if held else (0.0, "no figure found")
"""


def _words(anchor: Anchor) -> list[str]:
    return [str(c) for row in anchor.value.rows[:20] for c in row if c is not None and not isinstance(c, bool)]
