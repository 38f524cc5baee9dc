"""Tool calls that a model wrote into its text: XML, JSON or Python, in the forms that models use.

Only the model's own reply is ever parsed.  These count as calls, outside of code:

    <readFile><path>a.py</path></readFile>            the tool as tag; <readFile path="a.py"/>
    <tool name="readFile"><path>a.py</path></tool>    <invoke name="…">, <tool_use name="…">
    <tool_use><name>readFile</name><input>…</input></tool_use>
    <function=readFile><parameter=path>a.py</parameter></function>
    <tool_call>{"name": "readFile", "arguments": {"path": "a.py"}}</tool_call>
    <tool_code>readFile(path="a.py")</tool_code>
    {"tool_calls": [{"function": {"name": "readFile", "arguments": "{\\"path\\": \\"a.py\\"}"}}]}
    [TOOL_CALLS]readFile{"path": "a.py"}              and other models' own markers before a call

JSON counts if nothing follows it on its line.  A fence without a language counts if it contains
nothing but a call; one marked as `xml`, `json` or as a tool's is parsed.  Any other fence, and text
`in backticks`, is something that the model shows, not something that it does.  Anything else that
looks like a call, such as a call alone in a Python fence, is doubtful: the model is told so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from coterie.agents.builtin.call_data import (
    INPUT_KEYS,
    NAME_KEYS,
    Arguments,
    CallData,
    calls_in_data,
    calls_in_python,
    normalized,
)
from coterie.agents.builtin.conversation import ToolCallRequest, stored_arguments
from coterie.agents.fields import mapping
from coterie.tools.toolbox import ToolSpec

CUT = "The call was cut off. Make it again, complete."
NO_JSON = "The call is not valid JSON. Make it again."
_LONGEST = 2000
"""The most characters kept of a call that cannot be understood."""

_FENCE = r"^[ \t]*(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[\w-]*)[^\n]*$"
_SPAN = r"(?P<span>(?<!`)`[^`\n]+`(?!`))"
_WRAPPERS = ("tool", "tool_use", "tool_call", "tool_code", "function_call", "function", "invoke")
_AMBIGUOUS_TAGS = frozenset({"tool", "function", "invoke"})
"""Tags that are used for other things too."""
_KEYS = (
    *NAME_KEYS,
    *INPUT_KEYS,
    "id",
    "type",
    "role",
    "content",
    "tool_calls",
    "tool_uses",
    "calls",
)
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
"""Models' own markers before a call, if the service did not strip them from the reply."""
_FENCE_END = re.compile(r"\s*```")
_ATTRIBUTE = re.compile(r"(?P<name>[\w.-]+)\s*=\s*(?:\"(?P<a>[^\"]*)\"|'(?P<b>[^']*)'|(?P<c>\S+))")
_CDATA = re.compile(r"\s*<!\[CDATA\[(?P<value>.*)\]\]>\s*", re.DOTALL)
_TITLE = re.compile(rf"<(?P<key>{'|'.join(NAME_KEYS)})>\s*(?P<name>[\w.-]+)\s*</(?P=key)>")
_JSON_FENCES = frozenset({"json", "tool", *_WRAPPERS, "tool_calls"})
_UNMARKED = frozenset({"", "text", "txt", "plain", "plaintext"})
_DOCUMENTS = frozenset({"markdown", "md", "html"})
_DECODER = json.JSONDecoder()
_QUOTE = r"[\"'“”]"
"""Only the first is valid JSON; if the others are used, the model is told so."""


@dataclass(frozen=True)
class TextCalls:
    """The calls found in a reply."""

    calls: tuple[ToolCallRequest, ...] = ()
    doubtful: str = ""
    """The beginning of a text that looks like a call but is none."""


def text_calls(text: str, tools: Sequence[ToolSpec], *, only_known: bool) -> TextCalls:
    """Return the calls in a reply, in order.

    `only_known`, for a model that can call natively: data that names an unknown tool is doubtful
    unless it is marked as a call.  Otherwise it is a call, which then fails.
    """
    parser = _CallParser({tool.name: tool for tool in tools}, only_known)
    data, is_json = _json(text.strip())
    try:
        if is_json:
            calls = tuple(parser.requests(calls_in_data(data, parser.arguments)))
        else:
            calls = tuple(parser.calls(text))
    except RecursionError:  # a model that repeats itself without end
        return TextCalls(doubtful=text[:_LONGEST].strip())
    return TextCalls(calls, next(iter(parser.doubts), "")[:_LONGEST].strip())


