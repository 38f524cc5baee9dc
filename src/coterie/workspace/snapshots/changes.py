"""What a task changed, file by file and as a patch, as far as snapshots tell."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from coterie.model import instant
from coterie.workspace.git import FileDiffStat, diff_trees
from coterie.workspace.snapshots.files import CurrentSnapshots
from coterie.workspace.snapshots.repository import (
    REPOSITORY,
    ChangeSpan,
    Snapshot,
    SnapshotRecord,
    SnapshotRepository,
)


def belongs(span: ChangeSpan, task: str) -> bool:
    """Whether a span is of a task or of a part that it handed out."""
    return span.task == task or span.task.startswith((f"{task}.", f"{task}/"))


@dataclass
class History:
    """What a task did, and what of it was reverted since."""

    turns: list[ChangeSpan] = field(default_factory=list[ChangeSpan])
    """The turns whose changes count, oldest first."""
    reverts: list[list[ChangeSpan]] = field(default_factory=list[list[ChangeSpan]])
    """The reverts that count, oldest first; each with its spans, one per folder."""
    _reverted_turns: list[list[ChangeSpan]] = field(default_factory=list[list[ChangeSpan]])

    @classmethod
    def of(cls, spans: Iterable[ChangeSpan]) -> History:
        """The history of a task, from all its spans in their order."""
        history = cls()
        number: tuple[str, int] | None = None
        for span in spans:
            if span.before.kind == "turn":
                history.turns.append(span)
            elif number == (span.task, span.number):
                if span.before.kind == "revert":
                    history.reverts[-1].append(span)
            elif span.before.kind == "revert":
                history._revert(span)
            else:
                history._undo()
            number = (span.task, span.number)
        # Without those of a part that was done during a turn of its whole.
        turns = history.turns
        history.turns = [turn for turn in turns if not any(_covers(other, turn) for other in turns)]
        return history

    @property
    def reverted_at(self) -> str | None:
        """When all of it was reverted; None if something still counts, or nothing ever did."""
        if self.turns or not self.reverts:
            return None
        return self.reverts[-1][0].before.at

    def _revert(self, span: ChangeSpan) -> None:
        self.reverts.append([span])
        # After one that was interrupted or had to skip files the turns still count: it may be
        # repeated, and finds done what is done.
        whole = span.after is not None and span.after.whole
        self._reverted_turns.append(self.turns if whole else [])
        self.turns = [] if whole else self.turns

    def _undo(self) -> None:
        self.reverts.pop()
        self.turns = self._reverted_turns.pop() + self.turns


def _covers(whole: ChangeSpan, part: ChangeSpan) -> bool:
    within = whole.after is None or (
        part.after is not None and part.after.sequence < whole.after.sequence
    )
    return (
        within
        and part.task.startswith((f"{whole.task}.", f"{whole.task}/"))
        and part.folder == whole.folder
        and whole.before.sequence <= part.before.sequence
    )


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


_Pair = tuple[str, str]
"""Two trees: what was, and what came of it."""
_Sides = tuple[Blob | None, Blob | None]
_NO_BLOB = "0" * 40
_IGNORED = "it was ignored before, so what it was is not known"


@dataclass(frozen=True)
class FoundChanges:
    """What was changed, oldest first, and what may have been."""

    changes: tuple[FileChange, ...] = ()
    missed: Mapping[tuple[Path, str], str] = field(default_factory=dict[tuple[Path, str], str])
    """By folder and path: files of which too little is stored to show or revert them, and why."""


_LAST = sys.maxsize
"""After all that was stored."""


@dataclass(frozen=True)
class TaskChanges:
    """All that was stored, seen from one task; the repository is locked."""

    repository: SnapshotRepository
    task: str
    spans: Sequence[ChangeSpan]

    @classmethod
    def read(cls, repository: SnapshotRepository, task: str) -> TaskChanges:
        """Read the spans of all tasks."""
        return cls(repository, task, repository.spans())

    @property
    def own_spans(self) -> list[ChangeSpan]:
        """The spans of the task and of the parts it handed out."""
        return [span for span in self.spans if belongs(span, self.task)]

    @property
    def history(self) -> History:
        """What the task did, and what of it was reverted."""
        return History.of(self.own_spans)

    def of(self, wanted: Sequence[ChangeSpan]) -> FoundChanges:
        """What some of its spans changed; one that has no end lasts until now."""
        current, now = CurrentSnapshots(self.repository), instant.now()

        def ended(span: ChangeSpan) -> ChangeSpan:
            if span.after is not None:
                return span
            return replace(span, after=SnapshotRecord(current.of(span), now, _LAST))

        folders = {span.folder for span in wanted}
        others = [
            ended(span)
            for span in self.spans
            if span.folder in folders and not belongs(span, self.task)
            if span.after is not None or span.lasts
        ]
        return _changes(self.repository, [ended(span) for span in wanted], others)


def _changes(
    repository: SnapshotRepository, spans: Sequence[ChangeSpan], others: Sequence[ChangeSpan]
) -> FoundChanges:
    """What spans changed; `others` are those of tasks that worked in the same folders."""
    met = [[other for other in others if _meet(span, other)] for span in spans]
    every = [*spans, *(other for near in met for other in near)]
    found = _differences(repository, {_pair(span) for span in every})
    changes: list[FileChange] = []
    missed: dict[tuple[Path, str], str] = {}
    for span, near in zip(spans, met, strict=True):
        sides = _outside_repositories(span, found[_pair(span)])
        also = {path: other.task for other in near for path in found[_pair(other)]}
        unknown = _unknown(repository, span, sides)
        missed |= {(span.folder, path): why for path, why in unknown.items()}
        changes += (
            FileChange(span.folder, path, *pair, also.get(path, ""))
            for path, pair in sides.items()
            if path not in unknown
        )
    return FoundChanges(tuple(changes), missed)


def _meet(span: ChangeSpan, other: ChangeSpan) -> bool:
    """Whether two spans of one folder overlap."""
    assert span.after is not None
    assert other.after is not None
    return (
        span.folder == other.folder
        and span.before.sequence < other.after.sequence
        and other.before.sequence < span.after.sequence
    )


def _snapshots(span: ChangeSpan) -> tuple[Snapshot, Snapshot]:
    assert span.after is not None
    return span.before.snapshot, span.after.snapshot


def _pair(span: ChangeSpan) -> _Pair:
    before, after = _snapshots(span)
    return before.tree, after.tree


def _differences(
    repository: SnapshotRepository, pairs: Iterable[_Pair]
) -> dict[_Pair, dict[str, _Sides]]:
    """By pair of trees, then by path: what differs."""
    found: dict[_Pair, dict[str, _Sides]] = {pair: {} for pair in pairs}
    asked = [pair for pair in found if pair[0] != pair[1]]
    if not asked:
        return found
    words = ("diff-tree", "--stdin", "-r", "-z", "--raw", "--no-renames", "--no-abbrev")
    output = repository.run(*words, input="".join(f"{a} {b}\n" for a, b in asked))
    for pair in asked:
        head = f"{pair[0]} {pair[1]}\n"
        assert output.startswith(head), "git answers in the order it was asked"
        output = output.removeprefix(head)
        while output.startswith(":"):
            facts, path, output = output.split("\0", 2)
            old_mode, new_mode, old, new, _ = facts.removeprefix(":").split(" ")
            before = None if old == _NO_BLOB else Blob(old_mode, old)
            found[pair][path] = (before, None if new == _NO_BLOB else Blob(new_mode, new))
    return found


def _outside_repositories(span: ChangeSpan, sides: Mapping[str, _Sides]) -> dict[str, _Sides]:
    """Without what is in a repository inside the folder, which has a span of its own."""
    excluded = (file for snapshot in _snapshots(span) for file in snapshot.excluded)
    inner = tuple(f"{file.path}/" for file in excluded if file.why == REPOSITORY)
    return {path: pair for path, pair in sides.items() if not path.startswith(inner)}


def _unknown(
    repository: SnapshotRepository, span: ChangeSpan, sides: Mapping[str, _Sides]
) -> dict[str, str]:
    """Files whose change cannot be known from what was stored, each with why."""
    before, after = _snapshots(span)
    first = {file.path: file for file in before.excluded}
    last = {file.path: file for file in after.excluded}
    unknown = {
        path: (last.get(path) or first[path]).why
        for path in sorted(first.keys() | last.keys())
        if path in sides or first.get(path) != last.get(path)
        if path not in first or first[path].why != REPOSITORY
    }
    if any(path.rpartition("/")[2] == ".gitignore" for path in sides):
        new = [path for path, (old, _) in sides.items() if old is None]
        unknown |= dict.fromkeys(_ignored(repository, before.tree, new), _IGNORED)
    return unknown


def _ignored(repository: SnapshotRepository, tree: str, paths: Sequence[str]) -> list[str]:
    """Which of these files the `.gitignore` files of a tree hide."""
    rules = dict(_rules(repository.run("ls-tree", "-r", "-z", tree)))
    if not rules or not paths:
        return []
    texts = repository.contents(rules.values())
    with tempfile.TemporaryDirectory() as scratch:
        for path, name in rules.items():
            file = Path(scratch, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(texts[name])
        words = ("check-ignore", "-z", "--stdin", "--no-index")
        env = {"GIT_LITERAL_PATHSPECS": "0"}
        given = "".join(f"{path}\0" for path in paths)
        shown = repository.run(*words, work=Path(scratch), input=given, env=env, accept=(0, 1))
    return shown.split("\0")[:-1]


def _rules(listed: str) -> Iterator[tuple[str, str]]:
    for entry in listed.split("\0")[:-1]:
        facts, _, path = entry.partition("\t")
        mode, _, name = facts.split(" ")
        if path.rpartition("/")[2] == ".gitignore" and mode.startswith("100"):
            yield path, name


def by_folder(changes: Iterable[FileChange]) -> dict[Path, list[FileChange]]:
    """The changes to each folder, in their order."""
    found: dict[Path, list[FileChange]] = {}
    for change in changes:
        found.setdefault(change.folder, []).append(change)
    return found


@dataclass(frozen=True)
class Patch:
    """What was changed in one folder."""

    folder: Path
    prefix: str
    """What stands before its paths, so that they are right from the project's root."""
    text: str
    """In git's format; bytes that are no UTF-8 stand in it as surrogates."""
    files: tuple[FileDiffStat, ...]


