"""What a question is about, as data: surfaces derive their wording from it, never from a title."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from coterie.model.instant import Instant
from coterie.model.tool_call import Effect
from coterie.model.visible import encodable

Measure = Literal["tokens", "usd", "turns"]
BudgetScope = Literal["task", "ticket", "member", "day", "member's day"]


class Wire(BaseModel):
    """Base of values serialized with camelCase names; unknown fields, as a newer release may
    write, are ignored."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        extra="ignore",
        defer_build=True,  # most commands never handle a question
    )


class WireText(Wire):
    """A wire value whose text comes from agents or people."""

    # File names and agent replies may contain bytes that are not text: escape them.
    _is_text = model_validator(mode="before")(encodable)


class _Subject(WireText):
    ticket: str | None = None
    """The ticket it concerns; None for the whole task."""


class ToolPermission(_Subject):
    """A tool call that needs approval: what it would do, where and why."""

    kind: Literal["tool_permission"] = "tool_permission"
    tool: str
    cwd: str
    effect: Effect = "other"
    command: str = ""
    """`run`: the command line."""
    paths: tuple[str, ...] = ()
    """`write`: the files."""
    target: str = ""
    """`fetch`: the address."""
    why: str = ""
    """The reason the agent gave; empty if it gave none."""
    said: str = ""
    """The last thing the agent said."""
    note: str = ""
    """A warning from Coterie, for example that no sandbox confines the call."""
    may_have_run_at: Instant | None = None
    """When an identical call with an unknown outcome was approved: it may already have run."""


class AgentQuestion(_Subject):
    """An agent asks the user a question of its own."""

    kind: Literal["agent_question"] = "agent_question"


class HumanTurn(_Subject):
    """It is a human member's turn to speak."""

    kind: Literal["human_turn"] = "human_turn"
    member: str
    name: str
    """How the member is addressed."""


class FailedTurn(_Subject):
    """A member's turn failed after all retries."""

    kind: Literal["failed_turn"] = "failed_turn"
    member: str
    turn: int
    failure: str
    """The `FailureKind` of the turn."""
    message: str
    hint: str | None = None
    manages: bool = False
    """Whether the member manages the session: nobody else can take its turns."""


class BudgetReached(_Subject):
    """A budget is used up; the next model call was not made."""

    kind: Literal["budget"] = "budget"
    scope: BudgetScope
    measure: Measure
    used: float
    limit: float
    member: str = ""
    """The task, ticket or member whose budget it is; empty for the budget of a day."""


class WorkflowChange(_Subject):
    """The recorded steps of a task no longer match its workflow."""

    kind: Literal["workflow_change"] = "workflow_change"
    step: str
    difference: str


class Subtask(_Subject):
    """A member wants another member to do a part of its work."""

    kind: Literal["subtask"] = "subtask"
    asker: str
    proposed: str | None = None


class ClarifyingQuestion(_Subject):
    """The manager needs to know something before it plans."""

    kind: Literal["clarification"] = "clarification"
    question: str
    number: int
    total: int


class PlanApproval(_Subject):
    """A plan that will be carried out only after the user approves it."""

    kind: Literal["plan_approval"] = "plan_approval"
    plan: str
    """The hash of the plan to which the answer is bound."""
    tickets: int
    replaces: bool = False
    """Whether an earlier plan was already approved."""
    why: str = ""
    """Why the earlier plan should change."""


class PlanRejected(_Subject):
    """The manager repeatedly produced plans that cannot be carried out."""

    kind: Literal["plan_rejected"] = "plan_rejected"
    manager: str
    tries: int


class FailedChecks(_Subject):
    """A ticket was approved although some of its checks fail."""

    kind: Literal["failed_checks"] = "failed_checks"
    checks: tuple[str, ...]
    """Each failed check and how it ended."""


class FailedTicket(_Subject):
    """A ticket failed for good."""

    kind: Literal["failed_ticket"] = "failed_ticket"
    title: str
    reason: str


class NobodyCapable(_Subject):
    """Every worker capable of a ticket has failed at it; the others lack the capability."""

    kind: Literal["nobody_capable"] = "nobody_capable"
    title: str
    capability: str
    workers: tuple[str, ...]
    """The workers that have the capability."""
    reason: str


class ReportConfirmation(_Subject):
    """The final report of a session, which is over once the user has confirmed it."""

    kind: Literal["report_confirmation"] = "report_confirmation"
    summary: str
    commit: str = ""
    """The commit to which the answer is bound; empty without git."""
    report: str = ""
    """The file with the full report."""


class OutsideEdits(_Subject):
    """Files outside a worker's worktree changed while it worked."""

    kind: Literal["outside_edits"] = "outside_edits"
    worker: str
    message: str


class TicketHelp(_Subject):
    """The manager needs the user to unblock a ticket."""

    kind: Literal["ticket_help"] = "ticket_help"
    question: str


class PhaseChoice(_Subject):
    """A phase of a pipeline has finished or been reverted: what comes next?"""

    kind: Literal["phase_choice"] = "phase_choice"
    phase: str
    """The phase that has finished."""
    next: str
    """The phase that would follow."""
    summary: str = ""
    reverted: bool = False
    """Whether the phase's work has just been reverted."""


class GateFailed(_Subject):
    """A pipeline gate failed and its rework rounds are used up."""

    kind: Literal["gate_failed"] = "gate_failed"
    phase: str
    gate: str
    rounds: int
    reasons: tuple[str, ...]


class FailedPhaseStep(_Subject):
    """A step of a pipeline failed."""

    kind: Literal["failed_phase_step"] = "failed_phase_step"
    phase: str
    step: str
    reason: str


class UnplannedFiles(_Subject):
    """A change touches files that the plan does not name."""

    kind: Literal["unplanned_files"] = "unplanned_files"
    member: str
    files: tuple[str, ...]


class PlanQuestion(_Subject):
    """The planning roles could not settle something among themselves."""

    kind: Literal["plan_question"] = "plan_question"
    question: str
    role: str = ""
    number: int
    total: int


class ChangeAcceptance(_Subject):
    """A pipeline's change, which becomes a commit on the user's branch once they accept it."""

    kind: Literal["change_acceptance"] = "change_acceptance"
    summary: str
    tree: str
    """The hash of the files to which the answer is bound."""
    failed: tuple[str, ...] = ()
    """Gates that did not pass."""
    problem: str = ""
    """Why the change could not be applied at the last attempt."""
    said: str = ""
    """What people said meanwhile: the coder hears it if the change is sent back."""
    behind: bool = False
    """Whether the user's branch has moved, so that the change must be tested again."""


class SilentMachine(_Subject):
    """A machine that owns tasks has been silent for too long: is it dead?"""

    kind: Literal["silent_machine"] = "silent_machine"
    machine: str
    owner: str
    """The process on that machine that owns the tasks."""
    beat: int
    """Its last beat: a newer one makes the question moot."""
    since: Instant
    """When that beat was seen."""
    tasks: tuple[str, ...]


About = Annotated[
    ToolPermission
    | AgentQuestion
    | HumanTurn
    | FailedTurn
    | BudgetReached
    | WorkflowChange
    | Subtask
    | ClarifyingQuestion
    | PlanApproval
    | PlanRejected
    | FailedChecks
    | FailedTicket
    | NobodyCapable
    | ReportConfirmation
    | OutsideEdits
    | TicketHelp
    | PhaseChoice
    | GateFailed
    | FailedPhaseStep
    | UnplannedFiles
    | PlanQuestion
    | ChangeAcceptance
    | SilentMachine,
    Field(discriminator="kind"),
]
