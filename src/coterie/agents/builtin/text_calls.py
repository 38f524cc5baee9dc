"""Tool calls that a model wrote into its text: XML, JSON or Python, in the forms that models use.

Only the model's own reply is ever looked at.  What counts as a call, outside of code:

    <readFile><path>a.py</path></readFile>            the tool as tag; <readFile path="a.py"/>
    <tool name="readFile"><path>a.py</path></tool>    <invoke name="…">, <tool_use name="…">
    <tool_use><name>readFile</name><input>…</input></tool_use>
    <function=readFile><parameter=path>a.py</parameter></function>
    <tool_call>{"name": "readFile", "arguments": {"path": "a.py"}}</tool_call>
    <tool_code>readFile(path="a.py")</tool_code>
    {"tool_calls": [{"function": {"name": "readFile", "arguments": "{\\"path\\": \\"a.py\\"}"}}]}
    [TOOL_CALLS]readFile{"path": "a.py"}              and other models' own marks before a call

JSON counts where nothing follows it on its line.  A fence without a language counts where it holds
nothing but a call; one that is marked as `xml`, `json` or a tool's is looked into.  Every other
fence, and what stands `in backticks`, is something that the model shows and not something that it
does.  What looks like a call and is none of these, such as a call alone in a fence of Python, is
doubtful: the model is told.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from coterie.agents.builtin.call_data import (
    INPUTS,
    NAMES,
    Arguments,
    CallData,
    calls_in_data,
    calls_in_python,
    plain,
)
from coterie.agents.builtin.conversation import ToolCallRequest, exactly
from coterie.agents.fields import mapping
from coterie.tools.toolbox import ToolSpec

CUT = "The call was cut off before its end. Make it again, whole."
NO_JSON = "The call is no valid JSON. Make it again."
_LONGEST = 2000
"""So much of a call that cannot be understood is kept."""

_FENCE = r"^[ \t]*(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[\w-]*)[^\n]*$"
_SPAN = r"(?P<span>(?<!`)`[^`\n]+`(?!`))"
_WRAPPERS = ("tool", "tool_use", "tool_call", "tool_code", "function_call", "function", "invoke")
_VAGUE = frozenset({"tool", "function", "invoke"})
"""Words that stand in tags of other things too."""
_KEYS = (*NAMES, *INPUTS, "id", "type", "role", "content", "tool_calls", "tool_uses", "calls")
_PARAMETER = re.compile(
    r"<(?:[\w-]+:)?(?P<tag>parameter|param|arg)(?:\s+name)?\s*=\s*[\"']?(?P<name>[\w.-]+)[\"']?\s*>"
    r"(?P<value>.*?)</(?:[\w-]+:)?(?P=tag)>",
    re.DOTALL,
)
_PAIR = re.compile(
    r"<arg_key>(?P<name>.*?)</arg_key>\s*<arg_value>(?P<value>.*?)</arg_value>", re.DOTALL
)
_CHILD = re.compile(r"<(?:[\w-]+:)?(?P<name>\w+)>(?P<value>.*?)</(?:[\w-]+:)?(?P=name)>", re.DOTALL)
_MARKS = r"\[TOOL_CALLS\][ \t]*|\bto=|<\|tool_call_begin\|>\s*|<｜tool▁sep｜>"
"""What models write before a call where nobody took their own marks out of the reply."""
_FENCE_END = re.compile(r"\s*```")
_ATTRIBUTE = re.compile(r"(?P<name>[\w.-]+)\s*=\s*(?:\"(?P<a>[^\"]*)\"|'(?P<b>[^']*)'|(?P<c>\S+))")
_CDATA = re.compile(r"\s*<!\[CDATA\[(?P<value>.*)\]\]>\s*", re.DOTALL)
_TITLE = re.compile(rf"<(?P<key>{'|'.join(NAMES)})>\s*(?P<name>[\w.-]+)\s*</(?P=key)>")
_JSON_FENCES = frozenset({"json", "tool", *_WRAPPERS, "tool_calls"})
_UNMARKED = frozenset({"", "text", "txt", "plain", "plaintext"})
_DOCUMENTS = frozenset({"markdown", "md", "html"})
_DECODER = json.JSONDecoder()
_QUOTE = r"[\"'“”]"
"""Only the first is JSON's; with the others the model is told so."""


