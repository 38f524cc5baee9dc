"""A pipeline on the page: from a goal to an accepted commit, only by what the page asks."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from bench.page.browser import TIMEOUT, Watch
from bench.page.machine import Machine, Server
from bench.page.screens import card
from tests.web.browser.accessibility import check_accessibility

GOAL = "Add coupons to cart.py"
PHASES = ["planning", "plan review", "codegen", "code review", "test codegen", "test run"]


def test_a_goal_goes_through_every_gate_to_one_commit(watch: Watch, own_machine: Machine) -> None:
    root = own_machine.project("shop")
    own_machine.coterie(root, "team", "new", "pair", "--agents", "builtin,builtin")
    (root / ".coterie" / "eval.conf").write_text("unit = python3 -m py_compile cart.py\n")
    with Server(own_machine, root) as server:
        watch.also(server.origin)
        page = watch.context.new_page()
        page.goto(server.address)
        goal_given(page)
        for phase in PHASES:
            over = asked(page, f"{phase} has finished: what next?")
            expect(node(page, phase)).to_contain_text("asks you")
            answered(page, over, "next")
        asked(page, "Accept the change: 2 files, +2 -0")
        looked_through(page)
        check_accessibility(page)
        committed(page)
    assert own_machine.git(root, "log", "-1", "--format=%s").strip() == "Add coupons"
    assert own_machine.git(root, "status", "--porcelain") == ""


def goal_given(page: Page) -> None:
    page.get_by_label("What should be achieved?").fill(GOAL)
    page.get_by_text("Pipeline", exact=True).last.click()
    page.get_by_label("Rehearsal").check()
    expect(page.get_by_label("Ask me after each phase")).to_be_checked()
    page.get_by_role("button", name="Start").click()
    page.wait_for_url("**/pipeline")


def node(page: Page, phase: str) -> Locator:
    return page.locator("figure .node").filter(has=page.get_by_text(phase, exact=True))


def asked(page: Page, title: str) -> str:
    """Open a question next to the graph; approve once whatever a member asks for before it."""
    while True:
        waiting = page.locator("main .ask > button").first
        waiting.click(timeout=3 * TIMEOUT)  # seven roles plan
        opened = page.locator("article[data-question]")
        question = opened.get_attribute("data-question") or ""
        if opened.get_by_role("heading", name=title).count():
            return question
        expect(opened).to_contain_text("wants to change a file")
        answered(page, question, "approve")


def answered(page: Page, question: str, choice: str) -> None:
    opened = card(page, question)
    opened.locator(f'input[type=radio][value="{choice}"]').check()
    opened.locator("footer").get_by_role("button").click()
    expect(opened).to_have_count(0)


def looked_through(page: Page) -> None:
    """Before the commit: what each gate decided, what was found, and what was produced."""
    for phase in PHASES:
        expect(node(page, phase)).to_contain_text("done")
    node(page, "test run").click()
    expect(page.get_by_role("heading", name="Gate: tests")).to_be_visible()
    expect(page.get_by_role("region", name="test run")).to_contain_text("passed")
    findings = page.get_by_role("region", name="Findings")
    expect(findings).to_contain_text("The plan has no risks.")
    expect(findings).to_contain_text("exit 0")
    artifacts = page.get_by_role("region", name="Artifacts")
    artifacts.get_by_text("review.minutes", exact=True).click()
    expect(artifacts.locator("details[open]")).to_contain_text("Review meeting")


def committed(page: Page) -> None:
    page.get_by_role("link", name="Changes").click()
    accept = page.get_by_role("button", name="Accept…")
    accept.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Commit message").fill("Add coupons")
    dialog.get_by_role("button", name="Accept", exact=True).click()
    expect(page.get_by_text("Accepted into")).to_be_visible()
    expect(accept).to_be_disabled()
    page.get_by_role("link", name="Pipeline").click()
    expect(page.get_by_text("Accepted as")).to_contain_text("Add coupons")
    expect(node(page, "done")).to_contain_text("reached")
