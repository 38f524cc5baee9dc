"""A script: a JSON file of rules that determine who gets which replies.

    {"rules": [
        {"when": {"system": "You are Alice", "message": {"regex": "review|check"}},
         "replies": [{"tools": [{"name": "Bash", "input": {"command": "ls"}}]},
                     {"text": "I looked.", "pauseMs": 50},
                     {"fault": 429, "retryAfter": 1, "times": 2}],
         "then": "last"}],
     "otherwise": "simulate"}

The first rule whose `when` matches a request answers it with its next reply.  Every key is
documented in the models below; an unknown key is refused by name.  A CLI's own requests, such as
for a title, reach no rule.
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
"""`quota` is 429 until tomorrow; `hang` sends nothing at all; `stall` and `cut` stop halfway."""

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
    500: "Internal server error.",
    503: "The service is overloaded.",
    529: "The service is overloaded.",
}


class _ScriptModel(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, validate_by_name=True
    )


class TextPattern(_ScriptModel):
    """Text that must occur: plain, or as `{"regex": …}`."""

    regex: str

    @model_validator(mode="after")
    def _compiles(self) -> Self:
        try:
            re.compile(self.regex)
        except re.error as error:
            raise ValueError(f"is not a regular expression: {error}") from None
        return self

    def matches(self, text: str) -> bool:
        return re.search(self.regex, text) is not None


def _plain(value: object) -> object:
    return {"regex": re.escape(value)} if isinstance(value, str) else value


Text = Annotated[TextPattern, BeforeValidator(_plain)]


class When(_ScriptModel):
    """Which requests a rule applies to; every given key must match."""

    system: Text | None = None
    """Found in the system or developer texts, or in texts added by the CLI: tells who is asked."""
    message: Text | None = None
    """Found in the user's newest message."""
    tool_result: Text | None = None
    """Found in a tool result that awaits an answer."""
    dialect: api.Dialect | None = None
    """The wire format."""
    client: api.Client | None = None
    """The CLI."""
    model: Text | None = None
    request: Annotated[int, Field(ge=1)] | None = None
    """Which of the requests that match all other keys, counted from 1."""

    def fits(self, request: api.CompletionRequest) -> bool:
        """Whether every key except `request` matches."""
        wanted = (
            (self.system, [request.instructions]),
            (self.message, [request.newest]),
            (self.model, [request.model]),
            (self.tool_result, [result.text for result in request.results]),
        )
        return (
            all(pattern is None or any(map(pattern.matches, texts)) for pattern, texts in wanted)
            and self.dialect in (None, request.dialect)
            and self.client in (None, request.client)
        )


class ScriptedCall(_ScriptModel):
    """A call of one of the CLI's own tools."""

    name: str
    input: dict[str, object] | str
    """As the tool expects it: an object, or text for Codex's `apply_patch` and `exec`.  Other CLIs
    get a text verbatim in place of the JSON, to simulate a truncated call."""
    namespace: str | None = None
    """Codex: the MCP server, such as `mcp__team`."""
    id: str | None = None


class ScriptedUsage(_ScriptModel):
    """The usage to report."""

    input: int = Field(ge=0)
    output: int = Field(ge=0)


class ScriptedReply(_ScriptModel):
    """One reply, or a fault instead."""

    text: str | list[str] = ""
    """The text; a list is streamed piece by piece, a string word by word."""
    thinking: str = ""
    tools: list[ScriptedCall] = []
    stop: api.Stop = "end"
    usage: ScriptedUsage | None = None
    pause_ms: int = Field(default=0, ge=0)
    """Between the pieces."""
    fault: Fault | None = None
    retry_after: float | None = Field(default=None, ge=0)
    """In seconds; only with an HTTP fault."""
    resets_in: float | None = Field(default=None, ge=0)
    """Seconds until the account's limit resets, sent as its vendor does; only with 429."""
    problem: str | None = None
    """The message of an HTTP fault."""
    times: int = Field(default=1, ge=1)
    """How many times in a row this reply is given."""

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        http = self.fault == "quota" or isinstance(self.fault, int)
        if (http or self.fault == "hang") and (self.text or self.tools or self.thinking):
            raise ValueError(f"has both a reply and the fault {self.fault!r}; use one of them")
        if not http and (self.retry_after is not None or self.problem is not None):
            raise ValueError("has retryAfter or problem, which belong to an HTTP fault")
        if self.resets_in is not None and self.fault != 429:
            raise ValueError("has resetsIn, which belongs to the fault 429")
        return self

    def answer(self, request: api.CompletionRequest) -> api.Answer:
        match self.fault:
            case "hang":
                return api.NoReply()
            case "quota":
                return api.ErrorReply(
                    429, self.problem or "The daily quota is used up.", None, True
                )
            case None | "stall" | "cut":
                return self._reply()
            case _:
                text = self.problem or _MESSAGES[self.fault].format(model=request.model)
                return api.ErrorReply(self.fault, text, self.retry_after, resets_in=self.resets_in)

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
    """After all replies: repeat the last, start over from the first, or leave it to later rules."""


