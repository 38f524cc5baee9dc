"""JSON Schemas for editors and other programs, generated from the models that check the files.

They are shipped in `schemas/`; `coterie.app.schemas` writes and compares them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import cast

from pydantic import BaseModel

from coterie.config.mistakes import VARIABLE
from coterie.config.registry import VERSION
from coterie.config.roles_file import RolesFile
from coterie.config.settings import Settings
from coterie.config.team_entry import team_adapter
from coterie.model.agent import AgentDefinition
from coterie.model.artifact_table import ARTIFACTS
from coterie.model.envelope import PAYLOADS, Envelope, FieldRule, Payload, RuledPayload
from coterie.model.notification import Notification
from coterie.model.phase_graph import PhaseGraph
from coterie.model.pipeline_roles import PIPELINE_ROLES
from coterie.model.team import NAME_PATTERN, OUR_PREFIX
from coterie.model.ticket import SchedulerConfig

Schema = dict[str, object]

_REQUIRED = ("session_id", "timestamp", "source", "target", "payload_type", "version", "payload")
_UTC = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z$"
_INSTANT: Schema = {"type": "string", "format": "date-time", "pattern": _UTC}


def _rule(rule: FieldRule) -> Schema:
    """If a field has a certain value, one of the others must be non-empty: a list or a string."""
    key, value, one_of = rule
    some: Schema = {"minItems": 1, "minLength": 1}
    filled = [{"required": [name], "properties": {name: some}} for name in one_of]
    stated = {"properties": {key: {"const": value}}, "required": [key]}
    return {"if": stated, "then": {"anyOf": filled}}


def envelope_schema() -> Schema:
    """The schema of a stored envelope, its payload selected by its type."""
    defs: Schema = {}
    for model in PAYLOADS.values():
        defs |= _defs(model)
    envelope = cast("Schema", Envelope.model_json_schema())
    payload = {"type": "object", "description": "What is said, in the form of its type."}
    schema: Schema = {
        "type": "object",
        "description": "One message about tickets, as it is kept.",
        "properties": {**cast("Schema", envelope["properties"]), "payload": payload},
        "required": list(_REQUIRED),
        "additionalProperties": False,
        "allOf": list(_by_type()),
        "$defs": defs,
    }
    _state_instants(schema)
    return schema


def _by_type() -> Iterator[Schema]:
    for name, model in PAYLOADS.items():
        stated = {"properties": {"payload_type": {"const": name}}, "required": ["payload_type"]}
        payload = {"properties": {"payload": {"$ref": f"#/$defs/{model.__name__}"}}}
        yield {"if": stated, "then": payload}


def _defs(model: type[Payload]) -> Schema:
    schema = cast("Schema", model.model_json_schema())
    definitions = cast("Schema", schema.pop("$defs", {}))
    definitions[model.__name__] = schema
    for part in definitions.values():
        _state_instants(cast("Schema", part))
    if issubclass(model, RuledPayload):
        schema |= _rule(model.field_rule)
    return definitions


def _state_instants(schema: Schema) -> None:
    """Require timestamps to be in UTC, which their type cannot express."""
    properties = cast("dict[str, Schema]", schema["properties"])
    if "timestamp" in properties:
        properties["timestamp"].update(_INSTANT)


FOLDER = Path(__file__).with_name("schemas")
DIALECT = "https://json-schema.org/draft/2020-12/schema"

_FOR_EDITORS: Schema = {"type": "string", "description": "This schema, for editors."}


def team_schema(isolating: Collection[str]) -> Schema:
    """The schema of the team file, with constraints that its shape alone cannot express."""
    schema = cast("Schema", team_adapter().json_schema())
    for name in ("DefaultsEntry", "MemberEntry"):
        entry = _object(schema, "$defs", name)
        entry["allOf"] = [{"not": {"required": list(pair)}} for pair in _clashing()]
        _refuse_isolating(_object(entry, "properties", "env"), isolating)
    _object(schema, "properties", "roles")["propertyNames"] = {"enum": list(PIPELINE_ROLES)}
    return _finished(schema, "Coterie team")


def _refuse_isolating(env: Schema, isolating: Collection[str]) -> None:
    ours = [{"enum": sorted(isolating)}, {"pattern": f"^{OUR_PREFIX}"}]
    env["propertyNames"] = {"pattern": VARIABLE, "not": {"anyOf": ours}}


def _clashing() -> Iterator[tuple[str, str]]:
    """Yield pairs of names for the same thing of which at least one is a short name."""
    yield from [("agent", "agentConfigId"), ("agent", "agentName")]
    yield from combinations(("prompt", "promptFile", "systemInstruction"), 2)


def registry_schema(isolating: Collection[str]) -> Schema:
    """The schema of the registry file."""
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


def schemas(isolating: Collection[str]) -> Mapping[str, Schema]:
    """Every schema by name; `isolating` are the variables that nobody may set."""
    envelope = envelope_schema()
    _tidy(envelope)
    return {
        "team": team_schema(isolating),
        "registry": registry_schema(isolating),
        "settings": _of_model(Settings, "Coterie settings"),
        "roles": _of_model(RolesFile, "Coterie roles"),
        "scheduler": _of_model(SchedulerConfig, "Coterie scheduler"),
        "pipeline": _of_model(PhaseGraph, "Coterie pipeline"),
        # Envelope files are for programs, and do not name a schema themselves.
        "envelope": {"$schema": DIALECT, "title": "Coterie envelope", **envelope},
        "notification": _of_program(Notification, "Coterie notification"),
        **dict(_artifact_schemas()),
    }


def _artifact_schemas() -> Iterator[tuple[str, Schema]]:
    """The schema of each pipeline artifact; for one with many lines, that of each line."""
    for declared in ARTIFACTS.values():
        if declared.model is not None:
            schema = cast("Schema", declared.model.model_json_schema(mode="validation"))
            _tidy(schema)
            _state_instants(schema)
            stem = declared.file.rpartition(".")[0]
            yield (
                f"artifacts/{stem}",
                {"$schema": DIALECT, "title": f"Coterie {declared.file}", **schema},
            )


def _of_program(model: type[BaseModel], title: str) -> Schema:
    """The schema of data passed to programs, which does not name a schema itself."""
    schema = cast("Schema", model.model_json_schema())
    _tidy(schema)
    return {"$schema": DIALECT, "title": title, **schema}


def _of_model(model: type[BaseModel], title: str) -> Schema:
    return _finished(cast("Schema", model.model_json_schema()), title)


def _finished(schema: Schema, title: str) -> Schema:
    _tidy(schema)
    properties = {"$schema": _FOR_EDITORS, **_object(schema, "properties")}
    return {"$schema": DIALECT, "title": title, **schema, "properties": properties}


def _tidy(schema: object) -> None:
    """Remove what pydantic adds and an editor would only repeat.

    That is titles that repeat the key, and null, which means "left out" in Python but not in a
    file.
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
