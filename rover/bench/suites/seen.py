"""What changed bytes show by themselves, where no run would: an answer that can be read, a value told twice.

Each check compares the sound package with the broken one and says in words what differs, or nothing. They are
written for suites alone and share no code with the probes of a diagnosis.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from rover.rollout.env import Env
from rover.sandbox.protocol import Files
from rover_store.ids import ComponentName

#: what makes a text another demand: numbers, dates, names of files, words in quotes
_TOKEN = re.compile(r"`[^`\n]+`|\"[^\"\n]+\"|\d{4}-\d{2}-\d{2}|[\w./-]+\.[a-z]{2,5}\b|\d+(?:[.,]\d+)*%?")
_COPY = re.compile(r"([ _-]*(copy|final|new|old|draft|backup|v?\d+|\(\d+\)))+$", re.IGNORECASE)
#: so large a part of an answer's rows lets the rest be guessed
_MOST = 0.6


def shown(component: ComponentName, sound: Env, broken: Env) -> str:
    """What the changed bytes of one component show, in words; empty where they show nothing."""
    checks = {"context": _context, "task": _task, "harness": _harness, "verifier": _verifier}
    return next((words for words in checks[component](sound, broken) if words), "")


def _context(sound: Env, broken: Env) -> Iterator[str]:
    new = {p: d for p, d in broken.start.items() if sound.start.get(p) != d}
    for path, data in new.items():
        text = text_of(path, data)
        yield _reference(sound, path, data)
        yield _checker(sound, path, data)
        yield _answer(sound, path, text, text_of(path, sound.start.get(path, b"")))
    for path in sorted(set(new) - set(sound.start)):
        if path in sound.targets():
            yield f"the deliverable {path} lies in the workspace at the start"
        twin = _twin(path, broken.start)
        if twin and text_of(twin, broken.start[twin]) != text_of(path, new[path]):
            yield f"{path} and {twin} are copies of one file and differ"
    access = {f.path: f.access for f in broken.context.files}
    before = {f.path: f.access for f in sound.context.files}
    for target in sound.targets():
        if access.get(target) == "protected" and before.get(target) != "protected":
            yield f"{target} has to be edited and is protected"
    for path in sorted(set(sound.start) - set(broken.start)):
        if any(f'"{path}"' in text for text in (sound.contract.model_dump_json(), sound.anchors.model_dump_json())):
            yield f"{path} is no longer in the workspace"


def _task(sound: Env, broken: Env) -> Iterator[str]:
    for given in sound.contract.givens:
        new = next((g for g in broken.contract.givens if g.name == given.name), None)
        if new is None or new.value != given.value:
            yield f"the contract no longer gives {given.name} as {given.value}"
    yield _answer(sound, "the request", broken.instruction, sound.instruction)
    old, now = _tokens(sound.instruction), _tokens(broken.instruction)
    lost = [t for t in old if now.count(t) < old.count(t)]
    more = [t for t in now if now.count(t) > old.count(t)]
    if lost and more:
        yield f"the request says {more[0]} where it said {lost[0]}"
    if lost:
        yield f"the request no longer says {lost[0]}"
    if more:
        yield f"the request also says {more[0]}"
    for word in _terms(sound.contract.model_dump(mode="json")):
        if broken.instruction.lower().count(word) < sound.instruction.lower().count(word):
            yield f"the request no longer says {word}"


def _harness(sound: Env, broken: Env) -> Iterator[str]:
    return iter(())


def _verifier(sound: Env, broken: Env) -> Iterator[str]:
    asked = {r.id for r in sound.contract.requirements}
    scored = {c.requirement for c in broken.verifier.criteria if c.weight > 0 or c.critical}
    for requirement in sorted(asked & {c.requirement for c in sound.verifier.criteria} - scored):
        yield f"{requirement} is scored by no criterion"
    held = {n.requirement for n in broken.cases.negatives}
    for requirement in sorted({n.requirement for n in sound.cases.negatives if n.requirement} - held):
        yield f"no negative breaks {requirement} any more"


# --- the context ---------------------------------------------------------------------------------------------
def _reference(sound: Env, path: str, data: bytes) -> str:
    """The deliverable of the reference that this file holds."""
    for name, known in sound.verifier_files.items():
        target = name.removeprefix("reference/files/")
        if target == name or not known.strip() or sound.start.get(target) == known:
            continue
        if known.strip() in data or _words(text_of(name, known)) == _words(text_of(path, data)):
            return f"{path} holds the reference's {target}"
    return ""


def _checker(sound: Env, path: str, data: bytes) -> str:
    """The part of the verifier that this file holds."""
    lines = {line.strip() for line in data.splitlines()}
    for name, known in sound.verifier_files.items():
        if not name.startswith(("checks/", "anchors.json", "verifier.json", "cases/cases.json")):
            continue
        own = [line.strip() for line in known.splitlines() if len(line.strip()) > 20]
        if known.strip() and (known.strip() in data or (own and sum(x in lines for x in own) * 2 > len(own))):
            return f"{path} holds the verifier's {name}"
    return ""


def _answer(sound: Env, path: str, text: str, before: str) -> str:
    """The answer whose rows stand in this file and did not stand there before."""
    lines, old = text.splitlines(), before.splitlines()
    for anchor in sound.anchors.anchors:
        rows = [[c for c in row if c is not None and not isinstance(c, bool)] for row in anchor.value.rows]
        rows = [row for row in rows if len(row) > 1 or any(len(_digits(c)) > 2 for c in row)]
        told = sum(any(_holds(line, row) for line in lines) for row in rows)
        known = sum(any(_holds(line, row) for line in old) for row in rows)
        if rows and told >= _MOST * len(rows) and known < told:
            return f"{path} tells {told} of {len(rows)} rows of the answer {anchor.id}"
    return ""


def _holds(line: str, row: list[Any]) -> bool:
    return all(any(spelled in line for spelled in _spellings(cell)) for cell in row)


def _spellings(cell: Any) -> set[str]:
    if isinstance(cell, float) or (isinstance(cell, int) and not isinstance(cell, bool)):
        return {str(cell), f"{cell:g}", f"{cell:.2f}", f"{cell:,}", f"{cell:,.2f}"}
    return {str(cell)}


def _digits(cell: Any) -> str:
    return re.sub(r"\D", "", str(cell)).strip("0") if isinstance(cell, int | float) else ""


def _twin(path: str, start: Files) -> str:
    """Another file whose name is the same but for what people add to a copy's name."""
    mine = _stem(path)
    others = [p for p in sorted(start) if p != path and _stem(p) == mine]
    return others[0] if others else ""


