"""A team, its members and their budgets, in the fully resolved form that all code uses.

The file that people write is shorter; `config.team_file` resolves it into this form.  A task stores
the team it started with as JSON: the models can read back what they write, and ignore newer fields.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, cast

from pydantic import BeforeValidator, Field

from coterie.errors import NotFound, UsageError
from coterie.model.about import Measure, Wire
from coterie.model.amount import amount
from coterie.model.update import Usage
from coterie.model.visible import folded


def _written(value: object) -> object:
    return amount(value) if isinstance(value, str) else value


class Allowance(Wire):
    """How much of each measure may be used; None: unlimited."""

    tokens: Annotated[int | None, BeforeValidator(_written)] = Field(default=None, ge=0)
    usd: float | None = Field(default=None, ge=0)
    turns: int | None = Field(default=None, ge=0)

    def limits(self) -> Iterator[tuple[Measure, float]]:
        """The limited measures, with their limits."""
        if self.tokens is not None:
            yield "tokens", self.tokens
        if self.usd is not None:
            yield "usd", self.usd
        if self.turns is not None:
            yield "turns", self.turns


class Budget(Allowance):
    """An allowance for a task, and one per day (UTC) for all tasks."""

    per_day: Allowance = Allowance()
    per_ticket: Allowance = Allowance()
    """For each ticket of a session; only in a team's budget."""

    @property
    def is_set(self) -> bool:
        """Whether any limit is set."""
        parts = (self, self.per_day, self.per_ticket)
        return any(True for part in parts for _ in part.limits())


@dataclass(frozen=True)
class Tally:
    """What has been used."""

    tokens: int = 0
    usd: float = 0.0
    turns: int = 0

    def plus(self, usage: Usage | None, turns: int = 0) -> Tally:
        """The tally plus some more usage; what an agent did not report cannot be counted."""
        if usage is None:
            return Tally(self.tokens, self.usd, self.turns + turns)
        used = (usage.input_tokens or 0) + (usage.output_tokens or 0)
        return Tally(self.tokens + used, self.usd + (usage.cost_usd or 0.0), self.turns + turns)

    def of(self, measure: Measure) -> float:
        """The figure for one measure."""
        return {"tokens": self.tokens, "usd": self.usd, "turns": self.turns}[measure]


class Reservation(NamedTuple):
    """What a turn may use of budgets, set aside before it begins until it ends.

    Valid as long as its run: while the lease of `run` has this token and its owner is alive.
    """

    task_id: str
    step: str
    member: str
    at: str
    run: str
    """The task whose lease the run holds."""
    token: int


def reports_measure(usage: Usage | None, measure: Measure) -> bool:
    """Whether the usage that an agent reported for a turn includes this measure; turns are counted
    by Coterie itself."""
    if measure == "turns":
        return True
    if usage is None:
        return False
    known = usage.cost_usd if measure == "usd" else usage.input_tokens or usage.output_tokens
    return known is not None


MemberType = Literal["ai", "human"]
Mode = Literal["read", "ask", "accept-edits", "full"]
Work = Literal["link", "worktree"]

Routing = Literal["round_robin", "mention", "handoff"]
"""Who speaks next in a chat.  `[NEXT: name]` and a person's `@name` always count; otherwise
`round_robin` continues in the members' order, `mention` with the member that a reply mentions as
`@name`, and `handoff` with nobody: the floor returns to the person."""

_HANDING_ON: Mapping[Routing, str] = {
    "mention": "To hand over to another member, mention them in your reply as @id. Members who are "
    "not mentioned do not speak; if nobody is mentioned, it is the person's turn.",
    "handoff": "To hand over to another member, end your reply with [NEXT: id]. Without it, it is "
    "the person's turn.",
}

CHAT, TICKETS, SOLO, PIPELINE = "chat", "tickets", "solo", "pipeline"
OUR_WORKFLOWS = (CHAT, TICKETS, SOLO, PIPELINE)
"""The workflows that ship with Coterie."""

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
"""The valid team names and member ids: both become folder names."""

_SAFE = re.compile(NAME_PATTERN.removesuffix("$"))

CONTEXT_MESSAGES = 20
CONTEXT_CHARACTERS = 40_000

