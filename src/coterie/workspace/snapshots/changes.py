"""What a task changed, file by file and as a patch, as far as snapshots tell."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from coterie.errors import GitFailed
from coterie.model import instant
from coterie.workspace.git import FileDiffStat, diff_trees
from coterie.workspace.snapshots.capture import CurrentSnapshots
from coterie.workspace.snapshots.repository import (
    REPOSITORY,
    Blob,
    ChangeSpan,
    FileChange,
    Snapshot,
    SnapshotLog,
    SnapshotRecord,
    SnapshotRepository,
    UnknownChange,
    lasts,
)


def belongs(span: ChangeSpan, task: str) -> bool:
    """Whether a span is of a task or of a part that it handed out."""
    return span.task == task or span.task.startswith(f"{task}.")


@dataclass
class History:
    """What a task did, and what of it was taken back since."""

    turns: list[ChangeSpan] = field(default_factory=list[ChangeSpan])
    """The turns whose changes count, oldest first."""
    reverts: list[list[ChangeSpan]] = field(default_factory=list[list[ChangeSpan]])
    """The reverts that count, oldest first; each with its spans, one per folder."""
    _set_aside: list[list[ChangeSpan]] = field(default_factory=list[list[ChangeSpan]])

    @classmethod
    def of(cls, spans: Iterable[ChangeSpan]) -> History:
        """The history of a task, from all its spans in their order."""
        history = cls()
        number: tuple[str, int] | None = None
        for span in spans:
            if span.does == "turn":
                history.turns.append(span)
            elif number == (span.task, span.number):
                if span.does == "revert":
                    history.reverts[-1].append(span)
            elif span.does == "revert":
                history._revert(span)
            else:
                history._undo()
            number = (span.task, span.number)
        history.turns = _outermost(history.turns)
        return history

    @property
    def reverted_at(self) -> str | None:
        """When all of it was taken back; None if something still counts, or nothing ever did."""
        if self.turns or not self.reverts:
            return None
        return self.reverts[-1][0].before.at

    def _revert(self, span: ChangeSpan) -> None:
        self.reverts.append([span])
        # One that was cut, or had to leave something, took nothing off the record: it may be
        # tried again, and finds done what is done.
        whole = span.after is not None and span.after.whole
        self._set_aside.append(self.turns if whole else [])
        self.turns = [] if whole else self.turns

    def _undo(self) -> None:
        self.reverts.pop()
        self.turns = self._set_aside.pop() + self.turns


def _outermost(turns: Sequence[ChangeSpan]) -> list[ChangeSpan]:
    """The turns but for those of a part that was done while its whole was watched anyway."""
    return [turn for turn in turns if not any(_covers(other, turn) for other in turns)]


def _covers(whole: ChangeSpan, part: ChangeSpan) -> bool:
    within = whole.after is None or (
        part.after is not None and part.after.place < whole.after.place
    )
    return (
        within
        and part.task.startswith(f"{whole.task}.")
        and part.folder == whole.folder
        and whole.before.place < part.before.place
    )


_Pair = tuple[str, str]
"""Two trees: what was, and what came of it."""
_Sides = tuple[Blob | None, Blob | None]
_NO_BLOB = "0" * 40
_IGNORED = "it was ignored before, so what it was is not known"


@dataclass(frozen=True)
class FoundChanges:
    """What was changed, oldest first, and what could not be followed."""

    changes: tuple[FileChange, ...] = ()
    missed: tuple[UnknownChange, ...] = ()


def changes_of(
    shadow: SnapshotRepository, spans: Sequence[ChangeSpan], others: Sequence[ChangeSpan]
) -> FoundChanges:
    """What spans changed; `others` are those of tasks that may have been there too.

    All of them have an end.
    """
    met = [[other for other in others if _meet(span, other)] for span in spans]
    every = [*spans, *(other for near in met for other in near)]
    found = _differences(shadow, {_pair(span) for span in every})
    changes: list[FileChange] = []
    missed: dict[tuple[Path, str], UnknownChange] = {}
    for span, near in zip(spans, met, strict=True):
        sides = _outside_repositories(span, found[_pair(span)])
        also = {path: other.task for other in near for path in found[_pair(other)]}
        unknown = _unknown(shadow, span, sides)
        for path, why in unknown.items():
            missed[span.folder, path] = UnknownChange(span.folder, path, why)
        changes += (
            FileChange(span.folder, path, *pair, also.get(path, ""))
            for path, pair in sides.items()
            if path not in unknown
        )
    return FoundChanges(tuple(changes), tuple(missed.values()))


def _meet(span: ChangeSpan, other: ChangeSpan) -> bool:
    """Whether two spans of one folder have some time in common."""
    assert span.after is not None
    assert other.after is not None
    return (
        span.folder == other.folder
        and span.before.place < other.after.place
        and other.before.place < span.after.place
    )


def _snapshots(span: ChangeSpan) -> tuple[Snapshot, Snapshot]:
    assert span.after is not None
    return span.before.snapshot, span.after.snapshot


def _pair(span: ChangeSpan) -> _Pair:
    before, after = _snapshots(span)
    return before.tree, after.tree


# -- what differs ------------------------------------------------------------------------------


def _differences(
    shadow: SnapshotRepository, pairs: Iterable[_Pair]
) -> dict[_Pair, dict[str, _Sides]]:
    """By pair of trees, then by path: what differs."""
    found: dict[_Pair, dict[str, _Sides]] = {pair: {} for pair in pairs}
    asked = [pair for pair in found if pair[0] != pair[1]]
    if not asked:
        return found
    words = ("diff-tree", "--stdin", "-r", "-z", "--raw", "--no-renames", "--no-abbrev")
    told = shadow.run(*words, input="".join(f"{a} {b}\n" for a, b in asked))
    for pair in asked:
        head = f"{pair[0]} {pair[1]}\n"
        assert told.startswith(head), "git answers in the order it was asked"
        told = told.removeprefix(head)
        while told.startswith(":"):
            facts, path, told = told.split("\0", 2)
            found[pair][path] = _sides(facts)
    return found


def _sides(facts: str) -> _Sides:
    old_mode, new_mode, old, new, _ = facts.removeprefix(":").split(" ")
    before = None if old == _NO_BLOB else Blob(old_mode, old)
    return before, None if new == _NO_BLOB else Blob(new_mode, new)


def _outside_repositories(span: ChangeSpan, sides: Mapping[str, _Sides]) -> dict[str, _Sides]:
    """What is in a repository inside the folder is told by a span of its own."""
    both = (one for snapshot in _snapshots(span) for one in snapshot.left_out)
    inner = tuple(f"{one.path}/" for one in both if one.why == REPOSITORY)
    return {path: pair for path, pair in sides.items() if not path.startswith(inner)}


# -- what is not known -------------------------------------------------------------------------


def _unknown(
    shadow: SnapshotRepository, span: ChangeSpan, sides: Mapping[str, _Sides]
) -> dict[str, str]:
    """Files whose change cannot be told from what was kept, each with why."""
    before, after = _snapshots(span)
    first = {one.path: one for one in before.left_out}
    last = {one.path: one for one in after.left_out}
    unknown = {
        path: (last.get(path) or first[path]).why
        for path in sorted(first.keys() | last.keys())
        if path in sides or first.get(path) != last.get(path)
        if path not in first or first[path].why != REPOSITORY
    }
    if any(path.rpartition("/")[2] == ".gitignore" for path in sides):
        new = [path for path, (old, _) in sides.items() if old is None]
        unknown |= dict.fromkeys(_ignored(shadow, before.tree, new), _IGNORED)
    return unknown


def _ignored(shadow: SnapshotRepository, tree: str, paths: Sequence[str]) -> list[str]:
    """Which of these files the `.gitignore` files of a tree hide."""
    rules = dict(_rules(shadow.run("ls-tree", "-r", "-z", tree)))
    if not rules or not paths:
        return []
    texts = shadow.contents(rules.values())
    with tempfile.TemporaryDirectory() as scratch:
        for path, name in rules.items():
            file = Path(scratch, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(texts[name])
        words = ("check-ignore", "-z", "--stdin", "--no-index")
        env = {"GIT_LITERAL_PATHSPECS": "0"}
        given = "".join(f"{path}\0" for path in paths)
        try:
            told = shadow.run(*words, work=Path(scratch), input=given, env=env)
        except GitFailed as failed:
            if failed.status == 1:  # none of them
                return []
            raise
    return told.split("\0")[:-1]


def _rules(told: str) -> Iterator[tuple[str, str]]:
    for entry in told.split("\0")[:-1]:
        facts, _, path = entry.partition("\t")
        mode, _, name = facts.split(" ")
        if path.rpartition("/")[2] == ".gitignore" and mode.startswith("100"):
            yield path, name


_LAST = sys.maxsize
"""After all that was kept."""


@dataclass(frozen=True)
class TaskChanges:
    """All that was kept, seen from one task; the lock is held."""

    record: SnapshotLog
    task: str
    spans: Sequence[ChangeSpan]

    @classmethod
    def at(cls, record: SnapshotLog, task: str) -> TaskChanges:
        """Read the record."""
        return cls(record, task, record.spans())

    @property
    def mine(self) -> list[ChangeSpan]:
        """The spans of the task and of the parts it handed out."""
        return [span for span in self.spans if belongs(span, self.task)]

    @property
    def history(self) -> History:
        """What the task did, and what of it was taken back."""
        return History.of(self.mine)

    def found(self, wanted: Sequence[ChangeSpan]) -> FoundChanges:
        """What some spans changed; one that has no end lasts until now."""
        present, now = CurrentSnapshots(self.record.shadow), instant.now()

        def ended(spans: Iterable[ChangeSpan]) -> list[ChangeSpan]:
            return [
                span
                if span.after
                else replace(span, after=SnapshotRecord(present.of(span), now, _LAST))
                for span in spans
            ]

        others = (span for span in self.spans if not belongs(span, self.task))
        there = [span for span in others if span.after is not None or lasts(span)]
        folders = {span.folder for span in wanted}
        return changes_of(
            self.record.shadow, ended(wanted), ended(one for one in there if one.folder in folders)
        )


def by_folder(changes: Iterable[FileChange]) -> dict[Path, list[FileChange]]:
    """The changes to each folder, in their order."""
    found: dict[Path, list[FileChange]] = {}
    for change in changes:
        found.setdefault(change.folder, []).append(change)
    return found


# -- as a patch --------------------------------------------------------------------------------


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
    shadow: SnapshotRepository, folder: Path, prefix: str, changes: Iterable[FileChange]
) -> Patch:
    """The changes to one folder, those of one file put together where nobody came between."""
    text, files = "", dict[str, FileDiffStat]()
    for layer in _layers(changes):
        before, after = (_tree(shadow, prefix, layer, side) for side in (0, 1))
        more, stats = diff_trees(shadow.run, before, after)
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


def _tree(shadow: SnapshotRepository, prefix: str, layer: Mapping[str, _Sides], side: int) -> str:
    """A tree of nothing but these files."""
    lines = [
        f"{blob.mode} {blob.id}\t{prefix}{path}\0"
        for path, sides in layer.items()
        if (blob := sides[side]) is not None
    ]
    with tempfile.TemporaryDirectory() as scratch:
        env = {"GIT_INDEX_FILE": f"{scratch}/index"}
        shadow.run("update-index", "-z", "--index-info", input="".join(lines), env=env)
        return shadow.run("write-tree", env=env).strip()


def _sum(first: FileDiffStat | None, then: FileDiffStat) -> FileDiffStat:
    if first is None:
        return then
    if first.added is None or first.removed is None or then.added is None or then.removed is None:
        return FileDiffStat(then.path, None, None)
    return FileDiffStat(then.path, first.added + then.added, first.removed + then.removed)