@dataclass(frozen=True)
class TextCalls:
    """What a reply holds."""

    calls: tuple[ToolCallRequest, ...] = ()
    doubtful: str = ""
    """The beginning of a text that looks like a call and is none."""


def text_calls(text: str, tools: Sequence[ToolSpec], *, only_known: bool) -> TextCalls:
    """The calls in a reply, in order.

    `only_known`: for a model that can call natively, data that names a tool that there is not is
    doubtful unless it says that it is a call; else it is one, which then fails.
    """
    reading = _Reading({tool.name: tool for tool in tools}, only_known)
    whole, found = _json(text.strip())
    if found:
        calls = tuple(reading.requests(calls_in_data(whole, reading.arguments)))
    else:
        calls = tuple(reading.calls(text))
    return TextCalls(calls, next(iter(reading.doubts), "")[:_LONGEST].strip())


@dataclass(frozen=True)
class _Reading:
    tools: Mapping[str, ToolSpec]
    only_known: bool
    doubts: list[str] = field(default_factory=list[str])

    @property
    def arguments(self) -> Arguments:
        """By tool: the names of its arguments."""
        return {name: tuple(_types(tool)) for name, tool in self.tools.items()}

    def calls(self, text: str) -> Iterator[ToolCallRequest]:
        """The calls in a text, which may hold fences."""
        opening = _opening(self.tools)
        at = 0
        while found := opening.search(text, at):
            if found["span"]:
                at = found.end()
            elif found["fence"]:
                inside, at = _fenced(text, found)
                yield from self._fence(found["info"].lower(), inside)
            elif found["json"]:
                at = yield from self._json(text, found.start("json"))
            elif found["marked"]:
                at = yield from self._marked(text, found)
            elif found["spoken"]:
                self.doubts.append(found[0])
                at = found.end()
            else:
                at = yield from self._tag(text, found)

    def _fence(self, info: str, inside: str) -> Iterator[ToolCallRequest]:
        if info == "xml":
            yield from self.calls(inside)
        elif info in _JSON_FENCES:
            yield from self._wrapped(info, inside)
        elif info in _UNMARKED:
            yield from self._unmarked(inside)
        elif info not in _DOCUMENTS and self._is_call(inside):
            self.doubts.append(inside)

    def _unmarked(self, inside: str) -> Iterator[ToolCallRequest]:
        """A fence without a language: a call where it is all that stands in it."""
        trial = _Reading(self.tools, only_known=True)
        calls = list(trial.calls(inside))
        if calls and _is_data(inside):
            yield from calls
        elif calls or trial.doubts:
            self.doubts.append(inside)

    def _is_call(self, code: str) -> bool:
        """Whether code is nothing but calls of tools that there are."""
        if _is_data(code):
            return any(_Reading(self.tools, only_known=True).calls(code))
        called = calls_in_python(code, self.arguments)
        return bool(called) and all(self._known(one.name) for one in called)

    def _json(self, text: str, start: int) -> Generator[ToolCallRequest, None, int]:
        """Data in prose, from its first character on; where it is over."""
        try:
            found, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            broken = text[start:].partition("\n\n")[0]
            yield from self._broken(broken, NO_JSON)
            return start + len(broken)
        data = calls_in_data(found, self.arguments)
        known = [one for one in data if one.is_explicit or self._known(one.name)]
        if not known:
            return end
        if text[end:].partition("\n")[0].strip(" \t\r;,"):
            self.doubts.append(text[start:end])
        else:
            yield from self.requests(known)
        return end

    def _marked(self, text: str, opening: re.Match[str]) -> Generator[ToolCallRequest, None, int]:
        """A call after a model's own mark; where it is over."""
        try:
            given, end = _DECODER.raw_decode(text, opening.end())
        except (ValueError, RecursionError):
            yield from self._broken(text[opening.end() :], NO_JSON, opening["called"])
            return len(text)
        data = CallData(opening["called"], mapping(given), is_explicit=True)
        yield from self.requests([data])
        fence = _FENCE_END.match(text, end) if "```" in opening[0] else None
        return fence.end() if fence else end

    def _tag(self, text: str, opening: re.Match[str]) -> Generator[ToolCallRequest, None, int]:
        """What stands in an element; where it is over."""
        tag, attributes = opening["tag"], _attributes(opening["attributes"] or "")
        if opening["empty"]:
            end, body, whole = opening.end(), "", True
        else:
            closing = re.compile(rf"</(?:[\w-]+:)?{re.escape(tag)}\s*>").search(text, opening.end())
            end, whole = (closing.end(), True) if closing else (len(text), False)
            body = text[opening.end() : closing.start() if closing else end]
        name = opening["equals"] or (
            attributes.pop("name", None) if tag in _WRAPPERS else self._known(tag)
        )
        if name is None:
            yield from self._wrapped(tag, body)
        elif whole:
            yield from self._named(name, body, attributes)
        else:
            yield from self._broken(body, CUT, name)
        return end

    def _named(
        self, name: str, body: str, attributes: Mapping[str, str] | None = None
    ) -> Iterator[ToolCallRequest]:
        known = self._known(name)
        given = self._given(known, body, attributes or {})
        yield from self.requests([CallData(known or name, given, is_explicit=True)])

    def requests(self, found: Sequence[CallData], text: str = "") -> Iterator[ToolCallRequest]:
        """What was read, where it is a call."""
        for one in found:
            name = self._known(one.name)
            if name is None and self.only_known and not one.is_explicit:
                self.doubts.append(text or f"{one.name} {dict(one.arguments or {})}")
            elif one.arguments is None:
                raw = exactly({"text": one.raw[:_LONGEST]})
                yield ToolCallRequest(name or one.name, raw, NO_JSON)
            else:
                yield ToolCallRequest(name or one.name, exactly(one.arguments))

    def _wrapped(self, tag: str, body: str) -> Iterator[ToolCallRequest]:
        """What stands in an element or a fence that says no more than that it is a call."""
        data, is_json = _json(body.strip())
        if is_json:
            found = calls_in_data(data, self.arguments, is_call=tag != "json")
            yield from self.requests(found, body)
            return
        if (title := _TITLE.search(body)) or (title := re.match(r"\s*(?P<name>\w+)\s*<arg_", body)):
            rest = body[: title.start()] + body[title.end("name") :]
            yield from self._named(title["name"], rest.removeprefix(f"</{tag}>"))
            return
        inner = list(self.calls(body)) or self.requests(calls_in_python(body, self.arguments))
        inner = list(inner) or list(self._broken(body, NO_JSON))
        yield from inner
        if not inner and tag not in _VAGUE | {"json"}:
            self.doubts.append(body or f"<{tag}>")

    def _broken(self, body: str, problem: str, name: str = "") -> Iterator[ToolCallRequest]:
        """A call that cannot be understood, where it says which tool it is meant for."""
        if not name:
            keys = "|".join(NAMES)
            quoted = rf"{_QUOTE}(?:{keys}){_QUOTE}\s*:\s*{_QUOTE}(?P<name>[\w.-]+){_QUOTE}"
            found = re.search(rf"{quoted}|<function=(\w+)", body)
            name = (found["name"] or found[2]) if found else ""
        known = self._known(name)
        if known or (name and not self.only_known):
            yield ToolCallRequest(known or name, exactly({"text": body[:_LONGEST]}), problem)
        elif name:
            self.doubts.append(body)

    def _known(self, name: str) -> str | None:
        """The tool that is meant: `read_file` and `functions.readFile` mean `readFile`."""
        if name in self.tools:
            return name
        wanted = plain(name.rpartition(".")[2])
        return next((one for one in self.tools if plain(one) == wanted), None)

    def _given(
        self, name: str | None, body: str, attributes: Mapping[str, str]
    ) -> Mapping[str, object]:
        types = _types(self.tools.get(name or ""))
        data, is_json = _json(body.strip())
        if is_json and isinstance(data, dict):
            return cast("dict[str, object]", data)
        forms = (list(one.finditer(body)) for one in (_PARAMETER, _PAIR, _CHILD))
        found = next(filter(None, forms), list[re.Match[str]]())
        if len(found) == 1 and (only := found[0])["name"] in INPUTS and only["name"] not in types:
            return self._given(name, only["value"], attributes)
        held = next(
            (attributes[key] for key in INPUTS if key in attributes and key not in types), ""
        )
        data, is_json = _json(held)
        if is_json and isinstance(data, dict):
            return cast("dict[str, object]", data)
        spelled = {plain(one): one for one in types}
        pairs = [*attributes.items(), *((one["name"].strip(), one["value"]) for one in found)]
        named = [(spelled.get(plain(key), key), value) for key, value in pairs]
        return {key: _value(value, types.get(key)) for key, value in named}


