"""Every error Coterie raises on purpose, drawn as one tree; each carries data, not prose.

A surface shows `str(error)` (what happened, and where) and `error.hint` (what to paste).
`exit_code` is what a command ends with: 1 failed, 2 wrong usage.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, NamedTuple


class CoterieError(Exception):
    """The root: anything a user may read.  Anything else that escapes is a bug of ours."""

    code: ClassVar[str] = "error"
    """What programs know it by: its name, without "Error"."""
    exit_code: ClassVar[int] = 1
    text: ClassVar[str] = "{message}"
    """What happened, filled in from the fields."""
    advice: str | None = None
    """What to do about it: a field where it differs from one error of a kind to another."""

    def __init_subclass__(cls) -> None:
        words = re.findall("[A-Z][a-z]+", cls.__name__.removesuffix("Error"))
        cls.code = "_".join(words).lower()

    def __str__(self) -> str:
        return self.text.format_map(vars(self))

    @property
    def hint(self) -> str | None:
        """A command to paste or a thing to do, where there is one."""
        return self.advice

    @property
    def where(self) -> str | None:
        """The file, folder or place that the error is about."""
        return None

    @property
    def member(self) -> str | None:
        """The id of the member that the error is about."""
        return None


@dataclass(eq=False)
class UsageError(CoterieError):
    """The command, or a file it was given, asks for something that cannot be."""

    message: str
    advice: str | None = None
    place: str | None = None

    exit_code: ClassVar[int] = 2

    @property
    def where(self) -> str | None:
        return self.place


class NotFound(UsageError):
    """A task, question, team, member or agent that was named does not exist."""


class FileMistake(NamedTuple):
    """One thing that is wrong with a file."""

    line: int
    place: str
    """The key, such as `members[1].agent`; empty: the file as a whole."""
    problem: str


@dataclass(eq=False)
class ConfigError(UsageError):
    """A file the user wrote is not what it should be; `place` is `file:line key`."""

    mistakes: tuple[FileMistake, ...] = ()
    """Each by itself, as far as the file could be read."""


class NotTrusted(UsageError):
    """A team file from outside `.coterie` wants powers that nobody has looked at yet."""


@dataclass(eq=False)
class NotOurs(UsageError):
    """What is found as, or in, a `.coterie` was not made there by Coterie for this user; nothing
    of it was believed, written or deleted."""

    origin: str = ""
    """Where it is from, as `config.identity.Origin` has it."""


class AnswerRefused(UsageError):
    """An answer was late, doubled, stale or invalid; it was not used."""


class InvalidTime(UsageError):
    """A time that is naive or unreadable: every time in Coterie carries its offset."""


@dataclass(eq=False)
class StorageError(CoterieError):
    """The database cannot be used; nothing more is sent to any agent."""

    path: str
    problem: str
    advice: str | None = None

    text: ClassVar[str] = "{problem} ({path})."

    @property
    def where(self) -> str | None:
        return self.path


class ForeignStore(StorageError):
    """The store holds the tasks of another project."""


class StorageLocked(StorageError):
    """Another process held the database for longer than we wait."""


class StorageFull(StorageError):
    """The disk is full or a size limit was reached; what was committed before is safe."""


class StorageDamaged(StorageError):
    """The database file is not intact, or history that we know of is missing from it."""


class HistoryLost(StorageDamaged):
    """A store that machines share no longer holds what it had confirmed: nobody goes on with it
    before a person has said so."""


class StorageReadOnly(StorageError):
    """The project folder cannot be written."""


@dataclass(eq=False)
class EnvelopeForged(CoterieError):
    """A session signs its envelopes, and one that is kept does not bear its signature."""

    session: str
    sequence: int | None
    """Which envelope; None where none can be checked."""
    problem: str
    advice: str | None = (
        "Somebody changed what was kept: put a backup of .coterie back, or begin anew."
    )

    def __str__(self) -> str:
        which = f"envelope {self.sequence:06d} of {self.session}" if self.sequence else self.session
        return f"{which} cannot be trusted: {self.problem}."


@dataclass(eq=False)
class ArtifactWrong(CoterieError):
    """A file that was named as an artifact is not what was said of it."""

    uri: str
    problem: str
    advice: str | None = (
        "Name a file in your own folder, or one below the session's artifacts folder."
    )

    text: ClassVar[str] = "The artifact {uri} {problem}."


@dataclass(eq=False)
class NotAccepted(CoterieError):
    """The work of a session was not taken into the user's branch; nothing was changed."""

    task: str
    problem: str
    advice: str | None = None

    text: ClassVar[str] = "Not accepted: {problem}."


@dataclass(eq=False)
class GitFailed(CoterieError):
    """Git did not do what it was asked for; `said` is the end of what it printed."""

    command: str
    folder: str
    said: str
    status: int | None = None
    """What it ended with; None where it was never run, or was ended by us."""

    def __str__(self) -> str:
        return f"git {self.command} failed in {self.folder}: {self.said or self.status}"

    @property
    def where(self) -> str | None:
        return self.folder


@dataclass(eq=False)
class NotSent(CoterieError):
    """Commits did not get to the repository that branches travel by; they stay where they are."""

    machine: str
    ref: str
    """Which has them there."""
    problem: str
    advice: str | None = "coterie doctor says whether the remote can be reached."

    text: ClassVar[str] = "{ref} on {machine} was not sent: {problem}"


@dataclass(eq=False)
class LeaseLost(CoterieError):
    """A write carried an old fencing token: another process owns the task now."""

    task: str
    token: int

    text: ClassVar[str] = "{task} was taken over by another process; this one stops."


class LeaseExpired(CoterieError):
    """This process could not renew its lease in time, or was declared dead by another: its agents
    were ended, and nothing more of their turns is recorded."""

    text: ClassVar[str] = "The store was out of reach for too long: the agents here were ended."
    advice: str | None = "Whoever runs the task next goes on from what is recorded: coterie tasks"


@dataclass(eq=False)
class TaskBusy(CoterieError):
    """A living process owns the task."""

    task: str
    pid: int | None
    host: str | None
    advice: str | None = None

    def __str__(self) -> str:
        where = (f"pid {self.pid}" if self.pid else "", f"on {self.host}" if self.host else "")
        return f"{self.task} is already running ({' '.join(filter(None, where)) or 'pid unknown'})."

    @property
    def hint(self) -> str | None:
        return self.advice or f"coterie log {self.task} --follow"


@dataclass(eq=False)
class SurvivorsElsewhere(CoterieError):
    """A dead owner's children live where we can neither see nor end them."""

    task: str
    host: str

    text: ClassVar[str] = "{task} was run on {host}, whose processes cannot be seen from here."

    @property
    def hint(self) -> str | None:
        return f"Stop it there: coterie resume {self.task}"


@dataclass(eq=False)
class AgentError(CoterieError):
    """Something about one member's agent; the folder is named so that a person can look."""

    member_id: str
    folder: str

    @property
    def member(self) -> str | None:
        return self.member_id

    @property
    def where(self) -> str | None:
        return self.folder


@dataclass(eq=False)
class AgentMissing(AgentError):
    """The agent's program is not installed or cannot be started."""

    command: str
    problem: str
    advice: str | None = "coterie doctor"

    text: ClassVar[str] = "{member_id} cannot start: {command}: {problem} (in {folder})."


@dataclass(eq=False)
class StepRepeated(CoterieError):
    """A workflow used one step name twice in one run: a bug in the workflow."""

    task: str
    step: str

    text: ClassVar[str] = "{task}: the step {step!r} was asked for twice in one run."
