"""What must hold of every screen and every dialog."""

from __future__ import annotations

from playwright.sync_api import Page

from tests.web.browser import axe, keys


def looked_at(page: Page) -> None:
    """axe finds nothing serious in either theme, the keyboard leads everywhere, a phone is wide
    enough."""
    assert axe.serious(page) == [], page.url
    assert keys.missed(page) == [], page.url
    assert not axe.wider_than_a_phone(page), page.url
