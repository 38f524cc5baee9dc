"""What the API shows of records, tasks and questions: the fields of `--json`, declared.

Where a type of the model has just these fields, its form on the wire is made from it, so that the
two cannot differ; `coterie.model.as_json` fills them.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Union, get_args

from pydantic import BaseModel, ConfigDict, Discriminator, Field, create_model, model_validator
from pydantic_core import PydanticUndefined

from coterie.model import as_json
from coterie.model.about import About
from coterie.model.interaction import ContentKind, Kind, Purpose, Style
from coterie.model.record import (
    DeltaRecord,
    Entry,
    ErrorRecord,
    MemberRecord,
    MemberState,
    MessageRecord,
    PhaseRecord,
    QuestionView,
    Record,
    ResultRecord,
    RunningMember,
    TaskDetail,
    TaskRecord,
    TaskView,
    TicketRecord,
    ToolCallRecord,
)
from coterie.model.task import Status
from coterie.model.team import Member, MemberType, Mode
from coterie.model.tool_call import Effect
from coterie.model.update import Usage, WaitsFor
from coterie.model.visible import encodable


class Shown(BaseModel):
    """An object of the API.  All of its fields are there, and no others."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", json_schema_serialization_defaults_required=True
    )


class ShownText(Shown):
    """One with names of files or their contents, which may hold what is no text: it is written
    out."""

    _is_text = model_validator(mode="before")(encodable)


class RequestBody(BaseModel):
    """What a request says; a field that nobody knows is refused."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")


def _derived(kind: type[Any], *, without: Collection[str] = (), **more: Any) -> type[Shown]:
    """The form on the wire of a dataclass or of a model: its fields, under their own names."""
    hints = typing.get_type_hints(kind, include_extras=True)
    if issubclass(kind, BaseModel):
        defaults = {one: info.default for one, info in kind.model_fields.items()}
    else:
        defaults = {one.name: _default(one) for one in dataclasses.fields(kind)}
    fields: dict[str, Any] = {
        name: (hints[name], ... if default is PydanticUndefined else default)
        for name, default in defaults.items()
        if name not in without
    }
    doc = (kind.__doc__ or "").partition("\n\n")[0]
    return create_model(f"{kind.__name__}Shown", __base__=Shown, __doc__=doc, **fields, **more)


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return Field(default_factory=field.default_factory)
    return ...


def _union(kinds: Sequence[type[Shown]], by: str) -> Any:
    return Annotated[Union[tuple(kinds)], Discriminator(by)]  # noqa: UP007


if TYPE_CHECKING:
    AboutShown = BaseModel
else:
    AboutShown = _union([_derived(one) for one in get_args(get_args(About)[0])], "kind")


class OptionShown(Shown):
    """One choice."""

    id: str
    label: str
    style: Style
    default: bool
    detail: str


class ValidationShown(Shown):
    """What a typed answer must be."""

    regex: str | None
    required: bool
    meaning: str
    example: str


class _Asked(Shown):
    """A question, flat; of a tool call, also what exactly would be done, where and why."""

    id: str
    task: str
    member: str
    kind: Kind
    purpose: Purpose
    title: str
    description: str
    content: str
    content_kind: ContentKind
    options: list[OptionShown]
    validation: ValidationShown
    state: Literal["open", "answered", "closed"]
    about: AboutShown | None
    command: str | None = None
    diff: str | None = None
    cwd: str | None = None
    reason: str | None = None
    tool: str | None = None
    said: str | None = None
    note: str | None = None
    effect: Effect | None = None
    may_have_run_at: str | None = None
    answer: str | None = None
    answer_text: str | None = None
    by: str | None = None


class InteractionRecordShown(_Asked):
    """A question was asked (`open`), answered, or closed."""

    type: Literal["interaction"] = "interaction"


class QuestionShown(_Asked):
    """A question of the inbox, with enough around it to answer without looking elsewhere."""

    project: str
    """The project's id."""
    root: str
    """The project's folder."""
    task_title: str
    asked_at: str
    answered_at: str | None = None

    @classmethod
    def of(cls, project: str, view: QuestionView) -> QuestionShown:
        """A question as the inbox holds it."""
        fields = as_json.question(view)
        return cls.model_validate({**fields, "project": project, "root": fields["project"]})


class StopShown(Shown):
    """Why a run ended although its task can be resumed; of a rate limit, whose and until when."""

    reason: str
    member: str | None = None
    until: str | None = None


def _record(kind: Any, **more: Any) -> type[Shown]:
    return _derived(kind, without=("at", *more), type=(Literal[kind.type], kind.type), **more)


RECORDS: Mapping[str, type[Shown]] = {
    InteractionRecordShown.model_fields["type"].default: InteractionRecordShown,
    ResultRecord.type: _record(ResultRecord, stop=(StopShown | None, None)),
    **{
        kind.type: _record(kind)
        for kind in (
            TaskRecord,
            MemberRecord,
            DeltaRecord,
            MessageRecord,
            ToolCallRecord,
            TicketRecord,
            PhaseRecord,
            ErrorRecord,
        )
    },
}
"""By type: a record on the wire."""
if TYPE_CHECKING:
    RecordShown = BaseModel
