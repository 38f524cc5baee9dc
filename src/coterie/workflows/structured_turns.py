"""Turns that are answered with a value: requested by its schema, parsed from the reply, and
requested once more, with the reason, if it is missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import cache
from typing import Generic, NamedTuple, TypeVar, cast

from pydantic import BaseModel, ValidationError

from coterie.model import step_name
from coterie.model.conversation import Brief
from coterie.model.team import Member
from coterie.model.update import TurnFailed
from coterie.ports import Context

AnyModel = TypeVar("AnyModel", bound=BaseModel)
HOW_TO_ANSWER = "Answer with one JSON object in a ```json block."

_FENCE = re.compile(r"[ \t]*(?P<marks>`{3,}|~{3,})[ \t]*(?P<kind>[^`\s]*)")
"""A line that opens or closes a block."""
_JSON = ("", "json")
_LONGEST = 1_000_000
"""No plan that a person could read is longer than this."""
_MOST_MISTAKES = 8
"""How many mistakes are named at once."""
_TRIES = 2
"""A reply that does not fit is answered with the reason and gets one more try."""


class UnreadableReply(ValueError):
    """A reply contains no value of the requested type; the message says why."""


class StructuredRequest(NamedTuple, Generic[AnyModel]):
    """A prompt to be answered with a value of a given type."""

    prompt: str
    wanted: type[AnyModel]
    kind: str
    """The name of such a value, for messages."""
    tries: int | None = None
    """How often the agent may fail before that is the result; None: as often as in other turns."""
    topic: str = ""
    """Each topic has a thread of its own."""


Refused = Callable[[int, str], Awaitable[None]]
"""Called with the number of a try whose reply could not be parsed, and why."""


class StructuredTurns:
    """Asks members for structured replies."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.taken = 0
        """How many turns have been taken so far."""

    async def ask(
        self,
        name: str,
        member: Member,
        asked: StructuredRequest[AnyModel],
        parse: Callable[[str], AnyModel] | None = None,
        refused: Refused | None = None,
    ) -> AnyModel | TurnFailed:
        """Return a member's reply, extracted from its text by `parse`, or why the turn failed."""
        why, prompt = "", asked.prompt
        for tries in range(1, _TRIES + 1):
            intent = [name, tries, [asked.kind]]
            brief = Brief(prompt, intent, schema_of(asked.wanted), asked.tries, asked.topic)
            self.taken: int = self.taken + 1
            step = step_name.reply(name, tries)
            reply = await self._context.turn(step, member, self.taken, brief)
            if isinstance(reply, TurnFailed):
                return reply
            if reply.cut:
                return TurnFailed("refused", "it was interrupted", retry=False)
            try:
                return parse(reply.text) if parse else parse_model(reply.text, asked.wanted)
            except UnreadableReply as mistake:
                why = str(mistake)
            if refused is not None:
                await refused(tries, why)
            prompt = (
                f"The reply is not a valid {asked.kind}: {why}\n{HOW_TO_ANSWER}\n\n{asked.prompt}"
            )
        return TurnFailed("protocol", f"its reply was not a valid {asked.kind}: {why}")


@cache
def schema_of(wanted: type[BaseModel]) -> Mapping[str, object]:
    """Return the JSON schema of a reply, for agents that can be held to one."""
    return wanted.model_json_schema()


def parse_model(text: str, wanted: type[AnyModel]) -> AnyModel:
    """Return the value in a reply, the last of several that fit.  Raises UnreadableReply."""
    problem = "there is no JSON object in it"
    for candidate in objects_in(text):
        try:
            return validated(candidate, wanted, "it")
        except UnreadableReply as mistake:
            problem = str(mistake)
    raise UnreadableReply(problem)


def validated(given: Mapping[str, object], wanted: type[AnyModel], kind: str) -> AnyModel:
    """Validate an object as a value of a type; raises UnreadableReply with its mistakes."""
    try:
        return wanted.model_validate(given)
    except ValidationError as error:
        raise UnreadableReply(mistakes_in(error, kind)) from None


def mistakes_in(error: ValidationError, kind: str) -> str:
    """Describe what is wrong with a value, in one line."""
    return "; ".join(
        f"{'.'.join(map(str, one['loc'])) or kind}: {one['msg']}"
        for one in error.errors()[:_MOST_MISTAKES]
    )


def objects_in(text: str) -> Iterator[Mapping[str, object]]:
    """Yield the objects that may be the reply, the last block first: it is the final version.

    Raises UnreadableReply if the text is too long to be parsed.
    """
    if len(text) > _LONGEST:
        raise UnreadableReply(f"it is {len(text)} characters long")
    blocks = [value for part in reversed(list(_blocks(text))) if (value := _object(part))]
    if blocks:
        yield from blocks
        return
    for part in (text, _outermost(text)):
        value = _object(part)
        if value is not None:
            yield value
            return


def _blocks(text: str) -> Iterator[str]:
    """Yield the content of blocks that could be JSON; blocks of other languages are skipped."""
    inside: list[str] | None = None
    opened, kind = "", ""
    for line in text.splitlines():
        fence = _FENCE.match(line)
        if inside is None:
            if fence is not None:
                inside, opened, kind = [], fence["marks"], fence["kind"].casefold()
        elif fence is not None and not fence["kind"] and fence["marks"].startswith(opened):
            if kind in _JSON:
                yield "\n".join(inside)
            inside = None
        else:
            inside.append(line)


def _object(text: str) -> Mapping[str, object] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else None


def _outermost(text: str) -> str:
    first, last = text.find("{"), text.rfind("}")
    return text[first : last + 1] if first >= 0 else ""
