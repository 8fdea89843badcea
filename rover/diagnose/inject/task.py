"""Defects of the request: a value that it no longer tells, a deliverable under another name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rover.diagnose.demands import states, states_given
from rover.diagnose.inject.protocol import Components, Damage, Expects, Masks, T, Unfit, V, rng_for
from rover.diagnose.restate import words
from rover.rollout.env import Env
from rover_store.records import GivenValue

INSTRUCTION = "task/instruction.md"
_VAGUE = {
    "date": ("the usual date", "the agreed day"),
    "number": ("the agreed limit", "the usual figure"),
    "text": ("the usual value", "the agreed code"),
}
_NEW_NAMES = ("_new", "_v2", "_final")


class MissingGiven:
    kind = "missing_given"
    summary = "the request no longer tells a quantity, code or date that it needs to tell"
    repair = "T: state the value again"
    expects: Expects = (("missing_given", "task"),)
    components: Components = ("task",)
    right: Masks = (T,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        givens = [g for g in env.contract.givens if g.stated_in == "instruction"]
        rng.shuffle(givens)
        for given in givens:
            vague = rng.choice(_VAGUE[_sort(given)])
            for text in _replaced(env.instruction, words(given.value), vague):
                if not states_given(text, env.contract, given):
                    note = f"the request says {vague!r} for {words(given.value)}"
                    return Damage({INSTRUCTION: text.encode()}, note)
        raise Unfit(self.kind, "the request tells no value that could be left out")


class RenamedDeliverable:
    kind = "renamed_deliverable"
    summary = "the request (or the verifier) calls a deliverable by another name"
    repair = "T or V, whichever departs from the contract"
    expects: Expects = (("renamed_deliverable", "task"),)
    components: Components = ("task",)
    right: Masks = (T,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        targets = list(env.targets())
        target = rng.choice(targets)
        stem, _, ending = target.rpartition(".")
        other = f"{stem}{rng.choice(_NEW_NAMES)}.{ending}"
        new = [d.path for d in env.contract.deliverables if not d.in_place]
        if target in new and rng.random() < 0.5 and states(env.instruction, target):
            text = env.instruction.replace(target, other)
            return Damage({INSTRUCTION: text.encode()}, f"the request asks for {other} instead of {target}")
        return renamed_in_verifier(env, target, other)


def renamed_in_verifier(env: Env, old: str, new: str) -> Damage:
    """The verifier's criteria and checks read another path."""
    criteria = tuple(
        c.model_copy(update={"paths": tuple(new if p == old else p for p in c.paths)})
        for c in env.verifier.criteria
    )
    changed: dict[str, bytes | None] = {
        "verifier/verifier.json": env.verifier.model_copy(update={"criteria": criteria}).dump()
    }
    pattern = re.compile(rf"(?<=[\"'])(?:{re.escape(old)})(?=[\"'])".encode())
    for path, data in env.verifier_files.items():
        if path.startswith("checks/") and pattern.search(data):
            changed[f"verifier/{path}"] = pattern.sub(new.encode(), data)
    return Damage(
        changed,
        f"the verifier reads {new} instead of {old}",
        expects=(("renamed_deliverable", "verifier"),),
        components=("verifier",),
        right=(V,),
    )


def _replaced(text: str, value: str, vague: str) -> Iterator[str]:
    """The request with one place of the value left out, for each place; at last with all of them left out.

    One place comes first: the same number may also mean something else there.
    """
    # a number at the start of a line is the list's, one before `decimals` is a rounding
    pattern = rf"(?<![\w.`\n-]){re.escape(value)}(?![\w`-])(?!\.\d)(?! decimals?\b)"
    places = list(re.finditer(pattern, text))
    for place in places:
        yield text[: place.start()] + vague + text[place.end() :]
    if len(places) > 1:
        yield re.sub(pattern, lambda _: vague, text)


def _sort(given: GivenValue) -> str:
    if isinstance(given.value, int | float):
        return "number"
    return "date" if re.fullmatch(r"\d{4}-\d{2}-\d{2}", str(given.value)) else "text"
