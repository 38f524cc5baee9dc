"""A session's envelopes as files, for people and other programs: below `logs/<session>/`, each has
a file `<sequence>-<payload_type>.json` and a line in `events.log`.

The files are written from the rows, after the commit, and repaired wherever they differ: after a
crash, or if somebody changed them, which is reported.  The rows are authoritative; in a signed
session they are trusted only as far as their signatures are valid.
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
    faults_set_aside,
    name_set_aside,
)
from coterie.ports import TicketStore
from coterie.stores.events_log import log_lines
from coterie.stores.sqlite.failures import from_system
from coterie.workspace.beneath import is_draft, open_file, open_folder, replace_file
from coterie.workspace.session_files import check_signatures, key_path, session_key

Rows = Sequence[tuple[int, Envelope]]

LOG = "events.log"
_OURS = re.compile(r"\d{6,}-[a-z_]+\.json")
_DELAY = 0.05
"""Seconds that a write waits to be batched with others; saves a few percent of a ticket's CPU."""


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
        `shared`: other machines may have written envelopes whose files are not here;
        `tell` is called for each change that somebody made to the files, once it is repaired."""
        self._folder = folder
        self._store = store
        self._session = session
        self._signed = signed
        self._tell = tell
        self._files = _Folder(folder, session, shared=shared)
        self._last = 0
        """The number of the last envelope that is in the files; 0: all must be checked."""
        self._writing = anyio.Lock()
        self._woken = anyio.Event()

    def wake(self) -> None:
        """Signal that something was recorded; does no work itself."""
        self._woken.set()

    async def follow(self) -> None:
        """Write envelopes as they are recorded; runs until cancelled."""
        while True:
            await self.flush()
            await self._woken.wait()
            await anyio.sleep(_DELAY)
            self._woken = anyio.Event()

    async def flush(self) -> None:
        """Write everything recorded so far; the first time, check all existing files.

        Raises EnvelopeForged if a signature is wrong or missing, and StorageError.
        """
        async with self._writing:
            while True:
                rows = await self._store.envelopes(self._session, self._last)
                faults = await anyio.to_thread.run_sync(self._write, rows) if rows else []
                for fault in faults or ():
                    self._tell(fault)
                if faults is not None:
                    return
                self._last = 0  # somebody changed the files in the meantime

    def _write(self, rows: Rows) -> list[EnvelopeFault] | None:
        """Write the rows and return the faults found; None if all rows are needed."""
        if self._signed:
            check_signatures(self._session, rows, session_key(self._folder, self._session))
        faults: list[EnvelopeFault] = []
        try:
            if self._last == 0:
                faults = self._files.repair(rows)
            elif not self._files.add(rows):
                return None
        except OSError as error:
            raise from_system(error, self._files.folder) from error
        self._last = rows[-1][0]
        return faults

    async def verify(self, extent: Extent) -> EnvelopeCheck:
        """Check every envelope; files are rewritten if the rows can be trusted, unless somebody
        else is writing them."""
        # List the names first: whoever runs the session may be writing more of them.
        names = await anyio.to_thread.run_sync(self._files.names)
        rows = await self._store.envelopes(self._session)
        current = await anyio.to_thread.run_sync(self._verify, names, rows, extent)
        faults = (*current, *faults_set_aside(self._session, names))
        return EnvelopeCheck(self._session, len(rows), self._signed, faults)

    def _verify(self, names: Collection[str], rows: Rows, extent: Extent) -> list[EnvelopeFault]:
        try:
            key = session_key(self._folder, self._session) if self._signed and rows else None
        except EnvelopeForged:
            return [EnvelopeFault(self._session, "no_key", str(key_path(Path(), self._session)))]
        faults = [*self._of_rows(rows, key), *self._files.compare(rows, names, extent)]
        if extent == "live" or any(fault.in_database for fault in faults):
            return [self._files.with_signature_checked(fault, key) for fault in faults]
        if faults:
            try:
                self._files.repair(rows)
            except OSError:  # the disk cannot be written: report the faults all the same
                return faults
        return self._files.repaired(faults)

    def _of_rows(self, rows: Rows, key: bytes | None) -> list[EnvelopeFault]:
        """Return the faults of the rows themselves."""
        last = rows[-1][0] if rows else 0
        lost = sorted(set(range(1, last + 1)) - {sequence for sequence, _ in rows})
        faults = [EnvelopeFault(self._session, "lost", f"{one:06d}") for one in lost]
        for sequence, envelope in rows if key else ():
            if not envelope.is_signed_by(key or b""):
                kind: FaultKind = "forged" if envelope.signature else "unsigned"
                faults.append(EnvelopeFault(self._session, kind, _name(sequence, envelope)))
        return faults


class _Folder:
    """One session's folder, whose content follows from the rows alone.  All methods block."""

    def __init__(self, project: Path, session: str, *, shared: bool) -> None:
        self._place = (project, "logs", session)
        self._shared = shared
        self.folder = project / "logs" / session
        self._size = 0
        """The size of the log, unless somebody else wrote to it."""

    def names(self) -> Collection[str]:
        """List the files in the folder."""
        try:
            with open_folder(*self._place) as at:
                return _listed(at)
        except FileNotFoundError:
            return frozenset()

    def compare(self, rows: Rows, names: Collection[str], extent: Extent) -> list[EnvelopeFault]:
        """Return the faults of files that differ from the rows; `names` are the files listed
        before the rows were read."""
        try:
            with open_folder(*self._place) as at:
                faults = self._compare(at, rows, names, extent)
                return [*faults, *self._compare_log(at, rows, extent)]
        except FileNotFoundError:
            must_exist = extent == "whole" and not self._shared
            gone = [_name(*row) for row in rows] if must_exist else []
            return [self._fault("missing", name) for name in gone]

    def _compare(
        self, at: int, rows: Rows, names: Collection[str], extent: Extent, *, mend: bool = False
    ) -> list[EnvelopeFault]:
        wanted = {_name(sequence, envelope): envelope for sequence, envelope in rows}
        ours = {name for name in names if _OURS.fullmatch(name)}
        newest = max(ours & wanted.keys(), default="")
        faults: list[EnvelopeFault] = []
        for name, envelope in wanted.items():
            data, is_there = _data(envelope), name in names
            content = self._read(at, name) if is_there else None
            if content == data:
                continue
            if is_there and not _matches(content, envelope):
                faults.append(self._fault("changed", name))
                if mend:
                    _set_aside(at, name, "changed")
            elif not (is_there or self._shared) and (extent == "whole" or name < newest):
                # Files after the newest one may merely have been cut off by a crash.
                faults.append(self._fault("missing", name))
            if mend:
                replace_file(at, name, data)
        return [*faults, *(self._fault("unknown", name) for name in sorted(ours - wanted.keys()))]

    def _compare_log(
        self, at: int, rows: Rows, extent: Extent, *, mend: bool = False
    ) -> list[EnvelopeFault]:
        log, lines = self._read(at, LOG), _log(rows)
        if log == lines:
            return []
        is_short = log is None or lines.startswith(log)  # after a crash, or not written yet
        is_ahead = extent == "live" and log is not None and log.startswith(lines)
        is_fault = (extent == "whole" and not self._shared) or not (is_short or is_ahead)
        if mend and log is not None and is_short:
            self._append(at, lines[len(log) :])
        elif mend:
            if is_fault:
                _set_aside(at, LOG, "changed")
            replace_file(at, LOG, lines)
        return [self._fault("missing" if log is None else "changed", LOG)] if is_fault else []

    def _fault(self, kind: FaultKind, name: str) -> EnvelopeFault:
        return EnvelopeFault(self.folder.name, kind, name)

    def with_signature_checked(self, fault: EnvelopeFault, key: bytes | None) -> EnvelopeFault:
        """Return the fault with `signature_valid` set if its file bears the right signature."""
        if key is None or fault.kind in ("changed", "missing"):
            return fault
        numbered = fault.kind == "lost"
        for name in self.names():
            if name == fault.file or (numbered and name.startswith(f"{fault.file}-")):
                with open_folder(*self._place) as at:
                    data = self._read(at, name)
                return replace(fault, file=name, signature_valid=_is_signed(data or b"", key))
        return fault

    def repair(self, rows: Rows) -> list[EnvelopeFault]:
        """Make the folder match the rows, which must be all of the session's.

        Files that somebody changed are put aside; returns the faults.
        """
        with open_folder(*self._place, make=True) as at:
            names = _listed(at)
            faults = self._compare(at, rows, names, "cut", mend=True)
            faults += self._compare_log(at, rows, "cut", mend=True)
            _tidy(at, names, {_name(*row) for row in rows})
            self._size = os.stat(LOG, dir_fd=at, follow_symlinks=False).st_size
        return self.repaired(faults)

    def repaired(self, faults: Sequence[EnvelopeFault]) -> list[EnvelopeFault]:
        """Mark the faults that `repair` removed: all but unknown files that could not be moved."""
        remaining = self.names() if faults else ()
        return [
            replace(fault, mended=fault.kind != "unknown" or fault.file not in remaining)
            for fault in faults
        ]

    def add(self, rows: Rows) -> bool:
        """Write new rows; False if the folder is not as we left it, and needs `repair`."""
        lines = _log(rows)
        try:
            with open_folder(*self._place) as at:
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
        # In a single write, so that readers see whole lines.
        descriptor = open_file(at, self.folder / LOG, os.O_WRONLY | os.O_APPEND)
        with os.fdopen(descriptor, "ab", buffering=0) as file:
            file.write(lines)

    def _read(self, at: int, name: str) -> bytes | None:
        """Return the content of a file; None if there is none, or something that is not ours."""
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
                os.unlink(name, dir_fd=at)  # our own, unfinished
        elif _OURS.fullmatch(name) and name not in wanted:
            _set_aside(at, name, "unknown")  # no row corresponds to it


