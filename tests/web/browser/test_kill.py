"""kill -9 of the working server with pages left open; `make chaos` does it many more times."""

from __future__ import annotations

from playwright.sync_api import Browser

from bench.chaos.pages import PageChaos
from bench.page.machine import Machine


def test_pages_left_open_show_what_the_store_holds_after_kills(
    browser: Browser, own_machine: Machine
) -> None:
    tally = PageChaos(own_machine, browser).run(2)
    assert (tally.wrong, tally.kills) == ([], 2)
    assert tally.answered >= 5  # the plan, three permissions, the report; some of them twice