@dataclass(frozen=True)
class _CallParser:
    tools: Mapping[str, ToolSpec]
    only_known: bool
    doubts: list[str] = field(default_factory=list[str])

    @property
    def arguments(self) -> Arguments:
        """The names of each tool's arguments, by tool."""
        return {name: tuple(_types(tool)) for name, tool in self.tools.items()}

    def calls(self, text: str) -> Iterator[ToolCallRequest]:
        """Yield the calls in a text, which may contain fences."""
        pattern = _opening(self.tools)
        at = 0
        while opening := pattern.search(text, at):
            if opening["span"]:
                at = opening.end()
            elif opening["fence"]:
                inside, at = _fenced(text, opening)
                yield from self._fence(opening["info"].lower(), inside)
            elif opening["json"]:
                at = yield from self._json(text, opening.start("json"))
            elif opening["marked"]:
                at = yield from self._marked(text, opening)
            elif opening["spoken"]:
                self.doubts.append(opening[0])
                at = opening.end()
            else:
                at = yield from self._tag(text, opening)

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
        """Parse a fence without a language: a call counts if the fence holds nothing else."""
        trial = _CallParser(self.tools, only_known=True)
        calls = list(trial.calls(inside))
        if calls and _is_data(inside):
            yield from calls
        elif calls or trial.doubts:
            self.doubts.append(inside)

    def _is_call(self, code: str) -> bool:
        """Whether code is nothing but calls of known tools."""
        if _is_data(code):
            return any(_CallParser(self.tools, only_known=True).calls(code))
        called = calls_in_python(code, self.arguments)
        return bool(called) and all(self._known(one.name) for one in called)

    def _json(self, text: str, start: int) -> Generator[ToolCallRequest, None, int]:
        """Parse data in prose, from its first character on; returns where it ends."""
        try:
            data, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            broken = text[start:].partition("\n\n")[0]
            yield from self._broken(broken, NO_JSON)
            return start + len(broken)
        calls = calls_in_data(data, self.arguments)
        known = [one for one in calls if one.is_explicit or self._known(one.name)]
        if not known:
            return end
        if text[end:].partition("\n")[0].strip(" \t\r;,"):
            self.doubts.append(text[start:end])
        else:
            yield from self.requests(known)
        return end

    def _marked(self, text: str, opening: re.Match[str]) -> Generator[ToolCallRequest, None, int]:
        """Parse a call after a model's own marker; returns where it ends."""
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
        """Parse an element; returns where it ends."""
        tag, attributes = opening["tag"], _attributes(opening["attributes"] or "")
        if opening["empty"]:
            end, body, is_complete = opening.end(), "", True
        else:
            closing = re.compile(rf"</(?:[\w-]+:)?{re.escape(tag)}\s*>").search(text, opening.end())
            end, is_complete = (closing.end(), True) if closing else (len(text), False)
            body = text[opening.end() : closing.start() if closing else end]
        name = opening["equals"] or (
            attributes.pop("name", None) if tag in _WRAPPERS else self._known(tag)
        )
        if name is None:
            yield from self._wrapped(tag, body)
        elif is_complete:
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

    def requests(self, calls: Sequence[CallData], text: str = "") -> Iterator[ToolCallRequest]:
        """Yield what was parsed, if it is a call."""
        for one in calls:
            name = self._known(one.name)
            if name is None and self.only_known and not one.is_explicit:
                self.doubts.append(text or f"{one.name} {dict(one.arguments or {})}")
            elif one.arguments is None:
                raw = stored_arguments({"text": one.raw[:_LONGEST]})
                yield ToolCallRequest(name or one.name, raw, NO_JSON)
            else:
                yield ToolCallRequest(name or one.name, stored_arguments(one.arguments))

    def _wrapped(self, tag: str, body: str) -> Iterator[ToolCallRequest]:
        """Parse the contents of an element or fence that only says that it is a call."""
        data, is_json = _json(body.strip())
        if is_json:
            calls = calls_in_data(data, self.arguments, is_call=tag != "json")
            yield from self.requests(calls, body)
            return
        if (title := _TITLE.search(body)) or (title := re.match(r"\s*(?P<name>\w+)\s*<arg_", body)):
            rest = body[: title.start()] + body[title.end("name") :]
            yield from self._named(title["name"], rest.removeprefix(f"</{tag}>"))
            return
        inner = list(self.calls(body)) or self.requests(calls_in_python(body, self.arguments))
        inner = list(inner) or list(self._broken(body, NO_JSON))
        yield from inner
        if not inner and tag not in _AMBIGUOUS_TAGS | {"json"}:
            self.doubts.append(body or f"<{tag}>")

    def _broken(self, body: str, problem: str, name: str = "") -> Iterator[ToolCallRequest]:
        """Yield a call that cannot be understood, if it says which tool it is meant for."""
        if not name:
            keys = "|".join(NAME_KEYS)
            quoted = rf"{_QUOTE}(?:{keys}){_QUOTE}\s*:\s*{_QUOTE}(?P<name>[\w.-]+){_QUOTE}"
            match = re.search(rf"{quoted}|<function=(\w+)", body)
            name = (match["name"] or match[2]) if match else ""
        known = self._known(name)
        if known or (name and not self.only_known):
            yield ToolCallRequest(
                known or name, stored_arguments({"text": body[:_LONGEST]}), problem
            )
        elif name:
            self.doubts.append(body)

    def _known(self, name: str) -> str | None:
        """Return the tool that is meant: `read_file` and `functions.readFile` mean `readFile`."""
        if name in self.tools:
            return name
        wanted = normalized(name.rpartition(".")[2])
        return next((one for one in self.tools if normalized(one) == wanted), None)

    def _given(
        self, name: str | None, body: str, attributes: Mapping[str, str]
    ) -> Mapping[str, object]:
        types = _types(self.tools.get(name or ""))
        data, is_json = _json(body.strip())
        if is_json and isinstance(data, dict):
            return cast("dict[str, object]", data)
        forms = (list(one.finditer(body)) for one in (_PARAMETER, _PAIR, _CHILD))
        matches = next(filter(None, forms), list[re.Match[str]]())
        if (
            len(matches) == 1
            and (only := matches[0])["name"] in INPUT_KEYS
            and only["name"] not in types
        ):
            return self._given(name, only["value"], attributes)
        value = next(
            (attributes[key] for key in INPUT_KEYS if key in attributes and key not in types), ""
        )
        data, is_json = _json(value)
        if is_json and isinstance(data, dict):
            return cast("dict[str, object]", data)
        spelled = {normalized(one): one for one in types}
        pairs = [*attributes.items(), *((one["name"].strip(), one["value"]) for one in matches)]
        named = [(spelled.get(normalized(key), key), value) for key, value in pairs]
        return {key: _value(value, types.get(key)) for key, value in named}