OUR_PREFIX = "COTERIE_"
ISOLATING = frozenset(
    {
        "HOME",
        "PWD",
        "TEMP",
        "TMP",
        "TMPDIR",
        "USERPROFILE",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_RUNTIME_DIR",
        "XDG_STATE_HOME",
    }
)
"""Variables by which any program finds its files; Coterie sets them separately for each member.
Agent-specific ones are in `AgentFacts.isolating`."""


MANAGER = "manager"
"""The role of the member that plans and reviews tickets."""
RATE_LIMIT = "rate_limit"
"""The key of a member's rate limit in its metadata."""
INSTANCE = "#"
"""Separates a member's id from the number of one of its concurrent instances."""


YOU = "you"
"""The person at the terminal, in a team without a human member."""


def base_of(instance: str) -> str:
    """The id of the member of an instance: `wren` for `wren#2`."""
    return instance.partition(INSTANCE)[0]


def is_instance_of(name: str, instance: str) -> bool:
    """Whether an instance has this name, or its member has."""
    return name in (instance, base_of(instance))


def safe_instance(instance: str) -> bool:
    """Whether the id of a member or of one of its instances is a valid folder name."""
    member, mark, number = instance.partition(INSTANCE)
    return safe_name(member) and (not mark or (number.isdecimal() and number.isascii()))


def safe_name(name: str) -> bool:
    """Whether a team name or member id is a valid folder name."""
    return _SAFE.fullmatch(name) is not None


def breaks_isolation(variable: str, isolating: Collection[str] = ISOLATING) -> bool:
    """Whether setting this variable could make a member share files with others or Coterie."""
    return variable in isolating or variable.startswith(OUR_PREFIX)


class Permissions(Wire):
    """What a member may do without asking; rules apply before the mode, `deny` before `allow`."""

    mode: Mode = "ask"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class Member(Wire):
    """A member of a team: an agent plus its identity, or a human."""

    id: str
    name: str
    display_name: str
    role: str = ""
    type: MemberType = "ai"
    order: int = 0
    agent: str | None = Field(
        default=None, validation_alias="agentConfigId", serialization_alias="agentConfigId"
    )
    """The name of its agent in the registry; None for a human."""
    system_instruction: str = ""
    model: str | None = None
    working_dir: str | None = None
    """The member's folder; None: `.coterie/teams/<team>/<id>`."""
    execution_dir: str | None = None
    """The process's cwd; None: `work` in the member's folder, which links to the project."""
    work: Work = "link"
    """What `work` is: a link to the project, or a git worktree of it on a separate branch."""
    home_dir: str | None = None
    """The process's HOME; None: `home` in the member's folder."""
    additional_args: tuple[str, ...] = ()
    env: Mapping[str, str] = Field(default_factory=dict[str, str], repr=False)
    """May contain keys, so it is never shown; see `Team.sealed`."""
    capabilities: tuple[str, ...] = ()
    """What it can do; used to choose a worker for a ticket."""
    supports_multiple_instances: bool = False
    """Whether several instances of it may work at once, each in its own folder."""
    metadata: Mapping[str, object] = Field(default_factory=dict[str, object])
    """Additional fields of a roles file; kept, and shown by `team show --full`."""
    permissions: Permissions = Permissions()
    budget: Budget = Budget()
    idle_timeout_ms: int | None = None
    timeout_ms: int | None = None
    quiet_after_ms: int | None = None

    @property
    def names(self) -> tuple[str, str, str]:
        """The names by which it may be addressed, in lookup order."""
        return (self.id, self.name, self.display_name)

    @property
    def turns_per_minute(self) -> int | None:
        """How many turns it may begin per minute; None: unlimited."""
        limit = self.metadata.get(RATE_LIMIT)
        if limit is None or not isinstance(limit, Mapping):
            return None
        most = cast("Mapping[str, object]", limit).get("turns_per_minute")
        return most if isinstance(most, int) else None


