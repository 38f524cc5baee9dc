"""editFile: atomically replaces one exact, unique piece of a file, or creates a file."""

from __future__ import annotations

import difflib
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter
from pathlib import Path

from pydantic import Field

from coterie.model.tool_call import Action
from coterie.model.visible import patch_lines, patch_name
from coterie.model.workspace import unfinished_name
from coterie.process.streams import replace_surrogates
from coterie.tools import workspace_files
from coterie.tools.toolbox import PathText, Tool, ToolInput, ToolOutcome, Utf8Text
from coterie.tools.workspace_files import PathEntry, TextFile, ToolError

LINES_COMPARED = 5000
"""How many lines to search for the closest match; more would take too long."""
LINE_SHOWN = 160
MATCHES_SHOWN = 5


def replace_once(file: TextFile, old: str, new: str, path: str) -> tuple[str, int]:
    """Return the edited text and the line of the edit; ToolError unless `old` occurs once."""
    new = file.with_its_newlines(new)
    wanted = old if old in file.text else file.with_its_newlines(old)
    places = list(islice(_matches(file.text, wanted), MATCHES_SHOWN + 1))
    if not places:
        raise ToolError(f"oldStr was not found in {path}. {_nearest(file.text, old)}")
    if len(places) > 1:
        raise ToolError(_too_many(file.text, places, path))
    at = places[0]
    after = file.text[:at] + new + file.text[at + len(wanted) :]
    if after == file.text:
        raise ToolError("oldStr and newStr are the same: nothing would change.")
    return after, _line(file.text, at)


def _matches(text: str, wanted: str) -> Iterator[int]:
    """Yield the index of each match, including overlapping ones."""
    at = text.find(wanted)
    while at >= 0:
        yield at
        at = text.find(wanted, at + 1)


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _too_many(text: str, places: list[int], path: str) -> str:
    more = len(places) > MATCHES_SHOWN
    lines = ", ".join(str(_line(text, at)) for at in places[:MATCHES_SHOWN])
    count = f"more than {MATCHES_SHOWN}" if more else str(len(places))
    where = f"{lines}, …" if more else lines
    return (
        f"oldStr occurs {count} times in {path} (lines {where}). Include more of the surrounding "
        "text so that it matches only once."
    )


def _nearest(text: str, old: str) -> str:
    """Return a hint pointing to the closest text in the file."""
    lines = text.splitlines()
    wanted = [line.strip() for line in old.strip().splitlines()]
    if not wanted or not wanted[0]:
        return "Read the file and copy the text exactly."
    plain = [line.strip() for line in lines]
    for at in range(len(plain) - len(wanted) + 1):
        if plain[at : at + len(wanted)] == wanted:
            return f"It matches line {at + 1} except for whitespace: copy the text exactly."
    head = [line[:LINE_SHOWN] for line in plain[:LINES_COMPARED]]
    near = difflib.get_close_matches(wanted[0][:LINE_SHOWN], head, 1)
    if not near:
        return "No line resembles its first line. Read the file again."
    number = head.index(near[0])
    return (
        f"The closest match for its first line is line {number + 1}: {lines[number][:LINE_SHOWN]}"
    )


NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS)
"""Errors raised where hard links are not supported."""


@dataclass(frozen=True)
class ExistingFile:
    """A file as it was read."""

    data: bytes
    state: os.stat_result

    def is_still_at(self, place: PathEntry) -> bool:
        """Whether the file there is still this one, unchanged."""
        try:
            state = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        facts = attrgetter("st_dev", "st_ino", "st_size", "st_mtime_ns")
        return facts(self.state) == facts(state)


def existing_file(place: PathEntry) -> ExistingFile | None:
    """Return the file if it exists; raises ToolError if it cannot be edited."""
    if not place.exists():
        return None
    with place.open_file() as file:
        state = os.fstat(file.fileno())
        if state.st_size > workspace_files.MAX_WHOLE_FILE_BYTES:
            raise ToolError(f"{place.path} is too large to edit: {state.st_size:,} bytes.")
        return ExistingFile(file.read(), state)


def write(
    place: PathEntry, data: bytes, now: ExistingFile | None, drafts: Path | None = None
) -> None:
    """Write the file atomically, provided it has not changed since it was read.

    If the name has become a link in the meantime, the link itself is replaced, never followed.
    The draft goes into `drafts`, so that a kill leaves nothing among the user's files; it goes
    beside the file only if `drafts` is unavailable or on another disk.
    """
    if now is not None and not os.access(place.name, os.W_OK, dir_fd=place.folder):
        raise ToolError(f"{place.path} is write-protected.")
    folder = _draft_folder(place, drafts)
    try:
        _write_in(folder, place, data, now)
    finally:
        if folder != place.folder:
            os.close(folder)


