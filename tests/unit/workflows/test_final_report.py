"""The final report as its readers see it."""

from __future__ import annotations

from coterie.model.task import TaskCreated
from coterie.model.ticket import Ticket
from coterie.workflows.tickets.final_report import FinalReport, TicketSummary, markdown
from tests.unit.model.test_task import CREATED


def report(task: TaskCreated, *titles: str) -> FinalReport:
    tickets = [Ticket(f"T{number}", "part", title) for number, title in enumerate(titles, 1)]
    summaries = [TicketSummary(one, 0, (), {}, ()) for one in tickets]
    return FinalReport(task, summaries, (), {}, "", "")


def test_its_heading_is_the_goals_first_line_or_the_session() -> None:
    goals = ("\n Add coupons \nto the shop", " \n ")
    headings = [
        markdown(report(CREATED.model_copy(update={"goal": goal}))).splitlines()[0]
        for goal in goals
    ]
    assert headings == ["# Add coupons", f"# {CREATED.session_id}"]


def test_a_title_stays_in_its_cell() -> None:
    lines = markdown(report(CREATED, "a | b\nand c")).splitlines()
    assert r"| T1 | pending | - | a \| b and c |" in lines
