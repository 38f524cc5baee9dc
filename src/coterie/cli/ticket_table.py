"""The tickets of a session as a table: the state of each, its owner and what it took."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from coterie.app.views import SessionView, TicketRow, ticket_rows
from coterie.cli.graph import graph
from coterie.cli.text import NO_COLOUR, Meaning, Paint, cells, clip, one_line
from coterie.model import as_json
from coterie.model.team import Team, base_of
from coterie.model.ticket import Ticket, TicketKind, TicketState, TicketView
from coterie.model.update import token_count

MANY = 8
"""With more tickets than this, those that are over share one row."""
_TITLE = 12
"""A title in fewer columns says nothing: other columns are dropped instead."""
_WIDEST = 60
_STATE = 18
"""Columns to which the list of what a ticket waits for is cut; a question's id never is."""
_WIDEST_STATE = 22
_BAR = 20
_GONE: Sequence[TicketKind] = ("dropped", "replaced")

_WORKING: tuple[str, Meaning] = ("●", "name")
_STATES: Mapping[TicketState, tuple[str, Meaning]] = {
    "pending": ("○", "dim"),
    "discussing": _WORKING,
    "in_progress": _WORKING,
    "blocked": ("■", "asks"),
    "awaiting_review": ("◌", "name"),
    "done": ("✓", "good"),
    "error": ("✗", "bad"),
}
"""For each state: its mark and its colour."""


@dataclass(frozen=True)
class Row(TicketRow):
    """One ticket, as a row of the table."""

    owner: str = ""
    """Who has the ticket, and on which agent; empty if nobody has."""

    @property
    def ticket(self) -> Ticket:
        return self.view.ticket

    @property
    def is_gone(self) -> bool:
        """Whether it no longer counts."""
        return self.kind in _GONE

    @property
    def state(self) -> str:
        """Its state, and what blocks it."""
        if self.is_gone:
            by = self.ticket.closed_by or ""
            return f"now {by}" if self.kind == "replaced" else by
        if self.asks:
            return f"{self.ticket.state} ▲ {self.asks}"
        return _listed(self.waits_for) if self.waits_for else self.ticket.state

    @property
    def mark(self) -> str:
        """Its state as one symbol; it is always shown in words elsewhere."""
        return "▲" if self.asks else "-" if self.is_gone else _STATES[self.ticket.state][0]

    @property
    def meaning(self) -> Meaning:
        """What its colour stands for."""
        return "asks" if self.asks else _STATES[self.ticket.state][1]


_ORDER: Sequence[TicketKind] = ("working", "in review", "ready", "blocked", "failed", *_GONE)
"""The order in which the counts of kinds are listed."""


def _listed(waits_for: Sequence[str]) -> str:
    total = len(waits_for)
    texts = [f"blocked: {' '.join(waits_for)}"]
    texts += [f"blocked: {' '.join(waits_for[:n])} +{total - n}" for n in range(total - 1, 0, -1)]
    return next((text for text in texts if cells(text) <= _STATE), texts[-1])


def rows(session: SessionView) -> list[Row]:
    """Return the tickets of a session, each with what it waits for."""
    return rows_of(session.tickets, session.team, session.asks)


def rows_of(views: Iterable[TicketView], team: Team, asks: Mapping[str, str]) -> list[Row]:
    """The same for tickets that are followed live; `asks` holds questions by ticket."""
    return [
        Row(**vars(row), owner=_owner(row.view.ticket.owner, team))
        for row in ticket_rows(views, asks)
    ]


def _owner(owner: str | None, team: Team) -> str:
    member = team.get(base_of(owner)) if owner else None
    return f"{owner} {member.agent or ''}".strip() if member else owner or ""


def ticket_fields(task_id: str, row: Row) -> dict[str, object]:
    """A ticket as an object."""
    return as_json.ticket(task_id, row.view, row.kind, row.waits_for, row.asks)


def active_rows(listed: Sequence[Row]) -> dict[str, Row]:
    """Return the tickets by id, without those that were dropped or replaced."""
    return {row.ticket.id: row for row in listed if not row.is_gone}


def ticket_graph(listed: Sequence[Row], width: int, paint: Paint) -> list[str]:
    """Draw which tickets wait for which, each with the symbol of its state."""
    known = active_rows(listed)

    def shown(name: str) -> str:
        return f"{known[name].mark} {name}"

    return graph(
        {name: row.ticket.dependencies for name, row in known.items()},
        width,
        shown,
        lambda name: paint(shown(name), known[name].meaning),
    )


def counts(listed: Sequence[Row]) -> str:
    """`3 of 6 done · 1 working · 1 in review · 1 blocked`."""
    kinds = [row.kind for row in listed]
    parts = [f"{kinds.count('done')} of {len(active_rows(listed))} done"]
    parts += [f"{kinds.count(kind)} {kind}" for kind in _ORDER if kind in kinds]
    return " · ".join(parts)


def progress(listed: Sequence[Row], width: int) -> str:
    """The progress, as a bar and in figures."""
    kinds = [row.kind for row in listed]
    total = len(active_rows(listed))
    size = _BAR if width >= 3 * _BAR else _BAR // 2
    full = kinds.count("done") * size // total if total else 0
    return clip(f" {'█' * full}{'░' * (size - full)}  {counts(listed)}", width)


