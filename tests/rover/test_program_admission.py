"""Admission of a package whose verifier is a program: on cases that its calibration did not make."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest
from packages import runtime
from program_packages import ORDERS, REPORT, SOLVE, TEST, container_env

from rover.construct.solved import broken_states
from rover.repair import unseen
from rover.repair.ready import admission
from rover.rollout.engine import Engine
from rover.rollout.env import tree_of
from rover.sandbox.protocol import lacking
from rover_store.records import Admission

END = {"data/orders.csv": ORDERS, "report.json": REPORT}
#: a check that looks no further than the first field
SHALLOW = b"import sys\nsys.exit(0 if '\"orders\": 3' in open('/app/report.json').read() else 1)\n"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    kind = runtime()
    if lacking(("workdir",), kind):
        pytest.skip("needs a sandbox in which a workspace can stand elsewhere")
    with Engine(kind) as engine:
        yield engine
    kind.close()


def test_no_case_is_one_of_calibration_s() -> None:
    env = container_env()
    cases = unseen.held_out(env, END, END, random.Random(1))
    assert [c.name for c in cases] == ["half-report.json", "number-report.json"]
    tried = {tree_of(state) for _, state in broken_states(env, END)}
    assert not tried & {tree_of(c.state) for c in cases}
    assert not any(c.sure for c in cases)
    by_chance = {**END, "report.json": b"{}"}
    assert unseen.held_out(env, END, by_chance, random.Random(1)) == []


def test_what_is_edited_in_place_may_be_gone_or_empty_as_well() -> None:
    env = container_env(instruction="Raise every amount in `/app/data/orders.csv` by 1.\n")
    end = {"data/orders.csv": ORDERS.replace(b".25", b".75")}
    cases = {c.name: c for c in unseen.held_out(env, end, end, random.Random(1))}
    path = "data/orders.csv"
    assert [*cases] == [f"{what}-{path}" for what in ("delete", "empty", "half", "line-less", "number")]
    assert [c.name for c in cases.values() if c.sure] == [f"delete-{path}", f"empty-{path}"]
    assert path not in cases[f"delete-{path}"].state
    assert cases[f"line-less-{path}"].state[path].startswith(b"order_id,amount\n")


@pytest.mark.parametrize("seed", range(5))
def test_one_number_is_another_and_the_form_stays(seed: int) -> None:
    made = dict(unseen.spoilt("report.json", REPORT, random.Random(seed)))
    assert set(made) == {"half", "number"}
    told, was = json.loads(made["number"]), json.loads(REPORT)
    assert sum(told[key] != was[key] for key in was) == 1
    assert [*unseen.spoilt("photo.png", b"\xff\x00", random.Random(seed))] == []
    assert [what for what, _ in unseen.spoilt("main.py", b"print(1)\nprint(2)\n", random.Random(seed))] == ["half"]


def test_a_sound_program_is_admitted(engine: Engine) -> None:
    env = container_env()
    found = admission(engine, env, "case")
    assert isinstance(found, Admission)
    assert found.components["verifier"] == env.verifier_id
    assert found == admission(engine, env, "case"), "the same case, the same test"


def test_no_record_where_half_a_file_will_do(engine: Engine) -> None:
    found = admission(engine, container_env(tests={"test.sh": TEST, "check.py": SHALLOW}), "case")
    assert found == unseen.Unadmitted("half-report.json is accepted, not rejected: all 1 criteria hold")


def test_no_promotion_where_the_test_fails(engine: Engine) -> None:
    anything = b"echo 1 > /logs/verifier/reward.txt\n"
    found = admission(engine, container_env(tests={"test.sh": anything}), "case")
    assert isinstance(found, unseen.Unadmitted)
    assert found.failed
    found = admission(engine, container_env(solution={"solve.sh": SOLVE.replace(b"35", b"53") + b"exit 1\n"}), "case")
    assert isinstance(found, unseen.Unadmitted)
    assert found.failed
    assert "solution" in found.reason


def test_nothing_to_hold_a_test_with(engine: Engine) -> None:
    env = container_env(solution={"readme.md": b"none"})
    found = admission(engine, env, "case")
    assert isinstance(found, unseen.Unadmitted)
    assert not found.failed
    found = admission(engine, container_env(instruction="Do what is to be done.\n"), "case")
    assert found == unseen.Unadmitted("the request names no file that calibration has not broken in every way")
