"""The team file as people write it: every key there is, with the words that editors show.

Objects stay the plain dictionaries they are read as; `team_file` gives them their meaning.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field, StrictInt, TypeAdapter
from typing_extensions import TypedDict

from coterie.config.patterns import ARGUMENT, LABEL, LINE, MODEL, PATH, VARIABLE
from coterie.model.team import NAME_PATTERN, MemberType, Mode, Workflow

_STRICT = ConfigDict(extra="forbid")

_Rules = Annotated[list[Annotated[str, Field(min_length=1)]], Field(max_length=1000)]
_Milliseconds = Annotated[StrictInt, Field(ge=1, le=7 * 24 * 3_600_000)]
_Folder = Annotated[str, Field(pattern=PATH, max_length=4096)]


class PermissionsEntry(TypedDict, total=False):
    """What a member may do unasked."""

    __pydantic_config__ = _STRICT  # pyright: ignore[reportGeneralTypeIssues]

    mode: Annotated[
        Mode,
        Field(
            description="read: cannot write. ask: asks before it changes or runs anything. "
            "accept-edits: edits unasked. full: never asks."
        ),
    ]
    allow: Annotated[_Rules, Field(description="What needs no question, such as `npm test`.")]
    deny: Annotated[_Rules, Field(description="What is never done; stronger than allow.")]


def _as_object(value: object) -> object:
    return {"mode": value} if isinstance(value, str) else value


class DefaultsEntry(TypedDict, total=False):
    """What every member has that does not say otherwise."""

    __pydantic_config__ = _STRICT  # pyright: ignore[reportGeneralTypeIssues]

    role: Annotated[str, Field(pattern=LABEL, description="What it is for, in a few words.")]
    type: Annotated[
        MemberType, Field(description="ai or human. Left out: human when it has no agent.")
    ]
    agent: Annotated[
        str, Field(description="The agent it runs on, by its name in `coterie agents`.")
    ]
    agentConfigId: Annotated[str, Field(description="The long name of `agent`.")]
    agentName: Annotated[str, Field(description="Another name of `agentConfigId`.")]
    prompt: Annotated[
        str, Field(pattern=ARGUMENT, description="Who it is and what it does: its system prompt.")
    ]
    systemInstruction: Annotated[
        str, Field(pattern=ARGUMENT, description="The long name of `prompt`.")
    ]
    promptFile: Annotated[
        _Folder, Field(description="A text file that holds the prompt, relative to this file.")
    ]
    model: Annotated[
        str, Field(pattern=MODEL, description="The model, by the name its agent knows it by.")
    ]
    workDir: Annotated[
        _Folder, Field(description="Where it works, relative to this file. Left out: the project.")
    ]
    executionDir: Annotated[_Folder, Field(description="The long name of `workDir`.")]
    workingDir: Annotated[
        _Folder, Field(description="Its own folder. Left out: .coterie/teams/<team>/<id>.")
    ]
    homeDir: Annotated[
        _Folder, Field(description="The HOME of its agent. Left out: `home` in its own folder.")
    ]
    additionalArgs: Annotated[
        list[Annotated[str, Field(pattern=ARGUMENT)]],
        Field(description="More arguments for its agent."),
    ]
    env: Annotated[
        dict[Annotated[str, Field(pattern=VARIABLE)], Annotated[str, Field(pattern=ARGUMENT)]],
        Field(description="Environment variables for its agent, and for no other member's."),
    ]
    permissions: Annotated[
        PermissionsEntry,
        BeforeValidator(_as_object, json_schema_input_type=Mode | PermissionsEntry),
        Field(description="What it may do unasked: read, ask (default), accept-edits or full."),
    ]
    idleTimeoutMs: Annotated[
        _Milliseconds,
        Field(description="How long a silence ends its reply, where silence is how it ends."),
    ]
    timeoutMs: Annotated[_Milliseconds, Field(description="The limit of one of its turns.")]
    quietAfterMs: Annotated[
        _Milliseconds, Field(description="After this long without a sign it is shown as quiet.")
    ]


class _Identity(TypedDict):
    id: Annotated[
        str, Field(pattern=NAME_PATTERN, description="Its short name; its folder is called so.")
    ]


class MemberEntry(DefaultsEntry, _Identity, total=False):
    """One of the team: an agent plus who it is, or a human."""

    __pydantic_config__ = _STRICT  # pyright: ignore[reportGeneralTypeIssues]

    name: Annotated[str, Field(pattern=LINE, description="What others call it. Left out: its id.")]
    displayName: Annotated[
        str, Field(pattern=LINE, description="What is shown. Left out: its name, capitalised.")
    ]
    order: Annotated[
        StrictInt, Field(description="When it speaks. Left out: its place in the list.")
    ]


class _Members(TypedDict):
    members: Annotated[
        list[MemberEntry], Field(min_length=1, description="Who is in the team, in order.")
    ]


TeamEntry = TypedDict(  # the functional form, for the key that is no Python name
    "TeamEntry",
    {
        "$schema": Annotated[str, Field(description="This schema, for editors.")],
        "name": Annotated[
            str,
            Field(pattern=NAME_PATTERN, description="The team's name. Left out: its folder's."),
        ],
        "workflow": Annotated[
            Workflow, Field(description="How its tasks are carried out. Left out: chat.")
        ],
        "teamInstruction": Annotated[
            str,
            Field(
                pattern=ARGUMENT,
                description="What every member is told. Left out: team_instruction.md beside "
                "this file, if there is one.",
            ),
        ],
        "contextMessageCount": Annotated[
            StrictInt,
            Field(ge=0, le=10_000, description="How many messages an agent is told again."),
        ],
        "contextCharacters": Annotated[
            StrictInt,
            Field(ge=1, le=10_000_000, description="How many characters of them, at most."),
        ],
        "defaults": DefaultsEntry,
    },
    total=False,
)


class TeamFile(TeamEntry, _Members):
    """A team of agents and people, for Coterie."""

    __pydantic_config__ = _STRICT  # pyright: ignore[reportGeneralTypeIssues]


@cache
def team_adapter() -> TypeAdapter[TeamFile]:
    """What checks a team file's shape; built when first needed."""
    return TypeAdapter(TeamFile)


DEFAULT_KEYS = tuple(DefaultsEntry.__annotations__)
MEMBER_KEYS = ("id", *MemberEntry.__annotations__)
TEAM_KEYS = tuple(TeamFile.__annotations__)
PERMISSION_KEYS = tuple(PermissionsEntry.__annotations__)
