"""The repository that snapshots are kept in: ours alone, beside the user's and never in it.

It lies where agents may write, so what git reads of it besides objects and refs is put right
before every use.  Its attributes rank above those of the material and switch every conversion
off: what is kept is what was there, byte for byte.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from coterie.workspace.git import CHECKOUT, Git
from coterie.workspace.worktree import Worktree

_FILES = {
    "HEAD": "ref: refs/heads/nobody\n",
    "config": """\
[core]
	repositoryformatversion = 0
	bare = true
	filemode = true
	symlinks = true
	autocrlf = false
	safecrlf = false
	attributesFile = /dev/null
	logAllRefUpdates = false
	protectHFS = false
	protectNTFS = false
[gc]
	auto = 0
""",
    "info/attributes": "* -text -ident -filter !eol !working-tree-encoding !diff !merge\n",
}
_ALIEN = ("objects/info/alternates", "commondir", "config.worktree", "info/exclude", "info/grafts")
"""Files that would have git look elsewhere, or leave something out."""

_WHO = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in (("NAME", "Coterie"), ("EMAIL", "coterie@localhost"))
}
_NOBODYS = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    **_WHO,
}
"""No setting of anybody counts."""

NO_FILES = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""The tree without any file, which git knows by itself."""


@dataclass(frozen=True)
class Shadow:
    """A bare repository of our own, used with any folder as its working tree.  Blocks."""

    folder: Path
    held: tuple[int, ...] = ()

    @contextmanager
    def alone(self) -> Generator[Shadow]:
        """Keep other processes out, and threads; the lock is git's too, which may outlive us."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        lock = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._put_right()
            yield replace(self, held=(lock,))
        finally:
            os.close(lock)

    @property
    def exists(self) -> bool:
        """Whether anything was ever kept."""
        return (self.folder / "refs").is_dir()

    def index(self, folder: Path) -> Path:
        """Where git remembers what it has read of a folder, so that it need not read it again."""
        name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:24]
        return self.folder / "indexes" / name

    def git(self, work: Path) -> Git:
        """Git with this repository, and `work` for its files."""
        return Git(work, Worktree(work, self.folder, self.folder), self.held)

    def run(
        self,
        *words: str,
        work: Path | None = None,
        input: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> str:
        """What git prints, whatever anybody has configured."""
        git = self.git(work or self.folder)
        return git.run(*words, input=input, env={**_NOBODYS, **(env or {})}, patience=CHECKOUT)

    def contents(self, ids: Iterable[str]) -> dict[str, bytes]:
        """What is kept under these names."""
        wanted = sorted(set(ids))
        told = self.run("cat-file", "--batch", input="".join(f"{one}\n" for one in wanted))
        data, place, found = told.encode("utf-8", "surrogateescape"), 0, dict[str, bytes]()
        for one in wanted:
            end = data.index(b"\n", place)
            size = int(data[place:end].split(b" ")[2])
            found[one] = data[end + 1 : end + 1 + size]
            place = end + size + 2
        return found

    def _put_right(self) -> None:
        for name in ("objects", "refs", "info", "indexes"):
            (self.folder / name).mkdir(mode=0o700, exist_ok=True)
        for name in _ALIEN:
            with suppress(FileNotFoundError):
                (self.folder / name).unlink()
        for name, text in _FILES.items():
            _write_if_other(self.folder / name, text)


def _write_if_other(path: Path, text: str) -> None:
    with suppress(FileNotFoundError):
        if not path.is_symlink() and path.read_bytes() == text.encode():
            return
    fresh = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    with fresh.open("x", encoding="utf-8") as file:
        file.write(text)
    fresh.replace(path)
