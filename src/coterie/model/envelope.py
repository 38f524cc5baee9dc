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
from coterie.model.visible import encodable

VERSION = "1.0"
ID = r"^[A-Za-z0-9][A-Za-z0-9._#-]{0,63}$"

Id = Annotated[str, Field(pattern=ID)]
Text = Annotated[str, Field(min_length=1)]


def _listed(given: object) -> object:
    """Models often write one thing where a list is asked for; what they mean is plain."""
    return [given] if isinstance(given, str) else given


Lines = Annotated[tuple[str, ...], BeforeValidator(_listed)]


class _Payload(BaseModel):
    # What is added later is None by default, and so left out: signatures made before still hold.
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _is_text(cls, given: object) -> object:
        """Names of files and replies of agents may hold what is no text; it is written out."""
        return encodable(given)


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

    questions: Lines = Field(default=(), description="What the user is asked.")
    status: Literal["open", "clear"] = Field(description="clear: nothing more is to be asked.")
    intent_summary: str = Field(description="What the user wants, as it was understood.")


class ClarificationResponse(_Payload):
    """The user's answers, in the order of the questions."""

    answers: Lines = Field(default=(), description="In the order of the questions.")
    status: Literal["open", "clear"] = Field(description="clear: the user wants no more questions.")


class AssignedTo(_Payload):
    """Who should do it."""

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
        default=None, description="Who should do it. Left out: whoever can."
    )
    capability: str | None = Field(
        default=None, description="What a worker must be able to do, where nobody is named."
    )
    status: TicketState = Field(default="pending", description="How it stands.")
    risks: Lines = Field(
        default=(), description="What could go wrong: it is talked over before it is done."
    )


class Plan(_Payload):
    """How the goal is split up."""

    tasks: Annotated[tuple[PlanTask, ...], Field(min_length=1)] = Field(
        description="The parts that the goal is split into."
    )


class HistoryEntry(_Payload):
    """One line of a ticket's history."""

    timestamp: Instant = Field(description="When it happened: UTC, ISO 8601.")
    event: str = Field(description="What happened, in one word.")
    message: str = Field(default="", description="And in more.")


class TicketPayload(_Payload):
    """A ticket as it stands."""

    ticket_id: Id = Field(description="The ticket.")
    task_id: Id = Field(description="The part of the plan that it tracks.")
    owner: str | None = Field(
        default=None, description="The worker. Left out: none was chosen yet."
    )
    status: TicketState = Field(description="How it stands.")
    dependencies: tuple[Id, ...] = Field(
        default=(), description="Tickets that must be done before this one begins."
    )
    history: tuple[HistoryEntry, ...] = Field(
        default=(), description="All that happened to it, the oldest first."
    )
    closed_by: str | None = Field(
        default=None, description="Why it no longer counts: a ticket, dropped or canceled."
    )
    reason: str = Field(default="", description="Why it stands as it does.")


class InstructionProposal(_Payload):
    """How the manager would have a risky ticket done, before it is."""

    summary: Text = Field(description="How the manager would have it done.")
    open_questions: Lines = Field(
        default=(), description="What it would like to know of the worker."
    )
    risks: Lines = Field(default=(), description="What could go wrong.")
    draft_steps: Lines = Field(default=(), description="The steps, as they would be.")


class Criterion(_Payload):
    """What must hold in the end; with a command it is checked, without one a person must look."""

    text: Text = Field(description="What must hold.")
    command: str | None = Field(
        default=None,
        description="A command that shows it by ending with 0. Left out: a person must look.",
    )


class Instruction(_Payload):
    """What a worker is to do."""

    summary: Text = Field(description="What is to be done.")
    ask_user: str | None = Field(
        default=None, description="What only the user can give: asked before the worker goes on."
    )
    steps: Lines = Field(default=(), description="How.")
    resources: Lines = Field(default=(), description="Files or facts that are needed.")
    acceptance_criteria: tuple[Criterion, ...] = Field(
        default=(), description="What must hold in the end."
    )

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

    status: Literal["proposal", "completed", "blocked", "error"] = Field(
        description="How far the worker came."
    )
    outputs: Lines = Field(default=(), description="Files that it changed or made.")
    evidence: Lines = Field(default=(), description="What shows that it works.")
    issues: Lines = Field(default=(), description="What is open, or what is needed to go on.")
    next_actions: Lines = Field(default=(), description="What should be done next.")


class Review(RuledPayload):
    """What the manager says of a report."""

    needs: ClassVar[Needs] = Needs("decision", "changes_requested", ("requested_changes", "notes"))

    decision: Literal["approved", "changes_requested"] = Field(
        description="Whether the work is taken."
    )
    notes: str = Field(default="", description="What the manager thinks of it.")
    requested_changes: Lines = Field(default=(), description="What must be changed.")


class CheckRun(_Payload):
    """A check that Coterie ran, and how it ended."""

    command: Text = Field(description="What was run.")
    exit_code: int | None = Field(
        default=None, description="How it ended. Left out: not in its time."
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
    size_bytes: int | None = Field(default=None, ge=0, description="How long it is.")
    description: str = Field(default="", description="What is to be known of it.")
    check: CheckRun | None = Field(
        default=None, description="The check that it is the log of. Left out: it is no such log."
    )

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

    code: Text = Field(description="What went wrong, in one word.")
    message: Text = Field(description="And in more.")
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
"""Payload fields that are younger than the first signatures, which were made without them."""
_SIGNATURE = "signature"


def signature_of(said: Mapping[str, object], key: bytes) -> str:
    """The signature of what an envelope's file says: HMAC-SHA256 of that object without its
    `signature`, as JSON in UTF-8 with sorted keys and no spaces."""
    plain = {name: value for name, value in said.items() if name != _SIGNATURE}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "hmac-sha256:" + hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


class Envelope(BaseModel):
    """One message, as it is kept."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    session_id: str = Field(description="The session: its root task.")
    timestamp: Instant = Field(description="When it was said: UTC, ISO 8601.")
    source: str = Field(description="Who says it: a member, the user, or coterie.")
    target: str = Field(description="Who is told.")
    payload_type: PayloadType = Field(
        description="What is said: it decides which payload there is."
    )
    version: Literal["1.0"] = Field(default=VERSION, description="Of this format.")
    payload: Payload
    ticket_id: str | None = Field(
        default=None, description="Which ticket it is about. Left out: the whole session."
    )
    signature: str | None = Field(
        default=None,
        description="`hmac-sha256:…` of all the rest of this object, as JSON in UTF-8 with sorted "
        "keys and no spaces, where the session has a key.",
    )

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
        return self.model_copy(update={_SIGNATURE: signature_of(self.said, key)})

    def is_signed_by(self, key: bytes) -> bool:
        """Whether nobody changed it since it was signed with this key."""
        given = (self.signature or "").encode()
        fitting = (signature_of(said, key).encode() for said in (self.said, self._said_before()))
        return any(hmac.compare_digest(given, one) for one in fitting)

    @property
    def said(self) -> dict[str, object]:
        """The object that is in its file."""
        return self.model_dump(mode="json", exclude_none=True)

    def _said_before(self) -> dict[str, object]:
        """What the first signatures were made of: fields that its file leaves out, too."""
        plain = self.model_dump(mode="json")
        for name in _UNSIGNED_IF_EMPTY:
            if plain["payload"].get(name, "") is None:
                del plain["payload"][name]
        return plain
