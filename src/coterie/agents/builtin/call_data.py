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
"""By tool: the names of its arguments."""
NAMES = ("tool", "name", "tool_name", "function", "function_name", "action", "recipient_name")
"""Under these the name of a tool stands."""
INPUTS = ("arguments", "input", "parameters", "args", "params", "tool_input", "action_input")
"""Under these what it is given stands."""
_LISTS = ("tool_calls", "calls", "tool_uses")
_INNER = ("function", "function_call", "tool_call", "tool_use")
_BESIDE = frozenset({"id", "type", "call_id", "index"})


@dataclass(frozen=True)
class CallData:
    """A call as it was read."""

    name: str
    arguments: Mapping[str, object] | None
    """None where they are no object."""
    raw: str = ""
    is_explicit: bool = False
    """Whether its form can mean nothing but a call, whatever the name in it."""


def plain(name: str) -> str:
    """A name without regard to how its words are put together."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def calls_in_data(data: object, tools: Arguments, *, is_call: bool = False) -> list[CallData]:
    """The calls in JSON data; `is_call`: it is said of it that it is one, so a name will do."""
    return list(_in_data(data, tools, is_call=is_call))


def _in_data(data: object, tools: Arguments, *, is_call: bool) -> Iterator[CallData]:
    if isinstance(data, list):
        for one in cast("list[object]", data):
            yield from _in_data(one, tools, is_call=is_call)
        return
    given = mapping(data)
    inside = [given[key] for key in _LISTS if isinstance(given.get(key), list)]
    inside = inside or [given[key] for key in _INNER if isinstance(given.get(key), dict)]
    for one in inside[:1]:
        yield from _in_data(one, tools, is_call=True)
    if not inside:
        yield from _single(given, tools, is_call=is_call)


def _single(given: Mapping[str, object], tools: Arguments, *, is_call: bool) -> Iterator[CallData]:
    key = next((key for key in NAMES if isinstance(given.get(key), str)), None)
    if key is None:
        if len(given) == 1 and (name := next(iter(given))) in tools:
            yield _with_input(name, given[name], is_call)
        return
    name = str(given[key])
    held = next((one for one in INPUTS if one in given), None)
    if held is not None:
        yield _with_input(name, given[held], is_call)
        return
    rest = {one: value for one, value in given.items() if one != key and one not in _BESIDE}
    if is_call or (rest.keys() <= set(tools.get(name, ())) and (rest or key != "name")):
        known = name in tools or is_call
        yield from [CallData(name, rest, is_explicit=is_call)] if known else []


def _with_input(name: str, found: object, is_call: bool) -> CallData:
    if isinstance(found, str):
        try:
            read: object = json.loads(found) if found.strip() else {}
        except (ValueError, RecursionError):
            read = None
    else:
        read = {} if found is None else found
    given = cast("dict[str, object]", read) if isinstance(read, dict) else None
    return CallData(name, given, str(found), is_call)


def calls_in_python(text: str, tools: Arguments) -> list[CallData]:
    """The calls in Python that does nothing but call: `print(readFile(path="a.py"))`."""
    try:
        body = ast.parse(text.strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    found = [_in_python(one, tools) for one in body]
    return [one for one in found if one is not None] if all(found) else []


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
    except (ValueError, TypeError, RecursionError):
        return None
    return CallData(name, cast("Mapping[str, object]", given))
