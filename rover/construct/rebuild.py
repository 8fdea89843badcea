"""Making the derived files of a verifier again, for the context, task and harness that a package has now.

Derived are anchors (by DuckDB, pandas agreeing), the reference (by the family's demonstrator) and the alternative
end state (by its second solver). Authored files (checks, verifier.json, cases.json) are kept byte for byte, and where
nothing changed the result is the same bytes. A package without a family has no builder: its tree stays.
"""

from __future__ import annotations

from rover.construct.anchors import derive, queries
from rover.construct.families.protocol import Dropped, Family, FrozenContract, stored
from rover.construct.families.registry import installed
from rover.construct.package import ALTERNATIVE, alternative_files, reference_files
from rover.construct.reference import Demonstration, demonstrate
from rover.policy.solver import Role
from rover.rollout.engine import Engine
from rover.rollout.env import Env
from rover.sandbox.protocol import Files
from rover_store.errors import PackageError
from rover_store.records import Anchors


class RebuildFailed(PackageError):
    """The builder cannot make the verifier's derived files for this context, task and harness."""


def rebuild_verifier(engine: Engine, env: Env) -> Files:
    """The files of V, rebuilt. RebuildFailed where an answer or a solver's run cannot be had any more."""
    family = installed(env.record.family)
    if family is None:
        return dict(env.verifier_files)
    files = dict(env.verifier_files)
    files["anchors.json"] = _anchors(engine, env, files.get("anchors.json", b""))
    contract = stored(env.contract, env.instruction)
    made = _run(engine, family, contract, env, "demonstrator")
    files = _replaced(files, "reference/", reference_files(made))
    if ALTERNATIVE in env.cases.states:
        other = _run(engine, family, contract, env, "alternative")
        files = _replaced(files, f"cases/{ALTERNATIVE}/", alternative_files(other))
    return dict(sorted(files.items()))


def _anchors(engine: Engine, env: Env, before: bytes) -> bytes:
    """anchors.json. An anchor that stands for no answer of the contract is kept with its query."""
    wanted = {a.id: a.query for a in env.anchors.anchors} | queries(env.contract, env.verifier.criteria)
    found = derive(engine, env.contract, wanted, env.start)
    if isinstance(found, Dropped):
        raise RebuildFailed("verifier/anchors.json", "", found.reason)
    # the ids keep their place: an order of the author's own is no change
    order = [a.id for a in env.anchors.anchors]
    place = {a: i for i, a in enumerate(order)}
    new = Anchors(anchors=tuple(sorted(found.anchors, key=lambda a: (place.get(a.id, len(order)), a.id))))
    return before if new == env.anchors else new.dump()


def _run(engine: Engine, family: Family, contract: FrozenContract, env: Env, role: Role) -> Demonstration:
    made = demonstrate(engine, family, contract, env, role=role)
    if isinstance(made, Dropped):
        raise RebuildFailed("verifier/reference/reference.json", "", f"{role}: {made.reason}")
    return made


def _replaced(files: dict[str, bytes], folder: str, new: dict[str, bytes]) -> dict[str, bytes]:
    return {p: d for p, d in files.items() if not p.startswith(folder)} | new
