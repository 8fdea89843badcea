"""Defects that nothing repairs: what it would take is gone from the package and all that it is bound to."""

from __future__ import annotations

from typing import Any

from rover.diagnose.demands import contract_sources, states_given
from rover.diagnose.inject.edits import CONTEXT, binding, rebound
from rover.diagnose.inject.protocol import Components, Damage, Expects, Masks, Unfit, rng_for
from rover.diagnose.inject.task import CONTRACT, INSTRUCTION, without
from rover.diagnose.restate import words
from rover.diagnose.runs import mounted
from rover.rollout.env import Env, tree_of
from rover_store.records import Anchors, GivenValue, Table


class LostInput:
    kind = "lost_input"
    summary = "the only copy of an input is gone, from the package and from all that it is bound to"
    repair = "none: the data would have to come from outside"
    expects: Expects = (("missing_input", "context"),)
    components: Components = ("context",)
    right: Masks = ()
    fixable = False

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        edited = {d.path for d in env.contract.deliverables if d.in_place}  # the reference holds most of these
        needed = [p for p in contract_sources(env.contract) if p in env.start and p not in edited]
        if not needed:
            raise Unfit(self.kind, "the contract derives nothing from a file that is only read")
        path = rng.choice(needed)
        held = binding(env, path)
        if held is None:
            return Damage({f"context/files/{path}": None}, f"deleted {path}")
        ref, _ = held
        if len(mounted(env, ref)) != 1:
            raise Unfit(self.kind, f"the resource of {path} holds other files too")
        target = f"resources/{ref.kind}/{ref.name}"
        record = env.record.model_copy(update={"edges": tuple(e for e in env.record.edges if e.target != target)})
        files = {CONTEXT: rebound(env, ref, None).dump(), "package.json": record.dump()}
        return Damage(files, f"{path} and its resource are gone", gone=(f"{ref.kind}/{ref.name}",))


class EmptiedInput:
    kind = "emptied_input"
    summary = "an input was saved without its rows, and no other version of it is left"
    repair = "none: the data would have to come from outside"
    expects: Expects = (("changed_data", "context"),)
    components: Components = ("context",)
    right: Masks = ()
    fixable = False

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        edited = {d.path for d in env.contract.deliverables if d.in_place}
        needed = [
            p for p in contract_sources(env.contract)
            if p in env.start and p not in edited and p.endswith((".csv", ".tsv"))
        ]  # fmt: skip
        if not needed:
            raise Unfit(self.kind, "no csv or tsv is only read")
        path = rng.choice(needed)
        head = env.start[path].partition(b"\n")[0]
        data = head + b"\n" if rng.random() < 0.6 else b""
        note = f"{path} holds {'its header alone' if data else 'nothing'}, in every version that is left"
        held = binding(env, path)
        if held is None:
            return Damage({f"context/files/{path}": data}, note)
        ref, inside = held
        name = f"{ref.kind}/{ref.name}"
        tree = {**env.resources[name], inside: data}
        new = tree_of(tree)
        edges = tuple(
            e.model_copy(update={"version": new}) if e.target == f"resources/{name}" else e for e in env.record.edges
        )
        record = env.record.model_copy(update={"edges": edges})
        context = rebound(env, ref, ref.model_copy(update={"tree": new}))
        files = {CONTEXT: context.dump(), "package.json": record.dump()}
        return Damage(files, note, {name: tree}, siblings=True)


class LostGiven:
    kind = "lost_given"
    summary = "a value that the request has to tell is gone from request, contract and verifier alike"
    repair = "none: only who wrote the task knows it"
    expects: Expects = (("missing_given", "task"),)
    components: Components = ("task", "verifier")
    right: Masks = ()
    fixable = False

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        givens = [g for g in env.contract.givens if g.stated_in == "instruction"]
        rng.shuffle(givens)
        for given in givens:
            for text in without(env.instruction, words(given.value), "the agreed value"):
                if not states_given(text, env.contract, given):
                    return self._lost(env, given, text)
        raise Unfit(self.kind, "the request tells no value")

    def _lost(self, env: Env, given: GivenValue, text: str) -> Damage:
        blank: Any = "TBD" if isinstance(given.value, str) else 0
        changed = tuple(
            g.model_copy(update={"value": blank}) if g.name == given.name else g for g in env.contract.givens
        )
        contract = env.contract.model_copy(update={"givens": changed})
        # what the value gave would give it away: expected rows, the reference, alternative states
        anchors = Anchors(
            anchors=tuple(
                a.model_copy(update={"value": Table(columns=a.value.columns, rows=())}) for a in env.anchors.anchors
            )
        )
        files: dict[str, bytes | None] = {
            INSTRUCTION: text.encode(), CONTRACT: contract.dump(), "verifier/anchors.json": anchors.dump(),
            "verifier/cases/cases.json": env.cases.model_copy(update={"states": ()}).dump(),
            "verifier/reference/reference.json": env.reference.model_copy(
                update={"changes": (), "final_message": ""}
            ).dump(),
        }  # fmt: skip
        shown = ("verifier/reference/files/", "verifier/cases/", "demonstrations/")
        files |= {p: None for p in env.files if p.startswith(shown) and p not in files}
        literal, other = repr(given.value).encode(), repr(blank).encode()
        for path, data in env.files.items():
            if path.startswith("verifier/checks/") and literal in data:
                files[path] = data.replace(literal, other)
        return Damage(files, f"{given.name} stands nowhere any more")
