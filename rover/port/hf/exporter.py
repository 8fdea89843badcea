"""`rover export hf`: a folder for `datasets.load_dataset`, one file of JSON lines a configuration.

JSON lines and not parquet: they need no library here, `datasets` reads them as well, and equal rows are equal bytes.

    OUT/README.md            card; its head declares configurations and columns
    OUT/packages.jsonl, files.jsonl, demonstrations.jsonl, verdicts.jsonl
    OUT/verifiers.jsonl, verifier_files.jsonl     with the option verifiers=yes alone
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING

from rover.port import licenses
from rover.port.hf import card, rows
from rover.port.hf.features import CONFIGS, SECRET
from rover.port.protocol import Export, Exported
from rover.rollout import demonstrations as folder
from rover.rollout.env import Env, below, load_env
from rover_store.errors import PackageError, UsageError
from rover_store.records import Trajectory, Verdict

if TYPE_CHECKING:
    from rover_store.layout import PackageEntry
    from rover_store.store import Store

OPTIONS = {
    "verifiers": "yes: verifiers and references too, which hold the answers",
    "demonstrations": "evidence: every recorded rollout that passed, not those of the packages alone",
    "all": "yes: verdicts also on what rover ran by itself, to try a package",
    "license": "the licence, where the packages name none or several",
}


class HfExporter:
    """A way out to whoever uses `datasets`."""

    kind = "hf"

    def onward(self, options: Mapping[str, str], out: Path) -> str:
        """What to do where a configuration has no rows, and so no file."""
        if (out / "demonstrations.jsonl").exists():
            return ""
        if options.get("demonstrations") == "evidence":
            return "no demonstrations: no recorded rollout of these versions passed"
        return "no demonstrations in the packages; those of recorded rollouts: --set demonstrations=evidence"

    def write(self, job: Export, folder: Path) -> Iterable[Exported]:
        """A row a package; the card when all are written."""
        unknown = sorted(set(job.options) - set(OPTIONS))
        if unknown:
            raise UsageError(f"hf has no option {unknown[0]!r}", hint=f"options: {', '.join(OPTIONS)}")
        for key, known in {"verifiers": "yes", "demonstrations": "evidence", "all": "yes"}.items():
            if job.options.get(key, known) != known:
                raise UsageError(f"hf: {key}={job.options[key]}: only {known} is known")
        secret = job.options.get("verifiers") == "yes"
        found: set[str] = set()
        with _Writer(folder, [*CONFIGS, *(SECRET if secret else ())]) as out:
            for entry in job.entries:
                try:
                    env = load_env(job.store, entry.tree)
                except PackageError as error:
                    yield Exported(entry.name, notes=(error.message,))
                    continue
                found.add(env.record.provenance.license)
                yield _package(job, entry, env, out, secret=secret)
        given = job.options.get("license", "")
        named = [given] if given else licenses.named(found)
        for name in [name for name, count in out.rows.items() if not count]:
            (folder / f"{name}.jsonl").unlink()  # `datasets` refuses a file without rows
        facts = card.Facts(job.revision, out.rows, named, out.bytes)
        (folder / "README.md").write_text(card.text(facts), encoding="utf-8")


def _package(job: Export, entry: PackageEntry, env: Env, out: _Writer, *, secret: bool) -> Exported:
    out.add("packages", [rows.package(env, entry, job.revision)])
    out.add("files", rows.contents({**env.start, **{f"/{p}": d for p, d in rows.open_files(env).items()}}, out.seen))
    found = [*_demonstrations(job, entry)]
    out.add("demonstrations", (rows.demonstration(env, entry, one, verdict) for one, verdict in found))
    judged = [*_verdicts(job.store, entry, everything=job.options.get("all") == "yes")]
    out.add("verdicts", (rows.verdict(entry, one, verdict, reasons=secret) for one, verdict in judged))
    if secret:
        out.add("verifiers", [rows.verifier(env, entry, job.revision)])
        out.add("verifier_files", rows.contents(below(env.files, "verifier/"), out.seen_secret))
    return Exported(entry.name, "packages.jsonl", (f"{_n(found, 'demonstration')}, {_n(judged, 'verdict')}",))


def _n(rows: Sized, noun: str) -> str:
    return f"{len(rows)} {noun}{'' if len(rows) == 1 else 's'}"


def _demonstrations(job: Export, entry: PackageEntry) -> Iterator[tuple[Trajectory, Verdict]]:
    """Verified rollouts of the present versions, by id; each once."""
    known: dict[str, tuple[Trajectory, Verdict]] = {}
    for path, blob in folder.files_of(job.store, entry.tree).items():
        one = folder.demonstration_of(job.store.objects.read(blob), f"{entry.name}/{path}")
        if one is not None and folder.is_verified(one) and not folder.moved_on(one.components, entry):
            known[one.rollout] = (one.trajectory, one.verdict)
    if job.options.get("demonstrations") == "evidence":
        for trajectory, verdict in _verdicts(job.store, entry):
            if verdict.outcome == "passed" and not trajectory.pruned:
                known.setdefault(verdict.rollout, (trajectory, verdict))
    for rollout in sorted(known):
        yield known[rollout]


def _verdicts(store: Store, entry: PackageEntry, *, everything: bool = False) -> Iterator[tuple[Trajectory, Verdict]]:
    """What the evidence holds of the present versions, by rollout."""
    parts = entry.components
    evidence = store.evidence
    for rollout, trajectory in evidence.iter_rollouts(
        context=parts["context"], task=parts["task"], harness=parts["harness"]
    ):
        verdict = evidence.get_verdict(rollout, parts["verifier"])
        if verdict is not None and (everything or trajectory.purpose is None):
            yield trajectory, verdict


class _Writer:
    """The files of all configurations, and what went into them."""

    def __init__(self, folder: Path, configs: Iterable[str]) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._files: dict[str, IO[bytes]] = {}
        self.rows = dict.fromkeys(configs, 0)
        self.bytes = dict.fromkeys(self.rows, 0)
        self.seen: set[str] = set()
        self.seen_secret: set[str] = set()

    def __enter__(self) -> _Writer:
        for name in self.rows:
            self._files[name] = self._stack.enter_context((self._folder / f"{name}.jsonl").open("wb"))
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def add(self, config: str, some: Iterable[rows.Row]) -> None:
        for line in rows.lines(some):
            self._files[config].write(line)
            self.rows[config] += 1
            self.bytes[config] += len(line)
