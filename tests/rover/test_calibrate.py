"""Calibration: a sound verifier is right on every case; each way of being wrong is found and named."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from packages import Files, cases, runtime, summary_package, summary_resources

from rover.construct import admission
from rover.construct.calibrate import alternative_state, calibrate, mutant_rows
from rover.rollout.engine import Engine
from rover.rollout.env import Env, env_from_files
from rover_store.errors import PackageError
from rover_store.records import Cases, Mutation, Reference, StateFile


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    kind = runtime()
    with Engine(kind) as engine:
        yield engine
    kind.close()


def env(**changed: bytes | None) -> Env:
    """The package with some of its verifier's files changed; `main` is the check file."""
    names = {"main": "checks/main.py", "cases": "cases/cases.json", "reference": "reference/files/report.csv"}
    files: Files = dict(summary_package())
    for name, data in changed.items():
        if data is not None:
            files[f"verifier/{names.get(name, name)}"] = data
    return env_from_files(files, summary_resources())


def with_rules(*rules: Mutation) -> bytes:
    return Cases(
        negatives=tuple(r for r in rules if r.requirement), alternatives=tuple(r for r in rules if not r.requirement)
    ).dump()


def edited(old: bytes, new: bytes) -> bytes:
    source = summary_package()["verifier/checks/main.py"]
    assert old in source
    return source.replace(old, new)


def test_sound(engine: Engine) -> None:
    found = calibrate(engine, env(), seed=3)
    assert found.ok, found.wrong
    assert {r.kind for r in found.rows} == {"start", "attacker", "negative", "reference", "alternative"}
    assert len([r for r in found.rows if r.kind == "attacker"]) >= 8
    wanted = {m.id for m in (*cases().negatives, *cases().alternatives)} | {"semicolons"}
    assert wanted <= {r.case for r in found.rows}
    assert all(r.rollout for r in found.rows if r.kind == "attacker")
    again = calibrate(engine, env(), seed=3)
    assert again.rows == found.rows
    assert (again.run, again.reused) == (0, found.run + found.reused)


def test_lax_verifier(engine: Engine) -> None:
    """One that looks at nothing accepts every attacker and every negative of what it does not look at."""
    names = ("report_format", "report_rows", "report_orders", "report_total", "sources_kept", "nothing_else")
    source = "\n\n".join(f"def {name}(ev):\n    return 1.0" for name in names).encode()
    found = calibrate(engine, env(main=source))
    by = {r.case: r for r in found.wrong}
    assert by["null:nothing"].observed == "accepted"
    assert by["start"].observed == "accepted"
    assert by["wrong-total"].requirement == "total"
    assert by["wrong-total"].reason == "total scores total as right"
    assert not {r.case for r in found.wrong} & {"reference", "any-order"}


def test_strict_verifier(engine: Engine) -> None:
    main = edited(b'"total", tolerance=0.01, kind="number"', b'"total", kind="text"')
    found = calibrate(engine, env(main=main))
    assert [(r.case, r.kind, r.observed, r.requirement) for r in found.wrong] == [
        ("reference", "reference", "rejected", "total"),
        ("semicolons", "alternative", "rejected", "total"),
        *((c, "alternative", "rejected", "total") for c in ("any-order", "any-columns", "any-numbers", "more-columns")),
        ("new-line", "alternative", "rejected", "total"),
    ]
    assert "total is wrong in" in found.wrong[0].reason


def test_wrong_reference(engine: Engine) -> None:
    reference = summary_package()["verifier/reference/files/report.csv"].replace(b"219.75", b"219.57")
    found = calibrate(engine, env(reference=reference))
    assert ("reference", "rejected") in {(r.case, r.observed) for r in found.wrong}


def test_a_crash_on_a_fresh_case_is_no_case_left_out(engine: Engine) -> None:
    main = edited(b"    return rc.protected", b"    rc.table(ev.end('report.csv')).rows[3]\n    return rc.protected")
    rules = (
        Mutation(id="lost", op="drop_row", path="report.csv", requirement="rows"),
        Mutation(id="nothing", op="drop_row", path="nowhere.csv", requirement="rows"),
    )
    rows = mutant_rows(engine, env(main=main), rules, 1)
    assert [r.observed for r in rows] == ["error", "error"]
    assert [admission.crashed(r) for r in rows] == [True, False]


def test_crash_decides_nothing(engine: Engine) -> None:
    crash = b"    rc.table(ev.end('report.csv')).rows[0][9]\n    return rc.protected"
    main = edited(b"    return rc.protected", crash)
    found = calibrate(engine, env(main=main, cases=with_rules()))
    assert {r.observed for r in found.wrong} == {"error"}
    assert "reference" in {r.case for r in found.wrong}
    assert "IndexError" in next(r.reason for r in found.wrong if r.case == "reference")


def test_rules_that_do_not_apply(engine: Engine) -> None:
    rules = (
        Mutation(id="gone", requirement="rows", op="drop_row", path="other.csv"),
        Mutation(id="unknown", op="explode", path="report.csv"),
        Mutation(id="unscored", requirement="elsewhere", op="drop_row", path="report.csv"),
    )
    found = calibrate(engine, env(cases=with_rules(*rules)))
    assert [(r.case, r.observed, r.reason) for r in found.wrong] == [
        ("gone", "error", "other.csv does not exist"),
        ("unscored", "accepted", "no criterion scores elsewhere as right"),
        ("unknown", "error", "there is no mutation called 'explode'"),
    ]


def test_alternative_states() -> None:
    record = Reference(changes=(StateFile(path="notes.md", deleted=True),), final_message="Done.")
    one = env(**{"cases/semicolons/state.json": record.dump()})
    state, message = alternative_state(one, "semicolons")
    assert sorted(state) == ["orders.csv", "report.csv"]
    assert message == "Done."
    with pytest.raises(PackageError, match="there is no state in verifier/cases/other/files"):
        alternative_state(one, "other")
