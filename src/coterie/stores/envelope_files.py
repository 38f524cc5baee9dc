"""A session's envelopes as files, for people and other programs: below `logs/<session>/`, a file
`<sequence>-<payload_type>.json` each, and a line each in `events.log`.

They are written from the rows, after the commit, and put right wherever they differ: after a
crash, or when somebody changed them.  The rows are what counts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from coterie.errors import NotOurs
from coterie.model import envelope as payloads
from coterie.model.envelope import Envelope, Payload
from coterie.ports import TicketStore
from coterie.stores.sqlite.failures import from_system
from coterie.workspace.beneath import open_file, opened_folder
from coterie.workspace.session_files import check_signatures, session_key

Rows = Sequence[tuple[int, Envelope]]

LOG = "events.log"
_OURS = re.compile(r"\d{6,}-[a-z_]+\.json")
_NEW = ".new"
_FRESH = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DELAY = 0.05
"""Seconds that a write waits for more to be written with it: a few percent of a ticket's CPU."""
_LONGEST = 300
"""Of a line in `events.log`; the whole of it is in the envelope."""


class EnvelopeFiles:
    """`ports.SessionFiles`: one session's folder below `logs/`, for the holder of its lease."""

    def __init__(
        self, folder: Path, store: TicketStore, session: str, *, signed: bool = False
    ) -> None:
        """`folder` is the project's `.coterie`; `signed`: every envelope must bear a signature."""
        self._folder = folder
        self._store = store
        self._session = session
        self._signed = signed
        self._files = _Folder(folder, session)
        self._last = 0
        """The number of the last envelope that is in the files; 0: all are to be looked at."""
        self._writing = anyio.Lock()
        self._woken = anyio.Event()

    def wake(self) -> None:
        """Something was recorded; costs nothing here and now."""
        self._woken.set()

    async def follow(self) -> None:
        """Write what is recorded, as it comes; does not end by itself."""
        while True:
            await self.flush()
            await self._woken.wait()
            await anyio.sleep(_DELAY)
            self._woken = anyio.Event()

    async def flush(self) -> None:
        """Write all that is recorded by now; the first time, all that is there is looked at.

        Raises EnvelopeForged where a signature is wrong or missing, and StorageError.
        """
        async with self._writing:
            while True:
                rows = await self._store.envelopes(self._session, self._last)
                if not rows or await anyio.to_thread.run_sync(self._write, rows):
                    return
                self._last = 0  # somebody changed the files while we were at it

    def _write(self, rows: Rows) -> bool:
        if self._signed:
            check_signatures(self._session, rows, session_key(self._folder, self._session))
        try:
            if self._last == 0:
                self._files.put_right(rows)
            elif not self._files.add(rows):
                return False
        except OSError as error:
            raise from_system(error, self._files.folder) from error
        self._last = rows[-1][0]
        return True


class _Folder:
    """One session's folder: what is in it follows from the rows alone.  All of it blocks."""

    def __init__(self, project: Path, session: str) -> None:
        self._place = (project, "logs", session)
        self.folder = project / "logs" / session
        self._size = 0
        """How long the log is, unless somebody else wrote to it."""

    def put_right(self, rows: Rows) -> None:
        """Make the folder hold what the rows say, and all of it; `rows` are all there are."""
        wanted = {_name(sequence, envelope): envelope for sequence, envelope in rows}
        lines = _lines(rows)
        with opened_folder(*self._place, make=True) as at:
            _tidy(at, wanted.keys())
            for name, envelope in wanted.items():
                data = _data(envelope)
                if self._read(at, name) != data:
                    _replace(at, name, data)
            found = self._read(at, LOG)
            if found is not None and lines.startswith(found):  # a crash left it short
                self._append(at, lines[len(found) :])
            elif found != lines:
                _replace(at, LOG, lines)
        self._size = len(lines)

    def add(self, rows: Rows) -> bool:
        """Write what is new; False where what is there is not what we left: put it right then."""
        lines = _lines(rows)
        try:
            with opened_folder(*self._place) as at:
                if os.stat(LOG, dir_fd=at, follow_symlinks=False).st_size != self._size:
                    return False
                for sequence, envelope in rows:
                    _replace(at, _name(sequence, envelope), _data(envelope))
                self._append(at, lines)
        except FileNotFoundError:
            return False
        self._size += len(lines)
        return True

    def _append(self, at: int, lines: bytes) -> None:
        # In one piece, so that a reader sees whole lines.
        descriptor = open_file(at, self.folder / LOG, os.O_WRONLY | os.O_APPEND)
        with os.fdopen(descriptor, "ab", buffering=0) as file:
            file.write(lines)

    def _read(self, at: int, name: str) -> bytes | None:
        """What a file holds; None where there is none, or something that we did not write."""
        try:
            descriptor = open_file(at, self.folder / name, os.O_RDONLY)
        except (FileNotFoundError, NotOurs):
            return None
        with os.fdopen(descriptor, "rb") as file:
            return file.read()


