"""A dataset folder of demonstrations: chosen, written as conversations and, with a renderer, as token rows.

Everything goes through once, package by package, so that memory does not grow with the number of rollouts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rover_store.errors import UsageError
from rover_store.ids import COMPONENTS
from rover_store.records import Trajectory, to_json
from rover_train.dataset import card, conversation, folder, rows
from rover_train.dataset.curate import REASONS, CurationSettings, Curator
from rover_train.dataset.demonstrations import Demo, Found, by_package, nothing
from rover_train.dataset.evidence import by_evidence
from rover_train.dataset.prompts import prompts, views
from rover_train.render.drift import DoesNotFit, TemplateDrift
from rover_train.rows import Row

if TYPE_CHECKING:
    from rover.policy.protocol import PolicyView
    from rover_store.store import Store


class Renders(Protocol):
    """What makes rows of a demonstration: `rover_train.render.Renderer`."""

    def demonstration(self, view: PolicyView, trajectory: Trajectory) -> tuple[Row, ...]: ...


@dataclass(frozen=True, slots=True)
class PackageLine:
    """One package of the report."""

    package: str
    workspace: str
    versions: dict[str, str]
    attempts: int
    passed: int
    band: str
    kept: int
    stale: int
    unverified: int
    dropped: dict[str, int]


@dataclass(slots=True)
class DatasetReport:
    """What went into a dataset, what did not, and why. `rows`: token rows, 0 where none were written; `too_long`:
    demonstrations that are no token rows, since a turn does not fit the window."""

    revision: str
    source: str
    packages: int = 0
    kept: int = 0
    rows: int = 0
    too_long: int = 0
    stale: int = 0
    stale_by: dict[str, int] = field(default_factory=dict)
    unverified: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    policies: dict[str, int] = field(default_factory=dict)
    lines: list[PackageLine] = field(default_factory=list)

    @property
    def without(self) -> int:
        """Packages with no kept demonstration."""
        return sum(not line.kept for line in self.lines)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A demonstration that is kept, with what the policy was told."""

    demo: Demo
    view: PolicyView


@dataclass(slots=True)
class Selection:
    """Goes over demonstrations once, in order of package, and counts what it leaves out. Iterate it, then read
    `report`."""

    store: Store
    commit: str
    names: Collection[str] | None = None
    from_evidence: bool = False
    policy: str = "*"
    curation: CurationSettings | None = field(default_factory=CurationSettings)
    pattern: str = "*"
    told: Callable[[int, int], None] = lambda done, total: None
    report: DatasetReport = field(init=False)

    def __post_init__(self) -> None:
        self.commit = self.store.resolve(self.commit)
        self.report = DatasetReport(self.commit, "the evidence" if self.from_evidence else "demonstrations/")

    def __iter__(self) -> Iterator[Chosen]:
        """The demonstrations that are kept. UsageError at the end where there was none: in one line, why."""
        entries = prompts(self.store, self.commit, self.names)
        found = by_evidence(self.store, entries, self.policy) if self.from_evidence else by_package(self.store, entries)
        curator = Curator(self.curation) if self.curation else None
        stale, dropped, policies = Counter[str](), Counter[str](), Counter[str]()
        report = self.report
        for number, (one, view) in enumerate(zip(found, views(self.store, entries), strict=True), 1):
            kept, line = _choose(one, view, curator)
            report.lines.append(line)
            report.packages += 1
            report.kept += line.kept
            report.stale += line.stale
            report.unverified += line.unverified
            stale.update(c for moved in one.stale for c in moved)
            dropped.update(line.dropped)
            policies.update(demo.policy for demo in kept)
            yield from (Chosen(demo, view) for demo in kept)
            self.told(number, len(entries))
        report.stale_by = {c: stale[c] for c in COMPONENTS if stale[c]}
        report.dropped = {reason: dropped[reason] for reason in REASONS if dropped[reason]}
        report.policies = dict(sorted(policies.items()))
        if not report.kept:
            raise self._nothing()

    def _nothing(self) -> UsageError:
        report = self.report
        if report.dropped:
            reasons = ", ".join(f"{n} {REASONS[reason]}" for reason, n in report.dropped.items())
            hint = "loosen the curation, or leave it out with --all"
            return UsageError(f"{self.commit[:12]}: no demonstration is left: {reasons}", hint=hint)
        return nothing(self.commit, report.stale, report.stale_by, report.unverified, self.pattern)


