"""Arguments that are not the user's to give: calling modes, roles' prompts, yes to everything."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from coterie.config.known_agents import family, known_agent
from coterie.model.agent import GENERIC, AgentDefinition
from coterie.model.team import Member

# -- modes -------------------------------------------------------------------------------------

MODE_WORDS: Mapping[str, Mapping[str, int]] = {
    "claude": {
        "-p": 0,
        "--print": 0,
        "--verbose": 0,
        "--include-partial-messages": 0,
        "--replay-user-messages": 0,
        "--input-format": 1,
        "--output-format": 1,
        "--permission-prompt-tool": 1,
    },
    "codex": {
        "-": 0,
        "app-server": 0,
        "e": 0,
        "exec": 0,
        "--experimental-json": 0,
        "--json": 0,
        "--skip-git-repo-check": 0,
        "--color": 1,
        "-o": 1,
        "--output-last-message": 1,
    },
    "gemini": {
        "--acp": 0,
        "--experimental-acp": 0,
        "-o": 1,
        "--output-format": 1,
        "-p": 1,
        "--prompt": 1,
    },
}
"""For each adapter, the words that choose the way of calling, and how many more belong to each."""


def drop_mode_words(adapter: str, args: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is left for an agent whose adapter chooses the way of calling, and what was dropped."""
    words = MODE_WORDS.get(adapter, {})
    kept: list[str] = []
    dropped: list[str] = []
    rest = list(args)
    while rest:
        word = rest.pop(0)
        flag, equals, _ = word.partition("=")
        if flag not in words:
            kept.append(word)
            continue
        dropped.append(word)
        if words[flag] and not equals and rest and not rest[0].startswith("-"):
            dropped.append(rest.pop(0))
    return tuple(kept), tuple(dropped)


# -- roles -------------------------------------------------------------------------------------

_PROMPT_FLAGS = frozenset(
    {
        "--append-system-prompt",
        "--append-system-prompt-file",
        "--system-prompt",
        "--system-prompt-file",
    }
)
_CONFIG_FLAGS = frozenset({"-c", "--config"})
_PROMPT_SETTING = re.compile(
    r"\s*(developer_instructions|instructions|model_instructions_file)\s*="
)


@dataclass(frozen=True)
class DroppedPrompt:
    """A role's prompt that stood in an agent's arguments."""

    agent: str
    flag: str
    text: str


def take_out_prompts(
    agent: str, args: Sequence[str], named: Collection[str] = ()
) -> tuple[tuple[str, ...], tuple[DroppedPrompt, ...]]:
    """The arguments without roles' prompts, and those; `named` are flags the entry itself names."""
    flags = _PROMPT_FLAGS | set(named)
    kept: list[str] = []
    dropped: list[DroppedPrompt] = []
    rest = list(args)
    while rest:
        word = rest.pop(0)
        flag, equals, text = word.partition("=")
        if flag in flags:
            if not equals:
                text = rest.pop(0) if rest else ""
            dropped.append(DroppedPrompt(agent, flag, text))
        elif word in _CONFIG_FLAGS and rest and _PROMPT_SETTING.match(rest[0]):
            dropped.append(DroppedPrompt(agent, word, rest.pop(0)))
        else:
            kept.append(word)
    return tuple(kept), tuple(dropped)


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
_YES_VALUES: Mapping[str, frozenset[str]] = {
    "--approval-mode": frozenset({"yolo"}),
    "--permission-mode": frozenset({"bypassPermissions"}),
    "--sandbox": frozenset({"danger-full-access"}),
    "-s": frozenset({"danger-full-access"}),
}
_YES_SETTING = re.compile(r"\s*sandbox_mode\s*=\s*[\"']?danger-full-access")
_SHORT_YES = re.compile(r"-[dhlsv]*y[dhlsv]*")
"""`-y` alone or among flags that take nothing; elsewhere -y means other things."""
_SHORT_YES_FAMILIES = frozenset({"gemini", "qwen"})


def yes_to_all(agent_family: str, args: Sequence[str]) -> tuple[str, ...]:
    """The arguments that would have an agent never ask."""
    return tuple(_yes(agent_family, args))


def _yes(agent_family: str, args: Sequence[str]) -> Iterator[str]:
    for place, word in enumerate(args):
        following = args[place + 1] if place + 1 < len(args) else ""
        flag, equals, value = word.partition("=")
        if flag in _YES or flag.startswith(_YES_PREFIXES):
            yield flag
        elif (value if equals else following) in _YES_VALUES.get(flag, ()):
            yield f"{flag} {value if equals else following}"
        elif word in _CONFIG_FLAGS and _YES_SETTING.match(following):
            yield f"{word} sandbox_mode=danger-full-access"
        elif agent_family in _SHORT_YES_FAMILIES and _SHORT_YES.fullmatch(word):
            yield word


# -- a member on its agent ---------------------------------------------------------------------


@dataclass(frozen=True)
class Objection:
    """Why a member cannot run on its agent as it stands; `key` is the member's field."""

    key: str
    problem: str
    hint: str | None = None


def objections(definition: AgentDefinition, member: Member) -> tuple[Objection, ...]:
    """Everything that speaks against this member on this agent."""
    return tuple(_objections(definition, member))


def _objections(definition: AgentDefinition, member: Member) -> Iterator[Objection]:
    flags = definition.capabilities
    named = [flags.system_prompt_flag] if flags.system_prompt_flag else []
    _, prompts = take_out_prompts(definition.name, member.additional_args, named)
    for prompt in prompts:
        yield Objection("additionalArgs", f"has {prompt.flag}; the prompt is given as prompt")
    if member.model is not None and flags.model_flag is None and not _has_own_way(definition):
        yield Objection(
            "model",
            f'is "{member.model}"; {definition.name} has no modelFlag to pass it by',
            "Add capabilities.modelFlag to the agent, or use additionalArgs.",
        )
    if member.permissions.mode == "full":
        return
    kin = family(definition)
    for flag in yes_to_all(kin, member.additional_args):
        yield Objection(
            "additionalArgs",
            f'has {flag}, which answers yes to everything; that needs permissions "full"',
        )
    for flag in yes_to_all(kin, definition.base_args):
        yield Objection(
            "permissions",
            f'needs permissions "full": {definition.name} is registered with {flag}, '
            "which answers yes to everything",
            f"Take {flag} out of the baseArgs of {definition.name}.",
        )


def _has_own_way(definition: AgentDefinition) -> bool:
    if definition.adapter == GENERIC:
        return False
    return definition.adapter is not None or known_agent(family(definition)) is not None
