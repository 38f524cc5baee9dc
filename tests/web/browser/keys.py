"""A person who uses only the keyboard."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Locator, Page

MOST = 400
"""The most Tab stops a screen may have; a target further away counts as unreachable."""
_SCRIPT = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")


def missed(page: Page) -> list[str]:
    """Controls that Tab does not reach, or that do not show their focus."""
    page.evaluate(_SCRIPT)
    page.evaluate("document.activeElement?.blur(); scrollTo(0, 0)")
    for _ in range(page.evaluate("keys.count()") + 5):
        page.keyboard.press("Tab")
    left: list[str] = page.evaluate("keys.left()")
    unmarked: list[str] = page.evaluate("keys.unmarked()")
    return [*(f"not reached: {one}" for one in left), *(f"no mark: {one}" for one in unmarked)]


def go_to(page: Page, target: Locator) -> None:
    """Press Tab until the target has the focus."""
    target.wait_for()
    for _ in range(MOST):
        if target.evaluate("(one) => one === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{target} is not reached by Tab")


def press(page: Page, target: Locator, key: str = "Enter") -> None:
    """Focus the target and press a key."""
    go_to(page, target)
    page.keyboard.press(key)


def type_into(page: Page, target: Locator, text: str) -> None:
    """Focus the target and replace its text."""
    go_to(page, target)
    page.keyboard.press("Control+a")
    page.keyboard.type(text)
