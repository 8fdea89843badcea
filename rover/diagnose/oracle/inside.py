"""The contract's own interpreter: evaluates every requirement of a contract on an end state, inside the sandbox.

Code apart from rover.verify, so that the two can disagree. The contract comes as plain JSON, the answers as
tables derived by the second engine; the box holds `start/...` and `end/...` below its root.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rover.diagnose.oracle import edits, files, text
from rover.diagnose.oracle.case import Case, Found, Json
from rover.diagnose.oracle.files import Unreadable
from rover.diagnose.oracle.objects import field_rule, records_rule, set_rule
from rover.diagnose.oracle.tables import cells_rule, format_rule, order_rule, rows_rule
from rover.diagnose.oracle.values import kind_of

WARM_FOR = {".xlsx": "openpyxl", ".xlsm": "openpyxl"}


def figure_rule(case: Case) -> Found:
    want = case.value()
    spec = {"type": kind_of(want), "tolerance": case.rule.get("tolerance", 0.0)}
    return text.figure(files.words(case.path), case.rule["label"], want, spec, case.same)


def cite_rule(case: Case) -> Found:
    content = files.words(case.path)
    missing = [p for p in case.rule["paths"] if not text.names(content, p)]
    return (not missing, f"does not name {', '.join(missing)}" if missing else "")


def protected_rule(case: Case) -> Found:
    for path in case.rule["paths"]:
        before, after = case.start / path, case.end / path
        if before.is_file() and (after.is_symlink() or not after.is_file()):
            return False, f"{path} is gone"
        if before.is_file() and before.read_bytes() != after.read_bytes():
            return False, f"{path} was changed"
    return True, ""


def no_extra_rule(case: Case) -> Found:
    before, after = _listing(case.start), _listing(case.end) | set(case.links)
    allowed = {d["path"] for d in case.contract["deliverables"]}
    extra = sorted(after - before - allowed)
    gone = sorted(before - after)
    if extra or gone:
        return False, f"{'created ' + extra[0] if extra else 'deleted ' + gone[0]}"
    return True, ""


def edit_rule(case: Case) -> Found:
    table = case.answer("rows")
    return edits.edited(case, table)


RULES: dict[str, Callable[[Case], Found]] = {
    "format": format_rule,
    "rows": rows_rule,
    "cells": cells_rule,
    "order": order_rule,
    "field": field_rule,
    "set": set_rule,
    "records": records_rule,
    "figure": figure_rule,
    "cite": cite_rule,
    "edit": edit_rule,
    "rest": lambda case: edits.rest(case),
    "protected": protected_rule,
    "no_extra": no_extra_rule,
}


def judge(job: Json) -> dict[str, Any]:
    """Entry point. Returns requirement id -> {"ok": bool, "reason": str}, or {"error": ...} where the contract
    itself cannot be evaluated."""
    out: dict[str, Any] = {}
    for requirement in job["contract"]["requirements"]:
        try:
            ok, reason = RULES[requirement["rule"]["kind"]](Case(job, requirement))
            out[requirement["id"]] = {"ok": bool(ok), "reason": reason[:300]}
        except Unreadable as error:
            out[requirement["id"]] = {"ok": False, "reason": str(error)[:300]}
        except OSError as error:
            out[requirement["id"]] = {"ok": False, "reason": f"cannot be read ({error.strerror})"}
        except LookupError as error:
            out[requirement["id"]] = {"error": str(error).strip("'\"")[:300]}
    return out


def judge_many(job: Json) -> list[dict[str, Any]]:
    """Entry point for several end states of one start: what each changed lies below `end/N`."""
    out = []
    for number, state in enumerate(job["states"]):
        _complete(Path("start"), Path("end") / str(number), set(state["removed"]) | set(state["links"]))
        out.append(judge(dict(job, message=state["message"], links=state["links"], at=number)))
    return out


def _complete(start: Path, end: Path, absent: set[str]) -> None:
    """Fill an end state up with what it shares with the start."""
    for name in _listing(start) - absent:
        target = end / name
        if target.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(start / name, target)


def _listing(root: Path) -> set[str]:
    return {p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_symlink() or not p.is_dir()}
