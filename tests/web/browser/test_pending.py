"""What waits for a person on the page, settled there: a team of the repository and a failed
ticket; and what turns have cost."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from bench.page.machine import Machine, Server
from bench.page.screens import CARDS, ROWS
from tests.web.browser.accessibility import check_accessibility
from tests.web.browser.pending_project import THEIRS, PendingProject, pending_project


@pytest.fixture(scope="module")
def pending(machine: Machine, server: Server) -> PendingProject:
    made = pending_project(machine)
    server.add(made.root)
    return made


def test_what_waits_is_settled_on_the_page(
    page: Page, server: Server, pending: PendingProject
) -> None:
    """A single test, because creating the project costs more than viewing it."""
    costs_are_drawn(page, server, pending)
    a_team_of_the_repository_is_trusted_as_it_was_shown(page, server, pending)
    what_waits_is_seen_and_a_canceled_task_is_asked_about(page, server, pending)
    a_failed_ticket_is_reset(page, server, pending)


def costs_are_drawn(page: Page, server: Server, pending: PendingProject) -> None:
    page.goto(server.place(pending.root, "record"))
    chart = page.get_by_role("figure", name="Tokens by day")
    expect(chart.locator("canvas")).to_be_visible()
    inked = "(one) => new Set(one.getContext('2d').getImageData(0, 0, one.width, one.height).data)"
    assert page.locator("canvas").evaluate(f"(one) => ({inked})(one).size") > 2
    chart.locator(".u-over").hover(position={"x": 200, "y": 60})
    expect(chart).to_contain_text("Jan 30: 8.0k tokens in, 200 tokens out")
    page.get_by_text("As a table").click()
    days = page.get_by_role("region", name="Cost by day").get_by_role("row")
    expect(days.nth(2)).to_contain_text("2026-01-31")
    expect(page.get_by_role("region", name="Cost by member")).to_contain_text("8.2k$0.031 turn")
    expect(page.get_by_role("region", name="Cost by task")).to_contain_text("What was paid for")
    check_accessibility(page)


def a_team_of_the_repository_is_trusted_as_it_was_shown(
    page: Page, server: Server, pending: PendingProject
) -> None:
    page.goto(server.origin)
    chosen = page.locator("form label").get_by_role("combobox")
    chosen.first.select_option(server.project(pending.root))
    chosen.filter(has_text=THEIRS).select_option(THEIRS)
    expect(page.get_by_text("asks for powers that you have not reviewed")).to_be_visible()
    check_accessibility(page)
    page.get_by_role("link", name=f"Look at {THEIRS}").click()
    expect(page.get_by_role("heading", name=THEIRS)).to_be_visible()
    page.get_by_role("button", name="Review what it asks for…").click()
    dialog = page.get_by_role("dialog")
    for power in ("full never asks", "env sets SHOP"):
        expect(dialog).to_contain_text(power)
    check_accessibility(page)
    team = pending.root / ".coterie" / "teams" / THEIRS / "team.json"
    team.write_text(team.read_text().replace("SHOP", "CART"))  # behind the reader's back
    dialog.get_by_role("button", name="Trust it").click()
    expect(dialog).to_contain_text("edited in the meantime")
    expect(dialog).to_contain_text("env sets CART")
    dialog.get_by_role("button", name="Trust it").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("region", name="Trust")).to_have_count(0)
    powers = page.get_by_role("region", name="What it may do without asking")
    expect(powers).to_contain_text("never asks")


def what_waits_is_seen_and_a_canceled_task_is_asked_about(
    page: Page, server: Server, pending: PendingProject
) -> None:
    page.goto(f"{server.origin}/inbox")
    expect(page.locator(CARDS).filter(has_text="T1 failed")).to_be_visible()
    check_accessibility(page)
    page.goto(server.place(pending.root, "t", pending.session))
    expect(page.locator(ROWS).get_by_text("T1 failed")).to_be_visible()
    check_accessibility(page)
    page.get_by_role("button", name="Cancel…").click()
    check_accessibility(page)
    page.get_by_role("button", name="Keep it").click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def a_failed_ticket_is_reset(page: Page, server: Server, pending: PendingProject) -> None:
    page.goto(server.place(pending.root, "t", pending.session, "tickets", "T1"))
    page.get_by_role("button", name="Reset…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"{pending.session} is resumed to do so")
    check_accessibility(page)
    dialog.get_by_role("button", name="Reset", exact=True).click()
    expect(page.get_by_role("heading", level=1).locator("..")).to_contain_text("done")
    expect(page.get_by_role("button", name="Reset…")).to_have_count(0)
