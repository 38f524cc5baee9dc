"""Tool calls that a model wrote into its text, as XML or as JSON.

Only the model's own reply is ever looked at.  What counts as a call, outside of code:

    <tool name="readFile"><path>a.py</path></tool>
    <readFile><path>a.py</path></readFile>
    <invoke name="readFile"><parameter name="path">a.py</parameter></invoke>
    <tool_call>{"name": "readFile", "arguments": {"path": "a.py"}}</tool_call>

A fence that is marked `xml`, `json` or `tool_call` is looked into, and JSON counts as a call where
it is the whole of such a fence or of the reply.  Every other fence, and what stands `in backticks`,
is something that the model shows and not something that it does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from coterie.agents.builtin.conversation import ToolCallRequest, exactly
from coterie.agents.fields import mapping
from coterie.tools.toolbox import ToolSpec

CUT = "The call was cut off before its end. Make it again, whole."
_NO_JSON = "The call is no valid JSON. Make it again."

_FENCE = r"^[ \t]*(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[\w-]*)[^\n]*$"
_SPAN = r"(?P<span>(?<!`)`[^`\n]+`(?!`))"
_NAMED = r"<(?P<named>tool|invoke)\s+name\s*=\s*[\"']?(?P<name>[\w.-]+)[\"']?\s*>"
_WRAPPED = r"<(?P<wrapped>tool_call)>"
_PARAMETER = re.compile(
    r"<parameter\s+name\s*=\s*[\"']?(?P<name>[\w.-]+)[\"']?\s*>(?P<value>.*?)</parameter>",
    re.DOTALL,
)
_CHILD = re.compile(r"<(?P<name>\w+)>(?P<value>.*?)</(?P=name)>", re.DOTALL)
_CDATA = re.compile(r"\s*<!\[CDATA\[(?P<value>.*)\]\]>\s*", re.DOTALL)
_JSON_FENCES, _XML_FENCES = frozenset({"json", "tool_call", "tool"}), frozenset({"xml"})
_NAMES = ("tool", "name")
_ARGUMENTS = ("arguments", "input", "parameters", "args")


def text_calls(
    text: str, tools: Sequence[ToolSpec], *, only_whole: bool
) -> tuple[ToolCallRequest, ...]:
    """The calls in a reply, in order.

    `only_whole`: for a model that can call natively, a text counts only where it is beyond doubt a
    call, of a tool that there is; else what is broken or unknown is told to the model, too.
    """
    reading = _Reading({tool.name: tool for tool in tools}, only_whole)
    whole = _json(text.strip())
    if whole is not None:
        return tuple(reading.objects(whole))
    return tuple(reading.calls(text))


@dataclass(frozen=True)
class _Reading:
    tools: Mapping[str, ToolSpec]
    only_whole: bool

    def calls(self, text: str) -> Iterator[ToolCallRequest]:
        """The calls in a text, which may hold fences."""
        own = "|".join(map(re.escape, self.tools)) or r"(?!)"
        opening = re.compile(
            rf"{_FENCE}|{_SPAN}|{_NAMED}|{_WRAPPED}|<(?P<own>{own})>", re.MULTILINE
        )
        at = 0
        while found := opening.search(text, at):
            if found["span"]:
                at = found.end()
            elif found["fence"]:
                inside, at = _fenced(text, found)
                yield from self._fence(found["info"].lower(), inside)
            else:
                tag = found["named"] or found["wrapped"] or found["own"]
                end = text.find(f"</{tag}>", found.end())
                body = text[found.end() : end if end >= 0 else None]
                yield from self._tag(found["name"] or found["own"], body, whole=end >= 0)
                at = end if end >= 0 else len(text)

    def _fence(self, info: str, inside: str) -> Iterator[ToolCallRequest]:
        if info in _XML_FENCES:
            yield from self.calls(inside)
        elif info in _JSON_FENCES:
            yield from self._wrapped(inside)

    def _tag(self, name: str | None, body: str, *, whole: bool) -> Iterator[ToolCallRequest]:
        if name is None:
            yield from self._wrapped(body)
        elif not whole:
            yield from self._broken(name, body, CUT)
        elif name in self.tools or not self.only_whole:
            yield ToolCallRequest(name, exactly(self._arguments(name, body)))

    def _wrapped(self, body: str) -> Iterator[ToolCallRequest]:
        found = _json(body.strip())
        if found is not None:
            yield from self.objects(found)
        elif named := re.search(r'"(?:tool|name)"\s*:\s*"(?P<name>[\w.-]+)"', body):
            yield from self._broken(named["name"], body, _NO_JSON)

    def _broken(self, name: str, body: str, problem: str) -> Iterator[ToolCallRequest]:
        if not self.only_whole:
            yield ToolCallRequest(name, exactly({"text": body[:2000]}), problem)

    def objects(self, found: object) -> Iterator[ToolCallRequest]:
        """The calls in JSON data: an object, or several in a list."""
        for one in cast("list[object]", found) if isinstance(found, list) else [found]:
            given = cast("dict[str, object]", one) if isinstance(one, dict) else {}
            name = next((given[key] for key in _NAMES if key in given), None)
            arguments = next((given[key] for key in _ARGUMENTS if key in given), None)
            if isinstance(arguments, str):
                arguments = _json(arguments)
            if not isinstance(name, str) or not isinstance(arguments, dict):
                continue
            if name in self.tools or not self.only_whole:
                yield ToolCallRequest(name, exactly(cast("object", arguments)))

    def _arguments(self, name: str, body: str) -> dict[str, object]:
        whole = _json(body.strip())
        if isinstance(whole, dict):
            return cast("dict[str, object]", whole)
        types = _types(self.tools.get(name))
        found = list(_PARAMETER.finditer(body)) or list(_CHILD.finditer(body))
        return {one["name"]: _value(one["value"], types.get(one["name"])) for one in found}


def _fenced(text: str, opening: re.Match[str]) -> tuple[str, int]:
    """What stands in a fence, and where it is over."""
    mark = opening["fence"]
    closing = re.compile(rf"^[ \t]*{re.escape(mark[0])}{{{len(mark)},}}[ \t]*$", re.MULTILINE)
    found = closing.search(text, opening.end())
    end = found.start() if found else len(text)
    return text[opening.end() : end], found.end() if found else len(text)


def _types(tool: ToolSpec | None) -> dict[str, object]:
    fields = mapping(tool.parameters.get("properties")) if tool else {}
    return {name: mapping(field).get("type") for name, field in fields.items()}


def _value(raw: str, kind: object) -> object:
    """What was written, as what the tool takes; text stays as it is but for one line break."""
    cdata = _CDATA.fullmatch(raw)
    if cdata:
        return cdata["value"]
    if kind in (None, "string"):
        return raw.removeprefix("\n").removesuffix("\n")
    found = _json(raw.strip())
    return raw.strip() if found is None else found


def _json(text: str) -> object:
    """The JSON data in a text; None where it is none, or is no call anyway."""
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found