def _opening(tools: Mapping[str, ToolSpec]) -> re.Pattern[str]:
    """Where something may begin that is a call, or shows one."""
    own = "|".join(_spelled(tool) for tool in tools) or r"(?!)"
    tags = rf"(?P<tag>{'|'.join(_WRAPPERS)}|(?i:{own}))"
    value = r"(?:\"[^\"]*\"|'[^']*'|[^\s\"'<>/]+)"
    more = rf"(?:=(?P<equals>[\w.-]+)|(?P<attributes>(?:\s+[\w.-]+\s*=\s*{value})*))"
    xml = rf"<(?:[\w-]+:)?{tags}{more}\s*(?P<empty>/)?>"
    keys = "|".join((*_KEYS, *map(re.escape, tools)))
    data = rf"(?P<json>(?:\[\s*)?\{{\s*{_QUOTE}(?:{keys}){_QUOTE}\s*:)"
    spoken = (
        rf"(?P<spoken>^[ \t]*(?:\[|call:|[Aa]ction:[ \t]*|print\()*(?:\w+\.)?(?i:{own})"
        r"(?:\(\w*\s*=?\s*[\"'][^\n]*|[ \t]*\{[^\n]*|[ \t]*\n[ \t]*[Aa]ction [Ii]nput:[^\n]*))"
    )
    marked = (
        rf"(?P<marked>(?:{_MARKS})(?:functions\.)?(?P<called>(?i:{own}))(?::\d+)?"
        r"(?:\s|```|json\b|<\|\w+\|>)*(?=\{))"
    )
    return re.compile(f"{_FENCE}|{_SPAN}|{xml}|{data}|{marked}|{spoken}", re.MULTILINE)


