"""Laws of dialects: what is written reads back, nothing that a model writes breaks the reader, and what tools answer
can be told from what is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rover.harness.tools.specs import TOOLS, argument_error
from rover.policy.protocol import MALFORMED, Action
from rover_store.records import Call, ToolCall
from rover_train.render.dialects import DIALECTS, dialect
from rover_train.render.fields import KEYWORDS, value, words, written

MANY = settings(max_examples=120, deadline=None)
#: text of any kind, with a good share of what could be mistaken for structure
TRAPS = st.sampled_from(
    ["", " ", "\n", ";", "\\;", "\n;\n", "a\n;\nb", "say", "done", "call", "read x", "-", "#", "#12", "12", "007", '"',
     '"a', "a b", "<think>", "</think>", "</tool_call>", "<tool_call>", "null", "{}", "é", "漢字", " ", "�",
     "a\r\nb", "\t",
     *sorted(KEYWORDS)]
)  # fmt: skip
TEXT = TRAPS | st.text(max_size=12) | st.lists(TRAPS, max_size=4).map("".join)
NAME = TEXT.filter(bool)
SCALAR = TEXT | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
CELLS = st.dictionaries(TEXT, SCALAR, min_size=1, max_size=3)
COUNT = st.integers(0, 5000)
ARGUMENTS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "list_files": st.fixed_dictionaries({}, optional={"path": TEXT}),
    "read_file": st.fixed_dictionaries({"path": NAME}, optional={"offset": COUNT, "limit": st.integers(1, 99)}),
    "write_file": st.fixed_dictionaries({"path": NAME, "content": TEXT}),
    "delete_file": st.fixed_dictionaries({"path": NAME}),
    "read_table": st.fixed_dictionaries(
        {"path": NAME},
        optional={
            "sheet": TEXT, "columns": st.lists(TEXT, max_size=3), "where": CELLS, "offset": COUNT,
            "limit": st.integers(1, 5000),
        },
    ),
    "write_table": st.fixed_dictionaries(
        {
            "path": NAME,
            "columns": st.lists(TEXT, min_size=1, max_size=3, unique=True),
            "rows": st.lists(st.lists(SCALAR, max_size=3), max_size=3),
        },
        optional={"sheet": TEXT},
    ),
    "append_rows": st.fixed_dictionaries(
        {
            "path": NAME,
            "columns": st.lists(TEXT, min_size=1, max_size=3, unique=True),
            "rows": st.lists(st.lists(SCALAR, max_size=3), max_size=3),
        }
    ),
    "edit_table": st.fixed_dictionaries({"path": NAME, "where": CELLS, "set": CELLS}, optional={"sheet": TEXT}),
    "read_workbook": st.fixed_dictionaries({"path": NAME}),
    "edit_workbook": st.fixed_dictionaries({"path": NAME, "sheet": TEXT, "cells": st.just({"B2": 12.5, "C3": "x y"})}),
    "shell": st.fixed_dictionaries({"command": NAME}),
}  # fmt: skip
CALL = st.sampled_from(sorted(ARGUMENTS)).flatmap(
    lambda tool: ARGUMENTS[tool].map(lambda given: ToolCall(id="x", tool=tool, arguments=given))
)


def asked(action: Action) -> str:
    """Calls as JSON, so that 1, 1.0 and true differ."""
    return json.dumps([[c.tool, c.arguments] for c in action.calls], sort_keys=True)


def test_the_strategies_make_what_the_tools_take() -> None:
    assert set(ARGUMENTS) == set(TOOLS)


@MANY
@given(st.lists(CALL, min_size=1, max_size=3), TEXT, st.sampled_from(sorted(DIALECTS)), st.integers(0, 30))
def test_calls_read_back(calls: list[ToolCall], message: str, name: str, turn: int) -> None:
    form = dialect(name)
    # a message before calls is told in full by the plain dialect alone: tags and thinking are structure to the other
    if name == "json":
        message = "".join(message.replace("<", "").split())
    text = form.write(tuple(calls), message)
    got = form.read(text, turn)
    assert asked(got) == asked(Action(tuple(calls)))
    assert got.message == message
    assert [c.id for c in got.calls] == [f"call-{turn}-{n}" for n in range(len(calls))]
    assert form.write(got.calls, got.message) == text
    assert all(not argument_error(c.tool, c.arguments) or not ok(calls) for c in got.calls)


def ok(calls: list[ToolCall]) -> bool:
    return not any(argument_error(c.tool, c.arguments) for c in calls)


@MANY
@given(TEXT)
def test_a_last_word_reads_back_in_plain(message: str) -> None:
    got = dialect("plain").read(dialect("plain").write((), message), 0)
    assert got == Action(message=message)


@MANY
@given(TEXT)
def test_thinking_is_no_part_of_what_is_asked(message: str) -> None:
    call = ToolCall(id="x", tool="read_file", arguments={"path": "notes.txt"})
    thought = "<think>\n" + message.replace("</think>", "") + "<tool_call> read x\n</think>\n"
    for form in DIALECTS.values():
        got = form.read(thought + form.write((call,), ""), 0)
        assert asked(got) == asked(Action((call,)))
        assert form.read("<think>" + thought.removesuffix("</think>\n"), 0) == Action()


@MANY
@given(TEXT | st.text(max_size=60) | st.lists(TEXT, max_size=8).map(" ".join), st.sampled_from(sorted(DIALECTS)))
def test_anything_can_be_read(text: str, name: str) -> None:
    form = dialect(name)
    for broken in (text, " write a.csv b\n" + text, "<tool_call>" + text, '<tool_call>\n{"name": "x", "arg' + text):
        got = form.read(broken, 3)
        json.dumps([c.arguments for c in got.calls])
        assert isinstance(got.message, str)
        assert all(isinstance(c.tool, str) for c in got.calls)


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        (" read", "read_table"), (" edit a.csv where code", "edit_table"), (" jump a.csv", "jump"),
        (' read "a.csv', "read_table"), (" read a.csv take many", "read_table"),
        (" write a.csv b\n #nothing", "write_table"), (" append a.csv b\n #x", "append_rows"),
        (" cat a.csv\nb", "read_file"), (" call shell {", "call"),
    ],
)  # fmt: skip
def test_a_broken_plain_call_stays_a_call(text: str, tool: str) -> None:
    (call,) = dialect("plain").read(text, 0).calls
    assert call.tool == tool
    assert MALFORMED in call.arguments or argument_error(tool, call.arguments)


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "read_file", "parameters": {"path": "a"}}</tool_call>',
        '<tool_call>{"name": "read_file", "arguments": "{\\"path\\": \\"a\\"}"}</tool_call>',
        '<tool_call>{"name": "read_file", "arguments": {"path": "a"}}',
        '{"name": "read_file", "arguments": {"path": "a"}}',
        'Let me look.\n<tool_call>\n{"name": "read_file", "arguments": {"path": "a"}}\n</tool_call>\n',
    ],
)
def test_json_is_read_as_models_write_it(text: str) -> None:
    (call,) = dialect("json").read(text, 0).calls
    assert (call.tool, call.arguments) == ("read_file", {"path": "a"})


@MANY
@given(SCALAR)
def test_a_field_reads_back(given_: Any) -> None:
    (word,) = words(" " + written(given_))
    assert json.dumps(value(word)) == json.dumps(given_)


@MANY
@given(
    st.lists(NAME, min_size=1, max_size=3, unique=True),
    st.lists(st.lists(SCALAR, min_size=3, max_size=3), max_size=4),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_a_table_is_shown_without_loss(columns: list[str], rows: list[list[Any]], offset: int, more: int) -> None:
    rows = [row[: len(columns)] for row in rows]
    total = offset + len(rows) + more
    output = json.dumps({"columns": columns, "rows": rows, "total": total, "offset": offset})
    (message,) = dialect("plain").show((Call(id="x", tool="read_table", arguments={"path": "a"}, output=output),))
    lines = message["content"].split("\n")
    cut = lines.pop() if not lines[-1].startswith(" ") else ""
    head, *body = [[value(word) for word in words(line)] for line in lines]
    assert head == columns
    assert json.dumps(body) == json.dumps(rows)
    assert cut == (f"of {total} from {offset}" if offset or more else "")


def test_what_a_small_model_reads_and_writes_is_short() -> None:
    form = dialect("plain")
    call = ToolCall(id="a", tool="read_table", arguments={"path": "orders.csv", "where": {"code": "k3"}})
    assert form.write((call,), "") == " read orders.csv where code k3"
    edit = {"path": "orders.csv", "where": {"code": "k3"}, "set": {"qty": "12"}}
    call = ToolCall(id="a", tool="edit_table", arguments=edit)
    assert form.write((call,), "") == " edit orders.csv where code k3 set qty 12"
    table = {"path": "out.csv", "columns": ["code", "qty"], "rows": [["k3", "12"], ["k 4", 5]]}
    assert form.write((ToolCall(id="a", tool="write_table", arguments=table),), "") == (
        ' write out.csv code qty\n k3 12\n "k 4" #5'
    )
    assert form.write((), "") == " done"
    shown = [
        Call(id="a", tool="edit_table", output='{"changed": 2}'),
        Call(id="a", tool="read_table", arguments={"columns": ["qty"]},
             output='{"columns": ["qty"], "rows": [["12"]], "total": 1, "offset": 0}'),
        Call(id="a", tool="read_table", status="error", output="no such file"),
        Call(id="a", tool="read_file", output="error: not one"),
        Call(id="a", tool="list_files", output='{"files": [{"path": "a b.csv", "size": 12}]}'),
    ]  # fmt: skip
    assert [m["content"] for m in form.show(tuple(shown))] == [
        " changed 2", " 12", " error: no such file", "\nerror: not one", ' "a b.csv" 12',
    ]  # fmt: skip
