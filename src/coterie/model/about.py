"""What a question is about, as data: surfaces choose their words by these, never by a title."""

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
    """A value that is written with the names of the design; fields of a newer release are
    ignored."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        extra="ignore",
        defer_build=True,  # most commands never meet a question
    )


class WireText(Wire):
    """One whose words come from agents, or from people."""

    # Names of files and replies of agents may hold what is no text; it is written out.
    _is_text = model_validator(mode="before")(encodable)


class _Subject(WireText):
    ticket: str | None = None
    """The ticket it concerns; None for the whole task."""


class ToolPermission(_Subject):
    """A tool call that may only run after a yes: what it would do, where and why."""

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
    """The reason the agent gave; empty where it gave none."""
    said: str = ""
    """The last thing the agent said."""
    note: str = ""
    """A warning from Coterie, such as that no sandbox confines it."""
    may_have_run_at: Instant | None = None
    """When an equal call was approved whose end is unknown: it may already have run."""


class AgentQuestion(_Subject):
    """An agent asks the user something of its own."""

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
    """Whether the member is the manager of a session: nobody can take its turns."""


class BudgetReached(_Subject):
    """A budget is used up; the next model call was not made."""

    kind: Literal["budget"] = "budget"
    scope: BudgetScope
    measure: Measure
    used: float
    limit: float
    member: str = ""
    """Whose budget it is, where it is a member's."""


class WorkflowChange(_Subject):
    """What is recorded of a task no longer fits its workflow."""

    kind: Literal["workflow_change"] = "workflow_change"
    step: str
    difference: str


class Subtask(_Subject):
    """A member wants another one to do a part of its work."""

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
    """A plan that is carried out only once the user has approved it."""

    kind: Literal["plan_approval"] = "plan_approval"
    plan: str
    """The hash of the plan that the answer is bound to."""
    tickets: int
    replaces: bool = False
    """Whether an earlier plan was approved already."""
    why: str = ""
    """Why the earlier plan is to change."""


class PlanRejected(_Subject):
    """The manager's plans cannot be carried out, try after try."""

    kind: Literal["plan_rejected"] = "plan_rejected"
    manager: str
    tries: int


class FailedChecks(_Subject):
    """A ticket was approved although checks fail."""

    kind: Literal["failed_checks"] = "failed_checks"
    checks: tuple[str, ...]
    """Each failed check and how it ended."""


class FailedTicket(_Subject):
    """A ticket failed for good."""

    kind: Literal["failed_ticket"] = "failed_ticket"
    title: str
    reason: str


class NobodyCapable(_Subject):
    """Every worker who can do a ticket failed at it; others lack the capability."""

    kind: Literal["nobody_capable"] = "nobody_capable"
    title: str
    capability: str
    workers: tuple[str, ...]
    """Those who have it."""
    reason: str


class ReportConfirmation(_Subject):
    """The final report of a session, which is over once the user has confirmed it."""

    kind: Literal["report_confirmation"] = "report_confirmation"
    summary: str
    commit: str = ""
    """The work that the answer is bound to; empty where there is no git."""
    report: str = ""
    """The file that holds all of it."""


class OutsideEdits(_Subject):
    """Files outside a worker's worktree changed while it worked."""

    kind: Literal["outside_edits"] = "outside_edits"
    worker: str
    message: str


class TicketHelp(_Subject):
    """The manager cannot unblock a ticket without the user."""

    kind: Literal["ticket_help"] = "ticket_help"
    question: str


class PhaseChoice(_Subject):
    """A phase of a pipeline is over, or its work was taken back: what comes next?"""

    kind: Literal["phase_choice"] = "phase_choice"
    phase: str
    """The phase that is over."""
    next: str
    """The phase that would follow."""
    summary: str = ""
    reverted: bool = False
    """Whether the work has just been taken back."""


class GateFailed(_Subject):
    """A gate of a pipeline failed, and went back as often as it may."""

    kind: Literal["gate_failed"] = "gate_failed"
    phase: str
    gate: str
    rounds: int
    reasons: tuple[str, ...]


class FailedPhaseStep(_Subject):
    """A step of a pipeline came to nothing."""

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
    """The roles of a planning could not settle something among themselves."""

    kind: Literal["plan_question"] = "plan_question"
    question: str
    role: str = ""
    number: int
    total: int


class ChangeAcceptance(_Subject):
    """The change of a pipeline, which becomes a commit on the user's branch on their word."""

    kind: Literal["change_acceptance"] = "change_acceptance"
    summary: str
    tree: str
    """The files that the answer is bound to."""
    failed: tuple[str, ...] = ()
    """Gates that did not pass."""
    problem: str = ""
    """Why it could not be taken when that was last wanted."""


class SilentMachine(_Subject):
    """A machine with tasks that has not been heard of for too long: is it dead?"""

    kind: Literal["silent_machine"] = "silent_machine"
    machine: str
    owner: str
    """The process there that owns the tasks."""
    beat: int
    """Its last sign of life: after another one nobody needs to know any more."""
    since: Instant
    """When that was seen."""
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
