"""Envelopes: the messages between manager, workers, user and Coterie about tickets.

The names and shapes are a published format: every envelope is stored on disk, for people and other
programs, and validated against the schemas of these models when read and when written.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal, NamedTuple, Self, cast, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from coterie.model.instant import Instant
from coterie.model.ticket import TicketState
from coterie.model.visible import encodable

VERSION = "1.0"
ID = r"^[A-Za-z0-9][A-Za-z0-9._#-]{0,63}$"

Id = Annotated[str, Field(pattern=ID)]
Text = Annotated[str, Field(min_length=1)]


def _as_list(value: object) -> object:
    """Wrap a single text in a list: models often write one where a list is expected."""
    return [value] if isinstance(value, str) else value


Lines = Annotated[tuple[str, ...], BeforeValidator(_as_list)]


class _Payload(BaseModel):
    # Fields added later default to None and are then omitted: earlier signatures stay valid.
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    # File names and agent replies may contain bytes that are not text: escape them.
    _is_text = model_validator(mode="before")(encodable)


class FieldRule(NamedTuple):
    """A payload rule: if a field has this value, one of the other fields must not be empty."""

    field: str
    value: str
    one_of: tuple[str, ...]


class RuledPayload(_Payload):
    """A payload with a rule across its fields."""

    field_rule: ClassVar[FieldRule]

    @model_validator(mode="after")
    def _check_field_rule(self) -> Self:
        field, value, one_of = self.field_rule
        if getattr(self, field) == value and not any(getattr(self, name) for name in one_of):
            raise ValueError(f"{field} is {value}, so {one_of[0]} must not be empty")
        return self


class Clarification(RuledPayload):
    """The manager asks the user questions, or states that everything is clear."""

    field_rule: ClassVar[FieldRule] = FieldRule("status", "open", ("questions",))

    questions: Lines = Field(default=(), description="What the user is asked.")
    status: Literal["open", "clear"] = Field(description="clear: there are no more questions.")
    intent_summary: str = Field(description="What the user wants, as the manager understood it.")


class ClarificationResponse(_Payload):
    """The user's answers, in the order of the questions."""

    answers: Lines = Field(default=(), description="In the order of the questions.")
    status: Literal["open", "clear"] = Field(description="clear: the user wants no more questions.")


class AssignedTo(_Payload):
    """The worker that a part is assigned to."""

    role_id: Id = Field(description="A worker.")


class PlanTask(_Payload):
    """One part of a plan."""

    task_id: Id = Field(description="The part's name, unique in the plan.")
    description: Text = Field(description="What is to be done.")
    dependencies: tuple[Id, ...] = Field(
        default=(), description="Parts that must be done before this one begins."
    )
    expected_outputs: Lines = Field(default=(), description="Files that it will change or make.")
    assigned_to: AssignedTo | None = Field(
        default=None, description="Who should do it. Default: any worker who can."
    )
    capability: str | None = Field(
        default=None, description="The capability a worker needs, if none is named."
    )
    status: TicketState = Field(default="pending", description="Its current state.")
    risks: Lines = Field(
        default=(), description="What could go wrong: discussed before work on it begins."
    )


class Plan(_Payload):
    """How the goal is split into parts."""

    tasks: Annotated[tuple[PlanTask, ...], Field(min_length=1)] = Field(
        description="The parts that the goal is split into."
    )


class HistoryEntry(_Payload):
    """One entry of a ticket's history."""

    timestamp: Instant = Field(description="When it happened: UTC, ISO 8601.")
    event: str = Field(description="What happened, in one word.")
    message: str = Field(default="", description="Details.")


class TicketPayload(_Payload):
    """The current state of a ticket."""

    ticket_id: Id = Field(description="The ticket.")
    task_id: Id = Field(description="The part of the plan that it tracks.")
    owner: str | None = Field(default=None, description="The worker. Omitted until one is chosen.")
    status: TicketState = Field(description="Its current state.")
    dependencies: tuple[Id, ...] = Field(
        default=(), description="Tickets that must be done before this one begins."
    )
    history: tuple[HistoryEntry, ...] = Field(
        default=(), description="Everything that happened to it, oldest first."
    )
    closed_by: str | None = Field(
        default=None, description="Why it no longer counts: a ticket, dropped or canceled."
    )
    reason: str = Field(default="", description="The reason for its current state.")


