"""Proposals of a model: one prompt for each component, a typed answer, within a budget of tokens, recorded.

A model sees what every proposer sees: the package and the diagnosis. Its answer is a JSON object of file edits; one
that cannot be read is asked for once more with the reason, and then is no proposal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rover.repair.proposals.asking import Asker, Said, Unasked
from rover.repair.proposals.prompt import SYSTEM, prompt
from rover.repair.proposals.protocol import Draft, Files, PackageView, Style, suspected
from rover_store.errors import ProviderError, UsageError
from rover_store.ids import ComponentName
from rover_store.records import Diagnosis

_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Exchange(_Part):
    """A piece of text that stands once in a file, and what takes its place."""

    find: Annotated[str, Field(min_length=1, max_length=20_000)]
    replace: Annotated[str, Field(max_length=20_000)]


class FileEdit(_Part):
    """One file: its new content, or exchanges in it, or its deletion."""

    path: Annotated[str, Field(min_length=1, max_length=300)]
    content: Annotated[str | None, Field(max_length=400_000)] = None
    exchanges: Annotated[tuple[Exchange, ...], Field(max_length=40, strict=False)] = ()
    delete: bool = False


class Edits(_Part):
    """A model's whole answer."""

    rationale: Annotated[str, Field(max_length=2000)] = ""
    edits: Annotated[tuple[FileEdit, ...], Field(max_length=40, strict=False)] = ()


@dataclass(frozen=True, slots=True)
class ModelBudget:
    """What one component's proposal may cost."""

    tokens: int = 40_000
    tries: int = 2
    #: characters of the package that a prompt may hold
    prompt_chars: int = 24_000


class FromModel:
    """One component as a model would have it."""

    style: Style = "model"
    written_for: frozenset[str] = frozenset()

    def __init__(self, component: ComponentName, asker: Asker, budget: ModelBudget | None = None) -> None:
        self.component: ComponentName = component
        self.name = f"{component}-model:{asker.model}"
        self.asker = asker
        self.budget = budget or ModelBudget()
        #: seconds after which no answer is waited for
        self.seconds = asker.seconds * self.budget.tries + 10

    def propose(self, view: PackageView, diagnosis: Diagnosis) -> Draft | None:
        """UsageError with the reason where the model's answer cannot be used; ProviderError where it gave none."""
        findings = suspected(self.component, diagnosis)
        if not findings:
            return None
        asked = prompt(view, self.component, findings, self.budget.prompt_chars)
        spent, problem = 0, ""
        for _ in range(self.budget.tries):
            again = f"\n\nYour last answer could not be used: {problem}. Answer again with one JSON object."
            try:
                said: Said = self.asker.ask(SYSTEM, asked + again * bool(problem), self.budget.tokens - spent)
            except Unasked as error:
                raise ProviderError(str(error)) from None
            spent += said.tokens
            try:
                return self._draft(view, read(said.text))
            except Unusable as error:
                problem = str(error)
            if spent >= self.budget.tokens:
                problem += f" (and {spent} tokens are used up)"
                break
        raise UsageError(f"the model's answer cannot be used: {problem}")

    def _draft(self, view: PackageView, answer: Edits) -> Draft | None:
        if not answer.edits:
            return None
        files = edited(view.component(self.component), self.component, answer)
        rationale = " ".join(answer.rationale.split())[:500] or "as the model would have it"
        return Draft(component=self.component, files=files, source="model", rationale=rationale)


class Unusable(ValueError):
    """An answer that is no set of edits of this component."""


def read(text: str) -> Edits:
    """The edits in an answer: a JSON object, bare, in a fence, or with words around it."""
    fenced = _FENCE.findall(text)
    start, end = text.find("{"), text.rfind("}")
    bare = text[start : end + 1] if 0 <= start < end else ""
    problem = "there is no JSON object in it"
    for candidate in (*fenced, bare):
        if not candidate.strip():
            continue
        try:
            value = json.loads(candidate)
        except (ValueError, RecursionError) as error:
            problem = f"not valid JSON ({' '.join(str(error).split())[:120]})"
            continue
        try:
            return Edits.model_validate(value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            problem = f"{'.'.join(str(p) for p in first['loc']) or 'answer'}: {first['msg'][:160]}"
    raise Unusable(problem)


def edited(now: Files, component: str, answer: Edits) -> dict[str, bytes]:
    """The component's files after the edits. Unusable where one of them does not fit."""
    out: dict[str, bytes] = dict(now)
    for edit in answer.edits:
        path = edit.path.removeprefix(f"{component}/")
        if component == "task" and path == "contract.json":
            raise Unusable("task/contract.json is the frozen intent and stays as it is")
        ways = sum((edit.content is not None, bool(edit.exchanges), edit.delete))
        if ways != 1:
            raise Unusable(f"{path}: give exactly one of content, exchanges and delete")
        if edit.content is not None:
            out[path] = edit.content.encode()
        elif edit.delete:
            if out.pop(path, None) is None:
                raise Unusable(f"{path}: there is no such file in {component}/")
        else:
            out[path] = _exchanged(out, path, edit)
    return out


def _exchanged(files: Mapping[str, bytes], path: str, edit: FileEdit) -> bytes:
    if path not in files:
        raise Unusable(f"{path}: there is no such file")
    try:
        text = files[path].decode("utf-8")
    except UnicodeDecodeError:
        raise Unusable(f"{path}: is no text") from None
    for exchange in edit.exchanges:
        if text.count(exchange.find) != 1:
            times = text.count(exchange.find)
            raise Unusable(f"{path}: {exchange.find[:60]!r} stands there {times} times, not once")
        text = text.replace(exchange.find, exchange.replace)
    return text.encode()
