"""Every error Coterie raises on purpose, as one class hierarchy; each carries data, not prose.

A surface shows `str(error)` (what happened, and where) and `error.hint` (what to paste).
`exit_code` is the exit status of a command: 1 failed, 2 wrong usage.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, NamedTuple


class CoterieError(Exception):
    """The base of all errors meant for users.  Any other exception that escapes is a bug."""

    code: ClassVar[str] = "error"
    """Its identifier for programs: the class name without "Error", in snake case."""
    exit_code: ClassVar[int] = 1
    text: ClassVar[str] = "{message}"
    """What happened, filled in from the fields."""
    where_field: ClassVar[str] = ""
    """The field that holds `where`, in classes that have one."""
    advice: str | None = None
    """What to do about it: a field in classes whose errors differ in that."""

    def __init_subclass__(cls) -> None:
        words = re.findall("[A-Z][a-z]+", cls.__name__.removesuffix("Error"))
        cls.code = "_".join(words).lower()

    def __str__(self) -> str:
        return self.text.format_map(vars(self))

    @property
    def hint(self) -> str | None:
        """A command to paste or something to do, if there is anything."""
        return self.advice

    @property
    def where(self) -> str | None:
        """The file, folder or place that the error is about."""
        return vars(self)[self.where_field] if self.where_field else None

    @property
    def member(self) -> str | None:
        """The id of the member that the error is about."""
        return None


@dataclass(eq=False)
class UsageError(CoterieError):
    """The command, or a file it was given, asks for something impossible."""

    message: str
    advice: str | None = None
    place: str | None = None

    where_field: ClassVar[str] = "place"
    exit_code: ClassVar[int] = 2


@contextmanager
def with_extra(name: str, problem: str) -> Generator[None]:
    """Import what an extra of Coterie provides; raises UsageError if it is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "coterie":
            raise
        raise UsageError(problem, f'pip install "coterie[{name}]"') from None


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
    """A file the user wrote is invalid; `place` is `file:line key`."""

    mistakes: tuple[FileMistake, ...] = ()
    """Every single mistake, as far as the file could be read."""


class NotTrusted(UsageError):
    """A team file asks for powers that the user has not allowed yet."""


@dataclass(eq=False)
class NotOurs(UsageError):
    """A `.coterie`, or something in it, was not made there by Coterie for this user; nothing of it
    was used, written or deleted."""

    origin: str = ""
    """Where it is from: one of `config.identity.Origin`."""


class AnswerRefused(UsageError):
    """An answer was late, duplicate, stale or invalid; it was not used."""


class InvalidTime(UsageError):
    """A time that is naive or unreadable: every time in Coterie carries its offset."""


@dataclass(eq=False)
class Bug(CoterieError):
    """An unforeseen exception ended a run, or closed a project, of a server that goes on; its
    terminal shows the details."""

    message: str


@dataclass(eq=False)
class StorageError(CoterieError):
    """The database cannot be used; nothing more is sent to any agent."""

    path: str
    problem: str
    advice: str | None = None

    where_field: ClassVar[str] = "path"
    text: ClassVar[str] = "{problem} ({path})."


class ForeignStore(StorageError):
    """The store holds the tasks of another project."""


class StorageLocked(StorageError):
    """Another process held the database for longer than Coterie waits."""


class StorageFull(StorageError):
    """The disk is full or a size limit was reached; what was committed before is safe."""


class StorageDamaged(StorageError):
    """The database file is not intact, or known history is missing from it."""


class HistoryLost(StorageDamaged):
    """A store that machines share no longer holds what it had confirmed: it is not used any more
    until a person decides so."""


class StorageReadOnly(StorageError):
    """The project folder cannot be written."""


@dataclass(eq=False)
class EnvelopeForged(CoterieError):
    """A session signs its envelopes, and a stored one does not carry its signature."""

    session: str
    sequence: int | None
    """Which envelope; None if none can be checked."""
    problem: str
    advice: str | None = (
        "Somebody changed stored data: restore a backup of .coterie, or start over."
    )

    def __str__(self) -> str:
        which = f"envelope {self.sequence:06d} of {self.session}" if self.sequence else self.session
        return f"{which} cannot be trusted: {self.problem}."


@dataclass(eq=False)
class ArtifactWrong(CoterieError):
    """A file that was named as an artifact is not what it was claimed to be."""

    uri: str
    problem: str
    advice: str | None = (
        "Name a file in your own folder, or one below the session's artifacts folder."
    )

    text: ClassVar[str] = "The artifact {uri} {problem}."


@dataclass(eq=False)
class NotAccepted(CoterieError):
    """The work of a session was not brought into the user's branch; nothing was changed."""

    task: str
    problem: str
    advice: str | None = None

    text: ClassVar[str] = "Not accepted: {problem}."


@dataclass(eq=False)
class GitFailed(CoterieError):
    """A git command failed; `output` is the end of what it printed."""

    command: str
    folder: str
    output: str
    status: int | None = None
    """Its exit status; None if it was never run, or was ended by Coterie."""

    where_field: ClassVar[str] = "folder"

    def __str__(self) -> str:
        return f"git {self.command} failed in {self.folder}: {self.output or self.status}"


@dataclass(eq=False)
class NotSent(CoterieError):
    """Commits did not reach the remote that branches travel by; they stay where they are."""

    machine: str
    ref: str
    """The ref that holds the commits there."""
    problem: str
    advice: str | None = "coterie doctor says whether the remote can be reached."

    text: ClassVar[str] = "{ref} on {machine} was not sent: {problem}"


@dataclass(eq=False)
class LeaseLost(CoterieError):
    """A write carried an old fencing token: another process owns the task now."""

    task: str
    token: int

    text: ClassVar[str] = "{task} was taken over by another process; this one stops."


def stops_writing(error: Exception) -> bool:
    """Whether a store refuses all writes after this error and must be reopened: it cannot be
    trusted, or the task now belongs to somebody else."""
    # A lock means that nothing was attempted: the caller may retry.
    return isinstance(error, LeaseLost | StorageError) and not isinstance(error, StorageLocked)


class LeaseExpired(CoterieError):
    """This process could not renew its lease in time, or another declared it dead: its agents were
    ended, and nothing more of their turns is recorded."""

    text: ClassVar[str] = "The store was out of reach for too long: the agents here were stopped."
    advice: str | None = "The next run of a task continues from what is recorded: coterie tasks"


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
    """A dead owner's processes are where they can be neither seen nor ended from here."""

    task: str
    host: str

    text: ClassVar[str] = "{task} last ran on {host}, whose processes cannot be seen from here."

    @property
    def hint(self) -> str | None:
        return f"Resume it there: coterie resume {self.task}"


@dataclass(eq=False)
class AgentError(CoterieError):
    """A problem with one member's agent; the folder is named so that a person can look into it."""

    member_id: str
    folder: str

    where_field: ClassVar[str] = "folder"

    @property
    def member(self) -> str | None:
        return self.member_id


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

    text: ClassVar[str] = "{task}: the step {step!r} was used twice in one run."
