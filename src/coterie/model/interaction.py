"""A question to the user and its answer, and the rules for validating answers."""

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

APPROVE, REJECT, APPROVE_FOR_TASK, APPROVE_BY_RULE = "approve", "reject", "task", "rule"
"""The answers to a risky action: approve once, reject, approve for the whole task, or approve by a
rule from now on."""
STOP_TASK = "stop"
"""The option, or the typed answer, that parks the task that asks."""
READ_ONLY = "read_only"
"""An answer that only the rules give: approved, in a read-only sandbox."""

COTERIE = "coterie"
"""Coterie itself, as an author and a recipient: no member may have this name, and no person gave a
response of this author."""

_YES = frozenset({APPROVE, APPROVE_FOR_TASK, APPROVE_BY_RULE, READ_ONLY})


def _fields_of(value: object) -> dict[str, object] | None:
    return dict(cast("Mapping[str, object]", value)) if isinstance(value, Mapping) else None


class Option(WireText):
    """One choice."""

    id: str
    label: str
    style: Style = "plain"
    default: bool = False
    detail: str = ""
    """What choosing it means, if the label is not enough; for a rule, its text."""

    @model_validator(mode="before")
    @classmethod
    def _reads_the_design(cls, given: object) -> object:
        """Accept the design's spelling: `style: default` for plain, `isDefault` for `default`."""
        fields = _fields_of(given)
        if fields is None:
            return given
        if fields.get("style") == "default":
            fields["style"] = "plain"
        if "isDefault" in fields:
            fields.setdefault("default", fields.pop("isDefault"))
        return fields


class Display(WireText):
    """The text shown to the person."""

    title: str
    description: str = ""
    content: str = ""
    """`Json` and `Table` (rows: objects, or lists of cells) are JSON texts."""
    content_kind: ContentKind = "PlainText"

    @model_validator(mode="before")
    @classmethod
    def _reads_data(cls, given: object) -> object:
        """Encode content that is not a string as JSON: the design allows any data."""
        fields = _fields_of(given)
        content = fields.get("content") if fields else None
        if fields is None or isinstance(content, str):
            return given
        fields["content"] = "" if content is None else json.dumps(content, ensure_ascii=False)
        if content is not None and not fields.keys() & {"content_kind", "contentKind"}:
            fields["contentKind"] = "Json"
        return fields


class Validation(WireText):
    """The rules for a typed answer."""

    regex: str | None = None
    required: bool = False
    meaning: str = ""
    """The regex in words, phrased to follow "needs"."""
    example: str = ""
    """A valid answer."""


class Interaction(WireText):
    """A question: who asks, for which task, what, and the possible answers."""

    interaction_id: str
    task_id: str
    author_actor_id: str
    kind: Kind
    purpose: Purpose = "generic"
    display: Display
    options: tuple[Option, ...] = ()
    validation: Validation = Validation()
    about: About | None = None
    """None in questions recorded before this field existed."""

    @model_validator(mode="before")
    @classmethod
    def _reads_earlier_releases(cls, given: object) -> object:
        """Convert a tool call recorded under `risk`, without its `effect`, to `about`."""
        fields = _fields_of(given)
        risk = fields.get("risk") if fields else None
        if fields is None or not isinstance(risk, Mapping):
            return given
        known = dict(cast("Mapping[str, object]", risk))
        effect = "run" if known.get("command") else "other"
        return {**fields, "about": {"kind": "tool_permission", "effect": effect, **known}}

    @property
    def permission(self) -> ToolPermission | None:
        """The tool call for which it asks permission, if any."""
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
    def by_person(self) -> bool:
        """Whether a person gave it; otherwise Coterie closed the question, or decided by a rule."""
        return self.author_actor_id != COTERIE

    @property
    def approves(self) -> bool:
        """Whether it approves a risky action, for whatever scope."""
        return self.selected_option_id in _YES

    @property
    def is_read_only(self) -> bool:
        """Whether it approves only for a sandbox in which nothing can be changed."""
        return self.selected_option_id == READ_ONLY

    @property
    def choice(self) -> str:
        """The answer: the chosen option, else the typed text."""
        return self.selected_option_id or self.input_value or ""

    @property
    def words(self) -> str:
        """The text typed in addition to a choice: a rule, or a message to the agent."""
        beside = self.input_value if self.selected_option_id else None
        return beside or self.comment or ""


@dataclass(frozen=True)
class Ask:
    """A question that a workflow or an agent wants to ask the user."""

    author: str
    kind: Kind
    about: About
    purpose: Purpose = "choose_strategy"
    options: tuple[Option, ...] = ()
    validation: Validation = Validation()
    content: str = ""
    """Further content for the user to look at, in addition to `about`."""
    content_kind: ContentKind = "PlainText"
    display: Display | None = None
    """An agent's own text; None: generated from `about`."""
    intent: object = None
    """JSON data that identifies it in the journal, if author and options are not enough."""
    once: str | None = None
    """A key shared with the same question in other tasks: only one with this key may be open."""
    if_ended: str | None = None
    """The option that counts as chosen if the user ends the conversation instead."""