else:
    RecordShown = _union(list(RECORDS.values()), "type")


def record_shown(told: Record) -> RecordShown:
    """A record, as the API and its stream of events tell it."""
    return RECORDS[told.type].model_validate({"type": told.type, **as_json.fields_of(told)})


class EntryShown(Shown):
    """One line of a timeline."""

    seq: int
    """Its number in the project: later lines of all its tasks have higher ones."""
    at: str
    record: RecordShown

    @classmethod
    def of(cls, entry: Entry) -> EntryShown:
        """An entry of a timeline."""
        return cls.model_construct(seq=entry.seq, at=entry.at, record=record_shown(entry.record))


class PageShown(Shown):
    """Part of a timeline, oldest first."""

    entries: list[EntryShown]
    more: bool
    """Whether there is more in the direction that was read."""

    @classmethod
    def of(cls, entries: Sequence[Entry], limit: int) -> PageShown:
        """A page for which `limit` entries were asked for."""
        shown = [EntryShown.of(entry) for entry in entries]
        return cls.model_construct(entries=shown, more=len(shown) == limit)


class UsedShown(Shown):
    """What was used: of tokens and money as far as agents tell."""

    tokens: int
    usd: float


class TaskShown(Shown):
    """A task in a list."""

    project: str
    """The project's id."""
    id: str
    session_id: str
    parent_id: str | None
    workflow: str
    title: str
    status: Status
    reason: str
    created_at: str
    changed_at: str
    pid: int | None
    """The process that runs it here; null when none does."""
    machine: str | None
    """The machine that runs it, where that is another one."""
    offered: bool
    """Whether any machine may run it that has what it needs."""
    questions: list[str]
    """The open questions of it and of its tickets."""
    resumable: bool
    """Whether nobody runs it, and it can go on."""
    used: UsedShown | None = None
    """What it used so far; null where nothing is on record, and in a rehearsal."""

    @classmethod
    def of(cls, project: str, view: TaskView, used: Usage | None = None) -> TaskShown:
        """A task of a project."""
        return cls.model_validate({**as_json.task(view), "project": project, "used": _used(used)})


def _used(used: Usage | None) -> Mapping[str, object] | None:
    if used is None:
        return None
    tokens = (used.input_tokens or 0) + (used.output_tokens or 0)
    return {"tokens": tokens, "usd": used.cost_usd or 0.0}


class RunningShown(Shown):
    """A member of a task that runs, and what it does now."""

    task: str
    member: str
    label: str
    agent: str
    pid: int | None
    state: MemberState
    reason: str
    since: str
    folder: str
    mode: Mode
    home: str | None
    thread: str | None
    memory: int | None
    waits_for: WaitsFor | None
    until: str | None
    question: str | None
    parked: bool
    project: str

    @classmethod
    def of(cls, project: str, member: RunningMember) -> RunningShown:
        """A member of a task of a project."""
        return cls.model_validate({**as_json.running(member), "project": project})


class MemberShown(Shown):
    """A member of a task's team."""

    id: str
    name: str
    type: MemberType
    agent: str | None
    role: str
    model: str | None
    mode: Mode | None
    """What it may do unasked; null for a human."""

    @classmethod
    def of(cls, member: Member) -> MemberShown:
        """A member as its team has it."""
        return cls(
            id=member.id,
            name=member.display_name,
            type=member.type,
            agent=member.agent,
            role=member.role,
            model=member.model,
            mode=member.permissions.mode if member.agent else None,
        )


class FailureShown(Shown):
    """A turn that failed."""

    member: str
    message: str


class TaskDetailShown(TaskShown):
    """All about one task."""

    goal: str
    team: str
    members: list[MemberShown]
    running: list[RunningShown]
    """What members do now, those who have something to do."""
    summary: str
    turns: int
    failures: list[FailureShown]
    children: list[TaskShown]
    asked: list[QuestionShown]
    """Its questions, open or not."""
    folder: str
    rehearsal: bool
    branch: str
    """Where the work is that can be accepted; empty where there is none."""

    @classmethod
    def of_detail(
        cls, project: str, shown: TaskDetail, running: Sequence[RunningMember], branch: str
    ) -> TaskDetailShown:
        """A task, and what its members do."""
        fields = as_json.detail(shown)
        created = shown.state.created
        fields |= {
            "project": project,
            "questions": shown.view.questions,
            "asked": [QuestionShown.of(project, one) for one in shown.questions],
            "members": [MemberShown.of(one) for one in created.team.in_order],
            "running": [RunningShown.of(project, one) for one in running],
            "children": [TaskShown.of(project, one) for one in shown.children],
            "rehearsal": created.rehearsal,
            "branch": branch,
        }
        return cls.model_validate(fields)
