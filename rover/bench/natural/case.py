"""What a natural case is: a sound task, how it came to be broken, what was seen, and what people did about it.

The sound form is never in the store. Its history holds versions as they followed one another; the last one is the
case. `shows` names what runs differently: observation -> (outcome on the sound form, outcome on the case).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from rover.bench.natural.pack import Pack
from rover.bench.natural.tasks import Sound
from rover.sandbox.protocol import Files
from rover_store.ids import ComponentName
from rover_store.records import Mutation

#: how the repair that people made turned out
Outcome = Literal["right", "incomplete", "wrong", "undone"]
Proposals = Mapping[ComponentName, Files]


@dataclass(frozen=True, slots=True)
class Version:
    """One commit of a package's history."""

    message: str
    pack: Pack


@dataclass(frozen=True)
class Natural:
    """One case."""

    key: str
    #: number of the described fault that it re-creates
    line: int
    #: the kind of suite or report that had it, in our words
    source: str
    symptom: str
    fault: str
    #: the repair that people made, and how it turned out
    repair: str
    outcome: Outcome
    components: tuple[ComponentName, ...]
    expects: tuple[tuple[str, ComponentName], ...]
    right: tuple[int, ...]
    shows: Mapping[str, tuple[str, str]]
    sound: Callable[[], Sound]
    #: from the sound form to the versions, the oldest first, the case last
    history: Callable[[Pack], tuple[Version, ...]]
    #: from the case (and the sound form) to the historical repair: whole components
    proposals: Callable[[Pack, Pack], Proposals]
    #: end states that are shown: name -> what is made of the start and of the sound form's end state
    states: Mapping[str, Callable[[Files, Files], Files]] | None = None
    #: sound packages beside the case, bound to the shared resources as the case has them
    beside: tuple[Callable[[], Sound], ...] = ()
    #: held-out rules of the author beside those that the builder draws
    held_out: tuple[Mutation, ...] = ()
