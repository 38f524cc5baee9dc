"""The artifacts of a pipeline as files, known by their declared names alone.  All of it blocks."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

from pydantic import ValidationError

from coterie.errors import ArtifactWrong
from coterie.model.artifact import ArtifactData
from coterie.model.artifact_table import artifact_file, declared
from coterie.workspace.beneath import read_file, write_file
from coterie.workspace.session_files import artifacts_folder

AnyArtifact = TypeVar("AnyArtifact", bound=ArtifactData)
STATE_FILE = "state.json"


@dataclass(frozen=True)
class ArtifactFolder:
    """The artifacts of one task, which is a session of its own."""

    root: Path
    session: str

    @property
    def path(self) -> Path:
        return artifacts_folder(self.root, self.session)

    def write(
        self, name: str, content: ArtifactData | Sequence[ArtifactData] | str, **parts: str
    ) -> dict[str, str]:
        """Write an artifact whole; returns its name and file, for the state.

        `parts` are those of its path that differ from task to task.
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
        """Write a folder of files, in place of what was in it."""
        folder = declared(name).file
        self.clear(folder)
        for path, data in files.items():
            self._write(f"{folder}{path}", data)
        return {name: folder}

    def clear(self, folder: str) -> None:
        """Remove a folder of artifacts, which is written anew."""
        place = self.path / folder
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)

    def read(self, files: Mapping[str, str], name: str, wanted: type[AnyArtifact]) -> AnyArtifact:
        """An artifact that the state has a file for, as what it was declared to be.

        Raises ArtifactWrong where it is gone, or is none.
        """
        try:
            return wanted.model_validate_json(self.text(files, name))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            said = f"{where}: {first['msg']}" if where else first["msg"]
            raise ArtifactWrong(files[name], f"is no {wanted.__name__}: {said}") from None

    def text(self, files: Mapping[str, str], name: str) -> str:
        """The same as text."""
        file = files[name]
        try:
            data = read_file(self.root / ".coterie", *self._names(file))
            return data.decode("utf-8", "surrogateescape")
        except OSError as error:
            raise ArtifactWrong(file, f"cannot be read: {error.strerror}") from None

    def keep_log(self, log: str, name: str) -> str:
        """Put what a test command printed beside its report; the file.  Without a log, none."""
        file = f"eval-{name}.log"
        try:
            data = read_file(self.root / ".coterie", *self._names(log)) if log else b""
        except FileNotFoundError:  # a run before this one was cut after it was put there
            return file if (self.path / file).exists() else ""
        self._write(file, data)
        if log:
            (self.path / log).unlink(missing_ok=True)
        return file

    def write_state(self, text: str) -> None:
        """Write the state, beside the artifacts."""
        place = ("sessions", self.session, STATE_FILE)
        write_file(self.root / ".coterie", place, text.encode())

    def _write(self, file: str, data: bytes) -> None:
        write_file(self.root / ".coterie", self._names(file), data)

    def _names(self, file: str) -> tuple[str, ...]:
        return ("sessions", self.session, "artifacts", *PurePosixPath(file).parts)
