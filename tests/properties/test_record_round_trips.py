"""Every record, with values of all sorts: what is stored, read and stored again is the same bytes and record."""

from __future__ import annotations

import types
import typing
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from rover_store.records import ALL, Record, to_json

TEXT = st.text(st.characters(codec="utf-8"), max_size=6)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=32)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)


def values(kind: Any, bounds: tuple[Any, ...] = ()) -> st.SearchStrategy[Any]:
    """JSON values of an annotation, as pydantic would read them."""
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, typing.TypeAliasType if hasattr(typing, "TypeAliasType") else ()):
        return values(kind.__value__, bounds)
    if origin is Annotated:
        inner, *more = arguments
        found = [m for extra in more for m in (extra.metadata if isinstance(extra, FieldInfo) else [extra])]
        return values(inner, (*bounds, *found))
    if origin in (Union, types.UnionType):
        return st.one_of(*(values(one, bounds) for one in arguments))
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (tuple, list):
        if len(arguments) == 2 and arguments[1] is not Ellipsis:
            return st.tuples(*(values(one) for one in arguments)).map(list)
        return st.lists(values(arguments[0]), min_size=_bound(bounds, "min_length", 0), max_size=3)
    if origin is dict or kind is dict:
        key, value = arguments or (str, Any)
        return st.dictionaries(values(key), values(value), max_size=2)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return st.deferred(lambda: model(kind))
    low, high = _bound(bounds, "ge", None), _bound(bounds, "le", None)
    if kind is int:
        return st.integers(-(2**53) if low is None else low, 2**53 if high is None else high)
    if kind is float:
        return st.floats(low, high, allow_nan=False, allow_infinity=False)
    pattern = _bound(bounds, "pattern", None)
    if kind is str and pattern is not None:
        return st.from_regex(pattern.strip("^$"), fullmatch=True)
    plain = {str: TEXT, bool: st.booleans(), type(None): st.none(), Any: JSON}
    if kind in plain:
        return plain[kind]
    raise TypeError(f"a kind of value that this test does not know: {kind!r}")


def _bound(bounds: tuple[Any, ...], name: str, otherwise: Any) -> Any:
    return next((getattr(b, name) for b in bounds if getattr(b, name, None) is not None), otherwise)


def model(kind: type[BaseModel]) -> st.SearchStrategy[dict[str, Any]]:
    fields = {}
    for name, field in kind.model_fields.items():
        one = values(field.annotation, tuple(field.metadata))
        fields[field.alias or name] = one if field.is_required() else st.none() | st.builds(lambda v: (v,), one)

    def given_only(row: dict[str, Any]) -> dict[str, Any]:
        out = {}
        for name, field in kind.model_fields.items():
            value = row[field.alias or name]
            if field.is_required():
                out[field.alias or name] = value
            elif value is not None:
                out[field.alias or name] = value[0]
        return out

    return st.fixed_dictionaries(fields).map(given_only)


@pytest.mark.parametrize("name", sorted(ALL))
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_record_comes_back_as_it_was(name: str, data: st.DataObject) -> None:
    kind: type[Record] = ALL[name]
    value = data.draw(model(kind))
    try:
        record = kind.model_validate_json(to_json(value))
    except ValidationError:
        assume(False)
        raise AssertionError from None
    stored = record.dump()
    again = kind.load(stored, "a file")
    assert again == record
    assert again.dump() == stored
    assert stored.endswith(b"}\n")
    assert TypeAdapter(kind).validate_json(stored) == record