class Team(Wire):
    """Members and how they work together."""

    name: str
    workflow: str = CHAT
    routing: Routing = "round_robin"
    members: tuple[Member, ...]
    team_instruction: str | None = None
    permissions: Permissions | None = None
    """Rules for all members; its mode applies to members without one."""
    budget: Budget = Budget()
    context_message_count: int = CONTEXT_MESSAGES
    context_characters: int = CONTEXT_CHARACTERS
    roles: Mapping[str, str] = Field(default_factory=dict[str, str])
    """The member for each pipeline role that the team file assigns."""

    @property
    def full_instruction(self) -> str:
        """The instruction for every member: the team's own text, and how to name a next speaker."""
        parts = (self.team_instruction or "", _HANDING_ON.get(self.routing, ""))
        return "\n\n".join(part for part in parts if part)

    @property
    def in_order(self) -> tuple[Member, ...]:
        """All members, by `order` and then by position in the list."""
        return tuple(sorted(self.members, key=lambda member: member.order))

    @property
    def ai_members(self) -> tuple[Member, ...]:
        """The members with an agent, in order."""
        return tuple(member for member in self.in_order if member.type == "ai")

    @property
    def people(self) -> tuple[Member, ...]:
        """Who has the floor when a person has it: the humans in order, else the user."""
        humans = tuple(member for member in self.in_order if member.type == "human")
        return humans or (Member(id=YOU, name=YOU, display_name="You", type="human"),)

    def is_person(self, author: str) -> bool:
        """Whether the author of a message is a person: anybody who is not an AI member."""
        member = self.get(base_of(author))
        return member is None or member.type == "human"

    @property
    def manager(self) -> Member:
        """The member that plans and reviews tickets: the one with the role manager, else the first
        AI member.

        If that first member is the only one that may change files, the first read-only member
        manages instead, so that a member remains that can do the work.
        """
        members = self.ai_members
        named = [one for one in members if one.role.strip().casefold() == MANAGER]
        readers = [one for one in members if one.permissions.mode == "read"]
        is_only_writer = len(readers) == len(members) - 1 and members[0] not in readers
        return (named or (readers if readers and is_only_writer else members))[0]

    def find(self, name: str) -> Member | None:
        """The member with this id, else name, else display name, ignoring case."""
        known = ((one.names[place], one) for place in range(3) for one in self.members)
        return next((one for called, one in known if folded(called) == folded(name.strip())), None)

    def get(self, member_id: str) -> Member | None:
        """The member with exactly this id, if there is one."""
        for member in self.members:  # a plain loop: called for every message of a prompt
            if member.id == member_id:
                return member
        return None

    def instance(self, instance: str) -> Member | None:
        """The member that an instance is: for `wren#2` the member `wren`, with this id."""
        member = self.get(base_of(instance))
        if member is None or member.id == instance:
            return member
        # Each instance has its own folders.
        own = {"id": instance, "working_dir": None, "home_dir": None}
        return member.model_copy(update=own)

    def member(self, member_id: str) -> Member:
        """The member with exactly this id.  Raises NotFound if there is none."""
        member = self.get(member_id)
        if member is not None:
            return member
        here = ", ".join(member.id for member in self.members)
        raise NotFound(f'No member "{member_id}" in team {self.name}. Here: {here}.')

    def only(self, member: Member) -> Team:
        """The team reduced to this member and its humans: for work that one member does alone."""
        kept = tuple(one for one in self.members if one.id == member.id or one.type == "human")
        return self.model_copy(update={"members": kept})

    def sealed(self) -> Team:
        """The team in storable form: the names of environment variables without their values."""
        return self._with_env({member.id: dict.fromkeys(member.env, "") for member in self.members})

    def unsealed(self, source: Team) -> Team:
        """A sealed team with the environment values that the same members have in `source`."""
        given = {member.id: member.env for member in source.members}
        filled: dict[str, dict[str, str]] = {}
        for member in self.members:
            known = given.get(member.id, {})
            missing = [key for key in member.env if key not in known]
            if missing:
                raise NotFound(
                    f"{member.id} was started with {', '.join(missing)} in its env, "
                    f"which team {source.name} no longer gives it.",
                    "Add it to the team file again.",
                )
            filled[member.id] = {key: known[key] for key in member.env}
        return self._with_env(filled)

    def _with_env(self, env: Mapping[str, Mapping[str, str]]) -> Team:
        members = tuple(
            member.model_copy(update={"env": env[member.id]}) if member.env else member
            for member in self.members
        )
        return self.model_copy(update={"members": members})


def member_folder(root: Path, team: str, member: Member) -> Path:
    """A member's folder: `.coterie/teams/<team>/<id>` in the project, or its `working_dir`."""
    if not safe_name(team) or not safe_instance(member.id):
        raise UsageError(f"{team}/{member.id} is not a valid folder name.")
    if member.working_dir is not None:
        return Path(member.working_dir)
    return root / ".coterie" / "teams" / team / member.id
