"""Turns of tasks that change files, with snapshots around them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from coterie.workspace.snapshots.files import FolderFiles
from coterie.workspace.snapshots.folder_snapshots import FolderSnapshots

TASK = "k3f9"


@dataclass
class Turns:
    """A project whose files are changed by turns, and by others."""

    root: Path
    told: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        (self.root / ".coterie").mkdir(parents=True, exist_ok=True)
        self.snapshots = FolderSnapshots(self.root, self.told.append)

    def files(self, contents: Mapping[str, str | bytes], folder: Path | None = None) -> None:
        """Write files, with the folders they need."""
        for name, content in contents.items():
            path = (folder or self.root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)

    @contextmanager
    def turn(self, task: str = TASK, folder: Path | None = None) -> Iterator[None]:
        """A turn, for the length of the block."""
        place = str(folder or self.root)
        self.snapshots.before(task, place)
        yield
        self.snapshots.after(task, place)

    @property
    def patch(self) -> str:
        """What the task changed."""
        return "".join(patch.text for patch in self.snapshots.diff(TASK).patches)

    @property
    def figures(self) -> list[str]:
        """The same in figures."""
        patches = self.snapshots.diff(TASK).patches
        return [str(one) for patch in patches for one in patch.files]

    @property
    def everything(self) -> dict[str, tuple[str, bytes]]:
        """Every file, but for ours and git's: its mode and content."""
        files, found = FolderFiles(self.root), dict[str, tuple[str, bytes]]()
        for path in self.paths:
            entry = files.read(path)
            if entry is not None:
                found[path] = (entry.mode, entry.data)
        return found

    @property
    def paths(self) -> set[str]:
        """All that is there, but for ours and git's."""
        every = (path.relative_to(self.root) for path in self.root.rglob("*"))
        return {str(path) for path in every if not {".coterie", ".git"} & {*path.parts}}
