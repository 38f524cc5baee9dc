"""Payloads in names, titles, paths, diffs, artifacts, answers and commands, on every screen.

What the context watches holds throughout: nothing ran, no request left, no policy was broken.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from string import ascii_lowercase, digits

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from bench.page.browser import Watch
from bench.page.machine import Machine, Server
from bench.page.screens import ROWS, answer
from tests.web.browser import axe, keys
from tests.web.browser.hostile_work import (
    FIELD,
    MISNAMED,
    SHORT,
    HostileWork,
    hostile_work,
)
from tests.web.browser.payloads import HOST, PAYLOADS, Payload
from tests.web.browser.test_payloads import FRAME, read, to_the_beginning

_WALK = """() => {
  [window.walked, window.left] = [[], false];
  window.walks?.abort();
  window.walks = new AbortController();
  document.addEventListener("focusin", ({ target }) => {
    const row = target.closest("[data-row]")?.dataset.row;
    window.left ||= row === undefined && window.walked.length > 0;
    if (!window.left && row !== undefined && window.walked.at(-1) !== row) window.walked.push(row);
  }, { signal: window.walks.signal });
}"""
_OPEN = "details:not([open]) > summary, button[aria-expanded=false]"


@pytest.fixture(scope="module")
def work(machine: Machine, server: Server) -> HostileWork:
    made = hostile_work(machine)
    for root in (made.root, made.build_root):
        server.add(root)
    return made


def test_what_others_wrote_is_text_on_every_screen_and_no_stray_key_answers(
    page: Page, server: Server, work: HostileWork
) -> None:
    """A single test, because creating the project costs more than viewing it."""
    all_can_be_read(page, server, work)
    artifacts_are_text_and_files(page, server, work)
    tab_comes_by_everything(page, server, work)
    tab_comes_by_every_row_of_a_long_talk(page, server, work)
    no_stray_key_answers(page, server, work)


def all_can_be_read(page: Page, server: Server, work: HostileWork) -> None:
    task = server.place(work.root, "t", work.session)
    page.get_by_role("heading", level=1).wait_for()

    def shown(address: str, ready: Locator, opens: str = _OPEN) -> str:
        page.goto(address)
        expect(ready.first).to_be_visible()
        opened(page, opens)
        assert not axe.wider_than_a_phone(page), address
        return read(page)

    main = page.get_by_role("main")
    # Titles are truncated: check the start of each.
    titles = [f"p{one.number:03}" for one in PAYLOADS]
    for address in (f"{task}/tickets", f"{task}/tickets?view=graph"):
        text = shown(address, main.get_by_text("p100"), "figure details:not([open]) > summary")
        assert [one for one in titles if one not in text] == [], address
    assert SHORT[0].text in shown(server.origin, main.get_by_text("p001"))
    once(shown(f"{server.origin}/inbox", page.locator(f"[data-question={work.question}]")), SHORT)
    ticket = shown(f"{task}/tickets/T1", page.get_by_label("What T1 changed").get_by_text("files"))
    times(ticket, SHORT, 8)
    once(ticket, PAYLOADS)  # the log of its check, and its diff
    once(shown(f"{task}/changes", page.get_by_text("By ticket")), PAYLOADS)
    page.goto(task)
    expect(page.get_by_role("log").get_by_text("p100").first).to_be_visible()
    opened(page, _OPEN)
    assert not axe.wider_than_a_phone(page)
    once(read(page), PAYLOADS[30:])  # the patches of as many tool calls as a screen has room for
    page.reload()  # collapse again: expanded rows take up many screens
    given = page.locator("main .line", has_text="answered approve")
    for _ in range(1000):
        if given.count():
            break
        page.get_by_role("log").press("Home")
        page.evaluate(FRAME)
    once(given.inner_text(), SHORT)
    record = shown(server.place(work.root, "record"), page.locator(".calls li"))
    assert [one.number for one in PAYLOADS if one.name.split()[0] not in record] == []
    team, member = server.place(work.root, "team"), page.get_by_role("button", name="Add a member")
    once(shown(team, member), SHORT)
    names = shown(f"{team}?team={MISNAMED}", main.get_by_text("expected letters"))
    # Each member's name, also at its removal; its role; its agent, also in the list of agents.
    times(names, SHORT, 5)


def artifacts_are_text_and_files(page: Page, server: Server, work: HostileWork) -> None:
    page.get_by_role("heading", level=1).wait_for()
    page.goto(server.place(work.build_root, "t", work.build, "pipeline"))
    expect(page.get_by_role("heading", name="Artifacts")).to_be_visible()
    opened(page, _OPEN)
    times(read(page), SHORT, 2)
    page.goto(server.place(work.root, "t", work.session, "tickets", "T1"))
    expect(page.locator(".checks summary").first).to_be_visible()
    opened(page, ".checks details:not([open]) > summary")
    link = page.get_by_role("link", name="Download")
    with page.expect_download() as downloading:
        link.click()
    once(Path(downloading.value.path()).read_bytes().decode(), PAYLOADS)
    answer = page.request.get(str(link.evaluate("(one) => one.href")))
    assert answer.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in answer.headers["content-security-policy"]


def test_a_page_that_takes_payloads_for_more_than_text_is_found_out(browser: Browser) -> None:
    """The control: everything that is watched for is detected where nothing protects the reader."""
    origin, policy = "http://page.example", {"content-security-policy": "img-src 'none'"}
    watch = Watch(browser.new_context(), origin)
    # Except for the payload that navigates away, after which there is nothing left to check.
    body = "<main>" + "\n".join(one for one in FIELD.splitlines() if "<meta" not in one)
    watch.context.route(
        f"{origin}/*",
        lambda route: route.fulfill(body=body, content_type="text/html", headers=policy),
    )
    watch.context.route(f"**//{HOST}/**", lambda route: route.abort())
    page = watch.context.new_page()
    with (
        page.expect_console_message(lambda one: one.text == "pwned"),
        page.expect_request(f"https://{HOST}/frame"),
        page.expect_console_message(lambda one: "Content Security Policy" in one.text),
    ):
        page.goto(origin, wait_until="domcontentloaded")
    found = "\n".join(watch.found)
    assert "console: pwned" in found
    assert f"request: https://{HOST}/frame" in found
    assert "Content Security Policy" in found
    with pytest.raises(AssertionError):
        once(page.get_by_role("main").inner_text(), SHORT)
    watch.context.close()


def tab_comes_by_everything(page: Page, server: Server, work: HostileWork) -> None:
    """For the other screens see test_screens.py, test_shell.py and test_keyboard.py."""
    page.get_by_role("heading", level=1).wait_for()
    shown = {
        f"{server.origin}/inbox": page.locator("article"),
        server.place(work.build_root, "t", work.build, "pipeline"): page.locator("button.node"),
    }
    for address, content in shown.items():
        page.goto(address)
        expect(content.first).to_be_visible()
        assert keys.missed(page) == [], address


def tab_comes_by_every_row_of_a_long_talk(page: Page, server: Server, work: HostileWork) -> None:
    """The list is virtual: not all rows are in the document at once; Tab still reaches each of
    them, and back."""
    page.goto(server.place(work.root, "t", work.session))
    page.locator(ROWS).first.wait_for()
    to_the_beginning(page)
    page.get_by_role("log").focus()
    there = walked(page, "Tab")
    assert len(there) > 100
    assert walked(page, "Shift+Tab") == there[::-1]


def walked(page: Page, key: str) -> list[str]:
    """The rows that get the focus until it has left them."""
    page.evaluate(_WALK)
    while not page.evaluate("window.left"):
        press_all(page, [key] * 10)
    return page.evaluate("window.walked")


PRINTED = (*ascii_lowercase, *"-=[];',./`", *digits[:2])
"""The last of them leads to the first screen, and the other digits from there to the others."""
NAMED = ("Enter", "Space", "Escape", "Delete", "Backspace", "ArrowDown", "ArrowRight", "F2", "F8")
"""All keys except those that move the focus."""


def no_stray_key_answers(page: Page, server: Server, work: HostileWork) -> None:
    """Press keys on every screen, on the body and on focused elements without an action; in a card
    also on a selected answer and in a text field."""
    sent: list[str] = []
    page.get_by_role("heading", level=1).wait_for()
    page.on("request", lambda one: sent.append(one.url) if one.method != "GET" else None)
    task, own = server.place(work.root, "t", work.session), server.place(work.root)
    build = server.place(work.build_root, "t", work.build, "pipeline")
    tickets = (f"{task}/tickets", f"{task}/tickets/T2")
    others = (server.origin, task, *tickets, build, f"{task}/changes", f"{own}/record")
    for address in (*others, f"{own}/team"):
        page.goto(address)
        page.get_by_role("heading", level=1).wait_for()
        press_all(page, (*NAMED, *PRINTED))
        if address == task:
            press_all(page, digits[2:])
    inbox, card = f"{server.origin}/inbox", page.locator(f"[data-question={work.question}]")
    for place in ("body", "h1", "card", "radio", "textbox"):
        page.goto(f"{inbox}?q={work.question}")
        expect(card).to_be_visible()
        if place in ("h1", "body"):
            page.locator(place).first.evaluate("(one) => one.focus()")
        elif place != "card":
            card.locator("input[value=reject]").check()
        if place == "textbox":
            card.get_by_role("textbox").focus()
        for held in ("", "Shift+", "Control+", "Alt+", "Meta+"):
            press_all(page, [held + one for one in (*NAMED, "y", "Y", "a", "o", "n", "1", "9")])
    assert sent == []
    page.goto(inbox)
    answer(page, work.question, "reject")  # the control: an answer is detected
    expect(card).to_contain_text("answered")
    assert [one.rpartition("/")[2] for one in sent] == ["answers"]


def press_all(page: Page, names: Iterable[str]) -> None:
    for name in names:
        page.keyboard.press(name)


def opened(page: Page, selector: str) -> None:
    """Open everything that is folded, including what that reveals."""
    loading = page.locator("main .loading")
    expect(loading).to_have_count(0)
    for _ in range(400):
        closed = page.get_by_role("main").locator(selector)
        if not closed.count():
            break
        closed.evaluate_all("(all) => { for (const one of all) one.click(); }")
        page.evaluate(FRAME)
    expect(loading).to_have_count(0)


def count_complete(shown: str, payload: Payload) -> int:
    """How often a payload occurs with all its words."""
    ends = shown.split(payload.end)[:-1]
    texts = [before.rpartition(payload.mark)[2] for before in ends if payload.mark in before]
    return sum(all(word in text for word in payload.words) for text in texts)


def times(shown: str, payloads: Iterable[Payload], least: int) -> None:
    """Assert that each payload occurs at least this often."""
    found = {one.mark: count for one in payloads if (count := count_complete(shown, one)) < least}
    assert found == {}


def once(shown: str, payloads: Iterable[Payload]) -> None:
    """Assert that each payload occurs."""
    times(shown, payloads, 1)
