"""A verifier under edit: criteria written from the contract, anchors and reference made again, cases completed."""

from __future__ import annotations

import ast
import random

from rover.construct import cases as case_rules
from rover.construct.anchors import derive
from rover.construct.anchors import queries as asked_by
from rover.construct.families.protocol import Dropped
from rover.construct.rebuild import RebuildFailed, rebuild_verifier
from rover.repair.proposals.checks import FILE, written
from rover.repair.proposals.protocol import Draft, PackageView
from rover.rollout.env import Env, env_from_files
from rover_store.errors import PackageError
from rover_store.ids import digest
from rover_store.records import Anchors, Cases, Criterion, Query, Verifier

#: where checks from the contract lie beside authored ones
BESIDE = "checks/from_contract.py"
#: the pass mark that a verifier has where nobody chose one
USUAL_MARK = float(Verifier.model_fields["pass_weight"].default)


class VerifierEdit:
    """Edits are made one after the other; `draft` gives the outcome, or None where nothing changed."""

    def __init__(self, view: PackageView) -> None:
        self.view = view
        self.contract = view.contract
        self.files = view.component("verifier")
        self.verifier: Verifier = view.env.verifier
        self.anchors: Anchors = view.env.anchors
        self.queries: dict[str, Query] = {a.id: a.query for a in self.anchors.anchors}
        self.done: list[str] = []

    # --- criteria ----------------------------------------------------------------------------------------
    def write_checks(self, needs: frozenset[str] | None) -> None:
        """Write the criteria of these requirements (None: of all) from the contract; drop what it does not demand."""
        whole = written(self.contract, self.verifier, self.anchors)
        demanded = [r.id for r in self.contract.requirements]
        present = {c.requirement: c for c in self.verifier.criteria}
        again = set(demanded) if needs is None else {n for n in demanded if n in needs or n not in present}
        if again >= set(demanded):
            self._replace_all(whole.verifier, whole.source)
            self.queries = whole.queries
            self.done.append("write the checks from the contract, one for each requirement")
        else:
            self._replace_some(again, whole.verifier, whole.source)
            for criterion in whole.verifier.criteria:
                if criterion.requirement in again:
                    self.queries |= {a: whole.queries[a] for a in criterion.anchors}
            self._drop_unread()
        mark = max(self.verifier.pass_weight, USUAL_MARK)
        if mark != self.verifier.pass_weight:
            self.done.append(f"ask for {mark:g} of the weight")
        self.verifier = self.verifier.model_copy(update={"pass_weight": mark})

    def _replace_all(self, verifier: Verifier, source: str) -> None:
        self.verifier = verifier
        self.files = {p: d for p, d in self.files.items() if not p.startswith("checks/")}
        self.files[FILE] = source.encode()

    def _replace_some(self, again: set[str], whole: Verifier, source: str) -> None:
        """The named criteria from the contract, the others as they are but for weight and gravity."""
        made = {c.requirement: c for c in whole.criteria}
        needs = {r.id: r for r in self.contract.requirements}
        criteria: list[Criterion] = []
        for old in self.verifier.criteria:
            need = needs.get(old.requirement)
            if need is None:
                self.done.append(f"drop {old.id}, which the contract does not demand")
            elif old.requirement not in again:
                criteria.append(old.model_copy(update={"weight": need.weight, "critical": need.critical}))
            elif not any(c.requirement == old.requirement for c in criteria):
                criteria.append(_beside(made[old.requirement]))
        known = {c.requirement for c in criteria}
        criteria += [_beside(c) for c in whole.criteria if c.requirement not in known]
        if again:
            names = {c.check.partition(":")[2] for c in criteria if c.check.startswith(BESIDE)}
            self.files[BESIDE] = _functions(source, names).encode()
            self.done.append(f"write the checks of {', '.join(sorted(again))} from the contract")
        self.verifier = self.verifier.model_copy(update={"criteria": tuple(criteria)})
        read = {c.check.partition(":")[0] for c in criteria}
        before = {c.check.partition(":")[0] for c in self.view.env.verifier.criteria}
        self.files = {p: d for p, d in self.files.items() if not _idle(p, read, before)}

    def _drop_unread(self) -> None:
        """Anchors that no criterion reads any more go, unless the verifier had them unread before."""
        read = {a for c in self.verifier.criteria for a in c.anchors}
        before = {a for c in self.view.env.verifier.criteria for a in c.anchors}
        self.queries = {a: q for a, q in self.queries.items() if a in read or a not in before}

    # --- derived files -----------------------------------------------------------------------------------
    def derive(self, *, again: bool) -> None:
        """The anchors of the queries. RebuildFailed where an answer cannot be had, or there is nothing to ask."""
        known = {a.id: a for a in self.anchors.anchors}
        if again:
            self.queries = {**self.queries, **self._asked()}
        present = all(n in known and known[n].query == q for n, q in self.queries.items())
        if not again and present:
            self.anchors = Anchors(anchors=tuple(a for a in self.anchors.anchors if a.id in self.queries))
            return
        if self.view.engine is None:
            raise RebuildFailed("verifier/anchors.json", "", "there is nothing to derive them with")
        found = derive(self.view.engine, self.contract, self.queries, self.view.env.start)
        if isinstance(found, Dropped):
            if present:  # with an edit of the context they are derived again; without one the gates refuse them
                return
            raise RebuildFailed("verifier/anchors.json", "", found.reason)
        place = {name: number for number, name in enumerate(known)}
        ordered = sorted(found.anchors, key=lambda a: (place.get(a.id, len(place)), a.id))
        if Anchors(anchors=tuple(ordered)) != self.anchors:
            self.done.append("derive again from the present files what the verifier expects")
        self.anchors = Anchors(anchors=tuple(ordered))

    def _asked(self) -> dict[str, Query]:
        """What the contract asks, under the ids that the criteria have for it; nothing where the two do not fit."""
        try:
            return asked_by(self.contract, self.verifier.criteria)
        except PackageError:
            return {}

    def solve(self) -> None:
        """Reference and alternative state made again, where a solver can; else they stay."""
        if self.view.engine is None:
            return
        try:
            made = dict(rebuild_verifier(self.view.engine, self._env()))
        except RebuildFailed:
            return
        derived = ("reference/", "cases/alternative/")
        now = {p: d for p, d in self.files.items() if not p.startswith(derived)}
        new = now | {p: d for p, d in made.items() if p.startswith(derived)}
        if new != self.files:
            self.done.append("make the reference again")
        self.files = new

    def complete_cases(self) -> None:
        """Negatives for requirements that have none, and none for what is not demanded."""
        demanded = {r.id for r in self.contract.requirements}
        now = self.view.env.cases
        kept = tuple(n for n in now.negatives if n.requirement in demanded)
        lacking = demanded - {n.requirement for n in kept}
        rng = random.Random(int(digest(["cases", self.contract.model_dump(mode="json")])[:15], 16))
        made = case_rules.negatives(self.contract, rng, prefix="again-")
        more = tuple(n for n in made if n.requirement in lacking)
        if more or kept != now.negatives:
            self.files["cases/cases.json"] = Cases(
                negatives=(*kept, *more), alternatives=now.alternatives, states=now.states
            ).dump()
            self.done.append("complete the negatives")

    # --- outcome -----------------------------------------------------------------------------------------
    def _whole(self) -> dict[str, bytes]:
        files = dict(self.files)
        if self.verifier != self.view.env.verifier:
            files["verifier.json"] = self.verifier.dump()
        if self.anchors != self.view.env.anchors:
            files["anchors.json"] = self.anchors.dump()
        return dict(sorted(files.items()))

    def _env(self) -> Env:
        files = {p: d for p, d in self.view.files.items() if not p.startswith("verifier/")}
        files |= {f"verifier/{p}": d for p, d in self._whole().items()}
        return env_from_files(files, self.view.env.resources)

    def draft(self, source: str = "rule") -> Draft | None:
        files = self._whole()
        if files == self.view.component("verifier"):
            return None
        return Draft(
            component="verifier",
            files=files,
            source=source,  # type: ignore[arg-type]
            rationale="; ".join(dict.fromkeys(self.done)) or "weights and critical criteria as the contract has them",
            needs=tuple(f"deliverable:{d.id}" for d in self.contract.deliverables),
            writes=tuple(f"criterion:{c.id}" for c in self.verifier.criteria),
        )


def _beside(criterion: Criterion) -> Criterion:
    return criterion.model_copy(update={"check": f"{BESIDE}:{criterion.check.partition(':')[2]}"})


def _functions(source: str, names: set[str]) -> str:
    """The head of a check file and the named functions of it."""
    lines = source.splitlines(keepends=True)
    nodes = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)]
    head = "".join(lines[: nodes[0].lineno - 1]).rstrip() + "\n"
    kept = ["".join(lines[n.lineno - 1 : n.end_lineno]).rstrip() + "\n" for n in nodes if n.name in names]
    return "\n\n".join([head, *kept])


def _idle(path: str, read: set[str], before: set[str]) -> bool:
    """A check file of which no criterion names a function any more, though one did."""
    return path in before and path not in read
