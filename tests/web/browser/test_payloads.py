"""Everything written by agents, files and people is shown, and none of it is more than text.

What the context watches holds on every screen: nothing ran, no request left, no policy was broken.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page

from bench.page.machine import Machine, Server
from tests.web.browser.hostile import HostileProject, hostile_project
from tests.web.browser.payloads import HOST, PAYLOADS, Payload

_READING = Path(__file__).with_name("reading.js").read_text(encoding="utf-8")
_RAW = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
"""Characters that change how other text looks."""
FRAME = "new Promise((done) => requestAnimationFrame(() => done()))"
_LEADS = "[...document.querySelectorAll('main a')].map((one) => [one.href, one.rel, one.target])"


@pytest.fixture(scope="module")
def hostile(machine: Machine) -> HostileProject:
    return hostile_project(machine)


def test_what_members_say_can_be_read(page: Page, server: Server, hostile: HostileProject) -> None:
    page.goto(server.place(hostile.root, "t", hostile.talk))
    page.get_by_text(PAYLOADS[-1].end).last.wait_for()
    from_the_beginning(page)
    shown = read(page)
    assert {one.mark: lost for one in PAYLOADS if (lost := missing(one, shown))} == {}


def missing(payload: Payload, shown: str) -> set[str]:
    """The words of a payload that are not between its marks."""
    before, ended, _ = shown.partition(payload.end)
    _, begun, text = before.rpartition(payload.mark)
    return {one for one in payload.words if one not in text} if begun and ended else {"all of it"}


def to_the_beginning(page: Page) -> None:
    """Scroll to the first row."""
    talk = page.get_by_role("log")
    while talk.get_by_text("Earlier…").count():
        talk.press("Home")
        page.evaluate(FRAME)


def from_the_beginning(page: Page) -> None:
    """Scroll to the first row, expanding everything that is folded."""
    to_the_beginning(page)
    while (folded := page.get_by_role("button", name="Show all")).count():
        folded.first.click()


def read(page: Page) -> str:
    """The text on the screen, once no part of it can affect the others."""
    shown: str = page.evaluate(_READING)
    assert _RAW.findall(shown) == []
    for href, rel, target in page.evaluate(_LEADS):
        assert href.startswith(("http:", "https:")), href
        if HOST in href:
            assert {"noopener", "noreferrer"} <= {*rel.split()}, href
            assert target == "_blank", href
    return shown
