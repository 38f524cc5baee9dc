"""A script: a JSON file of rules that say who gets which replies.

    {"rules": [
        {"when": {"system": "You are Alice", "message": {"regex": "review|check"}},
         "replies": [{"tools": [{"name": "Bash", "input": {"command": "ls"}}]},
                     {"text": "I looked.", "pauseMs": 50},
                     {"fault": 429, "retryAfter": 1, "times": 2}],
         "then": "last"}],
     "otherwise": "simulate"}

The first rule whose `when` fits a request answers it with its next reply.  What every key means
stands with the models below; an unknown key is refused by name.  What a CLI asks for itself, such
as a title, reaches no rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Protocol, Self

import anyio
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from coterie.errors import ConfigError
from coterie.rehearsal import model_api as api

Fault = Literal[400, 401, 403, 404, 413, 429, 500, 503, 529, "quota", "hang", "stall", "cut"]
"""`quota` is 429 until tomorrow; `hang` sends nothing at all; `stall` and `cut` stop half-way."""

_WORDS = {
    "dict_type": "must be an object",
    "extra_forbidden": "is not known",
    "list_type": "must be a list",
    "literal_error": "must be {expected}",
    "missing": "is missing",
    "model_type": "must be an object",
    "string_type": "must be text",
    "too_short": "must not be empty",
}
"""The message for a mistake in a script, by pydantic's error type."""

_MESSAGES: dict[int, str] = {
    400: "The request is not valid.",
    401: "The API key is not valid.",
    403: "This key may not use this model.",
    404: "The model {model} does not exist.",
    413: "The request is too large.",
    429: "Too many requests.",
    500: "Something went wrong inside.",
    503: "The service is overloaded.",
    529: "The service is overloaded.",
}


class _ScriptModel(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, validate_by_name=True
    )


class TextPattern(_ScriptModel):
    """A text that must occur: plain, or as `{"regex": …}`."""

    regex: str

    @model_validator(mode="after")
    def _compiles(self) -> Self:
        try:
            re.compile(self.regex)
        except re.error as error:
            raise ValueError(f"is not a regular expression: {error}") from None
        return self

    def found_in(self, text: str) -> bool:
        return re.search(self.regex, text) is not None


def _plain(value: object) -> object:
    return {"regex": re.escape(value)} if isinstance(value, str) else value


Text = Annotated[TextPattern, BeforeValidator(_plain)]


class When(_ScriptModel):
    """Which requests a rule is for; every key that is given must fit."""

    system: Text | None = None
    """In the system or developer texts, or in what the CLI adds of its own: who is asked."""
    message: Text | None = None
    """In the newest thing the user said."""
    tool_result: Text | None = None
    """In a tool result that waits for an answer."""
    dialect: api.Dialect | None = None
    """The wire format."""
    client: api.Client | None = None
    """The CLI."""
    model: Text | None = None
    request: Annotated[int, Field(ge=1)] | None = None
    """Which of the requests that match all else, counted from 1."""

    def fits(self, asked: api.CompletionRequest) -> bool:
        """Whether all but `request` fits."""
        wanted = (
            (self.system, [asked.instructions]),
            (self.message, [asked.newest]),
            (self.model, [asked.model]),
            (self.tool_result, [result.text for result in asked.results]),
        )
        return (
            all(pattern is None or any(map(pattern.found_in, texts)) for pattern, texts in wanted)
            and self.dialect in (None, asked.dialect)
            and self.client in (None, asked.client)
        )


class ScriptedCall(_ScriptModel):
    """A call of one of the CLI's own tools."""

    name: str
    input: dict[str, object] | str
    """As the tool wants it: an object, or text for Codex's `apply_patch` and `exec`.  Other CLIs
    get a text as it is in place of the JSON: half a call."""
    namespace: str | None = None
    """Codex: the MCP server, such as `mcp__team`."""
    id: str | None = None


class ScriptedUsage(_ScriptModel):
    """The usage to report."""

    input: int = Field(ge=0)
    output: int = Field(ge=0)


class ScriptedReply(_ScriptModel):
    """One reply, or one fault in its place."""

    text: str | list[str] = ""
    """What is said; a list is streamed piece by piece, a text word by word."""
    thinking: str = ""
    tools: list[ScriptedCall] = []
    stop: api.Stop = "end"
    usage: ScriptedUsage | None = None
    pause_ms: int = Field(default=0, ge=0)
    """Between the pieces."""
    fault: Fault | None = None
    retry_after: float | None = Field(default=None, ge=0)
    """Seconds, with an HTTP fault."""
    resets_in: float | None = Field(default=None, ge=0)
    """Seconds, with 429: when the account's limit ends, as its vendor tells it."""
    problem: str | None = None
    """The words of an HTTP fault."""
    times: int = Field(default=1, ge=1)
    """How often in a row this reply is given."""

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        http = self.fault == "quota" or isinstance(self.fault, int)
        if (http or self.fault == "hang") and (self.text or self.tools or self.thinking):
            raise ValueError(f"says something and is the fault {self.fault!r}; it cannot be both")
        if not http and (self.retry_after is not None or self.problem is not None):
            raise ValueError("has retryAfter or problem, which belong to an HTTP fault")
        if self.resets_in is not None and self.fault != 429:
            raise ValueError("has resetsIn, which belongs to the fault 429")
        return self

    def answer(self, asked: api.CompletionRequest) -> api.Answer:
        match self.fault:
            case "hang":
                return api.NoReply()
            case "quota":
                return api.ErrorReply(429, self.problem or "Nothing is left for today.", None, True)
            case None | "stall" | "cut":
                return self._reply()
            case _:
                said = self.problem or _MESSAGES[self.fault].format(model=asked.model)
                return api.ErrorReply(self.fault, said, self.retry_after, resets_in=self.resets_in)

    def _reply(self) -> api.ModelReply:
        pieces = api.in_pieces(self.text) if isinstance(self.text, str) else tuple(self.text)
        return api.ModelReply(
            pieces=pieces,
            calls=tuple(
                api.ToolCall(call.name, call.input, call.id or api.new_id("call"), call.namespace)
                for call in self.tools
            ),
            thinking=self.thinking,
            stop=self.stop,
            usage=api.ReplyUsage(self.usage.input, self.usage.output) if self.usage else None,
            pause=self.pause_ms / 1000,
            breaks=self.fault if self.fault in ("stall", "cut") else None,
        )


