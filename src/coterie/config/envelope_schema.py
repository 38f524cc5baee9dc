"""The JSON Schema of envelopes, for other programs: one payload's schema for each payload type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from coterie.model.envelope import PAYLOADS, Envelope, Needs, Payload, RuledPayload

Schema = dict[str, object]

_REQUIRED = ("session_id", "timestamp", "source", "target", "payload_type", "version", "payload")
_UTC = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z$"
_INSTANT: Schema = {"type": "string", "format": "date-time", "pattern": _UTC}

_WORDS: Mapping[str, Mapping[str, str]] = {
    "Envelope": {
        "session_id": "The session: its root task.",
        "timestamp": "When it was said: UTC, ISO 8601.",
        "source": "Who says it: a member, the user, or coterie.",
        "target": "Who is told.",
        "payload_type": "What is said: it decides which payload there is.",
        "version": "Of this format.",
        "payload": "What is said, in the form of its type.",
        "ticket_id": "Which ticket it is about. Left out: the whole session.",
        "signature": "`hmac-sha256:…` over all the rest, where the session has a key.",
    },
    "Clarification": {
        "questions": "What the user is asked.",
        "status": "clear: nothing more is to be asked.",
        "intent_summary": "What the user wants, as it was understood.",
    },
    "ClarificationResponse": {
        "answers": "In the order of the questions.",
        "status": "clear: the user wants no more questions.",
    },
    "Plan": {"tasks": "The parts that the goal is split into."},
    "PlanTask": {
        "task_id": "The part's name, unique in the plan.",
        "description": "What is to be done.",
        "dependencies": "Parts that must be done before this one begins.",
        "expected_outputs": "Files that it will change or make.",
        "assigned_to": "Who should do it. Left out: whoever can.",
        "capability": "What a worker must be able to do, where nobody is named.",
        "status": "How it stands.",
        "risks": "What could go wrong: it is talked over before it is done.",
    },
    "AssignedTo": {"role_id": "A worker."},
    "TicketPayload": {
        "ticket_id": "The ticket.",
        "task_id": "The part of the plan that it tracks.",
        "owner": "The worker. Left out: none was chosen yet.",
        "status": "How it stands.",
        "dependencies": "Tickets that must be done before this one begins.",
        "history": "What happened to it last.",
        "closed_by": "Why it no longer counts: a ticket, dropped or canceled.",
        "reason": "Why it stands as it does.",
    },
    "HistoryEntry": {
        "timestamp": "When it happened: UTC, ISO 8601.",
        "event": "What happened, in one word.",
        "message": "And in more.",
    },
    "InstructionProposal": {
        "summary": "How the manager would have it done.",
        "open_questions": "What it would like to know of the worker.",
        "risks": "What could go wrong.",
        "draft_steps": "The steps, as they would be.",
    },
    "Instruction": {
        "summary": "What is to be done.",
        "ask_user": "What only the user can give: asked before the worker goes on.",
        "steps": "How.",
        "resources": "Files or facts that are needed.",
        "acceptance_criteria": "What must hold in the end.",
    },
    "Criterion": {
        "text": "What must hold.",
        "command": "A command that shows it by ending with 0. Left out: a person must look.",
    },
    "Report": {
        "status": "How far the worker came.",
        "outputs": "Files that it changed or made.",
        "evidence": "What shows that it works.",
        "issues": "What is open, or what is needed to go on.",
        "next_actions": "What should be done next.",
    },
    "Review": {
        "decision": "Whether the work is taken.",
        "notes": "What the manager thinks of it.",
        "requested_changes": "What must be changed.",
    },
    "ArtifactRef": {
        "label": "What it is.",
        "uri": "Where it is, relative to the session's artifacts, or file://.",
        "digest": "Of the file's content.",
        "content_type": "Its media type.",
        "size_bytes": "How long it is.",
        "description": "What is to be known of it.",
        "check": "The check that it is the log of. Left out: it is no such log.",
    },
    "CheckRun": {
        "command": "What was run.",
        "exit_code": "How it ended. Left out: not in its time.",
        "tree": "The hash of the files that it ran on.",
    },
    "Error": {
        "code": "What went wrong, in one word.",
        "message": "And in more.",
        "resolution_hint": "What to do about it.",
    },
}


def _rule(needs: Needs) -> Schema:
    """Where a field has a value, one of the others has something in it: a list, or a text."""
    key, value, one_of = needs
    some: Schema = {"minItems": 1, "minLength": 1}
    filled = [{"required": [name], "properties": {name: some}} for name in one_of]
    stated = {"properties": {key: {"const": value}}, "required": [key]}
    return {"if": stated, "then": {"anyOf": filled}}


def envelope_schema() -> Schema:
    """What every envelope that is kept fits, its payload by its type."""
    defs: Schema = {}
    for model in PAYLOADS.values():
        defs |= _defs(model)
    envelope = cast("Schema", Envelope.model_json_schema())
    schema: Schema = {
        "type": "object",
        "description": "One message about tickets, as it is kept.",
        "properties": {**cast("Schema", envelope["properties"]), "payload": {"type": "object"}},
        "required": list(_REQUIRED),
        "additionalProperties": False,
        "allOf": list(_by_type()),
        "$defs": defs,
    }
    _describe(schema, _WORDS["Envelope"])
    return schema


def _by_type() -> Iterator[Schema]:
    for name, model in PAYLOADS.items():
        stated = {"properties": {"payload_type": {"const": name}}, "required": ["payload_type"]}
        payload = {"properties": {"payload": {"$ref": f"#/$defs/{model.__name__}"}}}
        yield {"if": stated, "then": payload}


def _defs(model: type[Payload]) -> Schema:
    made = cast("Schema", model.model_json_schema())
    found = cast("Schema", made.pop("$defs", {}))
    found[model.__name__] = made
    for name, part in found.items():
        _describe(cast("Schema", part), _WORDS[name])
    if issubclass(model, RuledPayload):
        made |= _rule(model.needs)
    return found


def _describe(schema: Schema, words: Mapping[str, str]) -> None:
    properties = cast("dict[str, Schema]", schema["properties"])
    for key, told in properties.items():
        more = _INSTANT if key == "timestamp" else {}
        properties[key] = {**told, **more, "description": words[key]}
