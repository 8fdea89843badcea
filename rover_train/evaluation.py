"""What an evaluation found, as a record, and the measures over its rows. No torch.

    pass@k = 1 - C(n - c, k) / C(n, k)      pass^k = C(c, k) / C(n, k)

of n rollouts of a package that count, c of which passed. Rollouts that ended in infra_error or verifier_error leave
n and are counted apart; a package with fewer than k that count leaves that k's mean. Intervals are clustered by
workspace: packages of one fail together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import comb
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rover.bench.intervals import mean
from rover_store.errors import PackageError
from rover_store.ids import digest
from rover_store.records import Outcome

ERRORS = ("infra_error", "verifier_error")
#: where a run keeps what was found of it
FOLDER = "evaluations"


#: sums and means of these stay exact, and JSON that anybody reads
Count = Annotated[int, Field(ge=0, lt=2**53)]
Number = Annotated[int, Field(ge=-(2**63), lt=2**63)]


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class EvalRow(Part):
    """One rollout. `attempt` and `seed` pair rows of two evaluations; `seconds` is a share of its batch's time, absent
    where the rollout came from the evidence."""

    package: str
    workspace: str = ""
    family: str = ""
    difficulty: Number | None = None
    attempt: Count
    seed: Number
    rollout: str
    outcome: Outcome
    score: Annotated[float, Field(ge=0, le=1 + 1e-9)] | None = None
    turns: Count = 0
    tokens: Count = 0
    seconds: Annotated[float, Field(ge=0, lt=2**53)] | None = None
    reused: bool = False
    reason: str = ""

    @property
    def counts(self) -> bool:
        return self.outcome not in ERRORS

    @property
    def passed(self) -> bool:
        return self.outcome == "passed"


class Evaluation(Part):
    """One policy on packages of one revision, each `attempts` times."""

    format: Literal[1] = 1
    kind: Literal["evaluation"] = "evaluation"
    revision: str
    policy: str
    of: str = ""
    """What was evaluated, as it was asked for: a run, a folder, a policy."""
    step: Count | None = None
    """Step of the checkpoint, where it is a run's."""
    method: str = ""
    part: str = ""
    """Part of the split; empty where packages were named otherwise."""
    split: str = ""
    """Digest of the split record."""
    attempts: Count = 1
    seed: int = 0
    temperature: Annotated[float, Field(ge=0)] | None = None
    turn_tokens: Count | None = None
    """Tokens after which a turn of a model was cut; absent for other policies."""
    rows: tuple[EvalRow, ...] = ()

    @property
    def reused(self) -> int:
        return sum(row.reused for row in self.rows)

    def summary(self) -> dict[str, Any]:
        """All measures, as JSON."""
        return {
            "packages": len({r.package for r in self.rows}),
            "workspaces": len({r.workspace for r in self.rows}),
            "rollouts": len(self.rows),
            "reused": self.reused,
            "outcomes": dict(sorted(Counter(r.outcome for r in self.rows).items())),
            **measures(self.rows),
            "families": by(self.rows, lambda r: r.family or "(none)"),
            "difficulties": by(self.rows, lambda r: "unknown" if r.difficulty is None else str(r.difficulty)),
            "cost": cost(self.rows),
        }

    def dump(self) -> str:
        """JSON text: the record, with its summary for whoever reads no code."""
        import json

        whole = {**self.model_dump(mode="json"), "summary": self.summary()}
        return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def load(file: Path) -> Evaluation:
    """An evaluation that `dump` wrote. PackageError where it is none."""
    import json

    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        values.pop("summary", None)
        json.dumps(values, ensure_ascii=False).encode()  # names may hold what cannot be written
        return Evaluation.model_validate(values)
    except OSError as error:
        raise PackageError(str(file), "", f"cannot be read: {error.strerror}") from None
    except ValidationError as error:
        told = error.errors(include_url=False, include_input=False, include_context=False)
        odd = [one for one in told if one["type"] not in ("missing", "extra_forbidden")]
        if not odd:
            raise PackageError(str(file), "", "is no evaluation that `rover eval --out` wrote") from None
        raise PackageError(str(file), ".".join(str(p) for p in odd[0]["loc"])[:200], odd[0]["msg"][:200]) from None
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise PackageError(str(file), "", "is no evaluation that `rover eval --out` wrote") from None


