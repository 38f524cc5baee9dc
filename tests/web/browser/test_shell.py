"""The page around its screens: from the wheel, signed in by its address, also by keyboard."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from bench.page.browser import Watch
from bench.page.machine import Machine, Server
from bench.page.screens import connection
from tests.web.browser.accessibility import check_accessibility


def test_the_printed_address_lets_a_browser_in_and_leaves_no_token_behind(page: Page) -> None:
    expect(page.get_by_role("heading", level=1)).to_have_text("Home")
    assert "token" not in page.url
    kept = "[document.cookie, JSON.stringify(localStorage), JSON.stringify(sessionStorage)].join()"
    assert "token" not in page.evaluate(kept).lower()
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Home")


@pytest.mark.parametrize("way", ["reload", "elsewhere"])
def test_who_leaves_before_the_token_was_answered_comes_in_all_the_same(
    context: BrowserContext, server: Server, way: str
) -> None:
    page = context.new_page()
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/api/v1/session", hold, times=1)
    with page.expect_request("**/api/v1/session"):
        page.goto(server.address)
    assert "token" not in page.url
    if way == "reload":
        page.reload()
    else:
        page.goto(f"{server.origin}/inbox")
    expect(page.get_by_role("navigation").first).to_be_visible()
    assert len(held) == 1
    assert "token" not in page.evaluate("JSON.stringify(sessionStorage)").lower()


def test_a_token_that_no_server_answered_is_given_again(
    context: BrowserContext, server: Server
) -> None:
    page = context.new_page()
    page.route("**/api/v1/session", lambda route: route.abort(), times=1)
    page.goto(server.address)
    expect(page.get_by_role("navigation").first).to_be_visible()
    assert "token" not in page.evaluate("JSON.stringify(sessionStorage)").lower()


def test_a_browser_without_the_token_shows_what_to_do(
    context: BrowserContext, server: Server
) -> None:
    page = context.new_page()
    for address in (server.origin, f"{server.origin}/#token=guessed"):
        page.goto(address)
        expect(page.get_by_role("navigation")).to_have_count(0)
        expect(page.get_by_text("coterie serve").first).to_be_visible()


def test_nothing_serious_is_found_by_axe_and_keys_lead_everywhere(
    page: Page, context: BrowserContext, server: Server
) -> None:
    page.get_by_role("heading", level=1).wait_for()
    check_accessibility(page)
    page.get_by_role("button", name="Keyboard shortcuts").click()
    check_accessibility(page)
    page.goto(f"{server.origin}/nowhere")
    expect(page.get_by_text("There is nothing at this address.")).to_be_visible()
    check_accessibility(page)
    context.clear_cookies()
    page.goto(server.origin)
    expect(page.get_by_text("coterie serve").first).to_be_visible()
    check_accessibility(page)


def test_a_page_left_open_goes_on_with_a_server_that_was_killed_and_started_again(
    watch: Watch, wheel: Path, tmp_path: Path
) -> None:
    machine = Machine(tmp_path / "machine", wheel)  # each start is that of the installed command
    with Server(machine, machine.project("killed")) as server:
        watch.also(server.origin)
        page = watch.context.new_page()
        page.goto(server.address)
        expect(connection(page)).to_have_text("Live")
        server.kill()
        expect(connection(page)).not_to_have_text("Live")
        page.get_by_role("link", name="Inbox").first.click()
        expect(page.get_by_role("alert")).to_contain_text("Retrying when the server answers")
        server.start()
        expect(connection(page)).to_have_text("Live")
        expect(page.get_by_role("heading", level=1)).to_have_text("Inbox")
