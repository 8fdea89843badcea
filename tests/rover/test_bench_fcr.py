"""`rover bench fcr` end to end on a small suite: killed in the middle, gone on with, measured, explained."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from packages import runtime
from small_suite import Wanted, bases, small_suite

from rover.bench import fcr, fcr_page
from rover.bench.fcr_case import Job
from rover.bench.fcr_explain import explained, in_short
from rover.bench.fcr_pool import Pool, Results
from rover.bench.suites.bases import Base
from rover.bench.suites.manifest import AgentRun, Case, Manifest
from rover.bench.suites.open import open_suite
from rover.rollout.env import below
from rover.sandbox.protocol import Runtime
from rover_store.errors import PackageError, UsageError

#: a decoy; a request that names another file and hides how strict the verifier is; a verifier that reads another file
CASES = [
    Wanted(runs=("solver+perturb_number", "solver:alternative+drop_row")),
    Wanted("renamed_deliverable+strict_verifier", seed=2),
    Wanted("renamed_deliverable"),
]
#: how many of them the bench is asked for; the third has frozen proposals, and is run with these alone
RUN = 2
FILE = re.compile(r"[\w./-]+\.(?:csv|tsv|xlsx|jsonl|json|md)\b")


@pytest.fixture(scope="module")
def box() -> Iterator[Runtime]:
    made = runtime()
    yield made
    made.close()


@pytest.fixture(scope="module")
def place(box: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench")
    base = bases(box, folder / "shop", 1)
    manifest = small_suite(box, folder / "suite", base, CASES)
    _propose(folder / "suite", manifest.cases[2], base[0])
    return folder


def _propose(suite: Path, case: Case, base: Base) -> None:
    """Two frozen proposals that undo each other: the verifier as it was, and a request bent to the odd verifier."""
    broken = open_suite(suite).env(case)
    (old,) = (d.path for d in base.env.contract.deliverables)
    rules = "verifier/verifier.json"
    (new,) = set(FILE.findall(broken.files[rules].decode())) - set(FILE.findall(base.env.files[rules].decode()))
    for component in ("task", "verifier"):
        for path, data in below(base.env.files, f"{component}/").items():
            target = suite / "proposals" / case.id / component / path
            target.parent.mkdir(parents=True, exist_ok=True)
            bent = path == "instruction.md"
            target.write_bytes(data.replace(old.encode(), new.encode()) if bent else data)


def request(place: Path, **more: object) -> fcr.BenchRequest:
    return fcr.BenchRequest(suite=str(place / "suite"), work=place / "work", workers=1, **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def killed(place: Path) -> dict[str, int]:
    """A bench that was killed after its first case, by the signal that nobody can catch: results and their times."""
    places = ["--suite", str(place / "suite"), "--work", str(place / "work")]
    words = ["bench", "fcr", *places, "-n", "1", "--limit", str(RUN)]
    code = "import sys; from rover.cli.entry import main; sys.exit(main())"
    process = subprocess.Popen([sys.executable, "-c", code, *words], stderr=subprocess.DEVNULL)
    results = place / "work/results"
    until = time.monotonic() + 240
    while not list(results.glob("*.json")) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    return {p.name: p.stat().st_mtime_ns for p in results.glob("*.json")}


@pytest.fixture(scope="module")
def report(place: Path, killed: dict[str, int]) -> fcr.BenchReport:
    asked = request(place, limit=RUN)
    return fcr.bench(fcr.open_suite(asked), asked)


def test_a_killed_bench_goes_on_without_running_a_finished_case_again(
    report: fcr.BenchReport, killed: dict[str, int], place: Path
) -> None:
    assert 1 <= len(killed) < RUN
    assert report.ran == RUN - len(killed)
    now = {p.name: p.stat().st_mtime_ns for p in (place / "work/results").glob("*.json")}
    assert {name: now[name] for name in killed} == killed
    assert len(now) == RUN
    assert not list((place / "work/results").glob("*.tmp"))
    asked = request(place, limit=RUN)
    again = fcr.bench(fcr.open_suite(asked), asked)
    assert (again.ran, again.rows) == (0, report.rows)


def test_defects_are_repaired_and_the_sound_package_left_alone(report: fcr.BenchReport) -> None:
    assert not report.errors
    decoy, pair = (r["result"] for r in report.rows)
    assert decoy["diagnosis"]["verdict"] == "agent"
    assert not any(m["changed"] for m in decoy["methods"].values())
    assert pair["methods"]["fcr"]["safe"]
    assert pair["rollouts"]["all"] >= pair["methods"]["fcr"]["rollouts"]


def test_a_pair_of_which_local_only_repairs_a_half(report: fcr.BenchReport) -> None:
    pair = report.rows[1]["result"]
    assert (pair["selected"], pair["joint"]) == (10, True)
    methods = pair["methods"]
    for name in ("apply-all", "greedy"):  # the strict check that the request hides is looked for, and is known to all
        assert (methods[name]["mask"], methods[name]["safe"]) == (10, True)
    assert methods["local-only"]["mask"] in (2, 8)  # whichever is blamed first
    assert not methods["local-only"]["safe"]
    assert not methods["no-op"]["changed"]


def test_proposals_that_undo_each_other_which_apply_all_gets_wrong(place: Path) -> None:
    """Each fits the request to the verifier or the verifier to the request; both together only swap the names."""
    asked = request(place, given=True)
    (row,) = fcr.bench(fcr.open_suite(asked), asked).rows
    methods = row["result"]["methods"]
    assert [p["source"] for p in row["result"]["proposals"]] == ["hand", "hand"]
    assert (methods["fcr"]["mask"], methods["fcr"]["safe"]) == (8, True)
    assert (methods["apply-all"]["mask"], methods["apply-all"]["safe"]) == (10, False)


def test_the_report_is_json_a_page_and_words(report: fcr.BenchReport, place: Path) -> None:
    value = json.loads(json.dumps(fcr.as_json(report, request(place, limit=RUN))))
    assert value["split"] == "development"
    assert value["summary"]["methods"]["fcr"]["srr"]["value"] == 1
    assert value["summary"]["methods"]["fcr"]["false_repair"]["value"] == 0
    page = fcr_page.html(value)
    assert page == fcr_page.html(value)
    assert "renamed_deliverable+strict_verifier" in page
    story = "\n".join(explained(report.rows[1]))
    for part in ("Broken on purpose", "Diagnosis: environment", "Proposed for", "TV", "Apply-all applies", "Greedy"):
        assert part in story
    assert "sound package" in "\n".join(explained(report.rows[0]))
    assert next(in_short(report.rows[0])).startswith("case 0001")


def test_the_pictures_are_drawn(report: fcr.BenchReport, place: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    made = {p.name: p for p in fcr_page.write(tmp_path / "page", fcr.as_json(report, request(place, limit=RUN)))}
    assert set(made) == {"index.html", "methods.svg", "methods.png", "kinds.svg", "kinds.png"}
    assert made["methods.png"].read_bytes().startswith(b"\x89PNG")
    first = made["methods.svg"].read_bytes()
    assert b"apply-all" in first
    fcr_page.write(tmp_path / "page", fcr.as_json(report, request(place, limit=RUN)))
    assert made["methods.svg"].read_bytes() == first


# --- jobs and results, nothing is run --------------------------------------------------------------------
def test_a_worker_is_told_nothing_of_what_was_done(place: Path) -> None:
    asked = request(place)
    for job in fcr.jobs(fcr.open_suite(asked), asked):
        text = json.dumps(asdict(job))
        assert not any(word in text for word in ("renamed", "strict", "decoy", "defect", "missing"))
        assert job.without == ()


def test_leaving_out_names_injected_and_expected_kinds_of_defects_alone(place: Path) -> None:
    asked = request(place, leave_out=True)
    made = {job.case: job.without for job in fcr.jobs(fcr.open_suite(asked), asked)}
    assert set(made) == {"0002", "0003"}
    assert {"renamed_deliverable", "strict_verifier"} <= set(made["0002"])
    assert "renamed_deliverable" in made["0003"]


def test_failures_of_agents_share_an_engine_by_package_and_need_no_other_method(tmp_path: Path) -> None:
    run = AgentRun(policy="solver+drop_row", seed=4)
    facts = {"branch": "b", "commit": "c" * 40, "workspace": "w", "label": "decoy", "runs": (run,)}
    cases = tuple(Case(id=f"000{n}", package=f"p{n % 2}", **facts) for n in range(4))  # type: ignore[arg-type]
    suite = fcr.Suite(tmp_path, Manifest(suite="agents", cases=cases), cases)
    made = fcr.jobs(suite, fcr.BenchRequest(suite="agents"))
    assert [job.share for job in made] == ["p0", "p1", "p0", "p1"]
    assert not any(job.baselines for job in made)
    assert made[0].runs == (("solver+drop_row", 4),)


def test_results_are_known_by_case_settings_and_code(tmp_path: Path) -> None:
    results = Results(tmp_path)
    job = Job("0001", "a", "c" * 40, "p")
    assert results.get(job) is None
    results.put(job, {"x": 1})
    assert results.get(job) == {"x": 1}
    assert results.get(Job("0001", "elsewhere", "c" * 40, "p")) == {"x": 1}  # the same suite in another place
    for other in (Job("0001", "a", "d" * 40, "p"), Job("0001", "a", "c" * 40, "p", seed=1)):
        assert results.get(other) is None
    results.path(job).write_text('{"x":')  # no result of ours: those are written whole
    assert results.get(job) is None


def test_a_case_that_cannot_be_run_is_told_and_the_others_go_on(box: Runtime, tmp_path: Path) -> None:
    jobs = [Job("0001", str(tmp_path / "none"), "c" * 40, "p"), Job("0002", str(tmp_path), "c" * 40, "p")]
    with Pool(1) as pool:
        found = {job.case: (result, error) for job, result, error in pool.run(jobs, lambda steps: None)}
    assert found["0001"][0] is None
    assert all(error for _, error in found.values())
    assert set(found) == {"0001", "0002"}


def test_a_case_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    with Pool(1, seconds=0.0) as pool:
        pool._start()
        os.kill(pool.living[0].process.pid, signal.SIGSTOP)  # it would never answer
        found = list(pool.run([Job("0001", str(tmp_path), "c" * 40, "p")], lambda steps: None))
        pids = [w.process.pid for w in pool.living]
    assert [(r, e) for _, r, e in found] == [(None, "it took longer than a case may")]
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_bad_requests_are_refused(place: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="development, held-out"):
        fcr.open_suite(request(place, split="both"))
    asked = request(place, given=True, limit=2)  # nothing is frozen beside these
    found = fcr.open_suite(asked)
    with pytest.raises(UsageError, match="no case"):
        fcr.bench(found, asked)
    copy = tmp_path / "suite"
    copy.mkdir()
    text = (place / "suite/manifest.json").read_text().replace('"decoy"', '"defect"', 1)
    (copy / "manifest.json").write_text(text)
    with pytest.raises(PackageError, match="edited"):
        fcr.open_suite(fcr.BenchRequest(suite=str(copy)))
