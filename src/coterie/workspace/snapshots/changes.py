"""What the spans of a task changed, file by file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coterie.errors import GitFailed
from coterie.workspace.snapshots.shadow import Shadow
from coterie.workspace.snapshots.values import (
    REPOSITORY,
    Blob,
    Change,
    Missed,
    Snapshot,
    Span,
)

_Pair = tuple[str, str]
"""Two trees: what was, and what came of it."""
_Sides = tuple[Blob | None, Blob | None]
_NO_BLOB = "0" * 40
_IGNORED = "it was ignored before, so what it was is not known"


@dataclass(frozen=True)
class Found:
    """What was changed, oldest first, and what could not be followed."""

    changes: tuple[Change, ...] = ()
    missed: tuple[Missed, ...] = ()


def changes_of(shadow: Shadow, spans: Sequence[Span], others: Sequence[Span]) -> Found:
    """What spans changed; `others` are those of tasks that may have been there too.

    All of them have an end.
    """
    met = [[other for other in others if _meet(span, other)] for span in spans]
    every = [*spans, *(other for near in met for other in near)]
    found = _differences(shadow, {_pair(span) for span in every})
    changes: list[Change] = []
    missed: dict[tuple[Path, str], Missed] = {}
    for span, near in zip(spans, met, strict=True):
        sides = _outside_repositories(span, found[_pair(span)])
        also = {path: other.task for other in near for path in found[_pair(other)]}
        unknown = _unknown(shadow, span, sides)
        for path, why in unknown.items():
            missed[span.folder, path] = Missed(span.folder, path, why)
        changes += (
            Change(span.folder, path, *pair, also.get(path, ""))
            for path, pair in sides.items()
            if path not in unknown
        )
    return Found(tuple(changes), tuple(missed.values()))


def _meet(span: Span, other: Span) -> bool:
    """Whether two spans of one folder have some time in common."""
    assert span.after is not None
    assert other.after is not None
    return (
        span.folder == other.folder
        and span.before.place < other.after.place
        and other.before.place < span.after.place
    )


def _snapshots(span: Span) -> tuple[Snapshot, Snapshot]:
    assert span.after is not None
    return span.before.snapshot, span.after.snapshot


def _pair(span: Span) -> _Pair:
    before, after = _snapshots(span)
    return before.tree, after.tree


# -- what differs ------------------------------------------------------------------------------


def _differences(shadow: Shadow, pairs: Iterable[_Pair]) -> dict[_Pair, dict[str, _Sides]]:
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


def _outside_repositories(span: Span, sides: Mapping[str, _Sides]) -> dict[str, _Sides]:
    """What is in a repository inside the folder is told by a span of its own."""
    both = (one for snapshot in _snapshots(span) for one in snapshot.left_out)
    inner = tuple(f"{one.path}/" for one in both if one.why == REPOSITORY)
    return {path: pair for path, pair in sides.items() if not path.startswith(inner)}


# -- what is not known -------------------------------------------------------------------------


def _unknown(shadow: Shadow, span: Span, sides: Mapping[str, _Sides]) -> dict[str, str]:
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


def _ignored(shadow: Shadow, tree: str, paths: Sequence[str]) -> list[str]:
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