def _opening(tools: Mapping[str, ToolSpec]) -> re.Pattern[str]:
    """Build the pattern for where a call, or something that shows one, may begin."""
    own = "|".join(_name_pattern(tool) for tool in tools) or r"(?!)"
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


def _name_pattern(tool: str) -> str:
    """Build the pattern for the ways models write a tool's name: `readFile`, `read_file`."""
    return "[_-]?".join(map(re.escape, re.findall(r"[A-Z]?[^A-Z]+|[A-Z]+", tool)))


def _is_data(text: str) -> bool:
    """Whether a text looks like XML or JSON from beginning to end."""
    text = text.strip()
    return text[:1] in ("<", "[", "{") and text[-1:] in (">", "]", "}")


def _fenced(text: str, opening: re.Match[str]) -> tuple[str, int]:
    """Return the contents of a fence, and where it ends."""
    mark = opening["fence"]
    closing = re.compile(rf"^[ \t]*{re.escape(mark[0])}{{{len(mark)},}}[ \t]*$", re.MULTILINE)
    match = closing.search(text, opening.end())
    end = match.start() if match else len(text)
    return text[opening.end() : end], match.end() if match else len(text)


def _attributes(text: str) -> dict[str, str]:
    matches = _ATTRIBUTE.finditer(text)
    return {one["name"]: one["a"] or one["b"] or one["c"] or "" for one in matches}


def _types(tool: ToolSpec | None) -> dict[str, object]:
    fields = mapping(tool.parameters.get("properties")) if tool else {}
    return {name: mapping(field).get("type") for name, field in fields.items()}


def _value(raw: str, kind: object) -> object:
    """Convert what was written to the tool's type; text only loses a line break at each end."""
    cdata = _CDATA.fullmatch(raw)
    if cdata:
        return cdata["value"]
    if kind in (None, "string"):
        return raw.removeprefix("\n").removesuffix("\n")
    data, is_json = _json(raw.strip())
    return data if is_json else raw.strip()


def _json(text: str) -> tuple[object, bool]:
    """Return the JSON data in a text, and whether it is JSON at all."""
    try:
        return json.loads(text), True
    except (ValueError, RecursionError):
        return None, False
