"""The schemas in the tree are those that the records give, and valid JSON Schema."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from rover_store.records import ALL
from rover_store.records.jsonschema import PRINTED, drift, files, main

FOLDER = Path(__file__).parents[2] / "schemas" / "v1"


def test_no_drift():
    assert drift(FOLDER) == [], "run: python -m rover_store.records.jsonschema schemas/v1"


def test_drift_is_seen(tmp_path):
    main([str(tmp_path)])
    assert main([str(tmp_path), "--check"]) == 0
    (tmp_path / "task.schema.json").write_text("{}")
    assert drift(tmp_path) == ["task.schema.json"]
    assert main([str(tmp_path), "--check"]) == 1


@pytest.mark.parametrize("name", sorted(files()))
def test_each_is_a_schema(name):
    body = json.loads(files()[name])
    Draft202012Validator.check_schema(body)
    assert body["additionalProperties"] is False


def test_every_record_has_one():
    assert {f"{kind}.schema.json" for kind in ALL | PRINTED} == set(files())