class Script(_ScriptModel):
    """A whole script."""

    rules: list[ScriptRule]
    otherwise: Literal["simulate", "refuse"] = "simulate"
    """If no rule applies, the simulation answers or the request is refused as invalid."""


@dataclass(frozen=True)
class ScriptedTurn:
    """How a script handled one request."""

    fitted: tuple[int, ...]
    """The indexes of the rules that it matched."""
    rule: int | None
    """The index of the rule that answered, if any."""
    member: str = ""


class ScriptMemory(Protocol):
    """Remembers a script's progress, so that it can continue after a crash."""

    async def past(self) -> Sequence[ScriptedTurn]:
        """Return how the requests so far were handled, without replies that reached nobody."""
        ...

    async def keep(self, turn: ScriptedTurn) -> None:
        """Record one turn durably before returning; called before its reply is given."""
        ...


class _RuleProgress:
    """A rule, and how many of its replies have been given."""

    def __init__(self, rule: ScriptRule) -> None:
        self._rule = rule
        self._lines = [line for line in rule.replies for _ in range(line.times)]
        self.fitted: int = 0
        self.given: int = 0

    def fits(self, request: api.CompletionRequest) -> bool:
        """Whether a request matches this rule; if so, it is counted."""
        if not self._rule.when.fits(request):
            return False
        self.fitted += 1
        return True

    def next_line(self) -> ScriptedReply | None:
        """Return the next reply to a matching request, if there is one."""
        if self._rule.when.request not in (None, self.fitted):
            return None
        if self.given >= len(self._lines) and self._rule.then == "next":
            return None
        index, self.given = self.given, self.given + 1
        count = len(self._lines)
        return self._lines[index % count if self._rule.then == "first" else min(index, count - 1)]


class ScriptedResponder:
    """A responder that follows a script, and asks another one if no rule applies."""

    def __init__(
        self, script: Script, otherwise: api.Responder, memory: ScriptMemory | None = None
    ) -> None:
        self._progress = [_RuleProgress(rule) for rule in script.rules]
        self._refuses = script.otherwise == "refuse"
        self._otherwise = otherwise
        self._memory = memory
        self._loading = anyio.Lock()
        self._loaded = memory is None

    async def answer(self, request: api.CompletionRequest) -> api.Answer:
        """Return the next reply of the first rule that has one, after recording it."""
        async with self._loading:
            await self._go_on()
        fitted: list[int] = []
        line: ScriptedReply | None = None
        for place, progress in enumerate(self._progress):
            if progress.fits(request):
                fitted.append(place)
                line = progress.next_line()
                if line is not None:
                    break
        if fitted and self._memory is not None:
            rule = fitted[-1] if line is not None else None
            await self._memory.keep(ScriptedTurn(tuple(fitted), rule, request.member))
        if line is not None:
            return line.answer(request)
        if self._refuses:
            return api.ErrorReply(400, f"No rule of the script matches: {request.newest[:200]}")
        return await self._otherwise.answer(request)

    async def _go_on(self) -> None:
        """Resume where an earlier run ended; rules that the script no longer has are skipped."""
        if self._loaded or self._memory is None:
            return
        for turn in await self._memory.past():
            for place in turn.fitted:
                if place < len(self._progress):
                    self._progress[place].fitted += 1
                    self._progress[place].given += place == turn.rule
        self._loaded = True


def parse_script(data: object, name: str) -> Script:
    """Parse the content of a script file; raises ConfigError with the location of each mistake."""
    try:
        return Script.model_validate(data)
    except ValidationError as error:
        mistakes = [f"{name} {each}." for each in _mistakes(error)]
        raise ConfigError("\n".join(mistakes), None, name) from None


def _mistakes(error: ValidationError) -> Iterable[str]:
    """Yield one line per location, with what each branch of a union would have accepted."""
    placed: dict[str, list[str]] = {}
    for each in error.errors(include_url=False):
        # pydantic's locations contain the names of union branches, which do not exist in the file.
        parts = [part for part in each["loc"] if "[" not in str(part) and part != "str"]
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
        placed.setdefault(place.lstrip(".") or "the script", []).append(_words(each))
    return (f"{place} {' or '.join(reasons)}" for place, reasons in placed.items())


def _words(each: ErrorDetails) -> str:
    if known := _WORDS.get(each["type"]):
        return known.format(**each.get("ctx", {}))
    message = each["msg"].removeprefix("Value error, ")
    return message[:1].lower() + message[1:]
