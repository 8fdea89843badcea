"""The contract is fixed before a reference exists: by the types, and by what imports what."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from pathlib import Path

import pytest
from packages import runtime, summary_package, summary_resources

import rover.construct
from rover.construct import reference
from rover.construct.families.protocol import Draft, FrozenContract, freeze, stored
from rover.construct.families.registry import family
from rover.construct.reference import demonstrate
from rover.rollout.engine import Engine
from rover.rollout.env import env_from_files
from rover_store.records import Contract, Harness, Requirement
from rover_store.records.contract import NoExtraRule


def draft(instruction: str = "Do it.") -> Draft:
    need = Requirement(id="no-extra", statement="nothing else", rule=NoExtraRule())
    return Draft("t", instruction, Contract(requirements=(need,)), (), Harness(tools=()), (), {}, ())


def test_a_frozen_contract_is_made_by_freezing_alone() -> None:
    with pytest.raises(TypeError):
        FrozenContract(Contract(), "x", object())
    frozen = freeze(draft())
    with pytest.raises(dataclasses.FrozenInstanceError):
        frozen.contract = Contract()  # type: ignore[misc]


def test_a_revision_cannot_change_contract_or_request() -> None:
    frozen = freeze(draft())
    frozen.check(draft().contract, "Do it.")
    with pytest.raises(ValueError, match="frozen"):
        frozen.check(Contract(), "Do it.")
    with pytest.raises(ValueError, match="frozen"):
        frozen.check(draft().contract, "Do it differently.")


def test_a_reference_needs_a_frozen_contract() -> None:
    kind = runtime()
    env = env_from_files(summary_package(), summary_resources())
    with Engine(kind) as engine:
        with pytest.raises(TypeError, match="frozen"):
            demonstrate(engine, family("summarise"), env.contract, env)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="frozen"):
            demonstrate(engine, family("summarise"), stored(Contract(), "other"), env)
    kind.close()


def test_a_draft_has_no_place_for_values_or_references() -> None:
    names = {f.name for f in dataclasses.fields(Draft)}
    assert not names & {"reference", "anchors", "answers", "values", "demonstration"}


def test_families_import_nothing_that_knows_a_reference() -> None:
    """No module that writes contracts can get at references, anchors, calibration or a running engine."""
    hidden = ("reference", "calibrate", "admission", "anchors", "build", "rebuild", "package")
    banned = {f"rover.construct.{m}" for m in hidden} | {"rover.rollout", "rover_store.store"}
    folder = Path(inspect.getfile(rover.construct)).parent
    sources = [*folder.glob("families/**/*.py"), folder / "cases.py", folder / "expand.py"]
    assert len(sources) > 15
    for source in sources:
        for node in ast.walk(ast.parse(source.read_text())):
            found = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [f"{node.module}.{a.name}" for a in node.names] if isinstance(node, ast.ImportFrom) else []
            found += [a.name for a in node.names] if isinstance(node, ast.Import) else []
            bad = [m for m in found if any(m == b or m.startswith(b + ".") for b in banned)]
            assert not bad, f"{source.name} imports {bad}"


def test_references_are_made_in_one_module() -> None:
    """Whatever builds a reference record runs a solver for it, in rover.construct.reference."""
    folder = Path(inspect.getfile(rover.construct)).parent
    makers = {
        p.name
        for p in folder.glob("**/*.py")
        for node in ast.walk(ast.parse(p.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Demonstration"
    }
    assert makers == {Path(inspect.getfile(reference)).name}
