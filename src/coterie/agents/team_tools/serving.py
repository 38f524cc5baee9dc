"""Two tools that a CLI member gets on top of its agent's own: ask the human, and hand over."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from coterie.agents.fields import strings, text
from coterie.agents.process import Object
from coterie.agents.questions import answer_text, choices_of, information
from coterie.model.interaction import Display, Response
from coterie.model.update import Asked, End, TurnCompleted

SERVER = "coterie"
"""The name of our server, for agents that group tools by server."""
ASK, HAND_OVER = "ask_human", "hand_over"
"""Never `ask_user`: Gemini has its own and silently drops ours."""

_OURS = re.compile(rf"(?:discovered_tool_|(?:mcp_+)?{SERVER}_+)?({ASK}|{HAND_OVER})")

Tool = dict[str, Any]
"""A tool as the Model Context Protocol lists it: `name`, `description`, `inputSchema`."""


def is_ours(name: str) -> bool:
    """Whether a tool is one of our two, by the name that an agent gives it."""
    return _OURS.fullmatch(name) is not None


def tools_for(others: Mapping[str, str]) -> list[Tool]:
    """Return a member's tools, given the roles of the team's other members by id."""
    return [_ask(), _hand_over(others)] if others else [_ask()]


def _ask() -> Tool:
    description = (
        "Ask the person for something you need to know and cannot find out yourself; "
        "waits for the answer."
    )
    described = "The question, with everything needed to answer it."
    question = {"type": "string", "description": described}
    options = {
        "type": "array",
        "items": {"type": "string"},
        "description": "The possible answers, if there are only a few.",
    }
    return _tool(ASK, description, {"question": question, "options": options}, "question")


def _hand_over(others: Mapping[str, str]) -> Tool:
    listed = ", ".join(f"{name} ({role})" if role else name for name, role in others.items())
    description = (
        f"End your turn and let another member of the team speak next. The others are: {listed}."
    )
    to = {"type": "string", "enum": list(others), "description": "Who speaks next."}
    message = {"type": "string", "description": "Your message to them; it ends your reply."}
    return _tool(HAND_OVER, description, {"to": to, "message": message}, "to", "message")


def _tool(name: str, description: str, properties: Mapping[str, object], *required: str) -> Tool:
    return {
        "name": name,
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": dict(properties),
            "required": list(required),
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
        # Otherwise Claude hides it from the model until the model searches for it.
        "_meta": {"anthropic/alwaysLoad": True},
    }


@dataclass(frozen=True)
class Result:
    """The result that a model gets for a call."""

    text: str
    failed: bool = False


NOBODY_ANSWERED = Result("Nobody answered.", failed=True)
NO_TURN = Result("It is not your turn, so nobody can be asked.", failed=True)

Reply = Callable[[Result], None]
"""Gives a model the result of its call."""


class Serving:
    """Serves the tools of one member, turn by turn."""

    def __init__(self, others: Mapping[str, str]) -> None:
        self.tools: list[Tool] = tools_for(others)
        self._others = {name.casefold(): name for name in others}
        self._open: dict[str, tuple[Asked, Reply]] = {}
        """By key: the question, and how to reply to the call that waits for its answer."""
        self._next = ""
        self._message = ""

    def begin(self) -> None:
        """Begin a turn."""
        self.forget()
        self._next = self._message = ""

    def call(
        self, key: str, name: str, given: Object, reply: Reply, *, in_turn: bool = True
    ) -> Asked | None:
        """Reply to a call, or return the question to ask first; no key is used twice."""
        if not in_turn:
            outcome = NO_TURN
        elif name == ASK:
            outcome = self._ask(key, given)
        elif name == HAND_OVER and self._others:
            outcome = self._hand_over(given)
        else:
            known = " and ".join(str(tool["name"]) for tool in self.tools)
            outcome = Result(f'Unknown tool "{name}"; available: {known}.', failed=True)
        if isinstance(outcome, Asked):
            self._open[key] = outcome, reply
            return outcome
        reply(outcome)
        return None

    def answer(self, key: str, response: Response) -> bool:
        """Reply to the call that waits for this answer; returns whether there is one."""
        if key not in self._open:
            return False
        asked, reply = self._open.pop(key)
        answer = answer_text(asked, response)
        reply(Result(answer) if answer else NOBODY_ANSWERED)
        return True

    def forget(self) -> None:
        """Drop the waiting calls without a reply."""
        self._open.clear()

    def give_up(self) -> None:
        """Tell the waiting calls that nobody answers."""
        for _, reply in self._open.values():
            reply(NOBODY_ANSWERED)
        self.forget()

    def finished(self, end: End) -> End:
        """Return the end of a turn, with the member it hands over to named in the reply."""
        if not isinstance(end, TurnCompleted) or not self._next:
            return end
        parts = [end.text.rstrip()]
        if self._message and not parts[0].endswith(self._message):
            parts.append(self._message)
        reply = "\n\n".join(part for part in (*parts, f"[NEXT: {self._next}]") if part)
        return replace(end, text=reply)

    def _ask(self, key: str, given: Object) -> Asked | Result:
        question = text(given.get("question")).strip()
        if not question:
            return Result(f'{ASK} needs a "question".', failed=True)
        choices = choices_of(strings(given.get("options")))
        return information(key, Display(title=question), choices)

    def _hand_over(self, given: Object) -> Result:
        wanted = text(given.get("to")).strip()
        member = self._others.get(wanted.casefold())
        if member is None:
            known = ", ".join(self._others.values())
            return Result(
                f'{HAND_OVER}: no member "{wanted}" in the team; the others are {known}.', True
            )
        self._next, self._message = member, text(given.get("message")).strip()
        return Result("ok, your turn ends here")
