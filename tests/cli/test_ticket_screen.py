"""The live screen of a session: typed input and displayed lines, with made-up tickets."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

from inline_snapshot import snapshot
from prompt_toolkit.input import create_pipe_input

from coterie.app.costs import Cost
from coterie.app.project import App
from coterie.cli.main import Call
from coterie.cli.screen.tickets import TicketScreen, TicketStatus
from coterie.cli.text import NO_COLOUR, cells
from coterie.cli.ticket_events import TicketEvents
from coterie.model.about import ToolPermission
from coterie.model.envelope import Envelope, Instruction, Report
from coterie.model.envelope_fault import EnvelopeCheck
from coterie.model.interaction import Display, Interaction, Option
from coterie.model.record import Entry, InteractionRecord, MessageRecord, TicketRecord
from coterie.model.team import Budget, Member, Team
from coterie.model.ticket import CheckScore, Moment, Ticket, TicketView
from coterie.model.update import Usage
from tests.cli.command import normalize
from tests.cli.test_screen import DisplayedScreen, RecordingApp, SizedOutput

AT = "2026-01-01T12:00:00Z"
AGENTS = {"mira": "claude", "wren": "claude", "finn": "codex"}
TEAM = Team(
    name="shop",
    budget=Budget(tokens=500_000),
    members=tuple(
        Member(id=name, name=name, display_name=name.capitalize(), agent=agent, order=place)
        for place, (name, agent) in enumerate(AGENTS.items())
    ),
)
HISTORY = (Moment(AT, "created"), Moment(AT, "in_progress", "instructed"))
VIEWS = [
    TicketView(
        Ticket("T1", "model", "Coupon model", "done", "finn"), CheckScore(2, 2), 3, 190.0, 41_000
    ),
    TicketView(Ticket("T2", "form", "Form", "in_progress", "wren", ("T1",), history=HISTORY)),
    TicketView(Ticket("T3", "test", "End-to-end test", dependencies=("T2",))),
]
SAID = [
    Envelope.of("k3f9", AT, "mira", "wren", Instruction(summary="Write the form."), "T2"),
    Envelope.of("k3f9", AT, "finn", "mira", Report(status="completed"), "T1"),
]


def question(name: str = "q7", member: str = "wren") -> InteractionRecord:
    command = "npm install stripe@17"
    asked = Interaction(
        interaction_id=name,
        task_id="k3f9",
        author_actor_id=member,
        kind="Select",
        display=Display(title="Run a command", content=command),
        options=(Option(id="approve", label="once"), Option(id="reject", label="deny")),
        about=ToolPermission(tool="Bash", cwd="/shop", effect="run", command=command),
    )
    return InteractionRecord(asked, member)


@dataclass
class Session(RecordingApp):
    """A stand-in for an App with three tickets."""

    views: list[TicketView] = field(default_factory=lambda: list(VIEWS))

    async def show(self, task_id: str) -> object:
        created = SimpleNamespace(goal="Add coupons to checkout", team=TEAM)
        view = SimpleNamespace(id=task_id, status="running")
        state = SimpleNamespace(created=created)
        return SimpleNamespace(view=view, state=state, questions=(), children=())

    async def costs(self, task_id: str) -> list[Cost]:
        return [Cost("k3f9", "", "wren", "claude", AT, 1, Usage(cost_usd=1.9))]

    async def tickets(self, task_id: str) -> list[TicketView]:
        return self.views

    async def envelopes(self, task_id: str) -> list[Envelope]:
        return SAID

    async def check_envelopes(self, task_id: str) -> EnvelopeCheck:
        return EnvelopeCheck(task_id, 0, signed=False)

    async def branch(self, task_id: str, ticket: str = "") -> str:
        return ""


@asynccontextmanager
async def displayed_screen(columns: int = 80, rows: int = 24) -> AsyncIterator[DisplayedScreen]:
    output = SizedOutput(columns, rows)
    with create_pipe_input() as keys:
        screen = TicketScreen(Call(), TEAM, None, None, (keys, output))
        made = DisplayedScreen(screen, keys, Session(), output)
        async with screen.shown(lambda: made.stopped.append("stop")):
            screen.attach(cast("App", made.app), "k3f9")
            await made.until(lambda: screen.table(79, 15)[2:])
            yield made


def without_durations(lines: list[str]) -> list[str]:
    return [re.sub(r"\d+m\d\ds|(?<= )\ds", "0m20s", line) for line in lines]


async def test_the_lines_say_how_it_stands() -> None:
    async with displayed_screen() as it:
        screen = cast("TicketScreen", it.screen)
        screen.caught_up(214_000, ())
        screen.saw(question())
        shown = [*screen.table(79, 15), screen.status(79), screen.hint(79)]
        assert without_durations(shown) == snapshot(
            [
                " k3f9  Add coupons to checkout              0m20s · 214k of 500k tokens · $1.90",
                " ██████░░░░░░░░░░░░░░  1 of 3 done · 1 working · 1 blocked",
                "",
                " ID  TICKET           STATE             OWNER        CHECKS  TIME  TOKENS",
                " T1  Coupon model     done              finn codex   ✓ 2/2   3m10     41k",
                " T2  Form             in_progress ▲ q7  wren claude  -         0m20s       -",
                " T3  End-to-end test  blocked: T2       -            -          -       -",
                " ▲ q7 wren wants to run: npm install stripe@17                    waiting 0m20s",
                " Tab open q7 · type to tell the manager · /T2 one ticket · ^C stop, keep",
            ]
        )


async def test_what_is_typed_goes_to_the_manager() -> None:
    async with displayed_screen() as it:
        await it.press("drop the test\r")
        await it.until(lambda: it.app.calls)
        assert it.app.calls == [("say", "k3f9", "drop the test")]
        await it.until(lambda: "the manager reads it next" in it.output.written)


async def test_tab_opens_the_question_which_names_its_ticket() -> None:
    async with displayed_screen() as it:
        it.screen.saw(question())
        await it.press("\t")
        await it.until(lambda: it.screen.prompt() == " q7> ")
        assert "q7 · wren (claude) · k3f9/T2 · 1 of 1" in it.screen.card(80, 20)[0]
        await it.press("1\r")
        await it.until(lambda: it.app.calls)
        assert it.app.calls == [("answer", "q7", "approve", "")]


async def test_a_slash_shows_one_ticket() -> None:
    async with displayed_screen() as it:
        await it.press("/t2\r")
        await it.until(lambda: "instructed" in it.output.written)
        written = normalize(it.output.written.replace("\r\n", "\n"))
        assert written[written.index("k3f9/T2") :] == snapshot("""\
