"""A session's envelopes as files, for people and other programs: below `logs/<session>/`, a file
`<sequence>-<payload_type>.json` each, and a line each in `events.log`.

They are written from the rows, after the commit, and put right wherever they differ: after a
crash, or when somebody changed them, which is told.  The rows are what counts; where a session is
signed, they are believed as far as their signatures are right.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import cast

import anyio
import anyio.to_thread
from pydantic import ValidationError

from coterie.errors import EnvelopeForged, NotOurs
from coterie.model.envelope import Envelope, signature_of
from coterie.model.envelope_fault import (
    EnvelopeCheck,
    EnvelopeFault,
    Extent,
    FaultKind,
    kept_file,
    put_aside,
)
from coterie.ports import TicketStore
from coterie.stores.events_log import log_lines
from coterie.stores.sqlite.failures import from_system
from coterie.workspace.beneath import is_draft, open_file, opened_folder, replace_file
from coterie.workspace.session_files import check_signatures, key_path, session_key

Rows = Sequence[tuple[int, Envelope]]

LOG = "events.log"
_OURS = re.compile(r"\d{6,}-[a-z_]+\.json")
_DELAY = 0.05
"""Seconds that a write waits for more to be written with it: a few percent of a ticket's CPU."""


class EnvelopeFiles:
    """`ports.SessionFiles`: one session's folder below `logs/`, for the holder of its lease."""

    def __init__(
        self,
        folder: Path,
        store: TicketStore,
        session: str,
        *,
        signed: bool = False,
        shared: bool = False,
        tell: Callable[[EnvelopeFault], None] = lambda _: None,
    ) -> None:
        """`folder` is the project's `.coterie`; `signed`: every envelope must bear a signature;
        `shared`: other machines may have written what is not here;
        `tell` is called for whatever somebody did to the files, once it is put right."""
        self._folder = folder
        self._store = store
        self._session = session
        self._signed = signed
        self._tell = tell
        self._files = _Folder(folder, session, shared=shared)
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
                found = await anyio.to_thread.run_sync(self._write, rows) if rows else []
                for fault in found or ():
                    self._tell(fault)
                if found is not None:
                    return
                self._last = 0  # somebody changed the files while we were at it

    def _write(self, rows: Rows) -> list[EnvelopeFault] | None:
        """What had been done to the files; None where all rows are needed."""
        if self._signed:
            check_signatures(self._session, rows, session_key(self._folder, self._session))
        found: list[EnvelopeFault] = []
        try:
            if self._last == 0:
                found = self._files.put_right(rows)
            elif not self._files.add(rows):
                return None
        except OSError as error:
            raise from_system(error, self._files.folder) from error
        self._last = rows[-1][0]
        return found

    async def verify(self, extent: Extent) -> EnvelopeCheck:
        """Whatever is wrong with any envelope; files are written anew where the rows can be
        trusted, unless somebody else is writing them."""
        # The names first: whoever runs the session may be writing further ones.
        names = await anyio.to_thread.run_sync(self._files.names)
        rows = await self._store.envelopes(self._session)
        found = await anyio.to_thread.run_sync(self._verify, names, rows, extent)
        faults = (*found, *put_aside(self._session, names))
        return EnvelopeCheck(self._session, len(rows), self._signed, faults)

    def _verify(self, names: Collection[str], rows: Rows, extent: Extent) -> list[EnvelopeFault]:
        try:
            key = session_key(self._folder, self._session) if self._signed and rows else None
        except EnvelopeForged:
            return [EnvelopeFault(self._session, "no_key", str(key_path(Path(), self._session)))]
        found = [*self._of_rows(rows, key), *self._files.compare(rows, names, extent)]
        if extent == "live" or any(fault.in_database for fault in found):
            return [self._files.vouched(fault, key) for fault in found]
        if found:
            try:
                self._files.put_right(rows)
            except OSError:  # a disk that cannot be written: it is told all the same
                return found
        return [replace(fault, mended=True) for fault in found]

    def _of_rows(self, rows: Rows, key: bytes | None) -> list[EnvelopeFault]:
        """What is wrong with the rows themselves."""
        last = rows[-1][0] if rows else 0
        lost = sorted(set(range(1, last + 1)) - {sequence for sequence, _ in rows})
        found = [EnvelopeFault(self._session, "lost", f"{one:06d}") for one in lost]
        for sequence, envelope in rows if key else ():
            if not envelope.is_signed_by(key or b""):
                kind: FaultKind = "forged" if envelope.signature else "unsigned"
                found.append(EnvelopeFault(self._session, kind, _name(sequence, envelope)))
        return found


