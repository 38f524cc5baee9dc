"""What a call of the two tools means, and what the model is told of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from coterie.agents.fields import strings, text
from coterie.agents.inside.tools import ASK, HAND_OVER, Tool, tools_for
from coterie.agents.wire import Object
from coterie.model.interaction import Display, Option, Response, Validation
from coterie.model.update import Asked

MOST_CHOICES = 20
_GAP = "\n\n"


@dataclass(frozen=True)
class Result:
    """What a model gets for a call."""

    text: str
    failed: bool = False


NOBODY_ANSWERED = Result("Nobody answered.", failed=True)
NO_TURN = Result("It is not your turn, so nobody can be asked.", failed=True)


class Serving:
    """Serves the tools of one member, turn by turn."""

    def __init__(self, others: Mapping[str, str]) -> None:
        self.tools: list[Tool] = tools_for(others)
        self._others = {name.casefold(): name for name in others}
        self._open: dict[str, Asked] = {}
        self._next = ""
        self._message = ""

    def begin(self) -> None:
        """A turn begins."""
        self._open.clear()
        self._next = self._message = ""

    def call(self, key: str, name: str, given: Object) -> Asked | Result:
        """What is to be asked, or what the model is told at once; no key is used twice."""
        if name == ASK:
            return self._ask(key, given)
        if name == HAND_OVER and self._others:
            return self._hand_over(given)
        known = " and ".join(str(tool["name"]) for tool in self.tools)
        return Result(f'There is no tool "{name}" here; there is {known}.', failed=True)

    def answered(self, key: str, response: Response) -> Result | None:
        """What the model is told of an answer; None where the question was not one of ours."""
        asked = self._open.pop(key, None)
        if asked is None:
            return None
        said = said_to(asked, response)
        return Result(said) if said else NOBODY_ANSWERED

    def ended(self, said: str) -> str:
        """The reply of a turn that is over, with whom it hands over to."""
        if not self._next:
            return said
        parts = [said.rstrip()]
        if self._message and not parts[0].endswith(self._message):
            parts.append(self._message)
        return _GAP.join(part for part in (*parts, f"[NEXT: {self._next}]") if part)

    def _ask(self, key: str, given: Object) -> Asked | Result:
        question = text(given.get("question")).strip()
        if not question:
            return Result(f'{ASK} needs a "question".', failed=True)
        choices = choices_of(strings(given.get("options")))
        display = Display(title=question)
        if choices:
            asked = Asked(key, "Select", "request_info", display, choices)
        else:
            required = Validation(required=True)
            asked = Asked(key, "Input", "request_info", display, validation=required)
        self._open[key] = asked
        return asked

    def _hand_over(self, given: Object) -> Result:
        wanted = text(given.get("to")).strip()
        found = self._others.get(wanted.casefold())
        if found is None:
            known = ", ".join(self._others.values())
            return Result(f'{HAND_OVER}: no "{wanted}" in the team; there are {known}.', True)
        self._next, self._message = found, text(given.get("message")).strip()
        return Result("ok, your turn ends here")


# -- questions with choices --------------------------------------------------------------------


def choices_of(labels: Iterable[str]) -> tuple[Option, ...]:
    """Answers to choose from, each with a short id of its own."""
    options: dict[str, Option] = {}
    for number, label in enumerate(labels, 1):
        if number > MOST_CHOICES:
            break
        name = re.sub(r"\W+", "-", label.lower()).strip("-")[:24]
        name = f"{name}-{number}" if not name or name in options else name
        options[name] = Option(id=name, label=label)
    return tuple(options.values())


def said_to(asked: Asked, response: Response) -> str:
    """What a person answered, in the words that the agent knows it by; empty: nothing."""
    if asked.kind == "Input":
        return response.input_value or ""
    chosen = next((one for one in asked.options if one.id == response.selected_option_id), None)
    if chosen is None:
        return ""
    return f"{chosen.label} ({response.comment})" if response.comment else chosen.label
