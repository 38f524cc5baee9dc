"""Requests that the CLIs make on their own account: titles, summaries, choices of a model.

Such a request is no member's turn, so it neither reaches the responder nor advances a script.
"""

from __future__ import annotations

from collections.abc import Mapping

from coterie.rehearsal.lenient_json import compact, items, mapping, text
from coterie.rehearsal.model_api import CompletionRequest, ModelReply, reply

_DEEPEST = 8
_PLAINEST: Mapping[str, object] = {"boolean": False, "null": None}


def side_call(asked: CompletionRequest) -> tuple[str, ModelReply] | None:
    """The name of the side call and its answer; None for a turn."""
    match asked.client:
        case "opencode" if asked.instructions.startswith("You are a title generator"):
            return "title", reply(_title(asked))
        # A turn of Gemini CLI is streamed and has tools; its router, next-speaker check, loop
        # detector, edit corrector and session summary have neither.
        case "gemini" if not asked.stream and not asked.tools:
            if asked.schema:
                return "choice", reply(compact(minimal_value(asked.schema)))
            return "summary", reply(_title(asked))
        case "qwen" if asked.tools == ("respond_in_schema",):
            return "choice", reply("")
        case "qwen" if "memory extraction subagent" in asked.instructions[:200]:
            return "memory", reply("There is nothing to remember.")
        case _:
            return None


def _title(asked: CompletionRequest) -> str:
    words = asked.newest.strip('"').split()[:6]
    return " ".join(["Rehearsal:", *words])[:48]


def minimal_value(schema: Mapping[str, object], depth: int = 0) -> object:
    """The plainest value that follows a schema, as far as the CLIs' schemas go."""
    if choices := items(schema.get("enum")):
        return choices[0]
    kind = schema.get("type")
    kind = text((items(kind) or [kind])[0]).lower()
    match kind:
        case "object":
            return _object(schema, depth)
        case "array":
            least = _least(schema, "minItems", 0)
            return [minimal_value(mapping(schema.get("items")), depth + 1)] * least
        case "integer":
            return _least(schema, "minimum", 1)  # a score begins at 1, and does not always say so
        case "number":
            return _least(schema, "minimum", 0)
        case _:
            return schema.get("const", _PLAINEST.get(kind, ""))


def _object(schema: Mapping[str, object], depth: int) -> object:
    if depth > _DEEPEST:
        return {}
    parts = mapping(schema.get("properties"))
    wanted = {text(name) for name in items(schema.get("required"))}
    return {
        name: minimal_value(mapping(part), depth + 1)
        for name, part in parts.items()
        if name in wanted
    }


def _least(schema: Mapping[str, object], key: str, otherwise: int) -> int:
    least = schema.get(key)
    return int(least) if isinstance(least, int | float) else otherwise
