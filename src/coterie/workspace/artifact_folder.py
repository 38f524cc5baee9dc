"""A pipeline's artifacts as files, addressed only by their declared names.  All calls block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

from pydantic import ValidationError

from coterie.errors import ArtifactWrong
from coterie.model.artifact import ArtifactData
from coterie.model.artifact_table import artifact_file, declared
from coterie.workspace.beneath import read_file, remove_tree, write_file
from coterie.workspace.session_files import SessionScoped, artifacts_folder

AnyArtifact = TypeVar("AnyArtifact", bound=ArtifactData)
STATE_FILE = "state.json"


@dataclass(frozen=True)
class ArtifactFolder(SessionScoped):
    """The artifacts of one task, which is a session of its own."""

    @property
    def path(self) -> Path:
        return artifacts_folder(self.root, self.session)

    def write(
        self, name: str, content: ArtifactData | Sequence[ArtifactData] | str, **parts: str
    ) -> dict[str, str]:
        """Write an artifact as a whole; return its name and file, for the state.

        `parts` fill in the variable parts of its path.
        """
        file = artifact_file(name, **parts)
        if isinstance(content, str):
            text = content if content.endswith("\n") else f"{content}\n"
        elif isinstance(content, ArtifactData):
            text = content.written()
        else:
            text = "".join(one.written(indent=None) for one in content)
        self._write(file, text.encode("utf-8", "surrogateescape"))
        return {name: file}

    def write_folder(self, name: str, files: Mapping[str, bytes]) -> dict[str, str]:
        """Write a folder of files, replacing its contents."""
        folder = declared(name).file
        self.clear(folder)
        for path, data in files.items():
            self._write(f"{folder}{path}", data)
        return {name: folder}

    def clear(self, folder: str) -> None:
        """Remove a folder of artifacts so that it can be rewritten."""
        place = self.path / folder
        if place.is_dir() and not place.is_symlink():
            remove_tree(place)

    def read(self, files: Mapping[str, str], name: str, wanted: type[AnyArtifact]) -> AnyArtifact:
        """Return an artifact that the state lists, parsed as the type it was declared with.

        Raises ArtifactWrong if the file is missing or invalid.
        """
        try:
            return wanted.model_validate_json(self.text(files, name))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            why = f"{where}: {first['msg']}" if where else first["msg"]
            raise ArtifactWrong(files[name], f"is not a valid {wanted.__name__}: {why}") from None

    def text(self, files: Mapping[str, str], name: str) -> str:
        """Return such an artifact as text."""
        file = files[name]
        try:
            data = read_file(self.root / ".coterie", *self._names(file))
            return data.decode("utf-8", "surrogateescape")
        except OSError as error:
            raise ArtifactWrong(file, f"cannot be read: {error.strerror}") from None

    def keep_log(self, log: str, name: str) -> str:
        """Move a test command's log next to its report; return its name, empty without a log."""
        if not log:
            return ""
        file = f"eval-{name}.log"
        try:
            data = read_file(self.root / ".coterie", *self._names(log))
        except FileNotFoundError:  # an interrupted earlier run has moved it already
            return file if (self.path / file).exists() else ""
        self._write(file, data)
        (self.path / log).unlink(missing_ok=True)
        return file

    def write_state(self, text: str) -> None:
        """Write the state file, next to the artifacts."""
        place = ("sessions", self.session, STATE_FILE)
        write_file(self.root / ".coterie", place, text.encode())

    def _write(self, file: str, data: bytes) -> None:
        write_file(self.root / ".coterie", self._names(file), data)

    def _names(self, file: str) -> tuple[str, ...]:
        return ("sessions", self.session, "artifacts", *PurePosixPath(file).parts)
