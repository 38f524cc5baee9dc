"""A whole story by keyboard alone: a goal, its plan, a question, the diff, the commit."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from bench.page.browser import Watch
from bench.page.machine import Machine, Server
from bench.page.screens import card
from tests.web.browser import keys

STAND_IN = "A stand-in for a model wrote this"


def test_a_goal_becomes_a_commit_without_a_pointer(watch: Watch, own_machine: Machine) -> None:
    root = own_machine.project("shop")
    own_machine.coterie(root, "team", "new", "crew", "--agents", "builtin,builtin")
    team = root / ".coterie" / "teams" / "crew" / "team.json"
    team.write_text(team.read_text().replace('"accept-edits"', '"ask"'))
    with Server(own_machine, root) as server:
        watch.also(server.origin)
        page = watch.context.new_page()
        page.goto(server.address)
        submit_goal(page)
        for title in ("Plan with 3 tickets", "cart.py", "cart.py", "cart.py", "The final report"):
            answered(page, title)
        accepted(page)
    assert own_machine.git(root, "status", "--porcelain") == ""
    assert STAND_IN in (root / "cart.py").read_text()


def submit_goal(page: Page) -> None:
    keys.type_into(page, page.get_by_label("What should be achieved?"), "Add coupons to cart.py")
    keys.press(page, page.get_by_role("radio", name="Talk"), "ArrowRight")
    expect(page.get_by_role("radio", name="Tickets")).to_be_checked()
    keys.press(page, page.get_by_role("checkbox", name="Rehearsal"), "Space")
    keys.press(page, page.get_by_role("button", name="Start"))
    page.wait_for_url("**/t/*")


def answered(page: Page, title: str) -> None:
    """Go to the inbox by its shortcut, select the first answer, and press the button."""
    page.keyboard.press("2")
    asked = page.locator("article[data-question]").first
    expect(asked).to_contain_text(title)
    waiting = card(page, asked.get_attribute("data-question") or "")
    keys.press(page, waiting.get_by_role("radio").first, "Space")
    expect(waiting.locator("input[value=approve]")).to_be_checked()
    keys.press(page, waiting.locator("footer").get_by_role("button"))
    expect(waiting.get_by_role("radio")).to_have_count(0)


def accepted(page: Page) -> None:
    """View the diff in the ticket graph and among the changes; dialogs return the focus."""
    page.keyboard.press("4")
    keys.press(page, page.get_by_role("link", name="Graph"))
    expect(page.locator("a.node")).to_have_count(3)
    keys.press(page, page.locator("a.node").first)
    expect(page.get_by_label("What T1 changed")).to_contain_text(STAND_IN)
    page.keyboard.press("6")
    expect(page.get_by_text(STAND_IN).first).to_be_visible()
    accept = page.get_by_role("button", name="Accept…")
    keys.press(page, accept)
    expect(page.get_by_role("dialog")).to_be_visible()
    for key in ("Escape", "Enter"):  # the focus returns at once: no quick key is lost
        page.keyboard.press(key)
    keys.press(page, page.get_by_role("dialog").get_by_role("button", name="Accept", exact=True))
    expect(page.get_by_text("Accepted into")).to_be_visible()
    page.keyboard.press("3")
    expect(page.get_by_role("log").get_by_text("The final report").first).to_be_visible()
    # The "To the end" button disappears once Tab has reached the end.
    assert [one for one in keys.missed(page) if "To the end" not in one] == []
