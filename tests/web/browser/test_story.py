"""From an empty project to an accepted commit, on the page alone, alongside a terminal."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from bench.page.browser import Watch
from bench.page.machine import ROOT, Machine, Server
from bench.page.screens import answer, board, card

GOAL = "Add coupons to cart.py"
STAND_IN = "A stand-in for a model wrote this"
OF_ITS_OWN = {
    "codex": ".codex/sessions/**/rollout-*.jsonl",
    "claude": ".claude/projects/*/*.jsonl",
}
"""What the real program writes about a conversation in a member's home; a stand-in does not."""
BINS = Path(os.environ.get("COTERIE_CLIS", ROOT / ".cache" / "clis")) / "node_modules" / ".bin"


@pytest.mark.parametrize("agents", [["builtin"], ["codex", "claude"]], ids=",".join)
def test_a_goal_becomes_a_commit(watch: Watch, own_machine: Machine, agents: list[str]) -> None:
    if "builtin" not in agents:
        installed(own_machine, agents)
    root = own_machine.project("shop")
    with Server(own_machine, root) as server:
        watch.also(server.origin)
        page = watch.context.new_page()
        page.goto(server.address)
        team_made(page, agents)
        task = goal_given(page)
        detail = server.call("GET", f"/projects/{server.project(root)}/tasks/{task}")
        assert {one["agent"] for one in detail["members"]} - {None} == {*agents}
        with own_machine.started(root, "attach", task) as terminal:
            worked_on(page, server.place(root, "t", task, "tickets"))
            said, _ = terminal.communicate()
        assert said.count("answered by you: once") == 3, said
        accepted(page, server.place(root, "t", task, "changes"))
    assert own_machine.git(root, "status", "--porcelain") == ""
    assert STAND_IN in (root / "cart.py").read_text()
    homes = root / ".coterie" / "teams" / "crew"
    ran = {name for name, own in OF_ITS_OWN.items() if any(homes.glob(f"*/home/{own}"))}
    assert ran == {*agents} - {"builtin"}


def installed(machine: Machine, agents: list[str]) -> None:
    """Register the real CLIs, as in the user's registry."""
    missing = [name for name in agents if not (BINS / name).exists()]
    if missing:
        pytest.skip(f"{missing} are not installed: scripts/real-clis")
    registry = machine.folder / "home" / ".coterie" / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    known = {name: {"command": str(BINS / name)} for name in agents}
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": known}))


def worked_on(page: Page, tickets: str) -> None:
    """Approve the plan in the conversation and everything else in the inbox; a second tab shows the
    board and stays in sync."""
    plan = first_question(page, "Plan with 3 tickets")
    expect(card(page, plan)).to_contain_text("Check what was done")
    answer(page, plan, "approve")
    second = page.context.new_page()
    second.goto(tickets)
    page.bring_to_front()  # a background tab rarely renders, and a click waits for a frame
    page.keyboard.press("2")
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()
    for _ in range(3):
        asked = page.locator("article[data-question]").first
        expect(asked).to_contain_text(STAND_IN)
        question = asked.get_attribute("data-question") or ""
        expect(second.get_by_text(f"asks you · {question}")).to_be_visible()
        answer(page, question, "approve")
        answered = page.locator(f"[data-question={question}]")
        expect(answered).to_contain_text("answered: once by you")
        expect(second.get_by_text(f"asks you · {question}")).to_have_count(0)
    expect(second.get_by_text("3 of 3 done")).to_be_visible()
    assert board(second) == {"T1": "Done", "T2": "Done", "T3": "Done"}
    report = page.locator("article[data-question]").first
    expect(report).to_contain_text("The final report")
    answer(page, report.get_attribute("data-question") or "", "approve")


def team_made(page: Page, agents: list[str]) -> None:
    page.get_by_role("link", name="Create a team").click()
    page.get_by_role("button", name="Create a team…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("radio", name="tickets").check()
    expect(dialog.get_by_role("checkbox", name="builtin")).to_be_visible()
    for box in dialog.get_by_role("checkbox").all():
        box.uncheck()
    for agent in agents:
        dialog.get_by_role("checkbox", name=agent).check()
    dialog.get_by_label("Name").fill("crew")
    dialog.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", name="crew")).to_be_visible()
    # Workers of this kind change files without asking; here they should ask.
    worker = page.locator("main details").filter(has_text="accept-edits").first
    while worker.count():
        worker.locator("summary").click()
        worker.get_by_role("radio", name="Asks before it changes or runs").check()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Saved.")).to_be_visible()


def goal_given(page: Page) -> str:
    page.keyboard.press("1")
    page.get_by_label("What should be achieved?").fill(GOAL)
    page.get_by_text("Tickets", exact=True).last.click()
    page.get_by_label("Rehearsal").check()
    page.get_by_role("button", name="Start").click()
    page.wait_for_url("**/t/*")
    return page.url.rpartition("/")[2]


def first_question(page: Page, title: str) -> str:
    asks = page.get_by_role("region", name="Now").get_by_role("button", name=title)
    asks.click()
    opened: Locator = page.locator("article[data-question]")
    return opened.get_attribute("data-question") or ""


def accepted(page: Page, changes: str) -> None:
    page.goto(changes)
    expect(page.get_by_text(STAND_IN).first).to_be_visible()
    page.get_by_role("button", name="Accept…").click()
    page.get_by_role("dialog").get_by_role("button", name="Accept", exact=True).click()
    expect(page.get_by_text("Accepted into")).to_be_visible()
