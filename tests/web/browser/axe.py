"""axe-core, from the page's own development packages."""

from __future__ import annotations

from functools import cache

from playwright.sync_api import Page

from bench.page.machine import ROOT

_AXE = ROOT / "page" / "node_modules" / "axe-core" / "axe.min.js"
_RUN = """async () => {
  const { violations } = await axe.run(document, { resultTypes: ['violations'] });
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html.slice(0, 200)}`));
}"""


@cache
def _source() -> str:
    return _AXE.read_text(encoding="utf-8")


def serious(page: Page) -> list[str]:
    """Violations that axe rates serious or worse, in either theme."""
    # Evaluated by the debugger, so that the page's own policy need not permit it.
    page.evaluate(_source())
    found: list[str] = []
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        found += [f"{scheme}: {one}" for one in page.evaluate(_RUN)]
    return found


def wider_than_a_phone(page: Page) -> bool:
    """Whether the page scrolls sideways at 390 pixels."""
    before = page.viewport_size
    page.set_viewport_size({"width": 390, "height": 844})
    wide: bool = page.evaluate("document.documentElement.scrollWidth > innerWidth")
    if before is not None:
        page.set_viewport_size(before)
    return wide