def _draft_folder(place: PathEntry, drafts: Path | None) -> int:
    """Open the folder for the draft, which must be on the same disk as the file."""
    if drafts is None:
        return place.folder
    try:
        opened = os.open(drafts, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return place.folder
    if os.fstat(opened).st_dev == os.fstat(place.folder).st_dev:
        return opened
    os.close(opened)
    return place.folder


def _write_in(folder: int, place: PathEntry, data: bytes, now: ExistingFile | None) -> None:
    fresh = unfinished_name()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(fresh, flags, 0o666, dir_fd=folder)
    try:
        with os.fdopen(fd, "wb") as file:
            if now is not None:
                with suppress(PermissionError):  # the file belongs to another user
                    os.fchown(fd, now.state.st_uid, now.state.st_gid)
                os.fchmod(fd, stat.S_IMODE(now.state.st_mode))
            file.write(data)
            file.flush()
            os.fsync(fd)
        _move_into_place(place, folder, fresh, now)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=folder)


def _move_into_place(place: PathEntry, folder: int, fresh: str, now: ExistingFile | None) -> None:
    if now is None:
        try:
            # Unlike a rename, a link never overwrites; it survives the removal of the draft's name.
            where = {"src_dir_fd": folder, "dst_dir_fd": place.folder}
            os.link(fresh, place.name, **where, follow_symlinks=False)
        except FileExistsError:
            raise ToolError(
                f"{place.path} was created by somebody else just now. Read it, then edit."
            ) from None
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
        else:
            return
    elif not now.is_still_at(place):
        raise ToolError(f"{place.path} was changed by somebody else just now. Read it again.")
    os.replace(fresh, place.name, src_dir_fd=folder, dst_dir_fd=place.folder)


class EditFileInput(ToolInput):
    """Replace one piece of a text file. oldStr must match the file exactly and occur only once:
    include surrounding lines if needed. With an empty oldStr, a new file is created."""

    path: PathText = Field(description="The path of the file, relative to the workspace.")
    old_str: Utf8Text = Field(
        description="The text to replace, exactly as in the file; empty to create a new file."
    )
    new_str: Utf8Text = Field(description="The new text.")


@dataclass(frozen=True)
class _Change:
    before: str
    after: str
    data: bytes
    line: int
    now: ExistingFile | None
    """The file before the change; None if it does not exist yet."""


@dataclass(frozen=True)
class EditFile(Tool[EditFileInput]):
    """Edits a text file in a member's workspace."""

    name = "editFile"
    inputs = EditFileInput
    read_only = False
    previews = True

    root: workspace_files.WorkspaceRoot
    versions: workspace_files.FileVersions
    drafts: Path | None = None
    """Coterie's own folder for files that are not in place yet."""

    def action(self, arguments: EditFileInput, cwd: str) -> Action:
        return Action("write", self.name, cwd, paths=(arguments.path,))

    def _run(self, arguments: EditFileInput) -> ToolOutcome:
        making = arguments.old_str == ""
        with (
            self.versions.lock,
            self.root.resolve(arguments.path, writing=True, make=making) as place,
        ):
            change = self._change(place, arguments)
            write(place, change.data, change.now, self.drafts)
            known = workspace_files.digest(change.data)
            # Record it under the lock: a concurrent edit would otherwise find the file stale.
            self.versions.record(place.path, known)
        done = "changed" if change.now else "created"
        return ToolOutcome({"path": place.path, "done": done, "line": change.line, "digest": known})

    def _preview(self, arguments: EditFileInput) -> ToolOutcome:
        try:
            with self.root.resolve(arguments.path, writing=True) as place:
                return _shown(self._change(place, arguments), place.path)
        except workspace_files.MissingFolder:
            if arguments.old_str:
                raise
            return _shown(_new_file(arguments), arguments.path)

    def _change(self, place: PathEntry, arguments: EditFileInput) -> _Change:
        now, path = existing_file(place), place.path
        if arguments.old_str == "":
            # An empty file has nothing to lose, and nothing that oldStr could match.
            if now is None or not now.data:
                return replace(_new_file(arguments), now=now)
            hint = "To change it, give the text to replace as oldStr."
            raise ToolError(f"{path} already exists. {hint}")
        if now is None:
            raise ToolError(f"There is no file {path}. To create it, leave oldStr empty.")
        if self.versions.is_stale(path, workspace_files.digest(now.data)):
            raise ToolError(f"{path} has changed since you read it. Read it again, then edit.")
        file = TextFile.read(now.data)
        if file is None:
            raise ToolError(f"{path} is not a text file, so it cannot be edited.")
        if not file.fully_decoded and not arguments.new_str.isascii():
            raise ToolError(f"{path} is not UTF-8, so only plain ASCII can be inserted safely.")
        after, line = replace_once(file, arguments.old_str, arguments.new_str, path)
        return _Change(file.text, after, file.encode(after), line, now)


def _new_file(arguments: EditFileInput) -> _Change:
    return _Change("", arguments.new_str, arguments.new_str.encode(), 1, None)


def _shown(change: _Change, path: str) -> ToolOutcome:
    """Show the whole change as a diff: a person is asked to approve it."""
    before, after = (
        patch_lines(replace_surrogates(text)) for text in (change.before, change.after)
    )
    name = patch_name(path)
    old = name if change.now else "/dev/null"
    lines = difflib.unified_diff(before, after, old, name, lineterm="")
    return ToolOutcome({"path": path, "diff": "\n".join(lines)})
