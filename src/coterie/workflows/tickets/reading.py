"""From what a member said to a payload: whole, fenced, or not at all."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from pydantic import ValidationError

from coterie.model.envelope import PAYLOADS, Payload, PayloadType

_FENCE = re.compile(r"^[ \t]*```[ \t]*(?:json)?[ \t]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
_LONGEST = 1_000_000
"""No plan that a person could read is longer than this."""
_TOLD = 8
"""So many mistakes are named at once."""


class Unreadable(ValueError):
    """A reply that holds no payload of the kind that was asked for, and why."""


def payload_in(text: str, *wanted: PayloadType) -> Payload:
    """The payload in a reply: of one of these types.  Raises Unreadable."""
    if len(text) > _LONGEST:
        raise Unreadable(f"it is {len(text)} characters long")
    problem = "there is no JSON object in it"
    for candidate in _objects(text):
        try:
            return _payload(candidate, wanted)
        except Unreadable as mistake:
            problem = str(mistake)
    raise Unreadable(problem)


def schema_of(kind: PayloadType) -> Mapping[str, object]:
    """What a reply must look like, for agents that can be held to a schema."""
    return PAYLOADS[kind].model_json_schema()


def _objects(text: str) -> Iterator[Mapping[str, object]]:
    """Whatever could be meant: the last block first, for it is the one that was arrived at."""
    for part in [*reversed(_FENCE.findall(text)), text, _outermost(text)]:
        try:
            found = json.loads(part)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            yield cast("Mapping[str, object]", found)


def _outermost(text: str) -> str:
    first, last = text.find("{"), text.rfind("}")
    return text[first : last + 1] if first >= 0 else ""


def _payload(given: Mapping[str, object], wanted: Sequence[PayloadType]) -> Payload:
    kind, body = _kind_and_body(given, wanted)
    try:
        return PAYLOADS[kind].model_validate(body)
    except ValidationError as error:
        lines = [
            f"{'.'.join(map(str, one['loc'])) or kind}: {one['msg']}"
            for one in error.errors()[:_TOLD]
        ]
        raise Unreadable("; ".join(lines)) from None


def _kind_and_body(
    given: Mapping[str, object], wanted: Sequence[PayloadType]
) -> tuple[PayloadType, object]:
    named = given.get("payload_type")
    if named is None and len(wanted) == 1:
        return wanted[0], given
    for kind in wanted:
        if named == kind:
            body = given.get("payload")
            rest = {key: value for key, value in given.items() if key != "payload_type"}
            return kind, rest if body is None else body
    expected = " or ".join(wanted)
    raise Unreadable(f"payload_type is {json.dumps(named)}; it must be {expected}")
