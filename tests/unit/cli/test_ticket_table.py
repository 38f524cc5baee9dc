"""The table of a session's tickets: its contents and its layout."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from coterie.cli.text import cells
from coterie.cli.ticket_table import Row, progress, rows_of, table
from coterie.model.team import Member, Team
from coterie.model.ticket import CheckScore, Ticket, TicketState, TicketView

AGENTS = {"mira": "claude", "wren": "claude", "finn": "codex"}
TEAM = Team(
    name="shop",
    members=tuple(Member(id=n, name=n, display_name=n, agent=a) for n, a in AGENTS.items()),
)


def view(
    name: str,
    title: str,
    state: TicketState,
    owner: str | None = None,
    figures: tuple[CheckScore | None, float, int | None] = (None, 0.0, None),
    after: tuple[str, ...] = (),
) -> TicketView:
    checks, seconds, tokens = figures
    ticket = Ticket(name, name.lower(), title, state, owner, after)
    return TicketView(ticket, checks, 1, seconds, tokens)


def shop() -> list[TicketView]:
    return [
        view("T1", "Coupon model", "done", "wren", (CheckScore(3, 3), 190, 41_000)),
        view("T2", "Price rules", "done", "finn", (CheckScore(2, 2), 178, 38_000)),
        view("T3", "Migration", "done", "wren#2", (CheckScore(0, 1), 100, 940)),
        view("T4", "Checkout endpoint", "in_progress", "wren", (None, 122, 52_000)),
        view("T5", "Form", "awaiting_review", "finn", (CheckScore(2, 2), 4_271, 60_000)),
        view("T6", "End-to-end test", "pending", after=("T4", "T5", "T1")),
    ]


def listed(*more: TicketView) -> list[Row]:
    return rows_of([*shop(), *more], TEAM, {"T4": "q7"})


def waiting(first: int, last: int) -> list[TicketView]:
    return [view(f"T{n}", f"Part {n}", "pending", after=("T6",)) for n in range(first, last + 1)]


def test_the_whole_of_it() -> None:
    assert [progress(listed(), 79), "", *table(listed(), 79)] == snapshot(
        [
            " ██████████░░░░░░░░░░  3 of 6 done · 1 working · 1 in review · 1 blocked",
            "",
            " ID  TICKET             STATE             OWNER          CHECKS  TIME  TOKENS",
            " T1  Coupon model       done              wren claude    ✓ 3/3   3m10     41k",
            " T2  Price rules        done              finn codex     ✓ 2/2   2m58     38k",
            " T3  Migration          done              wren#2 claude  ✗ 0/1   1m40     940",
            " T4  Checkout endpoint  in_progress ▲ q7  wren claude    -       2m02     52k",
            " T5  Form               awaiting_review   finn codex     ✓ 2/2   1h11     60k",
            " T6  End-to-end test    blocked: T4 T5    -              -          -       -",
        ]
    )


@pytest.mark.parametrize("width", [120, 60, 40, 24])
def test_it_fits(width: int) -> None:
    lines = [progress(listed(), width), *table(listed(), width)]
    assert max(map(cells, lines)) <= width
    assert any("▲ q7" in line for line in lines)


def test_what_is_left_out_where_it_is_narrow() -> None:
    assert table(listed(), 44) == snapshot(
        [
            " ID  TICKET             STATE",
            " T1  Coupon model       done",
            " T2  Price rules        done",
            " T3  Migration          done",
            " T4  Checkout endpoint  in_progress ▲ q7",
            " T5  Form               awaiting_review",
            " T6  End-to-end test    blocked: T4 T5",
        ]
    )


def test_of_many_the_done_share_a_row_and_those_that_wait_another() -> None:
    many = listed(*waiting(7, 30))
    assert table(many, 79, most=9) == snapshot(
        [
            " ID  TICKET             STATE             OWNER        CHECKS  TIME  TOKENS",
            " T1-T3  3 done · 7m48 · 80k tokens",
            " T4  Checkout endpoint  in_progress ▲ q7  wren claude  -       2m02     52k",
            " T5  Form               awaiting_review   finn codex   ✓ 2/2   1h11     60k",
            " T6  End-to-end test    blocked: T4 T5    -            -          -       -",
            " T7  Part 7             blocked: T6       -            -          -       -",
            " T8  Part 8             blocked: T6       -            -          -       -",
            " T9  Part 9             blocked: T6       -            -          -       -",
            " … T10-T30  21 blocked",
        ]
    )
    for most in range(3, 40):
        assert len(table(many, 79, most=most)) <= most


def test_eight_are_shown_whole() -> None:
    assert len(table(listed(*waiting(7, 8)), 79, most=30)) == 9


def test_a_ticket_that_no_longer_counts() -> None:
    gone = Ticket("T7", "old", "Old way", "error", "wren", closed_by="T8", reason="anew")
    dropped = Ticket("T9", "no", "Not wanted", "pending", closed_by="dropped", reason="no")
    canceled = Ticket("T10", "no", "Not now", "in_progress", closed_by="canceled")
    found = rows_of([*shop(), *map(TicketView, (canceled, gone, dropped))], TEAM, {})
    assert [row.state for row in found[-3:]] == ["canceled", "now T8", "dropped"]
    assert [row.kind for row in found[-3:]] == ["dropped", "replaced", "dropped"]
    del found[-3]
    assert progress(found, 79) == snapshot(
        " ██████████░░░░░░░░░░  3 of 6 done · 1 working · 1 in review · 1 blocked · 1 d…"
    )


def test_what_it_waits_for_is_named_in_short() -> None:
    after = tuple(f"T{n}" for n in range(10, 20))
    open_ones = [view(name, "", "in_progress") for name in after]
    (row,) = rows_of([view("T30", "Last", "pending", after=after), *open_ones], TEAM, {})[:1]
    assert row.state == snapshot("blocked: T10 +9")
