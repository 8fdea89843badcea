"""The plain dialect: turns as short as they can be, for small models with a small vocabulary.

    read data/orders.csv where code k3        read_table; also: sheet S, columns A B, from 5 (offset), take 9 (limit)
    edit data/orders.csv where code k3 set price 12
    write out/report.csv code total           write_table: columns, then a line for each row
     k3 12
    append out/report.csv code total          append_rows, in the same form
     k4 7
    cat notes.txt                             read_file; also: from 5, take 9
    save notes.txt                            write_file: the lines below are its content
    list data                                 list_files
    delete notes.txt                          delete_file
    call read_workbook {"path": "a.xlsx"}     any other tool, and arguments that have no form above
    done                                      the end; what follows on the line is the final message

Every field has a space before it, the verb too. Blocks (several calls of a turn, or `say` and its message before
calls) are parted by a line `;`. Values are written as rover_train.render.fields says.
"""

from __future__ import annotations

import json
import re
from typing import Any

from rover.policy.protocol import MALFORMED, Action, PolicyView
from rover_store.records import Call, ToolCall
from rover_train.render import plain_show
from rover_train.render.fields import KEYWORDS, BadField, line, value, words
from rover_train.render.protocol import Message, Offer
from rover_train.render.thinking import without_thinking

_VERBS = {
    "list": "list_files", "cat": "read_file", "read": "read_table", "write": "write_table",
    "append": "append_rows", "edit": "edit_table", "save": "write_file", "delete": "delete_file",
}  # fmt: skip
_OF_TOOL = {tool: verb for verb, tool in _VERBS.items()}
#: keywords of each tool, in the order in which they are written, and the argument each gives
_CLAUSES: dict[str, dict[str, str]] = {
    "list_files": {},
    "read_file": {"from": "offset", "take": "limit"},
    "read_table": {"sheet": "sheet", "columns": "columns", "where": "where", "from": "offset", "take": "limit"},
    "edit_table": {"sheet": "sheet", "where": "where", "set": "set"},
    "write_table": {"sheet": "sheet", "columns": "columns"},
    "append_rows": {"columns": "columns"},
    "delete_file": {},
}
#: tools whose rows follow, a line each
_ROWS = ("write_table", "append_rows")
_BREAK = "\n;\n"
#: a line of free text that would part blocks, however often it was escaped before
_ESCAPED = re.compile(r"^(\\*;)$", re.MULTILINE)
_UNESCAPED = re.compile(r"^\\(\\*;)$", re.MULTILINE)


class PlainDialect:
    """Calls as lines of fields."""

    name = "plain"
    cut = "\n[cut]"

    def write(self, calls: tuple[ToolCall, ...], message: str) -> str:
        blocks = [_call_text(call) for call in calls]
        if not calls or message:
            word = "say" if calls else "done"
            blocks.insert(0, f" {word}" + (f" {_escape(message)}" if message else ""))
        return _BREAK.join(blocks)

    def read(self, text: str, turn: int) -> Action:
        calls: list[ToolCall] = []
        said: list[str] = []
        for block in without_thinking(text).split(_BREAK):
            verb, _, rest = block.lstrip(" ").partition(" ")
            if verb.rstrip("\n") in ("", "say", "done"):
                said += [_unescape(rest)] if rest else []
                continue
            tool, arguments = _read_call(block)
            calls.append(ToolCall(id=f"call-{turn}-{len(calls)}", tool=tool, arguments=arguments))
        return Action(calls=tuple(calls), message="\n".join(said))

    def show(self, results: tuple[Call, ...]) -> list[Message]:
        return [{"role": "tool", "content": plain_show.shown(result, self.cut)} for result in results]

    def tools(self, view: PolicyView) -> Offer:
        return Offer()  # a small model learns the form from demonstrations; a description would cost it the window


# --- writing ---------------------------------------------------------------------------------------------
def _call_text(call: ToolCall) -> str:
    """The shortest form that reads back as this call."""
    try:
        text = str(call.arguments[MALFORMED]) if MALFORMED in call.arguments else _compact(call.tool, call.arguments)
        if _read_call(text) == (call.tool, call.arguments) and _same_types(_read_call(text)[1], call.arguments):
            return text
    except (BadField, TypeError, ValueError, KeyError, AttributeError):
        pass
    return f" call{line([call.tool])} {json.dumps(call.arguments, ensure_ascii=False)}"


