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

from coterie.model import envelope as payloads
from coterie.model.envelope import Envelope, Payload
from coterie.ports import TicketStore
from coterie.stores.sqlite.failures import from_system
from coterie.workspace.session_files import check_signatures, session_key

Rows = Sequence[tuple[int, Envelope]]

LOG = "events.log"
_OURS = re.compile(r"\d{6,}-[a-z_]+\.json")
_NEW = ".new"
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
        self._files = _Folder(folder / "logs" / session)
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

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = folder / LOG
        self._size = 0
        """How long the log is, unless somebody else wrote to it."""

    def put_right(self, rows: Rows) -> None:
        """Make the folder hold what the rows say, and all of it; `rows` are all there are."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        wanted = {_name(sequence, envelope): envelope for sequence, envelope in rows}
        self._tidy(wanted.keys())
        for name, envelope in wanted.items():
            data = _data(envelope)
            if _read(self.folder / name) != data:
                self._replace(name, data)
        lines = _lines(rows)
        found = _read(self._log)
        if found is not None and lines.startswith(found):  # a crash left it short
            self._append(lines[len(found) :])
        elif found != lines:
            self._replace(LOG, lines)
        self._size = len(lines)

    def add(self, rows: Rows) -> bool:
        """Write what is new; False where what is there is not what we left: put it right then."""
        try:
            if self._log.stat().st_size != self._size:
                return False
            for sequence, envelope in rows:
                self._replace(_name(sequence, envelope), _data(envelope))
            lines = _lines(rows)
            self._append(lines)
        except FileNotFoundError:
            return False
        self._size += len(lines)
        return True

    def _tidy(self, wanted: Collection[str]) -> None:
        for path in list(self.folder.iterdir()):
            if path.name.startswith(".") and path.suffix == _NEW:
                path.unlink()  # ours, and cut
            elif _OURS.fullmatch(path.name) and path.name not in wanted:
                path.replace(path.with_name(f"{path.name}.stray"))  # no row says that

    def _append(self, lines: bytes) -> None:
        # In one piece, so that a reader sees whole lines.
        descriptor = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        with os.fdopen(descriptor, "ab", buffering=0) as file:
            file.write(lines)

    def _replace(self, name: str, data: bytes) -> None:
        # Not forced to the disk: what a power cut takes is put right from the rows.  Once for each
        # envelope, and paths of pathlib's would cost as much as the file.
        fresh = f"{self.folder}/.{name}{_NEW}"
        with open(fresh, "wb", buffering=0) as file:  # noqa: PTH123
            file.write(data)
        os.replace(fresh, f"{self.folder}/{name}")  # noqa: PTH105


def _name(sequence: int, envelope: Envelope) -> str:
    return f"{sequence:06d}-{envelope.payload_type}.json"


def _data(envelope: Envelope) -> bytes:
    return envelope.model_dump_json(indent=2, exclude_none=True).encode() + b"\n"


def _lines(rows: Rows) -> bytes:
    return "".join(_line(envelope) for _, envelope in rows).encode()


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


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
