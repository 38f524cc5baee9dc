"""A question to the user and its answer, and the rules for when an answer fits."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from pydantic import model_validator

from coterie.errors import AnswerRefused
from coterie.model.about import About, ToolPermission, WireText
from coterie.model.tool_call import Effect
from coterie.model.visible import printable, visible_line

Kind = Literal["Select", "Confirm", "Input", "Composite"]
Purpose = Literal[
    "choose_strategy", "request_info", "confirm_risky_action", "assign_subtask", "generic"
]
ContentKind = Literal["PlainText", "Json", "Diff", "Table"]
Style = Literal["primary", "danger", "plain"]

APPROVE, REJECT, THIS_TASK, BY_RULE = "approve", "reject", "task", "rule"
"""What may be answered to a risky action: once, no, for the whole task, by a rule from now on."""
READ_ONLY = "read_only"
"""The answer of the rules alone: yes, in a sandbox where it can do no more than look."""

NOBODY = "coterie"
"""The author of an answer that only closes a question: nobody said anything."""


_YES = frozenset({APPROVE, THIS_TASK, BY_RULE, READ_ONLY})


def _given(given: object) -> dict[str, object] | None:
    return dict(cast("Mapping[str, object]", given)) if isinstance(given, Mapping) else None


class Option(WireText):
    """One choice."""

    id: str
    label: str
    style: Style = "plain"
    default: bool = False
    detail: str = ""
    """What choosing it means, where the label does not say it all; a rule's own text."""

    @model_validator(mode="before")
    @classmethod
    def _reads_the_design(cls, given: object) -> object:
        """The design spells a plain option `style: default`, and `default` `isDefault`."""
        fields = _given(given)
        if fields is None:
            return given
        if fields.get("style") == "default":
            fields["style"] = "plain"
        if "isDefault" in fields:
            fields.setdefault("default", fields.pop("isDefault"))
        return fields


class Display(WireText):
    """What the person reads."""

    title: str
    description: str = ""
    content: str = ""
    """`Json` and `Table` (rows: objects, or lists of cells) are JSON texts."""
    content_kind: ContentKind = "PlainText"

    @model_validator(mode="before")
    @classmethod
    def _reads_data(cls, given: object) -> object:
        """In the design, content may be any data."""
        fields = _given(given)
        content = fields.get("content") if fields else None
        if fields is None or isinstance(content, str):
            return given
        fields["content"] = "" if content is None else json.dumps(content, ensure_ascii=False)
        if content is not None and not fields.keys() & {"content_kind", "contentKind"}:
            fields["contentKind"] = "Json"
        return fields


class Validation(WireText):
    """What a typed answer must be."""

    regex: str | None = None
    required: bool = False
    meaning: str = ""
    """The regex in words, as they go on after "needs"."""
    example: str = ""
    """An answer that fits."""


class Interaction(WireText):
    """A question: who asks, for which task, what, and what may be answered."""

    interaction_id: str
    task_id: str
    author_actor_id: str
    kind: Kind
    purpose: Purpose = "generic"
    display: Display
    options: tuple[Option, ...] = ()
    validation: Validation = Validation()
    about: About | None = None
    """None in what releases before this field have recorded."""

    @model_validator(mode="before")
    @classmethod
    def _reads_earlier_releases(cls, given: object) -> object:
        """A tool call used to stand under `risk`, without its effect."""
        if not isinstance(given, Mapping):
            return given
        fields = cast("Mapping[str, object]", given)
        risk = fields.get("risk")
        if not isinstance(risk, Mapping):
            return fields
        known = dict(cast("Mapping[str, object]", risk))
        effect = "run" if known.get("command") else "other"
        return {**fields, "about": {"kind": "tool_permission", "effect": effect, **known}}

    @property
    def permission(self) -> ToolPermission | None:
        """The tool call that it is about, where it asks for permission to run one."""
        return self.about if isinstance(self.about, ToolPermission) else None


class Response(WireText):
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
    def is_read_only(self) -> bool:
        """Whether its yes holds only in a sandbox where nothing can be changed."""
        return self.selected_option_id == READ_ONLY

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
    about: About
    purpose: Purpose = "choose_strategy"
    options: tuple[Option, ...] = ()
    validation: Validation = Validation()
    content: str = ""
    """What the user has to look at, besides what the question is about."""
    content_kind: ContentKind = "PlainText"
    display: Display | None = None
    """An agent's own words; None: they are made from `about`."""
    intent: object = None
    """JSON data by which the journal knows it from others, where author and options do not do."""
    once: str | None = None
    """What it has in common with equal questions of other tasks, of which one may be open."""
    if_ended: str | None = None
    """The option that counts as chosen where the user ends the conversation instead."""


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


def answer_word(option: Option) -> str:
    """The one word that chooses an option on a command line."""
    label = option.label.casefold()
    return label if re.fullmatch(r"[a-z]+", label) else option.id


def answer_command(question: Interaction, project: str = "") -> str:
    """The command that answers a question; `project` is what names another one: ` -C DIR`."""
    command = f"coterie answer{project} {question.interaction_id}"
    if question.kind == "Input":
        example = question.validation.example
        return f"{command} {example}" if example else f'{command} --say "…"'
    choices = "|".join(answer_word(option) for option in question.options)
    if question.kind != "Composite":
        return f"{command} {choices}"
    say = '--say "…"' if question.validation.required else '[--say "…"]'
    return f"{command} {choices} {say}"


_WANTS: Mapping[Effect, str] = {
    "run": "run",
    "write": "change",
    "read": "read",
    "fetch": "reach",
    "other": "use",
}


def in_short(question: Interaction) -> str:
    """The question on one line: `wants to run: npm ci`, `asks: Which database?`."""
    call = question.permission
    if call is None:
        return f"asks: {' '.join(printable(question.display.title).split())}"
    what = call.command or ", ".join(call.paths) or call.target or call.tool
    return f"wants to {_WANTS[call.effect]}: {visible_line(what)}"


def refuse_lost_words(question: Interaction, option: Option, text: str | None) -> None:
    """Raise AnswerRefused where words were typed with an answer that takes none to the agent."""
    if text is None or question.permission is None or option.id in (REJECT, BY_RULE):
        return
    raise AnswerRefused(
        f"{question.interaction_id}: {option.label} takes no words with it, nobody would hear "
        "them. It stays open.",
        f'coterie say {question.task_id} "…", or deny and say why',
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
