"""Tickets, changes, the record and the team on the page, for a finished session."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from bench.page.machine import Machine, Server
from tests.web.browser.accessibility import check_accessibility


@dataclass(frozen=True)
class Session:
    """The demo session: four completed tickets that nobody has accepted yet."""

    root: Path
    task: str
    place: str


@pytest.fixture(scope="module")
def session(machine: Machine, server: Server, tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Created once: changes by one test are visible to the next."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(machine.env, "TMPDIR", str(tmp_path_factory.mktemp("demo")))
        said = machine.lines(machine.folder, "demo")
    root, task = Path(said[0]["folder"]), str(said[-1]["task"])
    server.add(root)
    return Session(root, task, server.place(root))


def test_a_graph_is_a_list_too_and_leads_to_a_ticket_with_its_checks_and_its_diff(
    page: Page, session: Session
) -> None:
    cut = page.context.new_page()  # the server went away while a chunk of the page was loading
    cut.route("**/assets/layout-*.js", lambda route: route.abort(), times=1)
    cut.goto(f"{session.place}/t/{session.task}/tickets?view=graph")
    expect(cut.locator("a.node")).to_have_count(4)
    cut.close()
    page.goto(f"{session.place}/t/{session.task}/tickets?view=graph")
    expect(page.locator("a.node")).to_have_count(4)
    page.get_by_text("As a list").click()
    expect(page.locator("figure ol li").last).to_have_text(
        "T4 Add a command that prints the receipt: python3 -m shop: done, after T3, T2"
    )
    page.locator("a.node").last.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("T4")
    page.locator("summary", has_text="Log").click()
    expect(page.get_by_label(".log").first).to_contain_text("OK")
    expect(page.get_by_label("What T4 changed")).to_contain_text("2 files")
    history = page.get_by_role("region", name="Timeline")
    expect(history).to_contain_text("An unknown coupon ends in a traceback")


def test_a_change_is_accepted_and_taken_back_by_a_button_of_its_dialog_and_by_no_key(
    page: Page, session: Session, machine: Machine
) -> None:
    head = machine.git(session.root, "rev-parse", "HEAD")
    page.goto(f"{session.place}/t/{session.task}/changes")
    expect(page.get_by_label("What", exact=False).get_by_text("8 files")).to_be_visible()
    page.get_by_role("button", name="Accept…").click()
    check_accessibility(page)
    for key in ("y", "a", "Escape"):
        page.keyboard.press(key)
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert machine.git(session.root, "rev-parse", "HEAD") == head
    page.get_by_role("button", name="Accept…").click()
    page.get_by_role("dialog").get_by_role("button", name="Accept", exact=True).click()
    expect(page.get_by_text("Accepted into")).to_be_visible()
    assert machine.git(session.root, "rev-parse", "HEAD") != head
    page.get_by_role("button", name="Revert…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("6 files removed")
    check_accessibility(page)
    dialog.get_by_role("button", name="Revert", exact=True).click()
    expect(page.get_by_text("The change was reverted.")).to_be_visible()
    assert not (session.root / "shop" / "coupons.py").exists()


def test_the_record_is_filtered_by_its_address_and_verified(page: Page, session: Session) -> None:
    page.goto(f"{session.place}/record?member=finn&tool=run")
    calls = page.locator(".calls li")
    expect(calls.first).to_contain_text("runCommand")
    expect(calls.filter(has_not_text="finn")).to_have_count(0)
    page.get_by_role("button", name="Verify the record").click()
    expect(page.get_by_text("The record is intact.")).to_be_visible()


def test_a_mistake_is_shown_at_its_field_and_an_edited_member_asks_who_it_is(
    page: Page, session: Session
) -> None:
    page.goto(f"{session.place}/team")
    member = page.locator("main details").first
    member.locator("summary").click()
    member.get_by_role("textbox", name="Model").fill("-x y")
    expect(member.get_by_text("expected a model name")).to_be_visible()
    expect(page.get_by_role("button", name="Save", exact=True)).to_be_disabled()
    member.get_by_role("textbox", name="Model").fill("")
    member.get_by_role("textbox", name="Prompt").fill("You plan.")
    page.get_by_role("button", name="Save", exact=True).click()
    question = page.get_by_label("A question about mira")
    expect(question).to_contain_text("You plan and review.")
    question.get_by_role("button", name="Keep the old version").click()
    expect(question).to_have_count(0)


def test_nothing_serious_is_found_by_axe_and_keys_lead_everywhere(
    page: Page, session: Session
) -> None:
    task = f"t/{session.task}"
    shown = {
        f"{task}/tickets": page.get_by_text("4 of 4 done"),
        f"{task}/tickets?view=graph": page.locator("a.node").last,
        f"{task}/tickets/T4": page.get_by_label("What T4 changed").get_by_text("2 files"),
        f"{task}/changes": page.get_by_text("By ticket"),
        "record": page.locator(".calls li").first,
        "team": page.get_by_role("button", name="Add a member"),
    }
    for screen, content in shown.items():
        page.goto(f"{session.place}/{screen}")
        expect(content).to_be_visible()
        check_accessibility(page)
    makes, dialog = page.get_by_role("button", name="New team…"), page.get_by_role("dialog")
    makes.click()
    expect(dialog.get_by_role("checkbox").first).to_be_visible()
    check_accessibility(page)
    for key in ("Escape", "Enter"):
        page.keyboard.press(key)
    expect(dialog).to_be_visible()
    dialog.get_by_role("button", name="Cancel").click()
    expect(makes).to_be_focused()
