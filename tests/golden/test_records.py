"""Records of schema version 1 must parse, and come back as the same bytes, for ever."""

import json
from pathlib import Path

import pytest

from rover_store.errors import PackageError
from rover_store.ids import blob_id
from rover_store.records import ALL, Context, Package

FOLDER = Path(__file__).parent / "v1"
IDS = json.loads((FOLDER / "ids.json").read_text())


@pytest.mark.parametrize("kind", sorted(ALL))
def test_stored_bytes_parse_and_return(kind):
    data = (FOLDER / f"{kind}.json").read_bytes()
    record = ALL[kind].load(data, f"{kind}.json")
    assert record.dump() == data
    assert blob_id(data) == IDS[kind]


def test_a_newer_record_is_refused_by_name():
    with pytest.raises(PackageError, match=r"x\.json: schema_version: 2 was written by a newer rover"):
        Package.load(b'{"schema_version": 2, "name": "a", "title": "t", "more": 1}', "x.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[]", "c.json: must be a JSON object"),
        (b"{", "c.json: not valid JSON"),
        (b'{"fils": []}', "c.json: fils: Extra inputs are not permitted"),
        (b'{"files": [{"path": 3}]}', "c.json: files.0.path: Input should be a valid string"),
        (b'{"files": [{"path": "a", "access": "open"}]}', "c.json: files.0.access: Input should be"),
        (b"[" * 100_000, "c.json: not valid JSON"),
    ],
)
def test_bad_input_names_file_field_and_reason(text, message):
    with pytest.raises(PackageError) as caught:
        Context.load(text, "c.json")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_records_are_frozen():
    package = Package.load((FOLDER / "package.json").read_bytes(), "package.json")
    with pytest.raises(ValueError, match="frozen"):
        package.title = "other"