def took(seconds: float) -> str:
    """`41s`, `3m10`, `2h03`: short enough for a column."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, left = divmod(whole, 60)
    return f"{minutes}m{left:02d}" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02d}"


def thousands(tokens: int) -> str:
    """`940`, `8.2k`, `41k`: without tenths from 10k on, where they say nothing."""
    return f"{tokens / 1000:.0f}k" if 10_000 <= tokens < 999_500 else token_count(tokens)


@dataclass(frozen=True)
class _Column:
    name: str
    cell: Callable[[Row], str]
    right: bool = False


def _checks(row: Row) -> str:
    score = row.view.checks
    return f"{'✓' if score.passed == score.total else '✗'} {score}" if score else "-"


def _tokens(row: Row) -> str:
    return "-" if row.view.tokens is None else thousands(row.view.tokens)


_COLUMNS = (
    _Column("ID", lambda row: row.ticket.id),
    _Column("TICKET", lambda row: one_line(row.ticket.title)),
    _Column("STATE", lambda row: row.state),
    _Column("OWNER", lambda row: one_line(row.owner) or "-"),
    _Column("CHECKS", _checks),
    _Column("TIME", lambda row: took(row.view.seconds) if row.view.seconds else "-", right=True),
    _Column("TOKENS", _tokens, right=True),
)
_DROP_ORDER = ("TOKENS", "TIME", "CHECKS", "OWNER")
"""The columns that are dropped if there is no room, in this order."""


def table(
    listed: Sequence[Row], width: int, paint: Paint = NO_COLOUR, most: int | None = None
) -> list[str]:
    """A head and a row for each ticket, in at most `width` columns.

    With `most`, there are at most that many lines, and finished tickets share one if need be.
    """
    before, shown, after = _select_rows(listed, most)
    columns = _fitted(shown, width)
    head = " " + "  ".join(_aligned(column, column.name, size) for column, size in columns)
    lines = [paint(head.rstrip(), "dim")]
    lines += [clip(f" {line}", width) for line in before]
    for row in shown:
        painted = partial(paint, meaning=row.meaning)
        aligned = (
            _aligned(column, column.cell(row), size, painted if column.name == "STATE" else str)
            for column, size in columns
        )
        lines.append((" " + "  ".join(aligned)).rstrip())
    return lines + [clip(f" {line}", width) for line in after]


def _aligned(column: _Column, text: str, size: int, painted: Callable[[str], str] = str) -> str:
    cut = clip(text, size)
    blanks = " " * (size - cells(cut))
    return blanks + painted(cut) if column.right else painted(cut) + blanks


def _fitted(shown: Sequence[Row], width: int) -> list[tuple[_Column, int]]:
    """Return the columns that fit, and their widths; the title takes what is left."""
    sizes = {
        column.name: max([cells(column.name), *(cells(column.cell(row)) for row in shown)])
        for column in _COLUMNS
    }
    sizes["STATE"] = min(sizes["STATE"], max(_WIDEST_STATE, width // 5))
    columns = list(_COLUMNS)
    room = 0
    for spare in (None, *_DROP_ORDER):
        columns = [column for column in columns if column.name != spare]
        room = width + 1 - sum(sizes[column.name] + 2 for column in columns) + sizes["TICKET"]
        if room >= min(_TITLE, sizes["TICKET"]):
            break
    sizes["TICKET"] = min(room, sizes["TICKET"], _WIDEST)
    return [
        (column, sizes[column.name]) for column in columns if sizes[column.name] >= len(column.name)
    ]


def _select_rows(listed: Sequence[Row], most: int | None) -> tuple[list[str], list[Row], list[str]]:
    """Return a summary of finished tickets, the rows to show, and a summary of the rest."""
    if most is None or len(listed) <= min(MANY, most - 1):
        return [], list(listed), []
    over = [row for row in listed if row.ticket.is_over]
    rest = [row for row in listed if not row.ticket.is_over]
    before = [_summary_line(over)] if over else []
    room = most - 1 - len(before)
    if len(rest) <= room:
        return before, rest, []
    urgent = sorted(rest, key=_urgency)[: max(room - 1, 0)]
    left = [row for row in rest if row not in urgent]
    return before, [row for row in rest if row in urgent], [f"… {_summary_line(left)}"]


def _summary_line(listed: Sequence[Row]) -> str:
    """Summarize several tickets on one line."""
    kinds = [row.kind for row in listed]
    parts = [", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))]
    seconds = sum(row.view.seconds for row in listed)
    tokens = sum(row.view.tokens or 0 for row in listed)
    parts += [took(seconds)] if seconds else []
    parts += [f"{thousands(tokens)} tokens"] if tokens else []
    return f"{_ids(listed)}  {' · '.join(parts)}"


def _urgency(row: Row) -> int:
    order = ("working", "failed", "in review", "ready", "blocked")
    return -1 if row.asks else order.index(row.kind)


def _ids(listed: Sequence[Row]) -> str:
    """`T1-T4 T7`: the ids of rows, consecutive ones as a range."""
    spans: list[list[str]] = []
    before = None
    for row in listed:
        number = int(row.ticket.id[1:]) if row.ticket.id[1:].isdecimal() else None
        if spans and number is not None and before == number - 1:
            spans[-1][1:] = [row.ticket.id]
        else:
            spans.append([row.ticket.id])
        before = number
    return " ".join("-".join(span) for span in spans)