def _compact(tool: str, arguments: dict[str, Any]) -> str:
    left = dict(arguments)
    if tool == "write_file":
        return f" save{line([left['path']])}\n{_escape(left['content'])}"
    text = f" {_OF_TOOL[tool]}" + (line([left.pop("path")]) if "path" in left else "")
    for word, name in _CLAUSES[tool].items():
        if name not in left:
            continue
        given = left.pop(name)
        head = "" if tool in _ROWS and word == "columns" else f" {word}"
        if isinstance(given, dict):
            text += head + line([x for pair in given.items() for x in pair])
        elif isinstance(given, list):
            text += head + line(given)
        else:
            text += head + (f" {given}" if isinstance(given, int) else line([given]))
    for row in left.pop("rows", ()):
        text += "\n" + (line(row) or "-")
    if left:
        raise BadField(f"{tool}: no form for {', '.join(left)}")
    return text


def _same_types(left: Any, right: Any) -> bool:
    """Python holds 1, 1.0 and True for equal; a cell does not."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def _escape(text: str) -> str:
    return _ESCAPED.sub(r"\\\1", text)


def _unescape(text: str) -> str:
    return _UNESCAPED.sub(r"\1", text)


# --- reading ---------------------------------------------------------------------------------------------
def _read_call(block: str) -> tuple[str, dict[str, Any]]:
    """Tool and arguments of one block; arguments are MALFORMED where it cannot be read."""
    head, _, body = block.lstrip(" ").partition("\n")
    verb, _, rest = head.partition(" ")
    try:
        if verb == "call":
            name, _, body = rest.strip(" ").partition(" ")
            parsed = json.loads(body or "{}")
            return str(value(name)), parsed if isinstance(parsed, dict) else {MALFORMED: block[:2000]}
        tool = _VERBS[verb]
        if tool == "write_file":
            return tool, {"path": _text(words(rest)), "content": _unescape(body)}
        arguments = _clauses(tool, words(rest))
        if tool in _ROWS:
            arguments["rows"] = [_row(text) for text in body.split("\n")] if body else []
        elif body.strip():
            raise BadField("lines after the call")
        return tool, arguments
    except KeyError:
        return verb[:100], {MALFORMED: block[:2000]}
    except (BadField, ValueError, IndexError, RecursionError):
        return _VERBS.get(verb, verb)[:100], {MALFORMED: block[:2000]}


def _row(text: str) -> list[Any]:
    return [] if text == "-" else [value(word) for word in words(text)]


def _text(found: list[str]) -> str:
    if len(found) != 1:
        raise BadField("one field is wanted")
    return str(value(found[0]))


def _clauses(tool: str, found: list[str]) -> dict[str, Any]:
    """Arguments from the fields behind a verb: the path, then clauses."""
    forms = _CLAUSES[tool]
    out: dict[str, Any] = {}
    if found and found[0] not in KEYWORDS:
        out["path"] = value(found.pop(0))
    while found:
        word = found.pop(0) if found[0] in KEYWORDS else "columns"
        end = next((at for at, w in enumerate(found) if w in KEYWORDS), len(found))
        if tool == "write_table" and word == "sheet":
            end = min(end, 1)  # the columns follow without a keyword
        given, found = [value(w) for w in found[:end]], found[end:]
        name = forms.get(word, "")
        if not name or name in out:
            raise BadField(f"{word!r} has no place here")
        out[name] = _argument(name, given)
    return out


def _argument(name: str, given: list[Any]) -> Any:
    if name == "columns":
        return given
    if name in ("where", "set"):
        names = given[::2]
        if len(given) % 2 or not given or not all(isinstance(n, str) for n in names) or len(set(names)) < len(names):
            raise BadField(f"{name} wants pairs of column and value")
        return dict(zip(names, given[1::2], strict=True))
    if len(given) != 1:
        raise BadField(f"{name} wants one value")
    return given[0] if name == "sheet" else int(given[0])