class InstructionProposal(_Payload):
    """How the manager proposes to do a risky ticket, before work on it begins."""

    summary: Text = Field(description="How the manager proposes to do it.")
    open_questions: Lines = Field(
        default=(), description="What it would like to know from the worker."
    )
    risks: Lines = Field(default=(), description="What could go wrong.")
    draft_steps: Lines = Field(default=(), description="The proposed steps.")


class Criterion(_Payload):
    """A condition for acceptance: checked by its command, or by a person if it has none."""

    text: Text = Field(description="What must hold.")
    command: str | None = Field(
        default=None,
        description="A command that exits with 0 if it holds. Omitted: a person must check.",
    )


class Instruction(_Payload):
    """What a worker should do."""

    summary: Text = Field(description="What is to be done.")
    ask_user: str | None = Field(
        default=None, description="What only the user can provide: asked before work continues."
    )
    steps: Lines = Field(default=(), description="How.")
    resources: Lines = Field(default=(), description="Files or facts that are needed.")
    acceptance_criteria: tuple[Criterion, ...] = Field(
        default=(), description="What must hold in the end."
    )

    @field_validator("acceptance_criteria", mode="before")
    @classmethod
    def _texts_are_criteria(cls, given: object) -> object:
        listed = _as_list(given)
        if not isinstance(listed, list | tuple):
            return listed
        many = cast("Sequence[object]", listed)
        return [{"text": one} if isinstance(one, str) else one for one in many]


class Report(RuledPayload):
    """A worker's report on its work."""

    field_rule: ClassVar[FieldRule] = FieldRule("status", "blocked", ("issues", "next_actions"))

    status: Literal["proposal", "completed", "blocked", "error"] = Field(
        description="How far the worker came."
    )
    outputs: Lines = Field(default=(), description="Files that it changed or made.")
    evidence: Lines = Field(default=(), description="What shows that it works.")
    issues: Lines = Field(default=(), description="What is open, or what is needed to continue.")
    next_actions: Lines = Field(default=(), description="What should be done next.")


class Review(RuledPayload):
    """The manager's review of a report."""

    field_rule: ClassVar[FieldRule] = FieldRule(
        "decision", "changes_requested", ("requested_changes", "notes")
    )

    decision: Literal["approved", "changes_requested"] = Field(
        description="Whether the work is accepted."
    )
    notes: str = Field(default="", description="What the manager thinks of it.")
    requested_changes: Lines = Field(default=(), description="What must be changed.")


class CheckRun(_Payload):
    """A check that Coterie ran, and how it ended."""

    command: Text = Field(description="What was run.")
    exit_code: int | None = Field(
        default=None, description="Its exit code. Omitted if it did not finish."
    )
    tree: str = Field(default="", description="The hash of the files that it ran on.")

    @property
    def passed(self) -> bool:
        """Whether it ended with exit code 0."""
        return self.exit_code == 0


_OLD_LABEL = "check: "
_OLD_EXIT = re.compile(r"exit (-?\d+)")
_OLD_TREE = re.compile(r", at tree ([0-9a-f]+)$")


class ArtifactRef(_Payload):
    """A file that a task produced."""

    label: Text = Field(description="What it is.")
    uri: Text = Field(description="Where it is, relative to the session's artifacts, or file://.")
    digest: str | None = Field(
        default=None, pattern=r"^sha256:[0-9a-f]{64}$", description="Of the file's content."
    )
    content_type: str | None = Field(default=None, description="Its media type.")
    size_bytes: int | None = Field(default=None, ge=0, description="Its size in bytes.")
    description: str = Field(default="", description="Further information about it.")
    check: CheckRun | None = Field(
        default=None, description="The check whose log it is. Omitted if it is not a log."
    )

    @property
    def checked(self) -> CheckRun | None:
        """The check, also for references written before the `check` field existed."""
        if self.check is not None or not self.label.startswith(_OLD_LABEL):
            return self.check
        code, tree = _OLD_EXIT.match(self.description), _OLD_TREE.search(self.description)
        return CheckRun(
            command=self.label.removeprefix(_OLD_LABEL) or "-",
            exit_code=int(code[1]) if code else None,
            tree=tree[1] if tree else "",
        )


