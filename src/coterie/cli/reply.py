"""What a person typed as an answer: which choice, which text with it, and what else it is for."""

from __future__ import annotations

from coterie.cli.card import word
from coterie.errors import AnswerRefused
from coterie.model.interaction import BY_RULE, Interaction, Option, refuse_lost_words


def typed(question: Interaction, line: str) -> tuple[str | None, str | None]:
    """A line on an open card as choice and text.

    The choice stands by its number or its whole name: the beginning of a sentence that was meant
    for the team must not say yes.
    """
    if question.kind == "Input":
        return None, line
    for name, option in _names(question):
        if line.casefold() == name or line.casefold().startswith(f"{name} "):
            text = line[len(name) :].strip() or None
            refuse_lost_words(question, option, text)
            return option.id, text
    first = line.split(maxsplit=1)[0]
    name = question.interaction_id
    raise AnswerRefused(f'{name} has no choice "{first}"; type its number. It stays open.')


def _names(question: Interaction) -> list[tuple[str, Option]]:
    """What each option goes by, the longest names first."""
    names = [
        (name.casefold(), option)
        for number, option in enumerate(question.options, 1)
        for name in (str(number), option.id, option.label, word(option))
    ]
    return sorted(names, key=lambda named: -len(named[0]))


def alike(one: Interaction, other: Interaction) -> bool:
    """Whether an answer to one could be meant for the other: the same tool of the same task, and
    the same command or a rule that would cover both."""
    if one.interaction_id == other.interaction_id or one.task_id != other.task_id:
        return False
    call, second = one.permission, other.permission
    if call is None or second is None or call.tool != second.tool:
        return False
    same_command = bool(call.command) and call.command == second.command
    return same_command or (rule_of(one) != "" and rule_of(one) == rule_of(other))


def rule_of(question: Interaction) -> str:
    """The rule that is offered; empty where none is."""
    return next((option.detail for option in question.options if option.id == BY_RULE), "")
