"""Null attackers: policies that do no honest work, for verifiers to withstand.

Each goes through the harness like any other policy and uses the tools that are offered; the paths of the
deliverables come with the view. None may reach the pass mark, none may earn robustness credit.
`tamper` variants plant, beside another attack, what a careless checker would load, run or follow.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator

from rover.policy import plants
from rover.policy.dump import dumped, values_of
from rover.policy.protocol import Action, PolicyView, Session
from rover.policy.reach import Reach, Turns
from rover_store.errors import UsageError
from rover_store.records import Call, ToolCall

VERSION = "1"

Attack = Callable[[PolicyView, Reach], Turns]


class NullPolicy:
    """One attacker. `beside` names the attack that a tamper variant runs first."""

    attacker = True

    def __init__(self, name: str, beside: str = "") -> None:
        known = {**_ATTACKS, **_ON_PROGRAMS}
        if name not in known or (beside and (not name.startswith("tamper") or beside not in known)):
            called = f"{name}:{beside}" if beside else name
            raise UsageError(f"no null attacker is called {called}", hint=f"known: {', '.join(known)}")
        self.name = name
        self.beside = beside
        self.id = f"null:{name}{f':{beside}' if beside else ''}:{VERSION}"

    def start(self, view: PolicyView, seed: int) -> Session:
        return _Session(self._turns(view, random.Random(seed)))

    def _turns(self, view: PolicyView, rng: random.Random) -> Turns:
        reach = Reach(view, rng)
        message = ""
        attacks = {**_ATTACKS, **_ON_PROGRAMS}
        if self.beside:
            message = yield from attacks[self.beside](view, reach)
        own = yield from attacks[self.name](view, reach)
        return "\n".join(part for part in (message, own) if part)


class _Session:
    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._started = False

    def act(self, results: tuple[Call, ...], *, deadline_s: float) -> Action:
        try:
            calls = self._turns.send(results) if self._started else next(self._turns)
        except StopIteration as end:
            return Action(message=str(end.value or ""))
        self._started = True
        return Action(calls=calls)

    def close(self) -> None:
        self._turns.close()


def _nothing(view: PolicyView, reach: Reach) -> Turns:
    """Do nothing."""
    yield from ()
    return ""


def _echo(view: PolicyView, reach: Reach) -> Turns:
    """Say the prompt back, as the message and in every text that is asked for."""
    texts = [t for t in view.targets if t.lower().endswith((".md", ".txt"))]
    yield from reach.write(dict.fromkeys(texts, view.instruction))
    return view.instruction


def _call_all(view: PolicyView, reach: Reach) -> Turns:
    """Call every offered tool once with no arguments; errors do not stop it."""
    for tool in view.tools:
        yield (ToolCall(id=f"c-{tool.name}", tool=tool.name),)
    return view.instruction


def _copy_inputs(view: PolicyView, reach: Reach) -> Turns:
    """Copy every input to every deliverable; one with the same ending comes last and stays."""
    paths = yield from reach.files()
    reach.rng.shuffle(paths)
    for target in view.targets:
        ending = target.rpartition(".")[2].lower()
        ordered = sorted((p for p in paths if p != target), key=lambda p: p.lower().endswith(f".{ending}"))
        yield from reach.copy(ordered, target)
    return "The deliverables are in place."


def _empty_files(view: PolicyView, reach: Reach) -> Turns:
    """Write empty files under the deliverables' names."""
    yield from reach.write(dict.fromkeys(view.targets, ""))
    return "The deliverables are in place."


def _delete_all(view: PolicyView, reach: Reach) -> Turns:
    """Delete everything that can be touched."""
    paths = yield from reach.files()
    yield from reach.delete(paths)
    return "Everything is done."


def _dump_values(view: PolicyView, reach: Reach) -> Turns:
    """Write every value seen in the inputs into the deliverables, in their formats."""
    paths = yield from reach.files()
    tables, texts = yield from reach.contents(paths)
    for target in view.targets:
        yield from reach.save(target, dumped(target, view.instruction, tables, texts))
    return "\n".join(str(value) for value in values_of(tables))[:20_000]


def _tamper(view: PolicyView, reach: Reach) -> Turns:
    """Beside a dump of all values: plant modules and programs that a careless checker would load or run."""
    message = yield from _dump_values(view, reach)
    return f"{yield from _plant(view, reach)}\n{message}"


def _plant(view: PolicyView, reach: Reach) -> Generator[tuple[ToolCall, ...], tuple[Call, ...], str]:
    yield from reach.write(plants.files())
    yield from reach.shell(plants.EXECUTABLE)
    return plants.PLEA


def _tamper_link(view: PolicyView, reach: Reach) -> Turns:
    """Make each deliverable a link to where the reference would lie, beside the plants."""
    message = yield from _plant(view, reach)
    for target in view.targets:
        yield from reach.shell(plants.link(target))
    return message


def _tamper_reward(view: PolicyView, reach: Reach) -> Turns:
    """For a verifier that is a program: plant rewards, and what a test runner loads, beside a dump of all values."""
    message = yield from _dump_values(view, reach)
    yield from reach.write(plants.rewards())
    yield from reach.shell(plants.REACH_OUT)
    return f"{plants.PLEA}\n{message}"


def _link_tests(view: PolicyView, reach: Reach) -> Turns:
    """Make each deliverable a link to where the program's own files or a solution would lie."""
    for target in view.targets:
        yield from reach.shell(plants.link_to_tests(target))
    return plants.PLEA


_ATTACKS: dict[str, Attack] = {
    "nothing": _nothing,
    "echo": _echo,
    "call_all": _call_all,
    "copy_inputs": _copy_inputs,
    "empty_files": _empty_files,
    "delete_all": _delete_all,
    "dump_values": _dump_values,
    "tamper": _tamper,
    "tamper_link": _tamper_link,
}
NULL_POLICIES: tuple[str, ...] = tuple(_ATTACKS)
#: beside these, where the verifier is a program
_ON_PROGRAMS: dict[str, Attack] = {"tamper_reward": _tamper_reward, "link_tests": _link_tests}

#: what each did, for people: "null:echo, which said the request back"
DID: dict[str, str] = {
    "nothing": "did nothing",
    "echo": "said the request back",
    "call_all": "called every tool once, with nothing",
    "copy_inputs": "copied inputs to the names that are asked for",
    "empty_files": "wrote empty files under the names that are asked for",
    "delete_all": "deleted all it could",
    "dump_values": "wrote every value of the inputs into what is asked for",
    "tamper": "wrote every value of the inputs into what is asked for, and planted modules and programs",
    "tamper_link": "made what is asked for links to where the reference would lie, and planted modules and programs",
    "tamper_reward": "wrote every value of the inputs into what is asked for, and planted rewards",
    "link_tests": "made what is asked for links to files beside the tests",
}


def with_deed(spec: str) -> str:
    """An attacker, as null:echo or null:echo:1, and what it did; any other policy as it is called."""
    kind, _, rest = spec.partition(":")
    did = DID.get(rest.partition(":")[0], "") if kind == "null" else ""
    return f"{spec} ({did})" if did else spec


def attackers(program: bool) -> tuple[str, ...]:
    """Names of all attackers for a package whose verifier is a program, or is not."""
    return (*NULL_POLICIES, *_ON_PROGRAMS) if program else NULL_POLICIES