MERGE_CONFLICT = "merge_conflict"
"""The error code for work sent back because it conflicts with work approved in the meantime."""


class Error(_Payload):
    """Something that went wrong, and what to do about it."""

    code: Text = Field(description="What went wrong, in one word.")
    message: Text = Field(description="Details.")
    resolution_hint: str = Field(default="", description="What to do about it.")


Payload = (
    Clarification
    | ClarificationResponse
    | Plan
    | TicketPayload
    | InstructionProposal
    | Instruction
    | Report
    | Review
    | ArtifactRef
    | Error
)

PayloadType = Literal[
    "clarification",
    "clarification_response",
    "plan",
    "ticket",
    "instruction_proposal",
    "instruction",
    "report",
    "review",
    "artifact_ref",
    "error",
]

PAYLOADS: Mapping[PayloadType, type[Payload]] = dict(
    zip(get_args(PayloadType), get_args(Payload), strict=True)  # both are in the same order
)
TYPES: Mapping[type[Payload], PayloadType] = {model: name for name, model in PAYLOADS.items()}
_UNSIGNED_IF_EMPTY = ("ask_user", "check")
"""Payload fields added after the first signatures, which did not cover them."""
_SIGNATURE = "signature"


def signature_of(fields: Mapping[str, object], key: bytes) -> str:
    """The signature of the object in an envelope's file: HMAC-SHA256 of that object without its
    `signature`, as JSON in UTF-8 with sorted keys and no spaces."""
    plain = {name: value for name, value in fields.items() if name != _SIGNATURE}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "hmac-sha256:" + hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


class Envelope(BaseModel):
    """One message, as stored."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    session_id: str = Field(description="The session: its root task.")
    timestamp: Instant = Field(description="When it was sent: UTC, ISO 8601.")
    source: str = Field(description="The sender: a member, the user, or coterie.")
    target: str = Field(description="The recipient.")
    payload_type: PayloadType = Field(description="The type of the payload.")
    version: Literal["1.0"] = Field(default=VERSION, description="The version of this format.")
    payload: Payload
    ticket_id: str | None = Field(
        default=None, description="The ticket it is about. Omitted for the whole session."
    )
    signature: str | None = Field(
        default=None,
        description="`hmac-sha256:…` of all the rest of this object, as JSON in UTF-8 with sorted "
        "keys and no spaces, where the session has a key.",
    )

    @model_validator(mode="before")
    @classmethod
    def _payload_by_its_type(cls, given: object) -> object:
        """Validate the payload as its `payload_type`, so that errors name that model's fields."""
        if not isinstance(given, Mapping):
            return given
        body: dict[str, object] = dict(given)  # pyright: ignore[reportUnknownArgumentType]
        model = PAYLOADS.get(body.get("payload_type"))  # pyright: ignore[reportArgumentType]
        if model is not None and isinstance(body.get("payload"), Mapping):
            body["payload"] = model.model_validate(body["payload"])
        return body

    @classmethod
    def of(
        cls,
        session_id: str,
        at: str,
        source: str,
        target: str,
        payload: Payload,
        ticket_id: str | None = None,
    ) -> Envelope:
        """Wrap a payload in an envelope."""
        return cls(
            session_id=session_id,
            timestamp=at,
            source=source,
            target=target,
            payload_type=TYPES[type(payload)],
            payload=payload,
            ticket_id=ticket_id,
        )

    def signed(self, key: bytes) -> Envelope:
        """A copy with its signature."""
        return self.model_copy(update={_SIGNATURE: signature_of(self.as_stored, key)})

    def is_signed_by(self, key: bytes) -> bool:
        """Whether it is unchanged since it was signed with this key."""
        signature = (self.signature or "").encode()
        signatures = (
            signature_of(form, key).encode() for form in (self.as_stored, self._as_first_signed())
        )
        return any(hmac.compare_digest(signature, one) for one in signatures)

    @property
    def as_stored(self) -> dict[str, object]:
        """The object stored in its file."""
        return self.model_dump(mode="json", exclude_none=True)

    def _as_first_signed(self) -> dict[str, object]:
        """The object that the first signatures covered, with the fields that the file omits."""
        plain = self.model_dump(mode="json")
        for name in _UNSIGNED_IF_EMPTY:
            if plain["payload"].get(name, "") is None:
                del plain["payload"][name]
        return plain
