"""`roles.json`: a manager and workers in the terms of the ticket design, read as a team's members.

A role's command is an agent in the registry, by its name or its command; an unregistered command
becomes a generic agent, which `agents_of` returns.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path, PurePath
from typing import Annotated, ClassVar, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, WithJsonSchema

from coterie.config.files import Document, Mistake, Notice, Place
from coterie.config.mistakes import (
    ARGUMENT,
    LABEL,
    LINE,
    described,
    quoted,
    refusal,
    validated,
)
from coterie.config.project import Project
from coterie.config.registry import Registry
from coterie.config.team_entry import PERMISSION_KEYS, PermissionsEntry, RateLimitEntry, as_object
from coterie.config.team_members import COMMAND, FileContext, PlacedValue, agents_of, check_members
from coterie.model.agent import AgentFacts
from coterie.model.flags import split_words
from coterie.model.team import MANAGER, NAME_PATTERN, Member, Mode, Permissions, safe_name

FILE_NAME = "roles.json"


class _Entry(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")


class RoleMetadata(_Entry):
    """Further settings of a role; unknown keys are kept as they are."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="allow")

    rate_limit: RateLimitEntry | None = Field(
        default=None, description="How often it may be asked; it waits when the limit is reached."
    )
    permissions: Annotated[
        PermissionsEntry | None,
        BeforeValidator(as_object, json_schema_input_type=Mode | PermissionsEntry),
    ] = Field(
        default=None,
        description="What it may do unasked: read, ask (default), accept-edits or full.",
    )


_WORD = {"type": "string", "minLength": 1, "pattern": ARGUMENT}
_COMMAND = {"anyOf": [_WORD, {"type": "array", "items": _WORD, "minItems": 1}]}


class RoleEntry(_Entry):
    """One role: a manager, or a worker."""

    role_id: str = Field(pattern=NAME_PATTERN, description="Its short name, which plans use.")
    display_name: str | None = Field(
        default=None,
        pattern=LINE,
        description="The name that is shown. Default: its id, capitalized.",
    )
    type: Literal["manager", "worker"] = Field(
        description="manager: plans and reviews; there is exactly one. worker: carries out tickets."
    )
    cli_command: Annotated[object, WithJsonSchema(_COMMAND)] = Field(
        description="An agent by its name or command in `coterie agents`, else a program to run; "
        "words after it are its arguments. A line, or a list of words.",
    )
    capabilities: tuple[Annotated[str, Field(pattern=LABEL, min_length=1)], ...] = Field(
        default=(), description="What it can do; tickets are assigned by these."
    )
    supports_multiple_instances: StrictBool = Field(
        default=False, description="Whether several of it may work at once."
    )
    metadata: RoleMetadata = Field(
        default=RoleMetadata(), description="Rate limit, permissions, and any other data you need."
    )


class RolesFile(_Entry):
    """The roles of a project: one manager and at least one worker."""

    roles: tuple[RoleEntry, ...] = Field(min_length=1, description="Every role, in order.")


def roles_path(project: Project) -> Path | None:
    """The project's own roles file, or None if there is none."""
    path = project.folder / FILE_NAME
    return path if path.is_file() else None


def read_roles(
    document: Document, context: FileContext
) -> tuple[tuple[Member, ...], tuple[Notice, ...]]:
    """The members that a roles file describes, and notices about words that are left out; raises
    ConfigError with every mistake in it."""
    roles = validated(document, RolesFile.model_validate, _keys_at).roles
    programs: dict[str, tuple[str, ...]] = {}
    parsed = [_member(role, place, context, programs) for place, role in enumerate(roles)]
    valid = [one for one in parsed if not isinstance(one, Mistake)]
    members = tuple(member for member, _ in valid)
    mistakes = [one for one in parsed if isinstance(one, Mistake)] + list(_role_counts(roles))
    if not mistakes:
        registry = context.registry.with_agents(*agents_of(members).values())
        placed = [(member, _places(place)) for place, member in enumerate(members)]
        checked = check_members(placed, replace(context, registry=registry))
        # The checks call them members; in this file they are roles.
        mistakes = [
            replace(one, problem=one.problem.replace("members[", "roles[")) for one in checked
        ]
    if mistakes:
        raise refusal(document, mistakes)
    return members, tuple(_left_out(member, words) for member, words in valid if words)


def _left_out(member: Member, words: Sequence[str]) -> Notice:
    """Notice about command words that say how to call the agent: its adapter decides that."""
    text = " ".join(words)
    return Notice(f"{member.id}: {quoted(text)} in its {COMMAND} is ignored: {_CHOSEN}.")


_CHOSEN = "Coterie decides how the CLI is started"


def _keys_at(place: Place) -> Sequence[str]:
    match place:
        case ():
            return tuple(RolesFile.model_fields)
        case (*_, "permissions"):
            return PERMISSION_KEYS
        case (*_, "rate_limit"):
            return tuple(RateLimitEntry.__annotations__)
        case _:
            return tuple(RoleEntry.model_fields)


