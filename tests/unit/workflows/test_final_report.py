"""The final report as its readers see it."""

from __future__ import annotations

from dataclasses import replace

from coterie.model.envelope import Envelope, Instruction
from coterie.model.task import TaskCreated
from coterie.model.ticket import Ticket
from coterie.workflows.tickets.final_report import FinalReport, TicketSummary, markdown, summaries
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


def test_what_no_command_checked_is_named_for_tickets_that_count() -> None:
    tickets = [Ticket("T1", "a", "a"), Ticket("T2", "b", "b", closed_by="T1")]
    order = Instruction.model_validate({"summary": "Do it.", "acceptance_criteria": ["it shines"]})
    said = [Envelope.of("k3f9", CREATED.at, "mira", "wren", order, one.id) for one in tickets]
    made = replace(report(CREATED), tickets=summaries(tickets, said))
    assert made.next_steps[2:] == ["Check T1: it shines"]
    assert "- T1: it shines" in markdown(made)
    assert "- T2: it shines" not in markdown(made)
