"""The oracle where the contract leaves everything to the verifier's program: the package's own solution.

What the solution leaves on this very context is right, and so is what equals it in every file that the request names.
A state that lacks one of these files, or holds it empty or as it was at the start, is wrong. Of all others nothing is
known: there may be other right work. The program itself is never asked.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rover.construct.solved import demanded, solved
from rover.diagnose.oracle.contract import Opinion, Oracle, State
from rover.policy.named import named_paths
from rover_store.records import Contract

if TYPE_CHECKING:
    from rover.rollout.engine import Engine
    from rover.rollout.env import Env

_OPEN = Opinion({}, {}, open=True)


class ProgramOracle(Oracle):
    """One frozen contract on one version of a package."""

    def __init__(self, engine: Engine, contract: Contract, env: Env) -> None:
        super().__init__(engine, contract, env.start)
        self._env = env
        self._needs = [r.id for r in contract.requirements if r.weight > 0 or r.critical]

    def answers(self) -> dict[str, Any]:
        return {}

    def judge(self, states: Sequence[State]) -> list[Opinion]:
        return [self._one(state) for state in states]

    @cached_property
    def wanted(self) -> dict[str, bytes]:
        """The files that are asked for, as the solution leaves them; none where it does not come to its end."""
        found = solved(self._engine, self._env, purpose="diagnose")
        if found is None or found.problem:
            return {}
        end = dict(found.result.end)
        return {path: end[path] for path in demanded(self._env, end)}

    def _one(self, state: State) -> Opinion:
        wanted = self.wanted
        if not wanted:
            return _OPEN
        now = {**self._start, **state.changed}
        held = {p: None if p in state.removed or p in state.links else now.get(p) for p in wanted}
        if all(data is not None and same(data, wanted[path]) for path, data in held.items()):
            return Opinion(dict.fromkeys(self._needs, True), {})
        named = set(named_paths(self._env.instruction, self._env.workdir))
        for path, data in held.items():
            if path in named and (why := self._wrong(path, data)):
                return self._broken(why)
        if all(self._wrong(path, data) for path, data in held.items()):
            return self._broken("nothing of what the solution does is done")
        return _OPEN

    def _wrong(self, path: str, data: bytes | None) -> str:
        if data is None:
            return f"{path} is missing"
        if not data.strip() and self.wanted[path].strip():
            return f"{path} is empty"
        if self._start.get(path) == data:
            return f"{path} is as it was at the start"
        return ""

    def _broken(self, why: str) -> Opinion:
        if len(self._needs) != 1:
            return Opinion({}, {}, broken=why)
        return Opinion({self._needs[0]: False}, {self._needs[0]: why}, broken=why)


def oracle_of(engine: Engine, env: Env, contract: Contract) -> Oracle:
    """The oracle of a contract on this version of a package."""
    if env.verifier.program is not None:
        return ProgramOracle(engine, contract, env)
    return Oracle(engine, contract, env.start)


def same(one: bytes, other: bytes) -> bool:
    """Equal, white space at the ends of lines and the form of JSON apart."""
    if one == other or _lines(one) == _lines(other):
        return True
    try:
        return bool(json.loads(one) == json.loads(other))
    except (ValueError, RecursionError):
        return False


def _lines(data: bytes) -> list[bytes]:
    return [line.rstrip() for line in data.rstrip().splitlines()]
