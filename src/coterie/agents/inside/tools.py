"""What the two tools are called and how a model is told of them, whichever agent it is in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

SERVER = "coterie"
"""What agents that know tools by a server call ours."""
ASK, HAND_OVER = "ask_human", "hand_over"
"""Never `ask_user`: Gemini has one of its own, and drops ours without a word."""

_OURS = re.compile(rf"(?:discovered_tool_|(?:mcp_+)?{SERVER}_+)?({ASK}|{HAND_OVER})")

Tool = dict[str, Any]
"""A tool as the Model Context Protocol lists it: `name`, `description`, `inputSchema`."""


def is_ours(name: str) -> bool:
    """Whether a tool is one of the two, by the name that an agent gives it."""
    return _OURS.fullmatch(name) is not None


def tools_for(others: Mapping[str, str]) -> list[Tool]:
    """The tools of a member whose team has these others, by id, each with its role."""
    return [_ask(), _hand_over(others)] if others else [_ask()]


def _ask() -> Tool:
    told = "Ask the person something that you must know and cannot find out. Waits for the answer."
    question = {"type": "string", "description": "The question, with all one needs to answer it."}
    options = {
        "type": "array",
        "items": {"type": "string"},
        "description": "The answers to choose from, where there are few.",
    }
    return _tool(ASK, told, {"question": question, "options": options}, "question")


def _hand_over(others: Mapping[str, str]) -> Tool:
    listed = ", ".join(f"{name} ({role})" if role else name for name, role in others.items())
    told = f"End your turn and let another member of the team speak next. There are: {listed}."
    to = {"type": "string", "enum": list(others), "description": "Who speaks next."}
    message = {"type": "string", "description": "What you tell them; it ends your reply."}
    return _tool(HAND_OVER, told, {"to": to, "message": message}, "to", "message")


def _tool(name: str, told: str, properties: Mapping[str, object], *required: str) -> Tool:
    return {
        "name": name,
        "description": told,
        "inputSchema": {
            "type": "object",
            "properties": dict(properties),
            "required": list(required),
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
        # Else Claude would keep it from the model until that looks for it.
        "_meta": {"anthropic/alwaysLoad": True},
    }