k3f9/T2  Form   in_progress   wren claude
   after    T1
   told     mira: Write the form.
   history  2026-01-01 12:00  created
            2026-01-01 12:00  in_progress: instructed

""")
        await it.press("/T9\r/end\r")
        await it.until(lambda: "No command /end" in it.output.written)
        assert "No ticket T9." in it.output.written


async def test_a_record_changes_the_table_and_the_events() -> None:
    async with displayed_screen() as it:
        screen = cast("TicketScreen", it.screen)
        done = TicketRecord("k3f9", "T2", "awaiting_review", "wren", "Form", "wren reported")
        cast("Session", it.app).views[1] = TicketView(
            Ticket("T2", "form", "Form", "awaiting_review", "wren"), CheckScore(1, 1), 1, 60.0
        )
        screen.saw(done)
        await it.until(lambda: "T2  wren reported" in it.output.written)
        await it.until(lambda: any("✓ 1/1   1m00" in line for line in screen.table(79, 15)))
        screen.saw(MessageRecord("k3f9", 9, "wren", 'Done.\n```json\n{"status": "completed"}\n```'))
        await it.until(lambda: 'wren: "Done."' in it.output.written)
        # A ticket that was dropped keeps its state, and nobody works on it any more.
        dropped = TicketRecord("k3f9", "T4", "in_progress", "wren", "Old", closed_by="dropped")
        at_work = TicketRecord("k3f9", "T3", "in_progress", "wren", "Test")
        for record in (at_work, dropped, MessageRecord("k3f9", 10, "wren", "Hm.")):
            screen.saw(record)
        await it.until(lambda: 'T3  wren: "Hm."' in it.output.written)


def test_every_size_is_kept_to() -> None:
    board = TicketStatus(TEAM, None)
    board.began("k3f9")
    board.goal = "Add coupons to checkout, with all that belongs to it and a little more"
    board.load(VIEWS)
    board.saw(question())
    for width in (24, 40, 60, 80, 200):
        for height in (0, 1, 2, 5, 6, 9, 30):
            lines = board.table(width, height)
            assert len(lines) <= height
            assert all(cells(line) <= width for line in [*lines, board.hint(width)])
        assert cells(board.status(width)) <= width


def test_afterwards_a_discussion_is_shown_once() -> None:
    events = TicketEvents(TEAM, lambda: 80, NO_COLOUR, fold=True)
    told = [
        line
        for said in ("asking the worker first", "discussed: wren answered")
        for line in events.past(
            Entry(AT, TicketRecord("k3f9", "T1", "discussing", "wren", message=said))
        )
    ]
    assert [line.partition("T1  ")[2] for line in told] == [
        "mira and wren are discussing it",
        "discussed: wren answered",
    ]