def _tidy(at: int, wanted: Collection[str]) -> None:
    for name in os.listdir(at):
        if name.startswith(".") and name.endswith(_NEW):
            os.unlink(name, dir_fd=at)  # ours, and cut
        elif _OURS.fullmatch(name) and name not in wanted:
            os.rename(name, f"{name}.stray", src_dir_fd=at, dst_dir_fd=at)  # no row says that


def _replace(at: int, name: str, data: bytes) -> None:
    # Not forced to the disk: what a power cut takes is put right from the rows.  Once for each
    # envelope, and paths of pathlib's would cost as much as the file.
    fresh = f".{name}{_NEW}"
    try:
        descriptor = os.open(fresh, _FRESH, 0o600, dir_fd=at)
    except FileExistsError:  # left by a crash, or by somebody else
        os.unlink(fresh, dir_fd=at)
        descriptor = os.open(fresh, _FRESH, 0o600, dir_fd=at)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)
    os.rename(fresh, name, src_dir_fd=at, dst_dir_fd=at)


def _name(sequence: int, envelope: Envelope) -> str:
    return f"{sequence:06d}-{envelope.payload_type}.json"


def _data(envelope: Envelope) -> bytes:
    return envelope.model_dump_json(indent=2, exclude_none=True).encode() + b"\n"


def _lines(rows: Rows) -> bytes:
    return "".join(_line(envelope) for _, envelope in rows).encode()


_EVENTS: Mapping[type[Payload], tuple[str, Callable[[Any], str]]] = {
    payloads.Clarification: ("clarification", lambda p: f"{p.status}; {' / '.join(p.questions)}"),
    payloads.ClarificationResponse: ("answer", lambda p: f"{p.status}; {' / '.join(p.answers)}"),
    payloads.Plan: (
        "plan",
        lambda p: f"{len(p.tasks)} tasks: {', '.join(task.task_id for task in p.tasks)}",
    ),
    payloads.InstructionProposal: ("proposal", lambda p: p.summary),
    payloads.Instruction: ("instruction", lambda p: p.summary),
    payloads.Report: (
        "report",
        lambda p: f"{p.status}; {'; '.join((*p.outputs, *p.issues, *p.next_actions))}",
    ),
    payloads.Review: (
        "review",
        lambda p: f"{p.decision}; {'; '.join((p.notes, *p.requested_changes))}",
    ),
    payloads.ArtifactRef: ("artifact", lambda p: f"{p.uri}: {p.label}; {p.description}"),
    payloads.Error: ("error", lambda p: f"{p.code}: {p.message}"),
}
"""What an envelope is called in `events.log`, and what is said of it there."""


def _line(envelope: Envelope) -> str:
    """`[timestamp][ticket_id][event] message`, and the end of the line."""
    event, message = _event(envelope)
    text = " ".join(message.split())
    short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    ticket = envelope.ticket_id or "-"
    return f"[{envelope.timestamp}][{ticket}][{event}] {_printable(short)}\n"


def _event(envelope: Envelope) -> tuple[str, str]:
    """What happened in a word, and the rest."""
    payload = envelope.payload
    if not isinstance(payload, payloads.TicketPayload):
        event, message = _EVENTS[type(payload)]
        return event, f"{envelope.source} to {envelope.target}: {message(payload)}"
    if not payload.history:
        return payload.status, payload.reason
    last = payload.history[-1]
    return last.event, f"{last.message} ({payload.owner or 'nobody'})"


def _printable(text: str) -> str:
    """Without what a terminal would obey, or a writer choke on."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in text)
