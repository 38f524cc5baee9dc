"""Replies of members as payloads: what was asked for, found in what was said."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeVar, cast

from pydantic import Field

from coterie.model.envelope import (
    TYPES,
    ArtifactRef,
    Instruction,
    Payload,
    PayloadType,
    Report,
    Review,
)
from coterie.workflows.structured_turns import UnreadableReply, objects_in, validated

AnyPayload = TypeVar("AnyPayload", bound=Payload)


class ReportReply(Report):
    """A report as a worker gives it: with the files that it registers as artifacts."""

    artifacts: tuple[ArtifactRef, ...] = Field(
        default=(),
        description="Files to be kept as results: `uri` is a path in the worker's folder.",
    )

    @property
    def report(self) -> Report:
        """The report alone."""
        return Report(**{name: getattr(self, name) for name in Report.model_fields})


def kind_of(wanted: type[Payload]) -> PayloadType:
    """What a reply is called in its envelope."""
    return TYPES[Report if wanted is ReportReply else wanted]


_TICKET = "ticket_id"
_REF: PayloadType = "artifact_ref"
_ASKS_USER = "ASK USER:"
"""How a summary begins that asks the user, where a prompt does not know of `ask_user`."""
_VERDICTS = (ReportReply, Report, Review)
"""Of a plan that was written twice the last one is meant; these decide something."""


class WrongTicket(UnreadableReply):
    """A reply about another ticket than the one that was asked about."""


def parse_reply(text: str, wanted: type[AnyPayload], ticket: str | None = None) -> AnyPayload:
    """The payload in a reply, of the type and about the ticket that was asked for.

    Raises UnreadableReply, also for two reports or reviews that say different things: nobody could
    tell which of them is meant.
    """
    problem = "there is no JSON object in it"
    found: list[AnyPayload] = []
    refs: list[object] = []
    for candidate in objects_in(text):
        if wanted is ReportReply and candidate.get("payload_type") == _REF:
            refs.append(_body(candidate, _REF))
            continue
        try:
            found.append(_payload(candidate, wanted, ticket))
        except WrongTicket:
            raise
        except UnreadableReply as mistake:
            problem = str(mistake)
    if not found:
        raise UnreadableReply(problem)
    if wanted in _VERDICTS and any(one != found[0] for one in found):
        raise UnreadableReply(f"it holds {len(found)} different {kind_of(wanted)}s; give one")
    return _with_refs(found[0], refs) if refs else found[0]


def _with_refs(found: AnyPayload, refs: Sequence[object]) -> AnyPayload:
    """A report with the artifacts that stand beside it, each in an envelope of its own."""
    given = found.model_dump(mode="json", exclude_none=True)
    return validated({**given, "artifacts": [*given["artifacts"], *refs]}, type(found), _REF)


def _payload(
    given: Mapping[str, object], wanted: type[AnyPayload], ticket: str | None
) -> AnyPayload:
    kind = kind_of(wanted)
    body = _about(_body(given, kind), given, ticket)
    if wanted is Instruction:
        body = _asking(body)
    return validated(body, wanted, kind)


def _asking(body: Mapping[str, object]) -> Mapping[str, object]:
    """An instruction that asks the user: prompts of users' own may have it in the summary."""
    summary = body.get("summary")
    if not isinstance(summary, str) or not summary.startswith(_ASKS_USER):
        return body
    wanted = summary.removeprefix(_ASKS_USER).strip()
    return {**body, "summary": wanted, "ask_user": wanted}


def _body(given: Mapping[str, object], wanted: str) -> Mapping[str, object]:
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
