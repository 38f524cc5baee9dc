"""Two tools that a CLI member has besides its agent's own: to ask the human, and to hand over."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from coterie.agents.fields import strings, text
from coterie.agents.process import Object
from coterie.agents.questions import choices_of, information, said_to
from coterie.model.interaction import Display, Response
from coterie.model.update import Asked, End, TurnCompleted

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


@dataclass(frozen=True)
class Result:
    """What a model gets for a call."""

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
        """By key: what was asked, and how the call that waits for the answer is replied to."""
        self._next = ""
        self._message = ""

    def begin(self) -> None:
        """A turn begins."""
        self.forget()
        self._next = self._message = ""

    def call(
        self, key: str, name: str, given: Object, reply: Reply, *, in_turn: bool = True
    ) -> Asked | None:
        """Reply to a call, or return what is to be asked first; no key is used twice."""
        if not in_turn:
            outcome = NO_TURN
        elif name == ASK:
            outcome = self._ask(key, given)
        elif name == HAND_OVER and self._others:
            outcome = self._hand_over(given)
        else:
            known = " and ".join(str(tool["name"]) for tool in self.tools)
            outcome = Result(f'There is no tool "{name}" here; there is {known}.', failed=True)
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
        said = said_to(asked, response)
        reply(Result(said) if said else NOBODY_ANSWERED)
        return True

    def forget(self) -> None:
        """Drop the calls that wait, without a reply."""
        self._open.clear()

    def give_up(self) -> None:
        """Tell the calls that wait that nobody answers."""
        for _, reply in self._open.values():
            reply(NOBODY_ANSWERED)
        self.forget()

    def finished(self, end: End) -> End:
        """The end of a turn; a reply says whom it hands over to."""
        if not isinstance(end, TurnCompleted) or not self._next:
            return end
        parts = [end.text.rstrip()]
        if self._message and not parts[0].endswith(self._message):
            parts.append(self._message)
        said = "\n\n".join(part for part in (*parts, f"[NEXT: {self._next}]") if part)
        return replace(end, text=said)

    def _ask(self, key: str, given: Object) -> Asked | Result:
        question = text(given.get("question")).strip()
        if not question:
            return Result(f'{ASK} needs a "question".', failed=True)
        choices = choices_of(strings(given.get("options")))
        return information(key, Display(title=question), choices)

    def _hand_over(self, given: Object) -> Result:
        wanted = text(given.get("to")).strip()
        found = self._others.get(wanted.casefold())
        if found is None:
            known = ", ".join(self._others.values())
            return Result(f'{HAND_OVER}: no "{wanted}" in the team; there are {known}.', True)
        self._next, self._message = found, text(given.get("message")).strip()
        return Result("ok, your turn ends here")
