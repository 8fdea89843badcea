"""Putting a value that the contract gives back into the request: where its hole is, in the words of the request.

A rule of repair, and what lets a probe ask how far a solver would come if the request were whole. It reads the
request and the contract alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rover.diagnose.demands import columns_of, compared_with, states, states_given
from rover.rollout.env import Env
from rover_store.records import Contract, GivenValue, Scalar

_PHRASES: dict[str, tuple[str, ...]] = {
    "eq": ("is equal to", "equals", "is"),
    "ne": ("is not equal to", "differs from", "is not"),
    "lt": ("is earlier than", "is less than", "is before", "is below"),
    "le": ("is on or before", "is no later than", "is no more than", "is at most"),
    "gt": ("is later than", "is more than", "is greater than", "is after", "is above"),
    "ge": ("is on or after", "is no earlier than", "is no less than", "is at least"),
    "contains": ("contains",),
}
_COMPARED = r"(?:(?:no )?(?:more|less|greater) than|at (?:least|most)|up to|exceeds?|above|below)"
#: where a clause ends: a stop, a new line, the next condition, or a word that goes on after a value
_END = r"(?=\s+(?:and|or)\s+`|\s+(?:apart|are|in|into)\b|[,;:]\s|\.(?:\s|$)|\n|$|[,;:]$)"
_HOLE = r"(?P<hole>\s+[^\n]*?|)"
#: what holds a value is no hole, nor is what goes on as another condition: `is` in "is not", "is at most"
_VALUE = re.compile(r'"[^"]*"|`[^`]*`|(?<![\w.])[-+]?\d[\d.,/-]*')
_OTHER = re.compile(
    r"\s+(?:not|equal to|empty|found|on or|at (?:least|most)|no (?:more|less|later|earlier)|before|after|above|below"
    r"|(?:more|less|greater|later|earlier) than)\b"
)


def missing(instruction: str, contract: Contract) -> tuple[GivenValue, ...]:
    """The given values that the request should state and does not."""
    return tuple(
        g for g in contract.givens if g.stated_in == "instruction" and not states_given(instruction, contract, g)
    )


def restated(instruction: str, contract: Contract, givens: Iterable[GivenValue]) -> str:
    """The request with each value put into its hole; where no hole is found, said in a sentence at the end."""
    text = instruction
    for given in givens:
        filled = _filled(text, contract, given)
        text = filled if filled is not None else f"{text.rstrip()}\n\n{_sentence(given)}\n"
    return text


def instead(text: str, contract: Contract, given: GivenValue) -> tuple[str, ...]:
    """The values that a request states where it should state this one, as they are written there.

    What another given has to say is none of them: two conditions may name one column.
    """
    others = [g.value for g in contract.givens if g.name != given.name]
    found: dict[str, None] = {}
    for pattern in _places(contract, given):
        for place in re.finditer(pattern, text):
            hole = place["hole"]
            value = _VALUE.search(hole)
            if value is None or _OTHER.match(hole) or hole[: value.start()].strip():
                continue
            said = value.group().strip('"`').rstrip(".,-")
            if said and not states(said, given.value) and not any(states(said, other) for other in others):
                found[said] = None
    return tuple(found)


def corrected(text: str, contract: Contract, given: GivenValue) -> str:
    """The request with this value where it states another one for it."""
    for said in instead(text, contract, given):
        for pattern in _places(contract, given):
            for place in re.finditer(pattern, text):
                value = _VALUE.search(place["hole"])
                if value is not None and value.group().strip('"`').rstrip(".,-") == said:
                    at = place.start("hole") + value.start()
                    bare = value.group().rstrip(".,-")
                    return corrected(f"{text[:at]}{words(given.value)}{text[at + len(bare) :]}", contract, given)
    return text


def whole(env: Env) -> str:
    """The request as the contract would have it: by the family that wrote it, else with each value put right."""
    from rover.construct.families.registry import installed

    family = installed(env.record.family)
    request = getattr(family, "request", None)
    written = request(env.contract, env.instruction) if request is not None else None
    if isinstance(written, str):
        return written
    text = env.instruction
    for given in missing(text, env.contract):
        text = corrected(text, env.contract, given)
    return restated(text, env.contract, missing(text, env.contract))


def words(value: Scalar) -> str:
    """A value as a request writes it: numbers and dates bare, text in quotes."""
    if isinstance(value, str):
        return value if re.fullmatch(r"\d{4}-\d{2}-\d{2}", value) else f'"{value}"'
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, int) else f"{value:.9f}".rstrip("0")


def _filled(text: str, contract: Contract, given: GivenValue) -> str | None:
    for pattern in _places(contract, given):
        for found in re.finditer(pattern, text):
            if not _VALUE.search(found["hole"]) and not _OTHER.match(found["hole"]):
                return f"{text[: found.start('hole')]} {words(given.value)}{text[found.end('hole') :]}"
    return None


def _places(contract: Contract, given: GivenValue) -> Iterator[str]:
    """Where a request would state the value, the likeliest first."""
    for column, op in compared_with(contract, given.name):
        name = rf"(?<!\w)`?{re.escape(column)}`?"
        for phrase in _PHRASES.get(op, ()):
            yield rf"{name}\s+{phrase}{_HOLE}{_END}"
    for column in columns_of(contract, given.name):
        name = rf"`?{re.escape(column)}`?"
        yield rf"\b[Ss]et\s+{name}\s+to{_HOLE}{_END}"
        yield rf"\b(?:put|write|enter){_HOLE}(?=\s+in(?:to)?\s+(?:the column\s+)?{name})"
        yield rf"\bget{_HOLE}(?=\s+in\s+(?:the column\s+)?{name})"
    yield rf"\b{_COMPARED}{_HOLE}{_END}"


def _sentence(given: GivenValue) -> str:
    return f"The value {given.meaning or given.name} is {words(given.value)}."