def _stem(path: str) -> str:
    return _COPY.sub("", PurePosixPath(path).stem).lower() or PurePosixPath(path).stem.lower()


# --- texts ---------------------------------------------------------------------------------------------------
def text_of(path: str, data: bytes) -> str:
    """A file as text; of a workbook all that its cells say."""
    if path.endswith(".xlsx"):
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as book:
                parts = [n for n in sorted(book.namelist()) if n.startswith("xl/") and n.endswith(".xml")]
                raw = "\n".join(book.read(n).decode("utf-8", "replace") for n in parts)
        except zipfile.BadZipFile:
            return ""
        return re.sub(r"<[^>]+>", " ", raw.replace("</row>", "\n").replace("</si>", "\n"))
    return data.decode("utf-8", "replace")


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(re.sub(r"(?m)^\s*(?:[-*]|\d+[.)])\s+", "", text))


def _terms(contract: Any) -> list[str]:
    """Names in a contract that a request has to use: columns, labels, fields, sheets."""
    if isinstance(contract, dict):
        return [t for k, v in contract.items() if k not in ("statement", "meaning", "kind", "type") for t in _terms(v)]
    if isinstance(contract, list):
        return [t for v in contract for t in _terms(v)]
    return [contract.lower()] if isinstance(contract, str) and len(contract) > 2 else []


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text)
