"""The page around its screens: from the wheel, signed in by its address, by keyboard too."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from bench.page.browser import Watch
from bench.page.machine import Machine, Server
from bench.page.screens import connection
from tests.web.browser import axe, keys


def test_the_printed_address_lets_a_browser_in_and_leaves_no_token_behind(page: Page) -> None:
    expect(page.get_by_role("heading", level=1)).to_have_text("Home")
    assert "token" not in page.url
    kept = "[document.cookie, JSON.stringify(localStorage), JSON.stringify(sessionStorage)].join()"
    assert "token" not in page.evaluate(kept).lower()
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Home")


def test_a_browser_without_the_token_is_told_what_to_do(
    context: BrowserContext, server: Server
) -> None:
    page = context.new_page()
    for address in (server.origin, f"{server.origin}/#token=guessed"):
        page.goto(address)
        expect(page.get_by_role("navigation")).to_have_count(0)
        expect(page.get_by_text("coterie serve").first).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_is_found_by_axe_and_keys_lead_everywhere(page: Page, scheme: str) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.get_by_role("heading", level=1).wait_for()
    assert axe.serious(page) == []
    assert keys.missed(page) == []


def test_a_page_left_open_goes_on_with_a_server_that_was_killed_and_started_again(
    watch: Watch, machine: Machine
) -> None:
    with Server(machine, machine.project("killed")) as server:
        watch.also(server.origin)
        page = watch.context.new_page()
        page.goto(server.address)
        expect(connection(page)).to_have_text("Live")
        server.kill()
        expect(connection(page)).not_to_have_text("Live")
        server.start()
        expect(connection(page)).to_have_text("Live")
