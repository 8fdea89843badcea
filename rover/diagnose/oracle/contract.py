"""The oracle: whether an end state satisfies the frozen contract, requirement by requirement.

The contract is evaluated by code apart from the verifier's, on answers that the second query engine derives
from the candidate's own context. All reading of files happens in the sandbox (rover.diagnose.oracle.inside).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rover_store.errors import SandboxError
from rover_store.ids import blob_id, digest
from rover_store.records import Contract, Query, Requirement

if TYPE_CHECKING:
    from rover.rollout.engine import Engine
    from rover.rollout.records import RolloutResult

Files = Mapping[str, bytes]


class ContractUnanswerable(Exception):  # a fact about a candidate, not an error of rover
    """The frozen contract cannot be evaluated on this context: a source is missing or has another shape."""


@dataclass(frozen=True, slots=True)
class State:
    """An end state as it differs from the start. Links are named, never followed."""

    changed: Mapping[str, bytes]
    removed: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    message: str = ""

    @property
    def key(self) -> str:
        changed = {path: blob_id(data) for path, data in self.changed.items()}
        return digest([changed, sorted(self.removed), sorted(self.links), self.message])


def state_of(start: Files, end: Files, message: str = "") -> State:
    """The state of plain files in memory."""
    changed = {path: data for path, data in end.items() if start.get(path) != data}
    return State(changed, tuple(sorted(set(start) - set(end))), message=message)


def state_after(start: Files, result: RolloutResult) -> State:
    """The state that a rollout left; only what it changed is read."""
    before = {path: blob_id(data) for path, data in start.items()}
    end = result.end
    changed = {path: end[path] for path in end if end.manifest[path].id != before.get(path)}
    gone = set(before) - set(end)
    return State(changed, tuple(sorted(gone)), end.links, result.trajectory.final_message)


@dataclass(frozen=True, slots=True)
class Opinion:
    """What the oracle holds of one end state: requirement id -> satisfied, and why not.

    Of a contract that leaves everything to a program less can be known: `broken` says that something of it is, though
    not what; `open` that nothing is known of this state.
    """

    satisfied: Mapping[str, bool]
    reasons: Mapping[str, str]
    broken: str = ""
    open: bool = False

    @property
    def accepts(self) -> bool:
        return not self.open and not self.broken and all(self.satisfied.values())


def answers_of(requirement: Requirement) -> dict[str, Query]:
    """The queries of a requirement by slot: `value`, and `rows` for an edit."""
    found = {}
    for slot in ("value", "rows"):
        stated = getattr(requirement.rule, slot, None)
        query = getattr(stated, "answer", None)
        if isinstance(query, Query):
            found[slot] = query
    return found


class Oracle:
    """One frozen contract on one start state."""

    def __init__(self, engine: Engine, contract: Contract, start: Files) -> None:
        self._engine = engine
        self._contract = contract
        self._start = dict(start)
        self._plain: dict[str, Any] = contract.model_dump(mode="json")
        self._answers: dict[str, Any] | None = None
        self._known: dict[str, Opinion] = {}

    def answers(self) -> dict[str, Any]:
        """Answers by `requirement:slot`, derived once. ContractUnanswerable names the first that is none."""
        if self._answers is None:
            queries = {
                f"{r.id}:{slot}": query.model_dump(mode="json")
                for r in self._contract.requirements
                for slot, query in answers_of(r).items()
            }
            self._answers = self._derive(queries) if queries else {}
        return self._answers

    def _derive(self, queries: dict[str, Any]) -> dict[str, Any]:
        job = {
            "queries": queries,
            "givens": {g.name: g.value for g in self._contract.givens},
            "engine": "pandas",
            "root": ".",
        }
        result = self._engine.call("rover.construct.query.inside:derive", job, self._start)
        if result.breach or result.error:
            raise ContractUnanswerable(f"deriving the answers failed: {result.breach or result.error}")
        for name, table in result.value.items():
            if "error" in table:
                raise ContractUnanswerable(f"{name.partition(':')[0]}: {table['error']}")
        return dict(result.value)

    def judge(self, states: Sequence[State]) -> list[Opinion]:
        """One opinion for each state. States that were judged before are not judged again."""
        keys = [state.key for state in states]
        new = {k: s for k, s in zip(keys, states, strict=True) if k not in self._known}
        if new:
            found = self._judge(list(new.values()))
            self._known.update(zip(new, found, strict=True))
        return [self._known[key] for key in keys]

    def _judge(self, states: list[State]) -> list[Opinion]:
        files = {f"start/{p}": d for p, d in self._start.items()}
        for number, state in enumerate(states):
            files.update({f"end/{number}/{p}": d for p, d in state.changed.items()})
        job = {
            "contract": self._plain,
            "answers": self.answers(),
            "states": [{"removed": s.removed, "links": s.links, "message": s.message} for s in states],
        }
        result = self._engine.call("rover.diagnose.oracle.inside:judge_many", job, files)
        if result.breach or result.error:
            if len(states) > 1:  # one hostile state must not cost the others their opinion
                return [self._judge([state])[0] for state in states]
            return [self._refusal(result.breach or result.error)]
        return [self._opinion(value) for value in result.value]

    def _opinion(self, value: dict[str, Any]) -> Opinion:
        for name, found in value.items():
            if "error" in found:
                raise ContractUnanswerable(f"{name}: {found['error']}")
        return Opinion({n: f["ok"] for n, f in value.items()}, {n: f["reason"] for n, f in value.items()})

    def _refusal(self, why: str) -> Opinion:
        """A state whose reading broke a limit satisfies nothing; an oracle that raises is a fault of rover's."""
        if why not in ("wall", "cpu", "memory", "output", "disk"):
            raise SandboxError(f"the oracle failed: {why}")
        ids = [r.id for r in self._contract.requirements]
        return Opinion(dict.fromkeys(ids, False), dict.fromkeys(ids, f"reading it broke the {why} limit"))
