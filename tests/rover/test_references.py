"""References between the records of a package: each that leads nowhere is one line with file and field."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from packages import summary_package, summary_resources

from rover.construct.references import problems
from rover.rollout.env import env_from_files

CONTRACT, VERIFIER, CASES = "task/contract.json", "verifier/verifier.json", "verifier/cases/cases.json"
Json = dict[str, Any]


def broken(file: str, edit: Callable[[Json], object]) -> set[tuple[str, str, str]]:
    files = summary_package()
    record = json.loads(files[file])
    edit(record)
    files[file] = json.dumps(record).encode()
    return set(problems(env_from_files(files, summary_resources())))


def test_sound() -> None:
    assert problems(env_from_files(summary_package(), summary_resources())) == ()


@pytest.mark.parametrize(
    ("file", "edit", "field", "reason"),
    [
        ("context/context.json", lambda r: r["files"].append({"path": "gone.csv"}), "files.2.path", "gone.csv is not"),
        (CONTRACT, lambda r: r["deliverables"][0].update(path="../x.csv"), "deliverables.0.path", "inside the"),
        (CONTRACT, lambda r: r["deliverables"][0].update(type="xlsx"), "deliverables.0.type", "does not end like"),
        (CONTRACT, lambda r: r["deliverables"][0].update(in_place=True), "deliverables.0.path", "edited in place but"),
        (CONTRACT, lambda r: r["deliverables"][0].update(key=["shop"]), "deliverables.0.key", "none of the columns"),
        (CONTRACT, lambda r: r["requirements"][0].update(deliverable="x"), "requirements.0.deliverable", "there is no"),
        (CONTRACT, lambda r: r["requirements"].append(r["requirements"][5]), "requirements", "is there 2 times"),
        (CONTRACT, lambda r: r["requirements"][2]["rule"].update(column="n"), "requirements.2.rule", "no column 'n'"),
        (CONTRACT, lambda r: r["requirements"][4]["rule"].update(paths=["x"]), "requirements.4.rule", "be protected"),
        (
            CONTRACT,
            lambda r: r["requirements"][1]["rule"]["value"]["answer"]["source"].update(path="old.csv"),
            "requirements.1.rule",
            "asked of old.csv",
        ),
        (
            CONTRACT,
            lambda r: r["requirements"][1]["rule"]["value"]["answer"].update(
                filters=[{"column": "amount", "op": "gt", "value": {"given": "floor"}}]
            ),
            "requirements.1.rule",
            "no given 'floor'",
        ),
        ("harness/harness.json", lambda r: r.update(tools=["teleport"]), "tools", "no tool 'teleport'"),
        (VERIFIER, lambda r: r["criteria"][0].update(requirement="x"), "criteria.0.requirement", "no requirement 'x'"),
        (VERIFIER, lambda r: r["criteria"].pop(), "criteria", "no criterion scores the requirement 'total'"),
        (VERIFIER, lambda r: r["criteria"][0].update(critical=False), "criteria", "is critical in the contract"),
        (VERIFIER, lambda r: r["criteria"][3].update(anchors=["x"]), "criteria.3.anchors", "no anchor 'x'"),
        (VERIFIER, lambda r: r["criteria"][3].update(check="checks/x.py:f"), "criteria.3.check", "no file"),
        (VERIFIER, lambda r: r["criteria"][3].update(check="checks/main.py:f"), "criteria.3.check", "no function f"),
        (VERIFIER, lambda r: r["criteria"][3].update(check="os.py:f"), "criteria.3.check", "does not name a function"),
        (VERIFIER, lambda r: [c.update(weight=0) for c in r["criteria"]], "criteria", "nothing can pass"),
        (CASES, lambda r: r["negatives"][0].update(op="explode"), "negatives.0.op", "no mutation called 'explode'"),
        (CASES, lambda r: r["negatives"].pop(), "negatives", "no negative breaks the requirement 'clean'"),
        (CASES, lambda r: r["alternatives"][0].update(requirement="rows"), "alternatives.0.requirement", "breaks no"),
        (CASES, lambda r: r.update(states=["nowhere"]), "states", "no state in verifier/cases/nowhere"),
        (
            "verifier/reference/reference.json",
            lambda r: r["changes"].append({"path": "x.csv"}),
            "changes.1.path",
            "x.csv is not in reference/files",
        ),
        ("verifier/reference/reference.json", lambda r: r.update(changes=[]), "changes", "changes nothing"),
    ],
)
def test_broken(file: str, edit: Callable[[Json], object], field: str, reason: str) -> None:
    found = broken(file, edit)
    assert any(f == file and at == field and reason in why for f, at, why in found), found
    assert all("\n" not in why for _, _, why in found)


def test_check_file_that_is_no_python() -> None:
    files = summary_package()
    files["verifier/checks/main.py"] = b"def report_rows(:\n"
    found = problems(env_from_files(files, summary_resources()))
    assert {why.split(" (")[0] for _, _, why in found} == {"verifier/checks/main.py is not Python"}
