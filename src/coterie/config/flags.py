"""Arguments that are not the user's to give: calling modes, roles' prompts, yes to everything."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from coterie.model.agent import GENERIC, AgentDefinition, AgentFacts, FlagFacts, KnownAgents
from coterie.model.team import Member

# -- roles -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DroppedPrompt:
    """A role's prompt that stood in an agent's arguments."""

    agent: str
    flag: str
    text: str


def take_out_prompts(
    agent: str, args: Sequence[str], flags: FlagFacts, named: object = None
) -> tuple[tuple[str, ...], tuple[DroppedPrompt, ...]]:
    """The arguments without roles' prompts, and those; `named` is the flag the entry itself names,
    if any."""
    kept: list[str] = []
    dropped: list[DroppedPrompt] = []
    rest = list(args)
    while rest:
        word = rest.pop(0)
        flag, equals, text = word.partition("=")
        if flag in flags.prompt or flag == named:
            if not equals:
                text = rest.pop(0) if rest else ""
            dropped.append(DroppedPrompt(agent, flag, text))
        elif word in flags.setting and rest and _key(rest[0]) in flags.prompt_keys:
            dropped.append(DroppedPrompt(agent, word, rest.pop(0)))
        else:
            kept.append(word)
    return tuple(kept), tuple(dropped)


def _key(setting: str) -> str:
    return setting.partition("=")[0].strip() if "=" in setting else ""


# -- yes to everything -------------------------------------------------------------------------

_YES = frozenset(
    {
        "--allow-all",
        "--allow-all-tools",
        "--auto-approve",
        "--full-auto",
        "--trust-all-tools",
        "--yes-always",
        "--yes-to-all",
        "--yolo",
    }
)
_YES_PREFIXES = ("--dangerously", "--allow-dangerously")
_SHORT_YES = re.compile(r"-[dhlsv]*y[dhlsv]*")
"""`-y` alone or among flags that take nothing."""


def yes_to_all(flags: FlagFacts, args: Sequence[str]) -> tuple[str, ...]:
    """The arguments that would have an agent never ask."""
    return tuple(_yes(flags, args))


def _yes(flags: FlagFacts, args: Sequence[str]) -> Iterator[str]:
    for place, word in enumerate(args):
        following = args[place + 1] if place + 1 < len(args) else ""
        flag, equals, value = word.partition("=")
        value = value if equals else following
        if flag in _YES or flag.startswith(_YES_PREFIXES):
            yield flag
        elif value in flags.yes.get(flag, ()):
            yield f"{flag} {value}"
        elif word in flags.setting and (setting := _yes_setting(flags, following)):
            yield f"{word} {setting}"
        elif flags.short_yes and _SHORT_YES.fullmatch(word):
            yield word


def _yes_setting(flags: FlagFacts, setting: str) -> str | None:
    key, _, value = setting.partition("=")
    meant = flags.yes_keys.get(key.strip())
    stated = meant and value.strip().lstrip("\"'").startswith(meant)
    return f"{key.strip()}={meant}" if stated else None


# -- a member on its agent ---------------------------------------------------------------------


@dataclass(frozen=True)
class Objection:
    """Why a member cannot run on its agent as it stands; `key` is the member's field."""

    key: str
    problem: str
    hint: str | None = None


def objections(
    known: KnownAgents, definition: AgentDefinition, member: Member
) -> Iterator[Objection]:
    """Everything that speaks against this member on this agent."""
    facts = known.of(definition)
    flags, told = known.flags(facts), definition.capabilities
    _, prompts = take_out_prompts(
        definition.name, member.additional_args, flags, told.system_prompt_flag
    )
    for prompt in prompts:
        yield Objection("additionalArgs", f"has {prompt.flag}; the prompt is given as prompt")
    if member.model is not None and told.model_flag is None and not _has_own_way(definition, facts):
        yield Objection(
            "model",
            f'is "{member.model}"; {definition.name} has no modelFlag to pass it by',
            "Add capabilities.modelFlag to the agent, or use additionalArgs.",
        )
    if member.permissions.mode == "full":
        return
    for flag in yes_to_all(flags, member.additional_args):
        yield Objection(
            "additionalArgs",
            f'has {flag}, which answers yes to everything; that needs permissions "full"',
        )
    for flag in yes_to_all(flags, definition.base_args):
        yield Objection(
            "permissions",
            f'needs permissions "full": {definition.name} is registered with {flag}, '
            "which answers yes to everything",
            f"Take {flag} out of the baseArgs of {definition.name}.",
        )


def _has_own_way(definition: AgentDefinition, facts: AgentFacts | None) -> bool:
    if definition.adapter == GENERIC:
        return False
    return definition.adapter is not None or facts is not None
