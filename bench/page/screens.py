"""What a person does and sees on the page's screens, for tests and for `make chaos`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from playwright.sync_api import Locator, Page

ROWS = "[data-row]"
TO_END = ".jump"
"""Shown while a long list does not follow its end."""
CARDS = "article[data-question]"
Row: TypeAlias = tuple[int, str]


def connection(page: Page) -> Locator:
    """Return where the page shows the state of its connection to the server."""
    return page.get_by_role("status").and_(page.locator(".connection")).filter(visible=True)


def card(page: Page, question: str) -> Locator:
    """Return the card of a question."""
    return page.locator(f'article[data-question="{question}"]')


def answer(page: Page, question: str, choice: str, text: str = "") -> None:
    """Choose an answer, and submit it with the button that says what it does."""
    asked = card(page, question)
    asked.locator(f'input[type=radio][value="{choice}"]').check()
    if text:
        asked.get_by_role("textbox").fill(text)
    asked.locator("footer").get_by_role("button").click()


def asked(page: Page) -> Iterator[str]:
    """Yield the questions on the screen, in order."""
    for one in page.locator(CARDS).all():
        if question := one.get_attribute("data-question"):
            yield question


def rows(page: Page) -> list[Row]:
    """Return the rows of a conversation: number, and text without what changes by itself."""
    read = """(all) => all.map((one) => {
      const copy = one.cloneNode(true);
      for (const time of copy.querySelectorAll("time")) time.remove();
      return [one.dataset.row, copy.textContent.replace(/\\s+/g, " ").trim()];
    })"""
    return [(int(seq), text) for seq, text in page.locator(ROWS).evaluate_all(read)]


def board(page: Page) -> dict[str, str]:
    """Return the column of each ticket on a board."""
    read = """(all) => all.map((one) => [
      one.querySelector(".id").textContent,
      one.closest("section").querySelector("h2").firstChild.textContent.trim(),
    ])"""
    return dict(page.locator("main section li a.card").evaluate_all(read))