def _spelled(tool: str) -> str:
    """The name of a tool in the ways in which models write it: `readFile`, `read_file`."""
    return "[_-]?".join(map(re.escape, re.findall(r"[A-Z]?[^A-Z]+|[A-Z]+", tool)))


def _is_data(text: str) -> bool:
    """Whether a text is XML or JSON from its beginning to its end, by the looks of it."""
    text = text.strip()
    return text[:1] in ("<", "[", "{") and text[-1:] in (">", "]", "}")


def _fenced(text: str, opening: re.Match[str]) -> tuple[str, int]:
    """What stands in a fence, and where it is over."""
    mark = opening["fence"]
    closing = re.compile(rf"^[ \t]*{re.escape(mark[0])}{{{len(mark)},}}[ \t]*$", re.MULTILINE)
    found = closing.search(text, opening.end())
    end = found.start() if found else len(text)
    return text[opening.end() : end], found.end() if found else len(text)


def _attributes(text: str) -> dict[str, str]:
    found = _ATTRIBUTE.finditer(text)
    return {one["name"]: one["a"] or one["b"] or one["c"] or "" for one in found}


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
    found, is_json = _json(raw.strip())
    return found if is_json else raw.strip()


def _json(text: str) -> tuple[object, bool]:
    """The JSON data in a text, and whether it is any."""
    try:
        return json.loads(text), True
    except (ValueError, RecursionError):
        return None, False
