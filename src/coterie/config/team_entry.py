"""The team file as people write it: every key, with the descriptions that editors show.

Objects stay the plain dictionaries they are read as; `team_file` interprets them.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    TypeAdapter,
)
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from coterie.config.mistakes import (
    ARGUMENT,
    LABEL,
    LINE,
    MODEL,
    PATH,
    VARIABLE,
    did_you_mean,
    listing,
    quoted,
)
from coterie.errors import UsageError
from coterie.model.amount import AMOUNT, amount
from coterie.model.team import NAME_PATTERN, OUR_WORKFLOWS, MemberType, Mode, Routing, Work

WORKFLOW_GROUP = "coterie.workflows"
"""An entry point of this group is a `Workflow`, or a class that creates one without arguments."""


def workflow_names() -> tuple[str, ...]:
    """Every name that a team may use as its workflow.  Reads the metadata of every package."""
    from importlib.metadata import entry_points

    return (*OUR_WORKFLOWS, *sorted(entry_points(group=WORKFLOW_GROUP).names - {*OUR_WORKFLOWS}))


def unknown_workflow(name: str) -> UsageError:
    """The error for an unknown workflow, listing the known ones."""
    known = workflow_names()
    guess = did_you_mean(name, known)
    return UsageError(
        f"No workflow {quoted(name)}; there are {listing(known)}.{guess}",
        f"A workflow of another package is an entry point of the group {WORKFLOW_GROUP}.",
    )


_STRICT = ConfigDict(extra="forbid")
_OPEN = ConfigDict(extra="allow")


def _is_rule(text: str) -> str:
    from coterie.tools.permission import Rule

    Rule.parse(text)
    return text


def _is_workflow(name: str) -> str:
    if name in OUR_WORKFLOWS:
        return name
    *known, last = workflow_names()
    if name not in (*known, last):
        expected = {"expected": f"{', '.join(known)} or {last}"}
        raise PydanticCustomError("literal_error", "{expected}", expected)
    return name


_Rule = Annotated[str, Field(min_length=1), AfterValidator(_is_rule)]
_Rules = Annotated[list[_Rule], Field(max_length=1000)]
_Milliseconds = Annotated[StrictInt, Field(ge=1, le=7 * 24 * 3_600_000)]
_Label = Annotated[str, Field(pattern=LABEL)]
_Line = Annotated[str, Field(pattern=LINE)]
_Model = Annotated[str, Field(pattern=MODEL)]
_Name = Annotated[str, Field(pattern=NAME_PATTERN)]
_Text = Annotated[str, Field(pattern=ARGUMENT)]
_Folder = Annotated[str, Field(pattern=PATH, max_length=4096)]


def _doc(text: str) -> Any:
    """What editors show for a key."""
    return Field(description=text)


class PermissionsEntry(TypedDict, total=False):
    """What a member may do without asking."""

    __pydantic_config__ = _STRICT  # pyright: ignore[reportGeneralTypeIssues]

    mode: Annotated[
        Mode,
        _doc(
            "read: cannot write. ask: asks before it changes or runs anything. "
            "accept-edits: edits unasked. full: never asks."
        ),
    ]
    allow: Annotated[_Rules, _doc("What it may do without asking, such as `npm test`.")]
    deny: Annotated[_Rules, _doc("What it may never do; takes precedence over allow.")]


def _as_number(value: object) -> object:
    try:
        return amount(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError('expected a number of tokens such as 500000 or "500k"') from None


_Tokens = Annotated[
    StrictInt,
    Field(ge=1),
    BeforeValidator(
        _as_number,
        json_schema_input_type=Annotated[int, Field(ge=1)] | Annotated[str, Field(pattern=AMOUNT)],
    ),
    _doc('How many tokens, such as 500000 or "500k".'),
]


class AllowanceEntry(TypedDict, total=False):
    """How much may be used before you are asked."""

    __pydantic_config__ = _STRICT  # pyright: ignore[reportGeneralTypeIssues]

    tokens: _Tokens
    usd: Annotated[
        float, Field(ge=0, strict=True, allow_inf_nan=False, description="How many US dollars.")
    ]
    turns: Annotated[StrictInt, Field(ge=1, description="How many turns.")]


class BudgetEntry(AllowanceEntry, total=False):
    """How much may be used before you are asked: in one task, and per day over all tasks."""

    __pydantic_config__ = _STRICT  # pyright: ignore[reportGeneralTypeIssues]

    perDay: Annotated[AllowanceEntry, _doc("In a day (UTC), over all tasks.")]


class TeamBudgetEntry(BudgetEntry, total=False):
    """How much all members together may use: in one task, in a day, and for each ticket."""

    __pydantic_config__ = _STRICT  # pyright: ignore[reportGeneralTypeIssues]

    perTicket: Annotated[AllowanceEntry, _doc("For each ticket of a session.")]


class RateLimitEntry(TypedDict):
    """How often a member may be asked."""

    __pydantic_config__ = _STRICT  # pyright: ignore[reportGeneralTypeIssues]

    turns_per_minute: Annotated[
        StrictInt, Field(ge=1, le=10_000, description="How many turns it may begin in a minute.")
    ]


class MetadataEntry(TypedDict, total=False):
    """Further settings of a member; unknown keys are kept as they are."""

    __pydantic_config__ = _OPEN  # pyright: ignore[reportGeneralTypeIssues]

    rate_limit: Annotated[
        RateLimitEntry, _doc("How often it may be asked; it waits when the limit is reached.")
    ]


def as_object(value: object) -> object:
    """Permissions as an object, even if only their mode was given."""
    return {"mode": value} if isinstance(value, str) else value


_Permissions = Annotated[
    PermissionsEntry, BeforeValidator(as_object, json_schema_input_type=Mode | PermissionsEntry)
]


class DefaultsEntry(TypedDict, total=False):
    """Values for every member that does not set its own."""

    __pydantic_config__ = _STRICT  # pyright: ignore[reportGeneralTypeIssues]

    role: Annotated[_Label, _doc("What it is for, in a few words.")]
    type: Annotated[MemberType, _doc("ai or human. Default: human if it has no agent, else ai.")]
    agent: Annotated[str, _doc("The agent it runs on, by its name in `coterie agents`.")]
    agentConfigId: Annotated[str, _doc("The long name of `agent`.")]
    agentName: Annotated[str, _doc("Another name of `agentConfigId`.")]
    prompt: Annotated[_Text, _doc("Who it is and what it does: its system prompt.")]
    systemInstruction: Annotated[_Text, _doc("The long name of `prompt`.")]
    promptFile: Annotated[
        _Folder, _doc("A text file that holds the prompt, relative to this file.")
    ]
    model: Annotated[_Model, _doc("The model, by the name its agent knows it by.")]
    workDir: Annotated[
        _Folder, _doc("Where it works, relative to this file. Default: the project.")
    ]
    executionDir: Annotated[_Folder, _doc("The long name of `workDir`.")]
    work: Annotated[
        Work,
        _doc(
            "link (default): it works in the project itself. worktree: in a git "
            "worktree of its own, on the branch coterie/<team>/<id>."
        ),
    ]
    workingDir: Annotated[_Folder, _doc("Its own folder. Default: .coterie/teams/<team>/<id>.")]
    homeDir: Annotated[_Folder, _doc("The HOME of its agent. Default: `home` in its own folder.")]
    additionalArgs: Annotated[list[_Text], _doc("More arguments for its agent.")]
    env: Annotated[
        dict[Annotated[str, Field(pattern=VARIABLE)], _Text],
        _doc("Environment variables for its agent only."),
    ]
    permissions: Annotated[
        _Permissions, _doc("What it may do unasked: read, ask (default), accept-edits or full.")
    ]
    budget: Annotated[BudgetEntry, _doc("What it may use before you are asked, in one task.")]
    capabilities: Annotated[
        list[Annotated[str, Field(pattern=LABEL, min_length=1)]],
        _doc("What it can do; tickets are assigned by these."),
    ]
    supportsMultipleInstances: Annotated[
        StrictBool, _doc("Whether several of it may work at once, each in a folder of its own.")
    ]
    metadata: Annotated[MetadataEntry, _doc("A rate limit, and any other data you need.")]
    idleTimeoutMs: Annotated[
        _Milliseconds, _doc("How long a silence ends its reply, if its replies end with silence.")
    ]
    timeoutMs: Annotated[_Milliseconds, _doc("The time limit for one of its turns.")]
    quietAfterMs: Annotated[
        _Milliseconds, _doc("Without activity for this long, it is shown as quiet.")
    ]


class _Identity(TypedDict):
    id: Annotated[_Name, _doc("Its short name, also the name of its folder.")]


class MemberEntry(DefaultsEntry, _Identity, total=False):
    """A member of the team: an agent plus who it is, or a human."""

    __pydantic_config__ = _STRICT  # pyright: ignore[reportGeneralTypeIssues]

    name: Annotated[_Line, _doc("What others call it. Default: its id.")]
    displayName: Annotated[_Line, _doc("The name that is shown. Default: its name, capitalized.")]
    order: Annotated[StrictInt, _doc("When it speaks. Default: its place in the list.")]


class _Members(TypedDict):
    members: Annotated[
        list[MemberEntry], Field(min_length=1, description="Who is in the team, in order.")
    ]


TeamEntry = TypedDict(  # functional form, as `$schema` is not a Python identifier
    "TeamEntry",
    {
        "$schema": Annotated[str, _doc("This schema, for editors.")],
        "name": Annotated[_Name, _doc("The team's name. Default: the name of its folder.")],
        "workflow": Annotated[
            str,
            Field(
                pattern=NAME_PATTERN,
                examples=list(OUR_WORKFLOWS),
                description="How its tasks are carried out: chat, tickets, solo, or a name in the "
                "entry point group coterie.workflows. Default: chat.",
            ),
            AfterValidator(_is_workflow),
        ],
        "routing": Annotated[
            Routing,
            _doc(
                "Who speaks next in a chat, unless [NEXT: name] decides it: round_robin, in order; "
                "mention, whoever is mentioned as @name; handoff, nobody. Default: round_robin."
            ),
        ],
        "teamInstruction": Annotated[
            _Text,
            _doc(
                "What every member is told. Default: team_instruction.md next to "
                "this file, if there is one."
            ),
        ],
        "permissions": Annotated[
            _Permissions, _doc("Rules for every member; the mode applies to members without one.")
        ],
        "budget": Annotated[
            TeamBudgetEntry, _doc("What all members together may use before you are asked.")
        ],
        "contextMessageCount": Annotated[
            StrictInt,
            Field(ge=0, le=10_000, description="How many past messages to repeat to an agent."),
        ],
        "contextCharacters": Annotated[
            StrictInt,
            Field(ge=1, le=10_000_000, description="How many characters of them, at most."),
        ],
        "roles": Annotated[
            dict[str, str],
            _doc(
                "Which member fills a role of `coterie build`, by id: codegen, review, "
                "second_opinion and so on. Default: chosen by rule; the reviewer is not the coder."
            ),
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
    """The validator for the shape of a team file, built when first needed."""
    return TypeAdapter(TeamFile)


DEFAULT_KEYS = tuple(DefaultsEntry.__annotations__)
MEMBER_KEYS = ("id", *MemberEntry.__annotations__)
TEAM_KEYS = tuple(TeamFile.__annotations__)
PERMISSION_KEYS = tuple(PermissionsEntry.__annotations__)
ALLOWANCE_KEYS = tuple(AllowanceEntry.__annotations__)
BUDGET_KEYS = tuple(BudgetEntry.__annotations__)
