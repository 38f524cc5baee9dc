"""Members' replies as payloads: what was asked for, parsed from the text of the reply."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeVar, cast

from pydantic import Field

from coterie.model.envelope import (
    TYPES,
    ArtifactRef,
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
        """The report without the artifacts."""
        return Report(**{name: getattr(self, name) for name in Report.model_fields})


def kind_of(wanted: type[Payload]) -> PayloadType:
    """Return the type name of a reply in its envelope."""
    return TYPES[Report if wanted is ReportReply else wanted]


_TICKET = "ticket_id"
_REF: PayloadType = "artifact_ref"
_VERDICTS = (ReportReply, Report, Review)
"""These decide something, so two different ones are refused; of other replies the last counts."""


class WrongTicket(UnreadableReply):
    """A reply is about a different ticket than the request."""


def parse_reply(text: str, wanted: type[AnyPayload], ticket: str | None = None) -> AnyPayload:
    """Return the payload in a reply, of the requested type and about the requested ticket.

    Raises UnreadableReply, also for two reports or reviews that differ: there is no way to tell
    which of them is meant.
    """
    problem = "there is no JSON object in it"
    payloads: list[AnyPayload] = []
    refs: list[object] = []
    for candidate in objects_in(text):
        if wanted is ReportReply and candidate.get("payload_type") == _REF:
            refs.append(_body(candidate, _REF))
            continue
        try:
            payloads.append(_payload(candidate, wanted, ticket))
        except WrongTicket:
            raise
        except UnreadableReply as mistake:
            problem = str(mistake)
    if not payloads:
        raise UnreadableReply(problem)
    if wanted in _VERDICTS and any(one != payloads[0] for one in payloads):
        raise UnreadableReply(f"it holds {len(payloads)} different {kind_of(wanted)}s; give one")
    return _with_refs(payloads[0], refs) if refs else payloads[0]


def _with_refs(report: AnyPayload, refs: Sequence[object]) -> AnyPayload:
    """Add the artifacts that came next to a report, each in an envelope of its own."""
    fields = report.model_dump(mode="json", exclude_none=True)
    return validated({**fields, "artifacts": [*fields["artifacts"], *refs]}, type(report), _REF)


def _payload(
    given: Mapping[str, object], wanted: type[AnyPayload], ticket: str | None
) -> AnyPayload:
    kind = kind_of(wanted)
    body = _about(_body(given, kind), given, ticket)
    return validated(body, wanted, kind)


def _body(given: Mapping[str, object], wanted: str) -> Mapping[str, object]:
    """Return the payload itself, whether it came in an envelope or not."""
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
    """Return the payload without its ticket's id, which must be the right one."""
    for named in (body.get(_TICKET), given.get(_TICKET)):
        if ticket is not None and named is not None and named != ticket:
            raise WrongTicket(f"{_TICKET} is {json.dumps(named)}; this is about {ticket}")
    return {key: value for key, value in body.items() if key != _TICKET}