@dataclass(frozen=True)
class Answer:
    """The user's answer; `fresh` if it was given during this run, not before."""

    response: Response
    fresh: bool


@dataclass(frozen=True)
class Question:
    """An interaction as stored in the inbox."""

    interaction: Interaction
    step: str
    state: str
    """`open`, `answered` or `closed`."""
    asked_at: str
    response: Response | None = None
    answered_at: str | None = None


def choose(interaction: Interaction, choice: str) -> str:
    """Resolve a choice to an option, by its id, its number, or a prefix of its id or label.

    Raises AnswerRefused if it matches none, or several.
    """
    ids = [option.id for option in interaction.options]
    if choice in ids:
        return choice
    if choice.isdecimal() and len(choice) < 5 and 1 <= int(choice) <= len(ids):
        return ids[int(choice) - 1]
    meant = choice.casefold()
    near = [
        option.id
        for option in interaction.options
        if meant and any(word.casefold().startswith(meant) for word in (option.id, option.label))
    ]
    if len(near) == 1:
        return near[0]
    words, name = _words(interaction), interaction.interaction_id
    raise AnswerRefused(
        f'{name} has no choice "{choice}"; it has: {", ".join(words)}.', f"coterie show {name}"
    )


def answer_word(option: Option) -> str:
    """The one word that chooses an option on a command line."""
    label = option.label.casefold()
    return label if re.fullmatch(r"[a-z]+", label) else option.id


def answer_as_given(question: Interaction, answer: str) -> str:
    """A recorded answer in the word that people give it with: `deny`, not `reject`."""
    chosen = next((option for option in question.options if option.id == answer), None)
    return answer_word(chosen) if chosen is not None and question.permission else answer


def _words(question: Interaction) -> list[str]:
    return [answer_as_given(question, option.id) for option in question.options]


def answer_command(question: Interaction, project: str = "") -> str:
    """The command that answers a question; `project` selects another project, as in ` -C DIR`."""
    command = f"coterie answer{project} {question.interaction_id}"
    if question.kind == "Input":
        example = question.validation.example
        return f"{command} {example}" if example else f'{command} --say "…"'
    choices = "|".join(answer_word(option) for option in question.options)
    if question.kind != "Composite":
        return f"{command} {choices}"
    say = '--say "…"' if question.validation.required else '[--say "…"]'
    return f"{command} {choices} {say}"


WANTS: Mapping[Effect, tuple[str, str]] = {
    "run": ("run", "a command"),
    "write": ("change", "files"),
    "read": ("read", "files"),
    "fetch": ("reach", "the network"),
    "other": ("use", "a tool"),
}
"""The verb for what a tool call would do, and its object."""


def in_short(question: Interaction) -> str:
    """The question on one line: `wants to run: npm ci`, `asks: Which database?`."""
    call = question.permission
    if call is None:
        return f"asks: {' '.join(printable(question.display.title).split())}"
    what = call.command or ", ".join(call.paths) or call.target or call.tool
    return f"wants to {WANTS[call.effect][0]}: {visible_line(what)}"


def refuse_unused_text(question: Interaction, option: Option, text: str | None) -> None:
    """Raise AnswerRefused if text was typed with an answer that passes none on to the agent."""
    if text is None or question.permission is None or option.id in (REJECT, APPROVE_BY_RULE):
        return
    raise AnswerRefused(
        f"{question.interaction_id}: {option.label} takes no message: nobody would read it. "
        "The question stays open.",
        f'coterie say {question.task_id} "…", or deny and say why',
    )


def check(interaction: Interaction, response: Response) -> None:
    """Raise AnswerRefused, with the reason, if the response is not valid for the question."""
    if interaction.kind != "Input":
        _check_option(interaction, response)
    if interaction.kind in ("Input", "Composite"):
        _check_input(interaction, response)


def _check_option(interaction: Interaction, response: Response) -> None:
    chosen = response.selected_option_id
    words = _words(interaction)
    if chosen is None:
        raise _refused(interaction, "needs a choice", words)
    if all(chosen != option.id for option in interaction.options):
        raise _refused(interaction, f"has no choice {chosen!r}", words)


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


def _refused(interaction: Interaction, why: str, words: list[str]) -> AnswerRefused:
    known = f"; it has: {', '.join(words)}" if words else ""
    name = interaction.interaction_id
    return AnswerRefused(f"{name} {why}{known}. It stays open.", f"coterie show {name}")
