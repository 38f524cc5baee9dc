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
    """What it finds serious or worse."""
    # Evaluated by the debugger, so that the page's own policy need not permit it.
    page.evaluate(_source())
    return page.evaluate(_RUN)
