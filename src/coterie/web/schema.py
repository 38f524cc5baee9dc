"""The API's schemas of records, tasks and questions: the fields of `--json`, declared.

Where a type of the model has exactly these fields, its schema is derived from it, so that the two
cannot differ; `coterie.model.as_json` fills them.
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
    TaskStanding,
    TaskView,
    TicketRecord,
    ToolCallRecord,
)
from coterie.model.task import TaskRow
from coterie.model.team import Member, MemberType, Mode
from coterie.model.tool_call import Effect
from coterie.model.update import Usage, WaitsFor
from coterie.model.visible import encodable


class Shown(BaseModel):
    """An object of the API.  All of its fields are present, and no others."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", json_schema_serialization_defaults_required=True
    )


class ShownText(Shown):
    """An object with file names or contents, which may contain bytes that are not text: these are
    escaped."""

    _is_text = model_validator(mode="before")(encodable)


class RequestBody(BaseModel):
    """The parameters of a request; an unknown field is refused."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")


def _derived(
    kind: type[Any], base: type[Shown] = Shown, *, without: Collection[str] = (), **more: Any
) -> type[Shown]:
    """Derive the schema of a dataclass or model: its fields, under their own names."""
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
    return create_model(f"{kind.__name__}Shown", __base__=base, __doc__=doc, **fields, **more)


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
    """What a typed answer must look like."""

    regex: str | None
    required: bool
    meaning: str
    example: str


class _Asked(Shown):
    """A question, flattened; for a tool call, also what exactly would be done, where and why."""

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
    """A question of the inbox, with enough context to answer it without looking elsewhere."""

    project: str
    """The project's id."""
    root: str
    """The project's folder."""
    task_title: str
    asked_at: str
    answered_at: str | None = None

    @classmethod
    def of(cls, project: str, view: QuestionView) -> QuestionShown:
        """Convert a question of the inbox."""
        fields = as_json.question(view)
        return cls.model_validate({**fields, "project": project, "root": fields["project"]})


class StopShown(Shown):
    """Why a run ended although its task can be resumed; for a rate limit, whose and until when."""

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
"""The schemas of records, by type."""
if TYPE_CHECKING:
    RecordShown = BaseModel
else:
    RecordShown = _union(list(RECORDS.values()), "type")


def record_shown(record: Record) -> RecordShown:
    """Convert a record to its form in the API and its event stream."""
    return RECORDS[record.type].model_validate({"type": record.type, **as_json.fields_of(record)})


class EntryShown(Shown):
    """One line of a timeline."""

    seq: int
    """Its number in the project: later lines of any task have higher numbers."""
    at: str
    record: RecordShown

    @classmethod
    def of(cls, entry: Entry) -> EntryShown:
        """Convert an entry of a timeline."""
        return cls.model_construct(seq=entry.seq, at=entry.at, record=record_shown(entry.record))


class PageShown(Shown):
    """Part of a timeline, oldest first."""

    entries: list[EntryShown]
    more: bool
    """Whether there may be more entries in the direction that was read."""

    @classmethod
    def of(cls, entries: Sequence[Entry], limit: int) -> PageShown:
        """Build a page for which `limit` entries were requested."""
        shown = [EntryShown.of(entry) for entry in entries]
        return cls.model_construct(entries=shown, more=len(shown) == limit)


class UsedShown(Shown):
    """What was used: tokens and money as far as agents report them."""

    tokens: int
    usd: float


class _OfProject(Shown):
    project: str
    """The project's id."""


if TYPE_CHECKING:
    _TaskRowShown = _OfProject
else:
    _TaskRowShown = _derived(TaskRow, _OfProject)


class TaskShown(_TaskRowShown):
    """A task in a list."""

    pid: int | None
    """The process that runs it here; null if none does."""
    machine: str | None
    """The machine that runs it, if that is another one."""
    offered: bool
    """Whether any machine that has what it needs may run it."""
    questions: list[str]
    """The open questions of the task, its tickets and, for a root task, its subtasks."""
    standing: TaskStanding
    """Its status as shown to people: `waiting` if it asks, `parked` if nobody runs it."""
    resumable: bool
    """Whether no process runs it and it can be resumed."""
    used: UsedShown | None = None
    """What it has used so far; null if nothing was recorded, and in a rehearsal."""

    @classmethod
    def of(cls, project: str, view: TaskView, used: Usage | None = None) -> TaskShown:
        """Convert a task of a project."""
        return cls.model_validate({**as_json.task(view), "project": project, "used": _used(used)})


def _used(used: Usage | None) -> Mapping[str, object] | None:
    if used is None:
        return None
    tokens = (used.input_tokens or 0) + (used.output_tokens or 0)
    return {"tokens": tokens, "usd": used.cost_usd or 0.0}


class RunningShown(Shown):
    """A member of a running task, and what it is doing."""

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
        """Convert a running member of a project's task."""
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
    """What it may do without asking; null for a human."""

    @classmethod
    def of(cls, member: Member) -> MemberShown:
        """Convert a member as defined by its team."""
        fields = member.model_dump(include=set(cls.model_fields), by_alias=False)
        mode = member.permissions.mode if member.agent else None
        return cls.model_validate({**fields, "name": member.display_name, "mode": mode})


class FailureShown(Shown):
    """A turn that failed."""

    member: str
    message: str


class TaskDetailShown(TaskShown):
    """Everything about one task."""

    goal: str
    team: str
    members: list[MemberShown]
    running: list[RunningShown]
    """What the active members are doing."""
    summary: str
    turns: int
    failures: list[FailureShown]
    children: list[TaskShown]
    asked: list[QuestionShown]
    """Its questions, open or not."""
    folder: str
    rehearsal: bool
    branch: str
    """The branch of the work that can be accepted; empty if there is none."""

    @classmethod
    def of_detail(
        cls, project: str, shown: TaskDetail, running: Sequence[RunningMember], branch: str
    ) -> TaskDetailShown:
        """Convert a task, with what its members are doing."""
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
