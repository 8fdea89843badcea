"""Compare evaluations pair by pair: the same package, attempt and seed under each of them.

What is compared was measured under equal conditions, or it is refused: revision, split and part, packages, attempts,
seeds, temperature and turn budget of the evaluations; and where run folders are given, what training was allowed.
Pairs that ended in an infra_error or verifier_error on either side are left out and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rover.bench.intervals import Estimate, Paired, differences, paired
from rover_store.errors import NotFound, UsageError
from rover_train import evaluation
from rover_train.evaluation import FOLDER, EvalRow, Evaluation

Pair = tuple[EvalRow, EvalRow]


@dataclass(frozen=True, slots=True)
class Side:
    """One thing to compare: its name, its evaluation, and what its training was allowed (empty for a bare file)."""

    name: str
    found: Evaluation
    budget: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Against:
    """One side against the first. `left_out` pairs ended in an error of the infrastructure or the verifier."""

    name: str
    pairs: int
    left_out: int
    unpaired: int
    success: Paired
    score: Estimate
    families: Mapping[str, Paired]
    difficulties: Mapping[str, Paired]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Comparison:
    """All sides, and each but the first against the first. `unequal`: in what they differ, where that was allowed."""

    sides: tuple[Side, ...]
    against: tuple[Against, ...]
    unequal: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        shown = [
            {"name": s.name, "method": s.found.method, "policy": s.found.policy, "step": s.found.step,
             "budget": dict(s.budget), **s.found.summary()}
            for s in self.sides
        ]  # fmt: skip
        return {"sides": shown, "against": [a.to_json() for a in self.against], "unequal": list(self.unequal)}


def compare(sides: Sequence[Side], *, unequal: bool = False) -> Comparison:
    """Compare with the first. UsageError for fewer than two sides, for unequal conditions unless `unequal`, and where
    two sides have no pair in common."""
    if len(sides) < 2:
        raise UsageError("there is nothing to compare with", hint="name two runs or more")
    found = unequal_in(sides)
    if found and not unequal:
        hint = "compare what was measured under equal conditions, or say --unequal"
        raise UsageError(f"unequal: {'; '.join(found)}", hint=hint)
    return Comparison(tuple(sides), tuple(_against(sides[0], side) for side in sides[1:]), found)


# --- equal conditions ----------------------------------------------------------------------------------------
def unequal_in(sides: Sequence[Side]) -> tuple[str, ...]:
    """In what the sides differ, one text a condition."""
    found = [
        f"{what} ({', '.join(f'{s.name}: {v}' for s, v in zip(sides, values, strict=True))})"
        for what, values in _conditions(sides)
        if len({v for v in values if v is not None}) > 1
    ]
    rows = [_keys(side).keys() for side in sides]
    common = set(rows[0]).intersection(*rows[1:])
    if not found and any(len(r) > len(common) for r in rows):
        found.append(f"packages and seeds ({len(common)} in common of {', '.join(str(len(r)) for r in rows)})")
    return tuple(found)


def _conditions(sides: Sequence[Side]) -> list[tuple[str, list[object]]]:
    """What has to be equal, with the value of each side; None where a side has no such thing."""
    out: list[tuple[str, list[object]]] = [
        ("revision", [s.found.revision[:12] for s in sides]),
        ("part of the split", [s.found.part or "none" for s in sides]),
        ("split", [s.found.split[:12] or "none" for s in sides]),
        ("attempts", [s.found.attempts for s in sides]),
        ("seed", [s.found.seed for s in sides]),
        ("temperature", [s.found.temperature for s in sides]),
        ("tokens of a turn", [s.found.turn_tokens for s in sides]),
    ]
    names = dict.fromkeys(name for s in sides for name in s.budget)
    return out + [(name, [s.budget.get(name) for s in sides]) for name in names]


def _keys(side: Side) -> dict[tuple[str, int, int], EvalRow]:
    return {(r.package, r.attempt, r.seed): r for r in side.found.rows}


# --- pairs ---------------------------------------------------------------------------------------------------
def _against(base: Side, side: Side) -> Against:
    ours, theirs = _keys(side), _keys(base)
    common = sorted(ours.keys() & theirs.keys())
    both = [(ours[key], theirs[key]) for key in common]
    counted = [pair for pair in both if all(row.counts for row in pair)]
    if not counted:
        raise UsageError(f"{side.name} and {base.name} have no package and seed in common that count")
    return Against(
        name=side.name,
        pairs=len(counted),
        left_out=len(both) - len(counted),
        unpaired=len(ours.keys() ^ theirs.keys()),
        success=_paired(counted),
        score=differences([(a.score or 0.0) - (b.score or 0.0) for a, b in counted], _clusters(counted)),
        families=_by(counted, lambda row: row.family or "(none)"),
        difficulties=_by(counted, lambda row: "unknown" if row.difficulty is None else str(row.difficulty)),
    )


def _paired(pairs: Sequence[Pair]) -> Paired:
    return paired([a.passed for a, _ in pairs], [b.passed for _, b in pairs], _clusters(pairs))


def _clusters(pairs: Sequence[Pair]) -> list[str]:
    return [a.workspace or a.package for a, _ in pairs]


def _by(pairs: Sequence[Pair], key: Callable[[EvalRow], str]) -> dict[str, Paired]:
    groups: dict[str, list[Pair]] = {}
    for pair in pairs:
        groups.setdefault(key(pair[0]), []).append(pair)
    return {name: _paired(some) for name, some in sorted(groups.items(), key=lambda item: (len(item[0]), item[0]))}


# --- reading -------------------------------------------------------------------------------------------------
def load(paths: Sequence[Path]) -> list[Side]:
    """The sides that files and run folders stand for, named by what tells them apart.

    Of a run with several evaluations the one is taken that was made as the others' were; UsageError where none or
    more than one fits.
    """
    candidates = [_candidates(path) for path in paths]
    shared = set.intersection(*({_design(e) for e in some} for some in candidates)) if candidates else set()
    out = []
    for path, name, some in zip(paths, _names(paths), candidates, strict=True):
        chosen = some if len(some) == 1 else [e for e in some if _design(e) in shared]
        if len(chosen) != 1:
            what = "evaluations of the same kind" if chosen else "evaluations, none like those of the others"
            raise UsageError(f"{path}: {len(chosen or some)} {what}", hint=f"name one file of {path / FOLDER}")
        out.append(Side(name, chosen[0], _budget(path)))
    return out


def _candidates(path: Path) -> list[Evaluation]:
    if not path.is_dir():
        if not path.exists():
            raise NotFound("run or evaluation", str(path))
        return [evaluation.load(path)]
    found = sorted((path / FOLDER).glob("*.json"))
    if not found:
        raise UsageError(f"{path}: no evaluation is there", hint=f"rover eval --model {path} ...")
    return [evaluation.load(file) for file in found]


def _design(found: Evaluation) -> tuple[object, ...]:
    return (found.revision, found.part, found.split, found.attempts, found.seed, found.temperature, found.turn_tokens)


def _names(paths: Sequence[Path]) -> list[str]:
    """The last part of each path, or as much of it as tells them apart."""
    parts = [path.absolute().with_suffix("").parts if path.is_file() else path.absolute().parts for path in paths]
    for length in range(1, max(map(len, parts), default=0) + 1):
        names = ["/".join(p[-length:]) for p in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{'/'.join(p[-1:])} ({n + 1})" for n, p in enumerate(parts)]


def _budget(path: Path) -> Mapping[str, object]:
    """What the training of a run was allowed; empty for a file, or a folder without a config."""
    file = path / "config.toml"
    if not file.is_file():
        return {}
    from rover_train.config import loads

    config = loads(file.read_text(encoding="utf-8"), str(file))
    rl = config.rl
    played = 0 if config.method == "sft" else rl.steps * rl.tasks * rl.group
    return {
        "revision of training": config.revision[:12],
        "rollouts of training": played,
        "passes over them": rl.epochs if played else None,
        "tokens of a turn in training": rl.max_turn_tokens if played else None,
    }
