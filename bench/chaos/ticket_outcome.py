"""The outcome of a session with tickets, read from its database, its branches and its files."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import anyio

from coterie.app.project import App
from coterie.model.envelope import ArtifactRef, Envelope
from coterie.model.ticket import STATES, TRANSITIONS, Ticket

_VARYING = frozenset({"session_id", "commit", "digest", "size_bytes", "usage", "attempts"})
"""Fields that differ between two equivalent runs."""
_FORMS = (
    (re.compile(r"\b[0-9a-f]{12,64}\b"), "HASH"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"^\d+-(?=.*\.log$)"), "NUMBER-"),
)
"""Words that differ too, recognized by their form."""
_LOGS = " artifact_ref"
"""The number of a ticket's logs depends on who lands first: the second is checked again."""


@dataclass(frozen=True)
class Outcome:
    """What must not depend on when a session was killed."""

    report: object
    """The final report without times, ids, hashes, usage and attempts."""
    files: dict[str, str]
    """The approved files, by name."""
    landed: Sequence[str]
    """The tickets of the merges on the branch."""
    branches: Sequence[str]
    states: dict[str, Sequence[str]]
    """By ticket: the states it went through."""
    payload_counts: dict[str, int]
    """How often each payload was sent about each ticket."""
    users_tree: Sequence[str]

    def differences(self, wanted: Outcome) -> Iterator[str]:
        """Yield the differences from the wanted outcome."""
        for name, found in vars(self).items():
            for place, (one, other) in _unlike(found, vars(wanted)[name], name):
                yield f"{place} is {one!r}, not {other!r}"


@dataclass(frozen=True)
class StoredSession:
    """What the database holds about a session."""

    session: str
    tickets: Sequence[Ticket]
    envelopes: Sequence[tuple[int, Envelope]]
    damage: Sequence[str]
    tasks: dict[str, str]
    """By task of the session: its status."""


def read_session(project: Path) -> StoredSession:
    """Read the last session of a project, which must not be running."""
    return anyio.run(_read_session, project)


async def _read_session(project: Path) -> StoredSession:
    async with App.open(project / "work", project / "user") as app:
        rows = await app.storage.events.tasks()
        session = rows[-1].session_id
        tasks: dict[str, str] = {row.id: row.status for row in rows if row.session_id == session}
        tickets = await app.storage.tickets.tickets(session)
        envelopes = await app.storage.tickets.envelopes(session)
        return StoredSession(session, tickets, envelopes, await app.storage.problems(), tasks)


def git(folder: Path, *words: str) -> str:
    """Return git's output."""
    run = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return run.stdout


# -- comparing outcomes --------------------------------------------------------------------------


def outcome(work: Path, kept: StoredSession) -> Outcome:
    """Return the outcome of a session that has ended."""
    session = kept.session
    merged = f"coterie/{session}/merged"
    report = work / ".coterie" / "sessions" / session / "final_report.json"
    trailers = "--format=%(trailers:key=Coterie-Ticket,valueonly)"
    branches = git(work, "for-each-ref", "--format=%(refname)", "refs/heads").split()
    counts = Counter(f"{one.ticket_id or '-'} {one.payload_type}" for _, one in kept.envelopes)
    return Outcome(
        report=_constant(json.loads(report.read_text()), session),
        files=_files(work, merged),
        landed=sorted(git(work, "log", "--first-parent", "--merges", trailers, merged).split()),
        branches=[name.replace(session, "SESSION") for name in branches],
        states={one.id: _path(one) for one in kept.tickets},
        payload_counts={
            what: 1 if what.endswith(_LOGS) else times for what, times in counts.items()
        },
        users_tree=[
            git(work, "symbolic-ref", "HEAD"),
            git(work, "log", "--format=%s", "HEAD"),
            git(work, "status", "--porcelain"),
            git(work, "diff"),
        ],
    )


def _files(work: Path, commit: str) -> dict[str, str]:
    names = git(work, "ls-tree", "-r", "--name-only", commit).splitlines()
    return {name: git(work, "show", f"{commit}:{name}") for name in names}


def _constant(value: object, session: str) -> object:
    """Return a value without its varying parts, and with lists of objects in a stable order."""
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        return {k: _constant(one, session) for k, one in fields.items() if k not in _VARYING}
    if isinstance(value, list):
        many = [_constant(one, session) for one in cast("list[object]", value)]
        return sorted(many, key=json.dumps) if many and isinstance(many[0], dict) else many
    if isinstance(value, str):
        text = value.replace(session, "SESSION")
        for form, word in _FORMS:
            text = form.sub(word, text)
        return text
    return value


def _unlike(found: object, wanted: object, place: str) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Yield the places, as deep as there are names, where two values differ."""
    if found == wanted:
        return
    if isinstance(found, dict) and isinstance(wanted, dict):
        one, other = cast("dict[str, object]", found), cast("dict[str, object]", wanted)
        for key in one.keys() | other.keys():
            yield from _unlike(one.get(key), other.get(key), f"{place}.{key}")
    else:
        yield place, (found, wanted)


# -- rules for every session ---------------------------------------------------------------------


def broken_rules(work: Path, kept: StoredSession) -> Iterator[str]:
    """Yield the rules that a session breaks, whatever the outcome of others."""
    yield from kept.damage
    numbers = [number for number, _ in kept.envelopes]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"the envelopes are numbered {numbers}"
    logs = [one.payload.uri for _, one in kept.envelopes if isinstance(one.payload, ArtifactRef)]
    if len(logs) != len(set(logs)):
        yield f"artifacts are reported twice: {logs}"
    for ticket in kept.tickets:
        if (stands := kept.tasks.get(f"{kept.session}/{ticket.id}")) != "completed":
            yield f"{ticket.id} is done, but its task is {stands}"
        if not _is_legal(_path(ticket)):
            yield f"{ticket.id} went {_path(ticket)}"
        if not _is_merged(work, kept.session, ticket.id):
            yield f"the work of {ticket.id} is not all on the branch"
    yield from _wrong_files(work / ".coterie" / "logs" / kept.session, kept)


def _path(ticket: Ticket) -> list[str]:
    return [moment.event for moment in ticket.history if moment.event in STATES]


def _is_legal(path: Sequence[str]) -> bool:
    """Whether a ticket made only legal transitions, and reached its end."""
    moves = {(before, after) for before, many in TRANSITIONS.items() for after in many}
    steps = zip(["pending", *path], path, strict=False)
    return path[-1:] == ["done"] and all(step in moves for step in steps)


def _is_merged(work: Path, session: str, ticket: str) -> bool:
    # Not with `rev-list A..B`, which errs if the clock was set back between two commits.
    tip = git(work, "rev-parse", f"coterie/{session}/{ticket}")
    return git(work, "merge-base", f"coterie/{session}/merged", tip.strip()) == tip


def _wrong_files(logs: Path, kept: StoredSession) -> Iterator[str]:
    """Yield how the envelopes on disk differ from those in the database."""
    wanted = {f"{number:06d}-{one.payload_type}.json": one for number, one in kept.envelopes}
    found = {path.name: path for path in logs.glob("*.json")}
    if found.keys() != wanted.keys():
        yield f"the files differ from the envelopes: {sorted(found.keys() ^ wanted.keys())}"
    for name in found.keys() & wanted.keys():
        if Envelope.model_validate_json(found[name].read_bytes()) != wanted[name]:
            yield f"{name} is not what the database has"