def _choose(one: Found, view: PolicyView, curator: Curator | None) -> tuple[tuple[Demo, ...], PackageLine]:
    chosen = curator(view.instruction, one.demos, one.rate) if curator else None
    kept = chosen.kept if chosen else one.demos
    return kept, PackageLine(
        package=one.entry.name, workspace=one.workspace, versions=dict(one.entry.components),
        attempts=one.rate.attempts, passed=one.rate.passed, band=chosen.band if chosen else "", kept=len(kept),
        stale=len(one.stale), unverified=one.unverified, dropped=chosen.dropped if chosen else {},
    )  # fmt: skip


# --- writing -------------------------------------------------------------------------------------------------
ROWS = "rows"


def write(selection: Selection, out: Path, *, system: str = "", renderer: Renders | None = None) -> DatasetReport:
    """Write the folder: conversations at its top, token rows below rows/ where there is a renderer.

    UsageError where there is no demonstration, or where something lies at `out` already: then nothing is written.
    """
    report = selection.report
    with folder.new_folder(out) as begun:
        (begun / ROWS).mkdir()
        with ExitStack() as stack:
            said = stack.enter_context(folder.Writer(begun, features()))
            tokens = stack.enter_context(folder.Writer(begun / ROWS, rows.features())) if renderer else None
            for chosen in selection:
                one = example(chosen, system)
                said.add(one)
                if renderer is not None and tokens is not None:
                    text = {chosen.demo.rollout: to_json([*one["prompt"], *one["completion"]]).decode()}
                    for row in rendered(renderer, chosen, report):
                        tokens.add(rows.example(row, text))
        if tokens is not None:
            report.rows = tokens.rows
            if not report.rows:
                raise UsageError(f"none of {report.kept} demonstrations fits the window", hint="--window N")
            (begun / ROWS / "README.md").write_text(card.text(_card(report, "Token rows"), rows=report.rows))
        else:
            (begun / ROWS).rmdir()
        (begun / "report.json").write_bytes(to_json(asdict(report)))
        (begun / "README.md").write_text(card.text(_card(report, "Demonstrations"), rows=report.kept))
    return report


def rendered(renderer: Renders, chosen: Chosen, report: DatasetReport) -> tuple[Row, ...]:
    """The rows of a demonstration; none, and counted, where one of its turns is longer than the window."""
    try:
        made = renderer.demonstration(chosen.view, chosen.demo.trajectory)
    except DoesNotFit:
        report.too_long += 1
        return ()
    except TemplateDrift as error:
        error.message = f"demonstration of {chosen.demo.package}: {error.message}"
        raise
    return tuple(replace(row, package=chosen.demo.package, rollout=chosen.demo.rollout) for row in made)


def features() -> Any:
    """datasets.Features of the conversations."""
    datasets = folder.library()
    value, anything = datasets.Value, datasets.List(datasets.Json())
    texts = ("package", "workspace", "policy", "rollout", *COMPONENTS)
    return datasets.Features(
        {"prompt": anything, "completion": anything, "tools": anything, "seed": value("int64"), "turns": value("int32")}
        | {name: value("string") for name in texts}
    )


def example(chosen: Chosen, system: str = "") -> dict[str, Any]:
    """A demonstration as the columns hold it."""
    demo = chosen.demo
    return {
        "prompt": conversation.prompt(chosen.view, system),
        "completion": conversation.completion(demo.trajectory),
        "tools": conversation.tools(chosen.view),
        "seed": demo.trajectory.key.seed,
        "turns": len(demo.trajectory.turns),
        "package": demo.package,
        "workspace": demo.workspace,
        "policy": demo.policy,
        "rollout": demo.rollout,
        **{c: demo.versions[c] for c in COMPONENTS},
    }


def _card(report: DatasetReport, title: str) -> card.CardInfo:
    facts: dict[str, str | int] = {"packages": report.packages, "demonstrations": report.kept}
    facts |= {f"stale by {c}": n for c, n in report.stale_by.items()}
    facts |= {"without a verdict": report.unverified} if report.unverified else {}
    facts |= {f"left out, {REASONS[reason]}": n for reason, n in report.dropped.items()}
    facts |= {f"by `{policy}`": n for policy, n in report.policies.items()}
    return card.CardInfo(
        title=title,
        revision=report.revision,
        source=report.source,
        versions={line.package: line.versions for line in report.lines if line.kept},
        facts=facts,
        others={ROWS: f"{ROWS}/{folder.PARQUET}"} if report.rows and title == "Demonstrations" else {},
    )
