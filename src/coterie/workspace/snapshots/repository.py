"""Where snapshots are stored: a git repository of our own, beside the user's and never in it.

It lies where agents may write, so what git reads of it besides objects and refs is put right
before every use.  Its attributes rank above those of the material and switch every conversion
off: what is stored is what was there, byte for byte.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import psutil

from coterie.workspace.git import CHECKOUT, Git
from coterie.workspace.worktree import Worktree

Does = Literal["turn", "revert", "undo"]
"""Who changed files in a span: an agent in its turn, or Coterie that took such changes back."""

LINK, EXECUTABLE, PLAIN = "120000", "100755", "100644"
"""The modes of what is kept, in git's words."""
REPOSITORY = "a repository of its own"
"""Why a folder is left out; it has snapshots of its own, unless it is new."""


@dataclass(frozen=True)
class ExcludedFile:
    """A file or folder that is there but is not kept."""

    path: str
    why: str
    mark: str
    """Differs when it does."""


@dataclass(frozen=True)
class Snapshot:
    """The files of a folder at one instant."""

    folder: Path
    tree: str
    left_out: tuple[ExcludedFile, ...] = ()


@dataclass(frozen=True)
class SnapshotRecord:
    """A snapshot as it is kept for a task."""

    snapshot: Snapshot
    at: str
    """For people; a clock may be set back, so it decides nothing."""
    place: int = 0
    """Its place in the order of all that was ever kept."""
    does: Does = "turn"
    whole: bool = True
    """Of a revert: whether nothing of the task was left in place."""
    pid: int = 0
    started: float = 0.0
    """Which process kept it: its id, and since when it runs."""


@dataclass(frozen=True)
class ChangeSpan:
    """A folder from just before something could change it to just after."""

    task: str
    number: int
    """Counts what a task did, from 1; spans of one number belong together."""
    part: int
    """Tells the folders of one number apart."""
    before: SnapshotRecord
    after: SnapshotRecord | None = None
    """None while it lasts, and where it was cut."""

    @property
    def folder(self) -> Path:
        """Where it was."""
        return self.before.snapshot.folder

    @property
    def does(self) -> Does:
        """Who changed files in it."""
        return self.before.does


@dataclass(frozen=True)
class Blob:
    """A file's mode and content, by the content's name."""

    mode: str
    id: str


@dataclass(frozen=True)
class FileChange:
    """What a span did to one file; None: it was not there."""

    folder: Path
    path: str
    before: Blob | None
    after: Blob | None
    also: str = ""
    """Another task that worked in the same folder at the same time and changed the file too."""


@dataclass(frozen=True)
class UnknownChange:
    """A file that a task may have changed, of which too little is kept to show or undo it."""

    folder: Path
    path: str
    why: str


@dataclass(frozen=True)
class FileContent:
    """A file as it is: its mode, and its content or where it links to."""

    mode: str
    data: bytes


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
class SnapshotRepository:
    """A bare repository of our own, used with any folder as its working tree.  Blocks."""

    folder: Path
    held: tuple[int, ...] = ()

    @contextmanager
    def alone(self) -> Generator[SnapshotRepository]:
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


_REFS = "refs/tasks"


# -- the record --------------------------------------------------------------------------------


@dataclass(frozen=True)
class SnapshotLog:
    """Which snapshots were kept, as refs: `<task>/<number>/<part>/before` and `after`."""

    shadow: SnapshotRepository
    root: Path
    """Folders inside it are named from here, so that a project may be moved as a whole."""

    def spans(self, task: str | None = None) -> list[ChangeSpan]:
        """The spans of one task or of all, in the order in which they began."""
        if not self.shadow.exists:
            return []
        below = _REFS if task is None else f"{_REFS}/{task}"
        shown = "%(refname)%00%(tree)%00%(contents:subject)"
        told = self.shadow.run("for-each-ref", f"--format={shown}", below)
        moments = dict(self._moment(line) for line in told.splitlines())
        found = [
            ChangeSpan(*key[:3], moment, moments.get((*key[:3], "after")))
            for key, moment in moments.items()
            if key[3] == "before"
        ]
        return sorted(found, key=lambda span: span.before.place)

    def is_known(self, task: str) -> bool:
        """Whether anything was kept for a task or a part of it; no git is run."""
        refs = self.shadow.folder / _REFS
        packed = (self.shadow.folder / "packed-refs").exists()  # somebody tidied up
        return packed or (refs / task).is_dir() or any(refs.glob(f"{task}.*"))

    def begin(self, task: str, number: int, moments: Iterable[SnapshotRecord]) -> list[ChangeSpan]:
        """SnapshotLog what folders were before something changes them; the lock is held."""
        spans = [
            ChangeSpan(task, number, part, self._placed(replace(moment, **_this_process())))
            for part, moment in enumerate(moments)
        ]
        for span in spans:
            self._write(span, "before", span.before)
        return spans

    def end(self, span: ChangeSpan, after: SnapshotRecord) -> None:
        """SnapshotLog what a folder was when nothing changed it any more; the lock is held."""
        self._write(span, "after", self._placed(replace(after, does=span.does)))

    def _placed(self, moment: SnapshotRecord) -> SnapshotRecord:
        """The moment, as the next of all."""
        counter = self.shadow.folder / "count"
        try:
            last = int(counter.read_text())
        except (OSError, ValueError):
            ends = (one for span in self.spans() for one in (span.before, span.after) if one)
            last = max((one.place for one in ends), default=0)
        counter.write_text(f"{last + 1}\n")
        return replace(moment, place=last + 1)

    def _write(self, span: ChangeSpan, side: str, moment: SnapshotRecord) -> None:
        facts = asdict(moment)
        snapshot = facts.pop("snapshot")
        facts["folder"] = self._named(moment.snapshot.folder)
        facts["left_out"] = [list(one.values()) for one in snapshot["left_out"]]
        tree = moment.snapshot.tree
        made = self.shadow.run("commit-tree", tree, "-F", "-", input=json.dumps(facts)).strip()
        ref = f"{_REFS}/{span.task}/{span.number}/{span.part}/{side}"
        # What a killed git left; nobody else is here.
        (self.shadow.folder / f"{ref}.lock").unlink(missing_ok=True)
        self.shadow.run("update-ref", ref, made)

    def _moment(self, line: str) -> tuple[tuple[str, int, int, str], SnapshotRecord]:
        ref, tree, told = line.split("\0")
        task, number, part, side = ref.removeprefix(f"{_REFS}/").split("/")
        facts = json.loads(told)
        left_out = tuple(ExcludedFile(*one) for one in facts.pop("left_out"))
        folder = self.root / facts.pop("folder")
        moment = SnapshotRecord(Snapshot(folder, tree, left_out), **facts)
        return (task, int(number), int(part), side), moment

    def _named(self, folder: Path) -> str:
        inside = folder.is_relative_to(self.root)
        return str(folder.relative_to(self.root) if inside else folder)


def _this_process() -> dict[str, float]:
    return {"pid": os.getpid(), "started": psutil.Process().create_time()}


def lasts(span: ChangeSpan) -> bool:
    """Whether a span has no end because whoever began it is still at it."""
    if span.after is not None:
        return False
    with suppress(psutil.Error):
        return psutil.Process(span.before.pid).create_time() == span.before.started
    return False
