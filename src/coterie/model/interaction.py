"""A question to the user and its answer, and the rules for when an answer fits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from coterie.errors import AnswerRefused

Kind = Literal["Select", "Confirm", "Input", "Composite"]
Purpose = Literal[
    "choose_strategy", "request_info", "confirm_risky_action", "assign_subtask", "generic"
]
ContentKind = Literal["PlainText", "Json", "Diff", "Table"]
Style = Literal["primary", "danger", "plain"]

APPROVE, REJECT, THIS_TASK, BY_RULE = "approve", "reject", "task", "rule"
"""What may be answered to a risky action: once, no, for the whole task, by a rule from now on."""

NOBODY = "coterie"
"""The author of an answer that only closes a question: nobody said anything."""


_YES = frozenset({APPROVE, THIS_TASK, BY_RULE})


class _Wire(BaseModel):
    # Written with the names of the design; fields of a newer release are passed over.
    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        extra="ignore",
    )


class Option(_Wire):
    """One choice."""

    id: str
    label: str
    style: Style = "plain"
    default: bool = False
    detail: str = ""
    """What choosing it means, where the label does not say it all; a rule's own text."""


class Display(_Wire):
    """What the person reads."""

    title: str
    description: str = ""
    content: str = ""
    content_kind: ContentKind = "PlainText"


class Validation(_Wire):
    """What a typed answer must be."""

    regex: str | None = None
    required: bool = False
    meaning: str = ""
    """The regex in words, as they go on after "needs"."""
    example: str = ""
    """An answer that fits."""


class Risk(_Wire):
    """What a person must know of a tool call before they say yes to it."""

    tool: str
    cwd: str
    command: str = ""
    why: str = ""
    """What the agent says that it is for; empty where it gave no reason."""
    said: str = ""
    """The last thing the agent said."""
    note: str = ""
    """What Coterie adds: that it may already have run, that nothing holds it in."""


class Interaction(_Wire):
    """A question: who asks, for which task, what, and what may be answered."""

    interaction_id: str
    task_id: str
    author_actor_id: str
    kind: Kind
    purpose: Purpose = "generic"
    display: Display
    options: tuple[Option, ...] = ()
    validation: Validation = Validation()
    risk: Risk | None = None
    """For confirm_risky_action: what would be done, where and why."""


class Response(_Wire):
    """An answer."""

    interaction_id: str
    task_id: str
    author_actor_id: str
    selected_option_id: str | None = None
    input_value: str | None = None
    comment: str | None = None

    @property
    def approves(self) -> bool:
        """Whether it says yes to a risky action, however long the yes shall hold."""
        return self.selected_option_id in _YES

    @property
    def choice(self) -> str:
        """What was answered: the option, else what was typed."""
        return self.selected_option_id or self.input_value or ""

    @property
    def words(self) -> str:
        """What was typed besides: a rule, a word to the agent."""
        beside = self.input_value if self.selected_option_id else None
        return beside or self.comment or ""


@dataclass(frozen=True)
class Ask:
    """A question a workflow or an agent wants to put to the user."""

    author: str
    kind: Kind
    display: Display
    purpose: Purpose = "generic"
    options: tuple[Option, ...] = ()
    validation: Validation = Validation()
    risk: Risk | None = None
    about: object = None
    """JSON data that makes it this question and no other, where the options alone do not."""


@dataclass(frozen=True)
class Answer:
    """What the user said; `fresh` when it was given to this run, not before it."""

    response: Response
    fresh: bool


@dataclass(frozen=True)
class Question:
    """An interaction as the inbox holds it."""

    interaction: Interaction
    step: str
    state: str
    """`open`, `answered` or `closed`."""
    asked_at: str
    response: Response | None = None
    answered_at: str | None = None


def choose(interaction: Interaction, choice: str) -> str:
    """The option a person means: by its id, its number, or the beginning of its id or label."""
    ids = [option.id for option in interaction.options]
    if choice in ids:
        return choice
    if choice.isdigit() and 1 <= int(choice) <= len(ids):
        return ids[int(choice) - 1]
    meant = choice.casefold()
    near = [
        option.id
        for option in interaction.options
        if meant and any(word.casefold().startswith(meant) for word in (option.id, option.label))
    ]
    if len(near) == 1:
        return near[0]
    raise AnswerRefused(
        f'{interaction.interaction_id} has no choice "{choice}"; it has: {", ".join(ids)}.',
        f"coterie answer {interaction.interaction_id} {near[0] if near else ids[0]}",
    )


def check(interaction: Interaction, response: Response) -> None:
    """Raise AnswerRefused, with the reason, where the response does not fit the question."""
    if interaction.kind != "Input":
        _check_option(interaction, response)
    if interaction.kind in ("Input", "Composite"):
        _check_input(interaction, response)


def _check_option(interaction: Interaction, response: Response) -> None:
    chosen = response.selected_option_id
    ids = [option.id for option in interaction.options]
    if chosen is None:
        raise _refused(interaction, "needs a choice", ids)
    if chosen not in ids:
        raise _refused(interaction, f"has no choice {chosen!r}", ids)


def _check_input(interaction: Interaction, response: Response) -> None:
    value = response.input_value
    rule = interaction.validation
    if value is None or not value.strip():
        if rule.required:
            raise _refused(interaction, "needs some text", [])
        return
    if rule.regex is not None and re.fullmatch(rule.regex, value) is None:
        raise _refused(interaction, f"needs {rule.meaning or _matching(rule.regex)}", [])


def _matching(regex: str) -> str:
    return f"text that matches {regex}"


def _refused(interaction: Interaction, why: str, ids: list[str]) -> AnswerRefused:
    known = f"; it has: {', '.join(ids)}" if ids else ""
    name = interaction.interaction_id
    return AnswerRefused(f"{name} {why}{known}. It stays open.", f"coterie show {name}")
