"""What must hold for every screen and every dialog."""

from __future__ import annotations

from playwright.sync_api import Page

from tests.web.browser import axe, keys


def check_accessibility(page: Page) -> None:
    """Check that axe finds nothing serious in either theme, that the keyboard reaches everything,
    and that a phone is wide enough."""
    assert axe.serious(page) == [], page.url
    assert keys.missed(page) == [], page.url
    assert not axe.wider_than_a_phone(page), page.url
