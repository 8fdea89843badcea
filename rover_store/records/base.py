"""What every record shares: frozen, no unknown field, a schema version, one way to bytes and back.

A record is stored as the bytes that `dump` gives. Identity is over stored bytes: a stored record is never
written again to get its id. Within schema version 1 a record may only gain optional fields.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from rover_store.errors import PackageError

SCHEMA_VERSION = 1


class Part(BaseModel):
    """A piece of a record."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)


class Record(Part):
    """A record that is stored as a file of its own."""

    #: file name of the schema below schemas/v1, without `.schema.json`
    kind: ClassVar[str] = ""

    schema_version: Literal[1] = 1

    @classmethod
    def load(cls, data: bytes, file: str) -> Self:
        """Parse stored bytes. PackageError names the file, the field and the reason."""
        try:
            value = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise PackageError(file, "", f"not valid JSON ({_one_line(error)})") from None
        if not isinstance(value, dict):
            raise PackageError(file, "", "must be a JSON object")
        version = value.get("schema_version", 1)
        if isinstance(version, int) and version > SCHEMA_VERSION:
            reason = f"{version} was written by a newer rover; this one reads {SCHEMA_VERSION}"
            raise PackageError(file, "schema_version", reason)
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = ".".join(str(p) for p in first["loc"])
            raise PackageError(file, field, _one_line(first["msg"]) + _found(first["input"])) from None

    def dump(self) -> bytes:
        """Stored form: fields in the order of the class, two spaces, no absent optional, one newline."""
        value = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return to_json(value)


def to_json(value: Any) -> bytes:
    """The project's stored JSON: two spaces, UTF-8, no NaN, a newline at the end."""
    return (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _found(value: object) -> str:
    """What stood there instead, where that is short enough to say."""
    return f", not {value!r}" if isinstance(value, str | int | float) and len(repr(value)) <= 120 else ""


def _one_line(error: object) -> str:
    return " ".join(str(error).split())[:200]
