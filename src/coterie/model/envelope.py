"""Envelopes: what manager, workers, user and Coterie say to each other about tickets.

The names and shapes are a published format: every envelope is on disk, for people and other
programs, and is checked against the schemas made from these models on reading and on writing.
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

VERSION = "1.0"
ID = r"^[A-Za-z0-9][A-Za-z0-9._#-]{0,63}$"

Id = Annotated[str, Field(pattern=ID)]
Text = Annotated[str, Field(min_length=1)]


def _listed(given: object) -> object:
    """Models often write one thing where a list is asked for; what they mean is plain."""
    return [given] if isinstance(given, str) else given


Lines = Annotated[tuple[str, ...], BeforeValidator(_listed)]


class _Payload(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")


class Needs(NamedTuple):
    """A rule of a payload: where a field has this value, one of the others says something."""

    field: str
    value: str
    one_of: tuple[str, ...]


class RuledPayload(_Payload):
    """A payload with a rule across its fields."""

    needs: ClassVar[Needs]

    @model_validator(mode="after")
    def _says_what_it_needs(self) -> Self:
        field, value, one_of = self.needs
        if getattr(self, field) == value and not any(getattr(self, name) for name in one_of):
            raise ValueError(f"{field} is {value}, so {one_of[0]} must say what is needed")
        return self


class Clarification(RuledPayload):
    """The manager asks the user, or says that all is clear."""

    needs: ClassVar[Needs] = Needs("status", "open", ("questions",))

    questions: Lines = ()
    status: Literal["open", "clear"]
    intent_summary: str


class ClarificationResponse(_Payload):
    """The user's answers, in the order of the questions."""

    answers: Lines = ()
    status: Literal["open", "clear"]


class AssignedTo(_Payload):
    """Who should do it."""

    role_id: Id


class PlanTask(_Payload):
    """One part of a plan."""

    task_id: Id
    description: Text
    dependencies: tuple[Id, ...] = ()
    expected_outputs: Lines = ()
    assigned_to: AssignedTo | None = None
    capability: str | None = None
    """What a worker must be able to do, where nobody is named."""
    status: TicketState = "pending"
    risks: Lines = ()


class Plan(_Payload):
    """How the goal is split up."""

    tasks: Annotated[tuple[PlanTask, ...], Field(min_length=1)]


class HistoryEntry(_Payload):
    """One line of a ticket's history."""

    timestamp: Instant
    event: str
    message: str = ""


class TicketPayload(_Payload):
    """A ticket as it stands."""

    ticket_id: Id
    task_id: Id
    owner: str | None = None
    status: TicketState
    dependencies: tuple[Id, ...] = ()
    history: tuple[HistoryEntry, ...] = ()
    closed_by: str | None = None
    reason: str = ""


class InstructionProposal(_Payload):
    """How the manager would have a risky ticket done, before it is."""

    summary: Text
    open_questions: Lines = ()
    risks: Lines = ()
    draft_steps: Lines = ()


class Criterion(_Payload):
    """What must hold in the end; with a command it is checked, without one a person must look."""

    text: Text
    command: str | None = None


class Instruction(_Payload):
    """What a worker is to do."""

    summary: Text
    ask_user: str | None = None
    """What only the user can give: asked before the worker goes on."""
    steps: Lines = ()
    resources: Lines = ()
    acceptance_criteria: tuple[Criterion, ...] = ()

    @field_validator("acceptance_criteria", mode="before")
    @classmethod
    def _texts_are_criteria(cls, given: object) -> object:
        listed = _listed(given)
        if not isinstance(listed, list | tuple):
            return listed
        many = cast("Sequence[object]", listed)
        return [{"text": one} if isinstance(one, str) else one for one in many]


class Report(RuledPayload):
    """What a worker says of its work."""

    needs: ClassVar[Needs] = Needs("status", "blocked", ("issues", "next_actions"))

    status: Literal["proposal", "completed", "blocked", "error"]
    outputs: Lines = ()
    evidence: Lines = ()
    issues: Lines = ()
    next_actions: Lines = ()


class Review(RuledPayload):
    """What the manager says of a report."""

    needs: ClassVar[Needs] = Needs("decision", "changes_requested", ("requested_changes", "notes"))

    decision: Literal["approved", "changes_requested"]
    notes: str = ""
    requested_changes: Lines = ()


class CheckRun(_Payload):
    """A check that Coterie ran, and how it ended."""

    command: Text
    exit_code: int | None = None
    """None: it did not end in its time, or could not be started."""
    tree: str = ""
    """The hash of the files it ran on; empty where nobody can tell."""

    @property
    def passed(self) -> bool:
        """Whether it ended with exit code 0."""
        return self.exit_code == 0


_OLD_LABEL = "check: "
_OLD_EXIT = re.compile(r"exit (-?\d+)")
_OLD_TREE = re.compile(r", at tree ([0-9a-f]+)$")


class ArtifactRef(_Payload):
    """A file that a task produced."""

    label: Text
    uri: Text
    digest: str | None = Field(default=None, pattern=r"^sha256:[0-9a-f]{64}$")
    content_type: str | None = None
    size_bytes: int | None = Field(default=None, ge=0)
    description: str = ""
    check: CheckRun | None = None
    """The check that this is the log of."""

    @property
    def checked(self) -> CheckRun | None:
        """The same, also where it was written before there was a field for it."""
        if self.check is not None or not self.label.startswith(_OLD_LABEL):
            return self.check
        code, tree = _OLD_EXIT.match(self.description), _OLD_TREE.search(self.description)
        return CheckRun(
            command=self.label.removeprefix(_OLD_LABEL) or "-",
            exit_code=int(code[1]) if code else None,
            tree=tree[1] if tree else "",
        )


MERGE_CONFLICT = "merge_conflict"
"""The code of the error by which work is sent back that conflicts with what was approved since."""


class Error(_Payload):
    """Something that went wrong, and what to do."""

    code: Text
    message: Text
    resolution_hint: str = ""


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
"""Payload fields that are younger than the first signatures, which were made without them."""


class Envelope(BaseModel):
    """One message, as it is kept."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    session_id: str
    timestamp: Instant
    source: str
    target: str
    payload_type: PayloadType
    version: Literal["1.0"] = VERSION
    payload: Payload
    ticket_id: str | None = None
    """Which ticket it is about; None for the whole session."""
    signature: str | None = None
    """`hmac-sha256:…` over all the rest, where the session has a key."""

    @model_validator(mode="before")
    @classmethod
    def _payload_by_its_type(cls, given: object) -> object:
        """Read the payload as what `payload_type` says: mistakes are then named by its fields."""
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
        """An envelope around a payload."""
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
        """The same with its signature."""
        return self.model_copy(update={"signature": self._signature(key)})

    def is_signed_by(self, key: bytes) -> bool:
        """Whether nobody changed it since it was signed with this key."""
        given = (self.signature or "").encode()
        return hmac.compare_digest(given, self._signature(key).encode())

    def _signature(self, key: bytes) -> str:
        plain = self.model_dump(mode="json", exclude={"signature"})
        for name in _UNSIGNED_IF_EMPTY:
            if plain["payload"].get(name, "") is None:
                del plain["payload"][name]
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return "hmac-sha256:" + hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
