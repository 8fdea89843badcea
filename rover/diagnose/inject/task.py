"""Defects of the request: a value that it no longer tells or tells wrongly, a deliverable under another name."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from rover.diagnose.demands import states, states_given
from rover.diagnose.inject.protocol import Components, Damage, Expects, Masks, T, Unfit, V, rng_for
from rover.diagnose.inject.values import in_other_unit, other_value
from rover.diagnose.restate import words
from rover.rollout.env import Env
from rover_store.records import GivenValue

INSTRUCTION = "task/instruction.md"
CONTRACT = "task/contract.json"
_VAGUE = {
    "date": ("the usual date", "the agreed day", "the day that we agreed on", "the usual deadline"),
    "number": ("the agreed limit", "the usual figure", "the figure from last time"),
    "text": ("the usual value", "the agreed code", "the one we always take"),
}
_NEW_NAMES = ("_new", "_v2", "_final", "_2025")


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
        for given in _told(env, self.kind, rng_for(f"{self.kind}:order", seed)):
            vague = rng.choice(_VAGUE[sort_of(given)])
            for text in without(env.instruction, words(given.value), vague):
                if not states_given(text, env.contract, given):
                    note = f"the request says {vague!r} for {words(given.value)}"
                    return Damage({INSTRUCTION: text.encode()}, note)
        raise Unfit(self.kind, "the request tells no value that could be left out")


class WrongGiven:
    kind = "wrong_given"
    summary = "the request states another value than the contract and the verifier go by"
    repair = "T: state the contract's value"
    expects: Expects = (("wrong_given", "task"),)
    components: Components = ("task",)
    right: Masks = (T,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        for given in _told(env, self.kind, rng_for(f"{self.kind}:order", seed)):
            new = other_value(env, given, rng)
            for text in without(env.instruction, words(given.value), words(new)):
                if not states_given(text, env.contract, given):
                    return Damage({INSTRUCTION: text.encode()}, f"the request says {new} for {given.value}")
        raise Unfit(self.kind, "the request tells no value that another one could stand for")


class WrongUnitTold:
    kind = "request_in_other_unit"
    summary = "the request writes a quantity in another unit, or a date in another format, than the data has"
    repair = "T: write it as the data does"
    expects: Expects = (("wrong_unit", "task"),)
    components: Components = ("task",)
    right: Masks = (T,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        for given in _told(env, self.kind, rng_for(f"{self.kind}:order", seed)):
            new = in_other_unit(env, given, rng)
            if new is None:
                continue
            for text in without(env.instruction, words(given.value), new):
                if not states_given(text, env.contract, given):
                    return Damage({INSTRUCTION: text.encode()}, f"the request says {new} for {given.value}")
        raise Unfit(self.kind, "the request tells no quantity or date")


class ContractDiffers:
    kind = "contract_differs"
    summary = "the stored copy of the request, its contract, holds another value than request and verifier"
    repair = "T: give the contract the value that the request states"
    expects: Expects = (("wrong_given", "task"),)
    components: Components = ("task",)
    right: Masks = (T,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        for given in _told(env, self.kind, rng):
            new = other_value(env, given, rng)
            if states_given(env.instruction, env.contract, given.model_copy(update={"value": new})):
                continue
            changed = tuple(
                g.model_copy(update={"value": new}) if g.name == given.name else g for g in env.contract.givens
            )
            contract = env.contract.model_copy(update={"givens": changed})
            return Damage({CONTRACT: contract.dump()}, f"contract.json says {new} for {given.value}")
        raise Unfit(self.kind, "the request tells no value that the contract could hold otherwise")


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


def without(text: str, value: str, other: str) -> Iterator[str]:
    """The request with one place of the value said otherwise, for each place; at last with all of them.

    One place comes first: the same number may also mean something else there.
    """
    # a number at the start of a line is the list's, one before `decimals` is a rounding
    pattern = rf"(?<![\w.`\n-]){re.escape(value)}(?![\w`-])(?!\.\d)(?! decimals?\b)"
    places = list(re.finditer(pattern, text))
    for place in places:
        yield text[: place.start()] + other + text[place.end() :]
    if len(places) > 1:
        yield re.sub(pattern, lambda _: other, text)


def sort_of(given: GivenValue) -> str:
    """date, number or text."""
    if isinstance(given.value, int | float):
        return "number"
    return "date" if re.fullmatch(r"\d{4}-\d{2}-\d{2}", str(given.value)) else "text"


def _told(env: Env, kind: str, rng: random.Random) -> list[GivenValue]:
    """The values that the request states, in a seeded order."""
    found = [
        g for g in env.contract.givens
        if g.stated_in == "instruction" and states_given(env.instruction, env.contract, g)
    ]  # fmt: skip
    if not found:
        raise Unfit(kind, "the request tells no value")
    rng.shuffle(found)
    return found
