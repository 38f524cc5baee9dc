"""Parses the payload out of a member's reply: the whole reply, or a fenced block of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import cast

from pydantic import ValidationError

from coterie.model.envelope import PAYLOADS, Payload, PayloadType

_FENCE = re.compile(r"[ \t]*(?P<marks>`{3,}|~{3,})[ \t]*(?P<kind>[^`\s]*)")
"""A line that opens or closes a block."""
_JSON = ("", "json")
_LONGEST = 1_000_000
"""No plan that a person could read is longer than this."""
_TICKET = "ticket_id"
_ASKS_USER = "ASK USER:"
"""How a summary begins that asks the user, where a prompt does not know of `ask_user`."""
_MOST_MISTAKES = 8
"""More are not named at once."""
_VERDICTS: tuple[PayloadType, ...] = ("report", "review")
"""Of a plan that was written twice the last one is meant; these decide something."""


class UnreadableReply(ValueError):
    """A reply that holds no payload of the kind that was asked for, and why."""


class WrongTicket(UnreadableReply):
    """A reply about another ticket than the one that was asked about."""


def parse_reply(text: str, wanted: PayloadType, ticket: str | None = None) -> Payload:
    """The payload in a reply, of the type and about the ticket that was asked for.

    Raises UnreadableReply, also for two reports or reviews that say different things: nobody could
    tell which of them is meant.
    """
    if len(text) > _LONGEST:
        raise UnreadableReply(f"it is {len(text)} characters long")
    problem = "there is no JSON object in it"
    found: list[Payload] = []
    for candidate in _objects(text):
        try:
            found.append(_payload(candidate, wanted, ticket))
        except WrongTicket:
            raise
        except UnreadableReply as mistake:
            problem = str(mistake)
    if not found:
        raise UnreadableReply(problem)
    if wanted in _VERDICTS and any(one != found[0] for one in found):
        raise UnreadableReply(f"it holds {len(found)} different {wanted}s; give one")
    return found[0]


@cache
def schema_of(kind: PayloadType) -> Mapping[str, object]:
    """What a reply must look like, for agents that can be held to a schema."""
    return PAYLOADS[kind].model_json_schema()


def _objects(text: str) -> Iterator[Mapping[str, object]]:
    """Whatever could be meant: the last block first, for it is the one that was arrived at."""
    blocks = [found for part in reversed(list(_blocks(text))) if (found := _object(part))]
    if blocks:
        yield from blocks
        return
    for part in (text, _outermost(text)):
        found = _object(part)
        if found is not None:
            yield found
            return


def _blocks(text: str) -> Iterator[str]:
    """What stands in blocks that could be JSON; those of other languages are passed over."""
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
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("Mapping[str, object]", found) if isinstance(found, dict) else None


def _outermost(text: str) -> str:
    first, last = text.find("{"), text.rfind("}")
    return text[first : last + 1] if first >= 0 else ""


def _payload(given: Mapping[str, object], wanted: PayloadType, ticket: str | None) -> Payload:
    body = _about(_body(given, wanted), given, ticket)
    if wanted == "instruction":
        body = _asking(body)
    try:
        return PAYLOADS[wanted].model_validate(body)
    except ValidationError as error:
        lines = [
            f"{'.'.join(map(str, one['loc'])) or wanted}: {one['msg']}"
            for one in error.errors()[:_MOST_MISTAKES]
        ]
        raise UnreadableReply("; ".join(lines)) from None


def _asking(body: Mapping[str, object]) -> Mapping[str, object]:
    """An instruction that asks the user: prompts of users' own may have it in the summary."""
    summary = body.get("summary")
    if not isinstance(summary, str) or not summary.startswith(_ASKS_USER):
        return body
    wanted = summary.removeprefix(_ASKS_USER).strip()
    return {**body, "summary": wanted, "ask_user": wanted}


def _body(given: Mapping[str, object], wanted: PayloadType) -> Mapping[str, object]:
    """The payload itself, whether it was put into an envelope or not."""
    named = given.get("payload_type")
    if named is None:
        return given
    if named != wanted:
        raise UnreadableReply(f"payload_type is {json.dumps(named)}; it must be {wanted}")
    body = given.get("payload")
    if isinstance(body, dict):
        return cast("Mapping[str, object]", body)
    return {key: value for key, value in given.items() if key != "payload_type"}


def _about(
    body: Mapping[str, object], given: Mapping[str, object], ticket: str | None
) -> Mapping[str, object]:
    """The payload without the name of its ticket, which must be the right one."""
    for named in (body.get(_TICKET), given.get(_TICKET)):
        if ticket is not None and named is not None and named != ticket:
            raise WrongTicket(f"{_TICKET} is {json.dumps(named)}; this is about {ticket}")
    return {key: value for key, value in body.items() if key != _TICKET}
