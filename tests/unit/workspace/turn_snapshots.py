"""Task turns that change files, with snapshots taken around them."""

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
    """A project whose files are changed by turns and by others."""

    root: Path
    notices: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        (self.root / ".coterie").mkdir(parents=True, exist_ok=True)
        self.snapshots = FolderSnapshots(self.root, self.notices.append)

    def files(self, contents: Mapping[str, str | bytes], folder: Path | None = None) -> None:
        """Write files, creating their parent folders."""
        for name, content in contents.items():
            path = (folder or self.root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)

    @contextmanager
    def turn(self, task: str = TASK, folder: Path | None = None) -> Iterator[None]:
        """Run the block as a turn."""
        place = str(folder or self.root)
        self.snapshots.before(task, place)
        yield
        self.snapshots.after(task, place)

    @property
    def patch(self) -> str:
        """The task's changes as a patch."""
        return "".join(patch.text for patch in self.snapshots.diff(TASK).patches)

    @property
    def figures(self) -> list[str]:
        """The task's changes as line counts per file."""
        patches = self.snapshots.diff(TASK).patches
        return [str(one) for patch in patches for one in patch.files]

    @property
    def everything(self) -> dict[str, tuple[str, bytes]]:
        """The mode and content of every file, except Coterie's and git's."""
        files, found = FolderFiles(self.root), dict[str, tuple[str, bytes]]()
        for path in self.paths:
            entry = files.read(path)
            if entry is not None:
                found[path] = (entry.mode, entry.data)
        return found

    @property
    def paths(self) -> set[str]:
        """All existing paths, except Coterie's and git's."""
        every = (path.relative_to(self.root) for path in self.root.rglob("*"))
        return {str(path) for path in every if not {".coterie", ".git"} & {*path.parts}}