class _Folder:
    """One session's folder: what is in it follows from the rows alone.  All of it blocks."""

    def __init__(self, project: Path, session: str, *, shared: bool) -> None:
        self._place = (project, "logs", session)
        self._shared = shared
        self.folder = project / "logs" / session
        self._size = 0
        """How long the log is, unless somebody else wrote to it."""

    def names(self) -> Collection[str]:
        """The files that are there."""
        try:
            with opened_folder(*self._place) as at:
                return _listed(at)
        except FileNotFoundError:
            return frozenset()

    def compare(self, rows: Rows, names: Collection[str], extent: Extent) -> list[EnvelopeFault]:
        """Files that are not what the rows say; `names` are those that were there before the rows
        were read."""
        try:
            with opened_folder(*self._place) as at:
                found = self._compare(at, rows, names, extent)
                return [*found, *self._compare_log(at, rows, extent)]
        except FileNotFoundError:
            is_told = extent == "whole" and not self._shared
            gone = [_name(*row) for row in rows] if is_told else []
            return [self._fault("missing", name) for name in gone]

    def _compare(
        self, at: int, rows: Rows, names: Collection[str], extent: Extent, *, mend: bool = False
    ) -> list[EnvelopeFault]:
        wanted = {_name(sequence, envelope): envelope for sequence, envelope in rows}
        ours = {name for name in names if _OURS.fullmatch(name)}
        newest = max(ours & wanted.keys(), default="")
        found: list[EnvelopeFault] = []
        for name, envelope in wanted.items():
            data, is_there = _data(envelope), name in names
            kept = self._read(at, name) if is_there else None
            if kept == data:
                continue
            if is_there and not _says(kept, envelope):
                found.append(self._fault("changed", name))
                if mend:
                    _put_aside(at, name, "changed")
            elif not (is_there or self._shared) and (extent == "whole" or name < newest):
                # What comes after the newest file may only have been cut off by a crash.
                found.append(self._fault("missing", name))
            if mend:
                replace_file(at, name, data)
        return [*found, *(self._fault("unknown", name) for name in sorted(ours - wanted.keys()))]

    def _compare_log(
        self, at: int, rows: Rows, extent: Extent, *, mend: bool = False
    ) -> list[EnvelopeFault]:
        log, lines = self._read(at, LOG), _log(rows)
        if log == lines:
            return []
        is_short = log is None or lines.startswith(log)  # by a crash, or it will be written yet
        is_ahead = extent == "live" and log is not None and log.startswith(lines)
        told = (extent == "whole" and not self._shared) or not (is_short or is_ahead)
        if mend and log is not None and is_short:
            self._append(at, lines[len(log) :])
        elif mend:
            if told:
                _put_aside(at, LOG, "changed")
            replace_file(at, LOG, lines)
        return [self._fault("missing" if log is None else "changed", LOG)] if told else []

    def _fault(self, kind: FaultKind, name: str) -> EnvelopeFault:
        return EnvelopeFault(self.folder.name, kind, name)

    def vouched(self, fault: EnvelopeFault, key: bytes | None) -> EnvelopeFault:
        """The same, with whether its file bears the right signature."""
        if key is None or fault.kind in ("changed", "missing"):
            return fault
        numbered = fault.kind == "lost"
        for name in self.names():
            if name == fault.file or (numbered and name.startswith(f"{fault.file}-")):
                with opened_folder(*self._place) as at:
                    data = self._read(at, name)
                return replace(fault, file=name, vouched=_is_signed(data or b"", key))
        return fault

    def put_right(self, rows: Rows) -> list[EnvelopeFault]:
        """Make the folder hold what the rows say, and all of it; `rows` are all there are.

        What somebody changed is put aside; returns what was.
        """
        with opened_folder(*self._place, make=True) as at:
            names = _listed(at)
            faults = self._compare(at, rows, names, "cut", mend=True)
            faults += self._compare_log(at, rows, "cut", mend=True)
            _tidy(at, names, {_name(*row) for row in rows})
            self._size = os.stat(LOG, dir_fd=at, follow_symlinks=False).st_size
        return [replace(fault, mended=True) for fault in faults]

    def add(self, rows: Rows) -> bool:
        """Write what is new; False where what is there is not what we left: put it right then."""
        lines = _log(rows)
        try:
            with opened_folder(*self._place) as at:
                if os.stat(LOG, dir_fd=at, follow_symlinks=False).st_size != self._size:
                    return False
                for sequence, envelope in rows:
                    replace_file(at, _name(sequence, envelope), _data(envelope))
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


def _listed(at: int) -> frozenset[str]:
    return frozenset(os.listdir(at))


def _tidy(at: int, names: Collection[str], wanted: Collection[str]) -> None:
    for name in names:
        if is_draft(name):
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=at)  # ours, and cut
        elif _OURS.fullmatch(name) and name not in wanted:
            _put_aside(at, name, "unknown")  # no row says that


def _put_aside(at: int, name: str, kind: FaultKind) -> None:
    with suppress(OSError):  # something is in the way: then it is written over
        os.rename(name, kept_file(kind, name), src_dir_fd=at, dst_dir_fd=at)


def _says(data: bytes | None, envelope: Envelope) -> bool:
    """Whether a file says what an envelope does, however it is laid out."""
    try:
        return Envelope.model_validate(_object(data or b"")) == envelope
    except (ValueError, ValidationError):
        return False


def _name(sequence: int, envelope: Envelope) -> str:
    return f"{sequence:06d}-{envelope.payload_type}.json"


def _data(envelope: Envelope) -> bytes:
    return envelope.model_dump_json(indent=2, exclude_none=True).encode() + b"\n"


def _object(data: bytes) -> dict[str, object]:
    """What a file says; ValueError for what is no object, or names a field twice."""

    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        made = dict(pairs)
        if len(made) != len(pairs):
            raise ValueError("a field is there twice")
        return made

    try:
        found: object = json.loads(data, object_pairs_hook=once)
    except RecursionError:
        raise ValueError("is too deep") from None
    if not isinstance(found, dict):
        raise ValueError("is no object")
    return cast("dict[str, object]", found)


def _is_signed(data: bytes, key: bytes) -> bool:
    """Whether a file says what was signed with the key."""
    try:
        said = _object(data)
        if said.get("signature") == signature_of(said, key):
            return True
        return Envelope.model_validate(said).is_signed_by(key)  # one of the first signatures
    except (ValueError, ValidationError):
        return False


def _log(rows: Rows) -> bytes:
    return log_lines(envelope for _, envelope in rows)
