"""JSON Schemas for editors and other programs, made from the models that check the files.

They are shipped in `schemas/`; `coterie.app.schemas` writes and compares them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import cast

from coterie.config.mistakes import VARIABLE
from coterie.config.registry import VERSION
from coterie.config.roles_file import RolesFile
from coterie.config.settings import Settings
from coterie.config.team_entry import team_adapter
from coterie.model.agent import AgentDefinition
from coterie.model.envelope import PAYLOADS, Envelope, Needs, Payload, RuledPayload
from coterie.model.team import NAME_PATTERN, OUR_PREFIX
from coterie.model.ticket import SchedulerConfig

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


FOLDER = Path(__file__).with_name("schemas")
DIALECT = "https://json-schema.org/draft/2020-12/schema"

_FOR_EDITORS: Schema = {"type": "string", "description": "This schema, for editors."}


def team_schema(isolating: Collection[str]) -> Schema:
    """The team file, with what its shape alone cannot say."""
    schema = cast("Schema", team_adapter().json_schema())
    for name in ("DefaultsEntry", "MemberEntry"):
        entry = _object(schema, "$defs", name)
        entry["allOf"] = [{"not": {"required": list(pair)}} for pair in _clashing()]
        _refuse_isolating(_object(entry, "properties", "env"), isolating)
    return _finished(schema, "Coterie team")


def _refuse_isolating(env: Schema, isolating: Collection[str]) -> None:
    ours = [{"enum": sorted(isolating)}, {"pattern": f"^{OUR_PREFIX}"}]
    env["propertyNames"] = {"pattern": VARIABLE, "not": {"anyOf": ours}}


def _clashing() -> Iterator[tuple[str, str]]:
    """Two names of one thing, where at least one of them is a short one."""
    yield from [("agent", "agentConfigId"), ("agent", "agentName")]
    yield from combinations(("prompt", "promptFile", "systemInstruction"), 2)


def registry_schema(isolating: Collection[str]) -> Schema:
    """The registry file."""
    agent = cast("Schema", AgentDefinition.model_json_schema())
    defs = _object(agent, "$defs")
    del agent["$defs"]
    agent["required"] = ["command"]
    _refuse_isolating(_object(agent, "properties", "env"), isolating)
    _object(defs, "Capabilities")["allOf"] = [
        _when(
            "jsonl",
            {"required": ["completionTypes"], "properties": {"completionTypes": {"minItems": 1}}},
        ),
        _when(
            "custom", {"oneOf": [{"required": ["completionPattern"]}, {"required": ["detector"]}]}
        ),
    ]
    schema: Schema = {
        "$defs": {**defs, "AgentDefinition": agent},
        "type": "object",
        "description": "The agents of this machine: technical facts only, never a role's prompt.",
        "properties": {
            "schemaVersion": {"const": VERSION},
            "agents": {
                "type": "object",
                "description": "Each agent under its name.",
                "propertyNames": {"pattern": NAME_PATTERN},
                "additionalProperties": {"$ref": "#/$defs/AgentDefinition"},
            },
        },
        "required": ["schemaVersion", "agents"],
        "additionalProperties": False,
    }
    return _finished(schema, "Coterie agents")


def _when(detection: str, then: Schema) -> Schema:
    stated = {"completionDetection": {"const": detection}}
    return {"if": {"properties": stated, "required": ["completionDetection"]}, "then": then}


def settings_schema() -> Schema:
    """The settings file of a user or a project."""
    return _finished(cast("Schema", Settings.model_json_schema()), "Coterie settings")


def roles_schema() -> Schema:
    """The roles file, with the permissions of the team file."""
    return _finished(cast("Schema", RolesFile.model_json_schema()), "Coterie roles")


def scheduler_schema() -> Schema:
    """The limits of a session with tickets."""
    return _finished(cast("Schema", SchedulerConfig.model_json_schema()), "Coterie scheduler")


def envelope_file_schema() -> Schema:
    """An envelope's file, which is for programs and names no schema itself."""
    schema = envelope_schema()
    _tidy(schema)
    return {"$schema": DIALECT, "title": "Coterie envelope", **schema}


def schemas(isolating: Collection[str]) -> Mapping[str, Schema]:
    """Every schema by its name; `isolating` are the variables that nobody may set."""
    return {
        "team": team_schema(isolating),
        "registry": registry_schema(isolating),
        "settings": settings_schema(),
        "roles": roles_schema(),
        "scheduler": scheduler_schema(),
        "envelope": envelope_file_schema(),
    }


def _finished(schema: Schema, title: str) -> Schema:
    _tidy(schema)
    properties = {"$schema": _FOR_EDITORS, **_object(schema, "properties")}
    return {"$schema": DIALECT, "title": title, **schema, "properties": properties}


def _tidy(schema: object) -> None:
    """Take out what pydantic says for itself and an editor would only repeat.

    Titles that are the key again; and null, which means "left out" in Python but not in a file.
    """
    if isinstance(schema, dict):
        parts = cast("Schema", schema)
        if isinstance(parts.get("title"), str):
            del parts["title"]
        choices = cast("list[Schema]", parts.get("anyOf", []))
        if len(choices) == 2 and choices[1] == {"type": "null"}:
            parts.update(choices[0])
            del parts["anyOf"], parts["default"]
        for part in parts.values():
            _tidy(part)
    elif isinstance(schema, list):
        for part in cast("list[object]", schema):
            _tidy(part)


def _object(schema: Schema, *path: str) -> Schema:
    for key in path:
        schema = cast("Schema", schema[key])
    return schema
