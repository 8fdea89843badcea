"""SARIF: what the format demands and GitHub takes, the same bytes again, fingerprints that outlast moved lines.

ROVER_SARIF_SCHEMA names the official schema (sarif-2.1.0-rtm.5.json): what is written is held against it as well.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from foreign_tasks import TEST, task

from rover.diagnose.kinds import KINDS
from rover.ops import sarif as writing
from rover.ops.check import Checked, placed
from rover.ops.findings import LEVELS, Said, level_of
from rover.ops.places import json_line
from rover.ops.sarif import MOST_MESSAGE, MOST_RESULTS, MOST_TEXT, sarif
from rover.port.harbor.package import Origin, make
from rover.port.harbor.tree import Item
from rover.port.lint.read import read_task
from rover.port.lint.task import foreign_task
from rover.rollout.env import env_from_files
from rover_store.records import Finding

SCHEMA = os.environ.get("ROVER_SARIF_SCHEMA", "")
EDITS: dict[str, str | None] = {
    "environment/Dockerfile": "FROM python:3\nWORKDIR /app\nCOPY orders.csv .\n",
    "tests/test.sh": TEST + "curl https://example.org/a b\npip install pytest\napt-get install x\n",
    "environment/a file #1.sh": "password=sk-" + "a1" * 20 + "\n",
}


def checked(edits: dict[str, str | None] | None = None, folder: str = "orders/") -> Checked:
    files = {path: Item(text.encode()) for path, text in sorted(task(edits).items())}
    env = env_from_files(make(files, Origin("orders")).files, {})
    read = foreign_task(env)
    said = tuple(placed(env, f, read) for f in read_task(read))
    return Checked(env.package, env.tree, (), None, said, static=True, folder=folder)


def log(*every: Checked, base: str = "") -> dict[str, Any]:
    found = json.loads(sarif(every, base))
    assert isinstance(found, dict)
    return found


def every_kind() -> Checked:
    """A finding of each kind there is."""
    said = [
        Said(
            Finding(probe="p", kind=k.name, message=f"This is {k.name}.", components=(k.component,), status=status),
            level, "tests/test.sh", 3,
        )
        for k in KINDS for status, level in (("confirmed", "error"), ("hypothesis", "warning"))
    ]  # fmt: skip
    return Checked("orders", "", (), None, tuple(said))


@pytest.mark.skipif(not SCHEMA, reason="ROVER_SARIF_SCHEMA names no schema")
@pytest.mark.parametrize("made", [checked(EDITS), checked(), every_kind()])
def test_against_the_official_schema(made: Checked) -> None:
    from jsonschema import Draft4Validator

    schema = json.loads(Path(SCHEMA).read_bytes())
    assert [e.message for e in Draft4Validator(schema).iter_errors(log(made))] == []


def test_what_every_log_has() -> None:
    found = log(checked(EDITS))
    assert (found["version"], len(found["runs"])) == ("2.1.0", 1)
    assert found["$schema"].endswith("sarif-2.1.0.json")
    run = found["runs"][0]
    driver = run["tool"]["driver"]
    assert driver["name"] == "rover"
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", driver["semanticVersion"])
    assert {r["ruleId"] for r in run["results"]} == {rule["id"] for rule in driver["rules"]}
    assert {"unpinned_image", "needs_network", "unpinned_package", "secret_in_settings"} <= {
        r["ruleId"] for r in run["results"]
    }
    for rule in driver["rules"]:
        assert rule["name"][0].isupper()
        assert rule["defaultConfiguration"]["level"] in LEVELS
        for key in ("shortDescription", "fullDescription", "help"):
            assert 0 < len(rule[key]["text"]) <= MOST_TEXT
        assert "What to do" in rule["help"]["markdown"]
        assert len(rule["properties"]["tags"]) <= 20
    for result in run["results"]:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in LEVELS
        assert result["message"]["text"].startswith("acme-orders: ")
        (place,) = result["locations"]
        uri = place["physicalLocation"]["artifactLocation"]["uri"]
        assert re.fullmatch(r"orders/[A-Za-z0-9._/%~-]+", uri)
        assert place["physicalLocation"]["region"]["startLine"] >= 1
        assert result["properties"]["component"] in ("context", "task", "harness", "verifier")


def test_a_name_is_a_uri() -> None:
    uris = {
        r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for r in log(checked(EDITS), base="my suites/x/")["runs"][0]["results"]
    }
    assert "my%20suites/x/orders/environment/a%20file%20%231.sh" in uris


def test_the_same_bytes_again() -> None:
    assert sarif([checked(EDITS)]) == sarif([checked(EDITS)])
    assert b"/tmp" not in sarif([checked(EDITS)])
    assert sarif([]) == sarif([checked()]).replace(b'"packages": 1', b'"packages": 0')


def prints(made: Checked) -> dict[str, tuple[str, int]]:
    return {
        r["partialFingerprints"]["primaryLocationLineHash"]: (
            r["ruleId"], r["locations"][0]["physicalLocation"]["region"]["startLine"]
        )
        for r in log(made)["runs"][0]["results"]
    }  # fmt: skip


def test_fingerprints_stay_when_lines_move() -> None:
    script = str(EDITS["tests/test.sh"])
    moved = {**EDITS, "tests/test.sh": script.replace("#!/bin/bash\n", "#!/bin/bash\n# one\n# two\n")}
    before, after = prints(checked(EDITS)), prints(checked(moved))
    assert before.keys() == after.keys()
    assert len(before) == len(checked(EDITS).said)
    assert {after[key][1] - before[key][1] for key in before} == {0, 2}
    other = prints(checked(EDITS, folder="elsewhere/"))
    assert other.keys() == before.keys()


def test_equal_findings_have_prints_of_their_own() -> None:
    one = Said(Finding(probe="p", kind="stale", message="m", components=("task",)), "note", "a.json", 1)
    found = log(Checked("x", "", (), None, (one, one, one)))["runs"][0]["results"]
    assert len({json.dumps(r["partialFingerprints"]) for r in found}) == 3


def test_no_more_than_github_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_RESULTS == 25_000
    monkeypatch.setattr(writing, "MOST_RESULTS", most := 200)
    said = [
        Said(Finding(probe="p", kind="stale", message="m" * 9000, components=("task",), details={"subject": n}),
             "error" if n == most + 5 else "note", "a.json", 1)
        for n in range(most + 10)
    ]  # fmt: skip
    run = log(Checked("x", "", (), None, tuple(said)))["runs"][0]
    assert len(run["results"]) == most
    assert run["results"][0]["level"] == "error"  # the worst come first, and stay
    assert run["properties"]["results"] == most + 10
    assert max(len(r["message"]["text"]) for r in run["results"]) <= MOST_MESSAGE


def test_levels() -> None:
    def made(kind: str, status: str) -> Finding:
        return Finding(probe="p", kind=kind, message="m", components=("task",), status=status)  # type: ignore[arg-type]

    assert level_of(made("lax_verifier", "confirmed")) == "error"
    assert level_of(made("lax_verifier", "hypothesis")) == "warning"
    assert level_of(made("needs_network", "confirmed")) == "warning"
    assert level_of(made("stale", "hypothesis")) == "note"
    assert level_of(made("missing_input", "hypothesis"), solved=True) == "note"
    assert level_of(made("missing_input", "confirmed"), solved=True) == "error"


def test_lines_of_json() -> None:
    text = '{\n "a": [\n  {"x": 1},\n  {"x": {"y":\n 2}}\n ],\n "b\\"c": true,\n "d": {}\n}\n'
    fields = ("a", "a.0.x", "a.1.x.y", 'b"c', "d.e", "a.7", "", "zz")
    assert [json_line(text, field) for field in fields] == [2, 3, 5, 7, 8, 2, None, None]
    assert json_line("[1, 2", "4") is None
    assert json_line("", "a") is None
