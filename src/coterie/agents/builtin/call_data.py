"""Tool calls as data: the JSON objects and Python expressions in which models write them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from coterie.agents.fields import mapping

Arguments = Mapping[str, Sequence[str]]
"""The names of each tool's arguments, by tool."""
NAME_KEYS = ("tool", "name", "tool_name", "function", "function_name", "action", "recipient_name")
"""The keys that hold a tool's name."""
INPUT_KEYS = ("arguments", "input", "parameters", "args", "params", "tool_input", "action_input")
"""The keys that hold a tool's arguments."""
_LIST_KEYS = ("tool_calls", "calls", "tool_uses")
_WRAPPER_KEYS = ("function", "function_call", "tool_call", "tool_use")
_EXTRA_KEYS = frozenset({"id", "type", "call_id", "index"})


@dataclass(frozen=True)
class CallData:
    """A call as it was parsed."""

    name: str
    arguments: Mapping[str, object] | None
    """None if they are not an object."""
    raw: str = ""
    is_explicit: bool = False
    """Whether its form can only mean a call, whatever name it contains."""


def normalized(name: str) -> str:
    """Normalize a name, ignoring case and how its words are joined."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def calls_in_data(data: object, tools: Arguments, *, is_call: bool = False) -> list[CallData]:
    """Return the calls in JSON data; `is_call`: it is marked as a call, so a name will do."""
    return list(_in_data(data, tools, is_call=is_call))


def _in_data(data: object, tools: Arguments, *, is_call: bool) -> Iterator[CallData]:
    if isinstance(data, list):
        for one in cast("list[object]", data):
            yield from _in_data(one, tools, is_call=is_call)
        return
    given = mapping(data)
    inside = [given[key] for key in _LIST_KEYS if isinstance(given.get(key), list)]
    inside = inside or [given[key] for key in _WRAPPER_KEYS if isinstance(given.get(key), dict)]
    for one in inside[:1]:
        yield from _in_data(one, tools, is_call=True)
    if not inside:
        yield from _single(given, tools, is_call=is_call)


def _single(given: Mapping[str, object], tools: Arguments, *, is_call: bool) -> Iterator[CallData]:
    key = next((key for key in NAME_KEYS if isinstance(given.get(key), str)), None)
    if key is None:
        if len(given) == 1 and (name := next(iter(given))) in tools:
            yield _with_input(name, given[name], is_call)
        return
    name = str(given[key])
    input_key = next((one for one in INPUT_KEYS if one in given), None)
    if input_key is not None:
        yield _with_input(name, given[input_key], is_call)
        return
    rest = {one: value for one, value in given.items() if one != key and one not in _EXTRA_KEYS}
    if is_call or (rest.keys() <= set(tools.get(name, ())) and (rest or key != "name")):
        known = name in tools or is_call
        yield from [CallData(name, rest, is_explicit=is_call)] if known else []


def _with_input(name: str, value: object, is_call: bool) -> CallData:
    if isinstance(value, str):
        try:
            read: object = json.loads(value) if value.strip() else {}
        except (ValueError, RecursionError):
            read = None
    else:
        read = {} if value is None else value
    given = cast("dict[str, object]", read) if isinstance(read, dict) else None
    return CallData(name, given, str(value), is_call)


def calls_in_python(text: str, tools: Arguments) -> list[CallData]:
    """Return the calls in Python code that contains only calls: `print(readFile(path="a.py"))`."""
    try:
        body = ast.parse(text.strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    calls = [_in_python(one, tools) for one in body]
    return [one for one in calls if one is not None] if all(calls) else []


def _in_python(statement: ast.stmt, tools: Arguments) -> CallData | None:
    call = statement.value if isinstance(statement, ast.Expr | ast.Assign) else None
    if isinstance(call, ast.List) and len(call.elts) == 1:
        call = call.elts[0]
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print":
        call = call.args[0] if len(call.args) == 1 else None
    if not isinstance(call, ast.Call):
        return None
    name = ast.unparse(call.func).rpartition(".")[2]
    try:
        given = dict(zip(tools.get(name, ()), map(ast.literal_eval, call.args), strict=False))
        given |= {one.arg: ast.literal_eval(one.value) for one in call.keywords if one.arg}
        # Python has values that JSON has not: bytes, sets, keys that are no text.
        arguments = json.loads(json.dumps(given, allow_nan=False))
    except (ValueError, TypeError, RecursionError):
        return None
    return CallData(name, cast("Mapping[str, object]", arguments))
