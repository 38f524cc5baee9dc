"""editFile: one exact, unique piece of a file replaced; or a new file made."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace

import anyio.to_thread
from pydantic import Field

from coterie.model.action import Action
from coterie.tools.excerpt import cut, visible
from coterie.tools.ground import Ground, MissingFolder, Place, Refusal
from coterie.tools.inputs import Inputs, Text
from coterie.tools.matching import replaced
from coterie.tools.seen import Seen
from coterie.tools.text_file import TextFile, digest
from coterie.tools.toolbox import Outcome
from coterie.tools.writing import Found, found, write


class EditFileInput(Inputs):
    """What to change."""

    path: Text = Field(description="The file, from the top of the workspace.")
    old_str: Text = Field(description="What to replace, exactly as it is; empty: make a new file.")
    new_str: Text = Field(description="What to put in its place.")


@dataclass(frozen=True)
class _Change:
    """A change that has been worked out and not made."""

    before: str
    after: str
    data: bytes
    line: int
    now: Found | None
    """The file as it is; None where there is none."""


@dataclass(frozen=True)
class EditFile:
    """Changes a text file of a member's workspace."""

    ground: Ground
    seen: Seen

    name = "editFile"
    description = (
        "Replace one piece of a text file by another. oldStr must be in the file exactly and "
        "only once; take in lines around it until it is. With an empty oldStr a new file is made."
    )
    inputs = EditFileInput
    read_only = False

    def action(self, given: Mapping[str, object], cwd: str) -> Action:
        """Writes one file."""
        return Action("write", self.name, cwd, paths=(str(given["path"]),))

    async def preview(self, given: Mapping[str, object]) -> Outcome:
        """The change as a unified diff."""
        asked = EditFileInput.model_validate(given)
        return await anyio.to_thread.run_sync(self._preview, asked)

    async def run(self, given: Mapping[str, object]) -> Outcome:
        """Make the change, whole or not at all."""
        asked = EditFileInput.model_validate(given)
        return await anyio.to_thread.run_sync(self._edit, asked)

    def _edit(self, asked: EditFileInput) -> Outcome:
        making = asked.old_str == ""
        with self.seen.lock, self.ground.reach(asked.path, writing=True, make=making) as place:
            change = self._change(place, asked)
            write(place, change.data, change.now)
        written = digest(change.data)
        self.seen.note(place.path, written)
        done = "changed" if change.now else "made"
        return Outcome({"path": place.path, "done": done, "line": change.line, "digest": written})

    def _preview(self, asked: EditFileInput) -> Outcome:
        try:
            with self.ground.reach(asked.path, writing=True) as place:
                return _shown(self._change(place, asked), place.path)
        except MissingFolder:
            if asked.old_str:
                raise
            return _shown(_new_file(asked), asked.path)

    def _change(self, place: Place, asked: EditFileInput) -> _Change:
        now = found(place)
        if asked.old_str == "":
            return self._made(place, asked, now)
        if now is None:
            raise Refusal(f"There is no file {place.path}. With an empty oldStr it would be made.")
        if self.seen.stale(place.path, digest(now.data)):
            raise Refusal(f"{place.path} has changed since you read it. Read it again, then edit.")
        file = TextFile.read(now.data)
        if file is None:
            raise Refusal(f"{place.path} is no text, so it cannot be edited.")
        if not file.pure and not asked.new_str.isascii():
            raise Refusal(
                f"{place.path} is not UTF-8, so only plain ASCII can be put in without harm."
            )
        after, line = replaced(file, asked.old_str, asked.new_str, place.path)
        return _Change(file.text, after, file.encode(after), line, now)

    def _made(self, place: Place, asked: EditFileInput, now: Found | None) -> _Change:
        # An empty file holds nothing that could be lost, and nothing that oldStr could match.
        if now is not None and now.data:
            raise Refusal(
                f"{place.path} is there already. To change it, give the text to replace as oldStr."
            )
        return replace(_new_file(asked), now=now)


def _new_file(asked: EditFileInput) -> _Change:
    return _Change("", asked.new_str, asked.new_str.encode(), 1, None)


def _shown(change: _Change, path: str) -> Outcome:
    before, after = (visible(text).splitlines() for text in (change.before, change.after))
    old = path if change.now else "/dev/null"
    lines = difflib.unified_diff(before, after, old, path, lineterm="")
    return Outcome({"path": path, "diff": cut("\n".join(lines))})