def place_in(run: Path, found: Evaluation, *, whole: bool = True) -> Path:
    """Where a run's folder keeps an evaluation: one file for each design, so that a repeated one replaces the old.

    `whole`: of all packages in that part of the run's own split; others have a name of their own.
    """
    warm = "" if found.temperature is None else "-greedy" if found.temperature == 0 else f"-T{found.temperature:g}"
    step = "" if found.step is None else f"-step{found.step}"
    part = found.part.replace("_", "-") or "packages"
    of = "" if whole else f"-{digest(sorted({row.package for row in found.rows}))[:8]}"
    return run / FOLDER / f"{part}{warm}-k{found.attempts}-s{found.seed}{step}{of}.json"


def kept_in(run: Path) -> tuple[list[tuple[str, Evaluation]], list[str]]:
    """The evaluations in a run's folder with the names of their files, in order; and the files that cannot be read."""
    found, unread = [], []
    for file in sorted((run / FOLDER).glob("*.json")):
        try:
            found.append((file.stem, load(file)))
        except PackageError:
            unread.append(file.name)
    return found, unread


# --- measures ------------------------------------------------------------------------------------------------
def pass_at(n: int, c: int, k: int) -> float:
    """The chance that of k rollouts drawn from n, c of which passed, at least one passed."""
    return 1.0 - comb(n - c, k) / comb(n, k)


def pass_all(n: int, c: int, k: int) -> float:
    """The chance that all k passed."""
    return comb(c, k) / comb(n, k)


def measures(rows: Sequence[EvalRow]) -> dict[str, Any]:
    """Success (pass@1), mean score, pass@k and pass^k for 1, 2, 4, ... and the number of attempts."""
    found = _packages(rows)
    most = max((len(some) for some in found.values()), default=0)
    out: dict[str, Any] = {
        "success": _estimate(found, partial(_chance, pass_at, 1), 1),
        "score": _estimate(found, lambda some: sum(r.score or 0.0 for r in some) / len(some), 1),
        "pass@": {},
        "pass^": {},
    }
    for k in sorted({1, *(2**n for n in range(1, 12) if 2**n <= most), *([most] if most else [])}):
        for name, chance in (("pass@", pass_at), ("pass^", pass_all)):
            out[name][str(k)] = _estimate(found, partial(_chance, chance, k), k)
    return out


def by(rows: Sequence[EvalRow], key: Callable[[EvalRow], str]) -> dict[str, Any]:
    """Success and score by a key of the row."""
    groups: dict[str, list[EvalRow]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    out = {}
    for name, some in sorted(groups.items(), key=lambda item: (len(item[0]), item[0])):
        found = measures(some)
        out[name] = {
            "packages": len({r.package for r in some}),
            "errors": sum(not r.counts for r in some),
            "success": found["success"],
            "score": found["score"],
        }
    return out


def cost(rows: Sequence[EvalRow]) -> dict[str, float | None]:
    """Means over the rollouts that count; seconds over those that ran."""
    counted = [r for r in rows if r.counts]
    ran = [r.seconds for r in rows if r.seconds is not None]
    return {
        "turns": _mean([float(r.turns) for r in counted]),
        "tokens": _mean([float(r.tokens) for r in counted]),
        "seconds": _mean(ran),
        "tokens_total": float(sum(r.tokens for r in rows)),
        "tokens_per_pass": _ratio(sum(r.tokens for r in counted), sum(r.passed for r in counted)),
    }


def _packages(rows: Sequence[EvalRow]) -> dict[str, list[EvalRow]]:
    out: dict[str, list[EvalRow]] = {}
    for row in rows:
        if row.counts:
            out.setdefault(row.package, []).append(row)
    return out


def _estimate(found: Mapping[str, list[EvalRow]], value: Callable[[list[EvalRow]], float], k: int) -> dict[str, Any]:
    some = [rows for rows in found.values() if len(rows) >= k]
    return mean([value(rows) for rows in some], [rows[0].workspace or rows[0].package for rows in some]).to_json()


def _chance(chance: Callable[[int, int, int], float], k: int, rows: Sequence[EvalRow]) -> float:
    return chance(len(rows), _passed(rows), k)


def _passed(rows: Sequence[EvalRow]) -> int:
    return sum(r.passed for r in rows)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _ratio(over: float, under: float) -> float | None:
    return over / under if under else None
