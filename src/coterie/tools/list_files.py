"""listFiles: what is in a folder, without what nobody wrote."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import anyio.to_thread
from pydantic import Field

from coterie.model.action import Action
from coterie.tools.excerpt import cut, visible
from coterie.tools.ground import Ground
from coterie.tools.inputs import Inputs, Text
from coterie.tools.listing import MOST_FILES, files_below, folded
from coterie.tools.toolbox import Outcome

MOST_LINES = 800


class ListFilesInput(Inputs):
    """Where to look."""

    path: Text = Field(".", description="The folder, from the top of the workspace.")


@dataclass(frozen=True)
class ListFiles:
    """Shows a member the files of a folder, and of the folders in it."""

    ground: Ground

    name = "listFiles"
    description = (
        "List the files in a folder and below it, without those that git ignores. "
        "Where there are too many, folders are shown with the number of their files."
    )
    inputs = ListFilesInput
    read_only = True

    def action(self, given: Mapping[str, object], cwd: str) -> Action:
        """Looks at one folder."""
        return Action("read", self.name, cwd, paths=(str(given["path"]),), confined=True)

    async def run(self, given: Mapping[str, object]) -> Outcome:
        """The paths, from the folder that was asked for."""
        asked = ListFilesInput.model_validate(given)
        return await anyio.to_thread.run_sync(self._list, asked.path)

    def _list(self, path: str) -> Outcome:
        with self.ground.reach(path) as place:
            folder = place.open_folder()
            try:
                files = files_below(self.ground, folder, place.path)
            finally:
                os.close(folder)
        lines = folded(files, MOST_LINES)
        count = f"more than {MOST_FILES:,}" if len(files) >= MOST_FILES else f"{len(files):,}"
        text = cut(visible("\n".join(lines)))
        return Outcome({"path": place.path, "count": count, "files": text})