def _role_counts(roles: Sequence[RoleEntry]) -> Iterator[Mistake]:
    """Check that there is exactly one manager and at least one worker."""
    managers = [place for place, role in enumerate(roles) if role.type == MANAGER]
    if not managers:
        yield Mistake(("roles",), "has no manager; one of them needs type manager")
    for place in managers[1:]:
        other = f"roles[{managers[0]}] is already the manager"
        yield Mistake(("roles", place, "type"), f'is "manager", but {other}')
    if len(managers) == len(roles):
        yield Mistake(("roles",), "has no worker to carry out tickets")


def _words(given: object) -> tuple[str, ...] | str:
    """Split a command into words; a string result is the problem with it."""
    stands = described(given)
    if isinstance(given, str):
        try:
            words = tuple(shlex.split(given))
        except ValueError as error:
            return f"is {quoted(given)}, which is not a valid command: {str(error).lower()}"
    elif isinstance(given, list) and all(
        isinstance(one, str) for one in cast("list[object]", given)
    ):
        words = tuple(cast("list[str]", given))
    else:
        return f"is {stands}; expected text, or a list of words"
    if not words or not words[0].strip() or "\0" in "".join(words):
        return f"is {stands}; expected an agent or a command"
    return words


def _arguments(
    words: Sequence[str], facts: AgentFacts | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The arguments after a command that are passed on, and those that are left out.

    Words before the first flag would be taken as a subcommand or a prompt.
    """
    if facts is None:
        return tuple(words), ()
    names = tuple(takewhile(lambda word: not word.startswith("-"), words))
    kept, dropped = split_words(words[len(names) :], facts.flags.mode)
    return kept, (*names, *dropped)


def _member(
    role: RoleEntry, place: int, context: FileContext, programs: dict[str, tuple[str, ...]]
) -> tuple[Member, tuple[str, ...]] | Mistake:
    """The member for a role, and the words of its command that are left out.

    `programs` are the commands that only this file knows, by the agent names given to them so far.
    """
    words = _words(role.cli_command)
    if isinstance(words, str):
        return Mistake(("roles", place, COMMAND), words)
    metadata = role.metadata.model_dump(mode="json", exclude_none=True)
    permissions = Permissions.model_validate(metadata.pop("permissions", {}))
    name, args, dropped = _agent(words, context.registry)
    if name is None:
        given = role.cli_command
        metadata[COMMAND] = given if isinstance(given, str) else shlex.join(words)
        name = _name_for(role.role_id, words, context.registry.agents, programs)
        programs[name] = words
    shown = role.display_name or role.role_id[:1].upper() + role.role_id[1:]
    made = Member(
        id=role.role_id,
        name=role.role_id,
        display_name=shown,
        role=role.type,
        order=place + 1,
        agent=name,
        additional_args=args,
        capabilities=role.capabilities,
        supports_multiple_instances=role.supports_multiple_instances,
        metadata=metadata,
        permissions=permissions,
    )
    return made, dropped


def _agent(
    words: Sequence[str], registry: Registry
) -> tuple[str | None, tuple[str, ...], tuple[str, ...]]:
    """The agent that a command means, or None for an unknown program; the arguments that are
    passed on; and the words that are left out."""
    known, word = registry.known, words[0]
    if word in registry.agents:
        return word, *_arguments(words[1:], known.of(registry.agents[word]))
    for agent in registry.agents.values():
        if word in (agent.command, PurePath(agent.command).name):
            facts = known.of(agent)
            # An interpreter does not identify the agent: the words after it must match too.
            own = () if facts else agent.base_args
            if tuple(words[1 : 1 + len(own)]) == own:
                return agent.name, *_arguments(words[1 + len(own) :], facts)
    # Known by name but not registered: refused as that, never run without its adapter.
    facts = known.ours.get(PurePath(word).name)
    return (facts.name, *_arguments(words[1:], facts)) if facts else (None, (), ())


def _name_for(
    role: str,
    words: tuple[str, ...],
    agents: Collection[str],
    programs: Mapping[str, tuple[str, ...]],
) -> str:
    """The name for an agent that only this file knows: its program's, unless that is taken."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", PurePath(words[0]).name).strip("-._")
    name = name if safe_name(name) else "agent"
    is_others = name in agents or programs.get(name, words) != words
    return f"{name}-{role}" if is_others else name


def _places(place: int) -> dict[str, PlacedValue]:
    """The place in the file of each key that a member's mistakes may refer to."""
    role: Place = ("roles", place)
    return {
        "id": PlacedValue(None, (*role, "role_id")),
        "name": PlacedValue(None, (*role, "role_id")),
        "displayName": PlacedValue(None, (*role, "display_name")),
        "agentConfigId": PlacedValue(None, (*role, COMMAND)),
        "additionalArgs": PlacedValue(None, (*role, COMMAND)),
        "type": PlacedValue(None, (*role, "type")),
        "metadata": PlacedValue(None, (*role, "metadata")),
        "permissions": PlacedValue(None, (*role, "metadata", "permissions")),
    }