def patch_of(
    repository: SnapshotRepository, folder: Path, prefix: str, changes: Iterable[FileChange]
) -> Patch:
    """The changes to one folder, those of one file put together where nobody came between."""
    text, files = "", dict[str, FileDiffStat]()
    for layer in _layers(changes):
        before, after = (_tree(repository, prefix, layer, side) for side in (0, 1))
        more, stats = diff_trees(repository.run, before, after)
        text += more
        for stat in stats:
            files[stat.path] = _sum(files.get(stat.path), stat)
    return Patch(folder, prefix, text, tuple(files[path] for path in sorted(files)))


def _layers(changes: Iterable[FileChange]) -> Iterator[dict[str, _Sides]]:
    """The changes as few patches, one after the other: a file stands in each but once."""
    chains: dict[str, list[_Sides]] = {}
    for change in changes:
        chain = chains.setdefault(change.path, [])
        if chain and chain[-1][1] == change.before:
            chain[-1] = (chain[-1][0], change.after)
        else:
            chain.append((change.before, change.after))
    real = {path: [pair for pair in chain if pair[0] != pair[1]] for path, chain in chains.items()}
    if any(str(parent) in real for path in real for parent in PurePosixPath(path).parents):
        # A file here is a folder there: no tree has both.
        yield from ({path: pair} for path, chain in real.items() for pair in chain)
        return
    for depth in range(max(map(len, real.values()), default=0)):
        yield {path: chain[depth] for path, chain in real.items() if depth < len(chain)}


def _tree(
    repository: SnapshotRepository, prefix: str, layer: Mapping[str, _Sides], side: int
) -> str:
    """A tree of nothing but these files."""
    lines = [
        f"{blob.mode} {blob.id}\t{prefix}{path}\0"
        for path, sides in layer.items()
        if (blob := sides[side]) is not None
    ]
    with tempfile.TemporaryDirectory() as scratch:
        env = {"GIT_INDEX_FILE": f"{scratch}/index"}
        repository.run("update-index", "-z", "--index-info", input="".join(lines), env=env)
        return repository.run("write-tree", env=env).strip()


def _sum(first: FileDiffStat | None, then: FileDiffStat) -> FileDiffStat:
    if first is None:
        return then
    if first.added is None or first.removed is None or then.added is None or then.removed is None:
        return FileDiffStat(then.path, None, None)
    return FileDiffStat(then.path, first.added + then.added, first.removed + then.removed)
