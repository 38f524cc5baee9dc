"""From the commit of a message to the DOM of every open tab, and a very long conversation."""

from __future__ import annotations

import gzip
import json
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Page, Response, expect

from bench.page.browser import TIMEOUT, chromium
from bench.page.machine import ROOT, Machine, Server
from bench.page.screens import ROWS, TO_END, connection

TASK = "k3f9"
PER_SECOND = 50
TABS = 5
MESSAGES = 10_000
MOST_ROWS = 300
# The first moment at which the text of an event was part of the page, whatever added it.
_SEEN = """
window.seen = {};
new MutationObserver((changes) => {
  const now = Date.now();
  for (const change of changes) {
    const nodes = change.type === "characterData" ? [change.target] : change.addedNodes;
    for (const node of nodes) {
      for (const found of (node.textContent ?? "").matchAll(/event (\\d+)/g)) {
        window.seen[found[1]] ??= now;
      }
    }
  }
}).observe(document, { childList: true, characterData: true, subtree: true });
"""


@dataclass(frozen=True)
class Delays:
    """Milliseconds from commit to DOM, over all tabs."""

    median: float
    p95: float
    worst: float
    shown: int
    """How many were seen, counting each event in each tab."""
    expected: int
    behind: int
    """Tabs that no longer follow the end of the conversation."""


@dataclass(frozen=True)
class LongTalk:
    """A conversation of many messages, opened and scrolled."""

    opened: float
    """Milliseconds from opening the address to the last message."""
    rows: int
    """The most that were in the DOM at any time."""
    reached: int
    """The oldest message that was scrolled to."""
    scrolled: float
    """Median milliseconds until older messages were there."""


def talk(machine: Machine, root: Path, turns: int, per_second: int) -> subprocess.Popen[str]:
    """Start a process that holds a chat in the project; the chat begins when it reads a line."""
    words = [
        sys.executable,
        "-m",
        "bench.page.talk",
        root / ".coterie",
        str(turns),
        str(per_second),
    ]
    return subprocess.Popen(
        words,
        cwd=ROOT,
        env=machine.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_for_task(server: Server, root: Path) -> None:
    """Wait until the server knows the task that another process has begun."""
    while not any(one["project"] == server.project(root) for one in server.call("GET", "/tasks")):
        time.sleep(0.05)


def committed(held: subprocess.Popen[str]) -> list[float]:
    """Let the chat begin and wait for its end; return when each event was committed."""
    output, _ = held.communicate("\n")
    assert held.returncode == 0
    return json.loads(output)


def delays(browser: Browser, server: Server, root: Path, machine: Machine, seconds: int) -> Delays:
    """Measure fifty events a second in five tabs, starting once all tabs are open."""
    context = browser.new_context()
    context.set_default_timeout(TIMEOUT)
    context.add_init_script(_SEEN)
    _signed_in(context, server)
    turns = seconds * PER_SECOND
    held = talk(machine, root, turns, PER_SECOND)
    wait_for_task(server, root)
    tabs = [_tab(context, server, root) for _ in range(TABS)]
    kept = committed(held)
    ranked = sorted(delay for tab in tabs for delay in _delays(tab, kept))
    behind = sum(tab.locator(TO_END).count() for tab in tabs)
    context.close()
    at = ranked[int(len(ranked) * 0.95)]
    return Delays(statistics.median(ranked), at, ranked[-1], len(ranked), TABS * turns, behind)


def _signed_in(context: BrowserContext, server: Server) -> None:
    first = context.new_page()
    first.goto(server.address)
    first.get_by_role("main").wait_for()
    first.close()


def _tab(context: BrowserContext, server: Server, root: Path) -> Page:
    page = context.new_page()
    page.goto(server.place(root, "t", TASK))
    page.locator(ROWS).first.wait_for()
    expect(connection(page)).to_have_text("Live")
    return page


def _delays(tab: Page, kept: list[float]) -> list[float]:
    tab.get_by_text(f"event {len(kept)}", exact=True).last.wait_for()
    seen: dict[str, float] = tab.evaluate("window.seen")
    return [seen[str(number)] - at for number, at in enumerate(kept, 1) if str(number) in seen]


def long_talk(browser: Browser, server: Server, root: Path, messages: int) -> LongTalk:
    """Open a conversation at its end, and scroll towards its beginning."""
    context = browser.new_context()
    context.set_default_timeout(TIMEOUT)
    _signed_in(context, server)
    page = context.new_page()
    begun: float = page.evaluate("Date.now()")
    page.goto(server.place(root, "t", TASK))
    page.get_by_text(f"event {messages}", exact=True).last.wait_for()
    opened: float = page.evaluate("Date.now()") - begun
    rows, took = [page.locator(ROWS).count()], []
    for _ in range(10):
        before = _oldest(page)
        begun = page.evaluate("Date.now()")
        page.locator(ROWS).first.scroll_into_view_if_needed()
        page.mouse.wheel(0, -20_000)
        page.wait_for_function(
            "([rows, before]) => Number(document.querySelector(rows).dataset.row) < before",
            arg=[ROWS, before],
        )
        took.append(page.evaluate("Date.now()") - begun)
        rows.append(page.locator(ROWS).count())
    reached = _oldest(page)
    context.close()
    return LongTalk(opened, max(rows), reached, statistics.median(took))


def _oldest(page: Page) -> int:
    return int(page.locator(ROWS).first.get_attribute("data-row") or 0)


def first_screen(browser: Browser, server: Server) -> float:
    """Return the kilobytes of JavaScript, compressed, that the first screen loads."""
    responses: list[Response] = []
    context = browser.new_context()
    page = context.new_page()
    page.on("response", lambda one: responses.append(one))  # noqa: PLW0108 - not of a built-in
    page.goto(server.address)
    page.get_by_role("heading", level=1).wait_for()
    page.wait_for_load_state("load")
    scripts = [one.body() for one in responses if one.request.resource_type == "script"]
    context.close()
    return sum(len(gzip.compress(script, 9)) for script in scripts) / 1000


def measure_page(folder: Path, seconds: int, messages: int) -> tuple[Delays, LongTalk, float]:
    """Measure everything, on a machine and a server of its own."""
    machine = Machine(folder / "machine", Path(sys.executable).parent)
    roots = [machine.project(name) for name in ("busy", "long")]
    for root in roots:
        machine.coterie(root, "team", "new", "pair", "--agents", "builtin,builtin")
    committed(talk(machine, roots[1], messages, 0))
    with Server(machine, roots[0]) as server, chromium() as browser:
        size = first_screen(browser, server)
        opened = long_talk(browser, server, roots[1], messages)
        late = delays(browser, server, roots[0], machine, seconds)
    return late, opened, size