class ScriptRule(_ScriptModel):
    """Who gets which replies, one after another."""

    when: When = When()
    replies: list[ScriptedReply] = Field(min_length=1)
    then: Literal["last", "first", "next"] = "last"
    """When all were given: the last again, all from the first again, or the next rules."""


class Script(_ScriptModel):
    """A whole script."""

    rules: list[ScriptRule]
    otherwise: Literal["simulate", "refuse"] = "simulate"
    """Where no rule fits: the simulation answers, or the request is refused as invalid."""


@dataclass(frozen=True)
class ScriptedTurn:
    """What a script made of one request."""

    fitted: tuple[int, ...]
    """The rules that it was for, by their places."""
    rule: int | None
    """The one of them that answered."""
    member: str = ""


class ScriptMemory(Protocol):
    """Remembers how far a script has got, for whoever goes on with it after a crash."""

    async def past(self) -> Sequence[ScriptedTurn]:
        """What was made of the requests so far, without replies that reached nobody."""
        ...

    async def keep(self, turn: ScriptedTurn) -> None:
        """Remember one more; called before its reply is given, and durable when it returns."""
        ...


class _RuleProgress:
    """A rule, and how many of its replies were given."""

    def __init__(self, rule: ScriptRule) -> None:
        self._rule = rule
        self._lines = [line for line in rule.replies for _ in range(line.times)]
        self.fitted: int = 0
        self.given: int = 0

    def fits(self, asked: api.CompletionRequest) -> bool:
        """Whether a request is for this rule; counts it."""
        if not self._rule.when.fits(asked):
            return False
        self.fitted += 1
        return True

    def next_line(self) -> ScriptedReply | None:
        """The next reply to a request that fits, if it has one."""
        if self._rule.when.request not in (None, self.fitted):
            return None
        if self.given >= len(self._lines) and self._rule.then == "next":
            return None
        given, self.given = self.given, self.given + 1
        whole = len(self._lines)
        return self._lines[given % whole if self._rule.then == "first" else min(given, whole - 1)]


class ScriptedResponder:
    """A responder that follows a script, and asks another where the script says nothing."""

    def __init__(
        self, script: Script, otherwise: api.Responder, memory: ScriptMemory | None = None
    ) -> None:
        self._cues = [_RuleProgress(rule) for rule in script.rules]
        self._refuses = script.otherwise == "refuse"
        self._otherwise = otherwise
        self._memory = memory
        self._loading = anyio.Lock()
        self._loaded = memory is None

    async def answer(self, asked: api.CompletionRequest) -> api.Answer:
        """The next reply of the first rule that has one, once that is remembered."""
        async with self._loading:
            await self._go_on()
        fitted: list[int] = []
        line: ScriptedReply | None = None
        for place, cue in enumerate(self._cues):
            if cue.fits(asked):
                fitted.append(place)
                line = cue.next_line()
                if line is not None:
                    break
        if fitted and self._memory is not None:
            rule = fitted[-1] if line is not None else None
            await self._memory.keep(ScriptedTurn(tuple(fitted), rule, asked.member))
        if line is not None:
            return line.answer(asked)
        if self._refuses:
            return api.ErrorReply(400, f"No rule of the script fits: {asked.newest[:200]}")
        return await self._otherwise.answer(asked)

    async def _go_on(self) -> None:
        """Begin where an earlier run ended; a rule that the script no longer has is passed over."""
        if self._loaded or self._memory is None:
            return
        for turn in await self._memory.past():
            for place in turn.fitted:
                if place < len(self._cues):
                    self._cues[place].fitted += 1
                    self._cues[place].given += place == turn.rule
        self._loaded = True


def parse_script(data: object, name: str) -> Script:
    """The script that the file of this name holds; a mistake is a ConfigError with its place."""
    try:
        return Script.model_validate(data)
    except ValidationError as error:
        said = [f"{name} {each}." for each in _mistakes(error)]
        raise ConfigError("\n".join(said), None, name) from None


def _mistakes(error: ValidationError) -> Iterable[str]:
    """One line for each place, with all that the branches of a union would have taken."""
    placed: dict[str, list[str]] = {}
    for each in error.errors(include_url=False):
        # The names of union branches stand in the location; a file has no such places.
        parts = [part for part in each["loc"] if "[" not in str(part) and part != "str"]
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
        placed.setdefault(place.lstrip(".") or "the whole", []).append(_words(each))
    return (f"{place} {' or '.join(said)}" for place, said in placed.items())


def _words(each: ErrorDetails) -> str:
    if known := _WORDS.get(each["type"]):
        return known.format(**each.get("ctx", {}))
    said = each["msg"].removeprefix("Value error, ")
    return said[:1].lower() + said[1:]