def _set_aside(at: int, name: str, kind: FaultKind) -> None:
    with suppress(OSError):  # something is in the way: the caller overwrites the file or leaves it
        os.rename(name, name_set_aside(kind, name), src_dir_fd=at, dst_dir_fd=at)


def _matches(data: bytes | None, envelope: Envelope) -> bool:
    """Whether a file's content equals an envelope, however it is formatted."""
    try:
        return Envelope.model_validate(_object(data or b"")) == envelope
    except (ValueError, ValidationError):
        return False


def _name(sequence: int, envelope: Envelope) -> str:
    return f"{sequence:06d}-{envelope.payload_type}.json"


def _data(envelope: Envelope) -> bytes:
    return envelope.model_dump_json(indent=2, exclude_none=True).encode() + b"\n"


def _object(data: bytes) -> dict[str, object]:
    """Parse a file; raises ValueError if it is not an object or has a duplicate field."""

    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        fields = dict(pairs)
        if len(fields) != len(pairs):
            raise ValueError("duplicate field")
        return fields

    try:
        parsed: object = json.loads(data, object_pairs_hook=once)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(parsed, dict):
        raise ValueError("not an object")
    return cast("dict[str, object]", parsed)


def _is_signed(data: bytes, key: bytes) -> bool:
    """Whether a file's content was signed with the key."""
    try:
        fields = _object(data)
        if fields.get("signature") == signature_of(fields, key):
            return True
        return Envelope.model_validate(fields).is_signed_by(key)  # the earliest kind of signature
    except (ValueError, ValidationError):
        return False


def _log(rows: Rows) -> bytes:
    return log_lines(envelope for _, envelope in rows)
