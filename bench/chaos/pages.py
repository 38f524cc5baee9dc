"""kill -9 of the server at random instants, with pages left open; compared with the store.

A team works on tickets in a rehearsal.  One tab shows the conversation, one the board and one the
inbox, where the questions are answered.  The server is killed and restarted with `--resume` a few
times in each session, and no tab is touched: each reconnects by itself.  In the end every tab must
show what a fresh one shows, and that must match the store: each row once and in order.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from urllib.error import URLError

from playwright.sync_api import Browser, BrowserContext, Error, Page

from bench.page.browser import TIMEOUT, Watch
from bench.page.machine import Machine, Server
from bench.page.screens import ROWS, answer, asked, board, card, rows

GOAL = "Add coupons to cart.py"
_LONGEST = 120.0
"""Seconds before a session times out, counted again after each kill."""
_OF_A_SESSION = 4
"""Kills per session: with more of them nothing is done in between, and all hit its beginning."""


@dataclass
class PageTally:
    """The results."""

    kills: int = 0
    sessions: int = 0
    answered: int = 0
    wrong: list[str] = field(default_factory=list[str])

    @property
    def clean(self) -> bool:
        """Whether nothing was lost, duplicated or reordered."""
        return not self.wrong


class _Killer:
    """Kills the server after a while and restarts it, while the pages are in use."""

    def __init__(self, server: Server, after: float) -> None:
        self._server = server
        self._after = after
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        time.sleep(self._after)
        self._server.kill()
        self._server.start("--resume")

    @property
    def done(self) -> bool:
        """Whether the server is running again."""
        return not self._thread.is_alive()

    def wait(self) -> None:
        """Wait until the server is running again."""
        self._thread.join()


class PageChaos:
    """Sessions, one after the other, until the server was killed often enough."""

    def __init__(self, machine: Machine, browser: Browser, seed: int = 1, apart: float = 3.0):
        self._machine = machine
        self._browser = browser
        self._chance = random.Random(seed)
        self._apart = apart
        self.tally = PageTally()

    def run(self, kills: int, progress: Callable[[PageTally], None] = lambda _: None) -> PageTally:
        """Run sessions until this many kills have happened."""
        while self.tally.kills < kills:
            self.tally.sessions += 1
            self._session(min(kills - self.tally.kills, _OF_A_SESSION))
            progress(self.tally)
        return self.tally

    def _session(self, kills: int) -> None:
        root = self._machine.project(f"pages{self.tally.sessions}")
        self._machine.coterie(
            root,
            "team",
            "new",
            "crew",
            "--preset",
            "tickets",
            "--agents",
            "builtin,builtin,builtin",
        )
        team = root / ".coterie" / "teams" / "crew" / "team.json"
        team.write_text(team.read_text().replace('"accept-edits"', '"ask"'))
        with Server(self._machine, root) as server:
            task = server.begin(root, "run", GOAL)
            context = self._browser.new_context()
            watch = Watch(context, server.origin)
            tabs = _Tabs(context, server, root, task)
            self._killed(server, tabs, kills)
            self._compare(tabs, _Tabs(context, server, root, task), root, task)
            context.close()
            self.tally.wrong += watch.found

    def _killed(self, server: Server, tabs: _Tabs, kills: int) -> None:
        killer: _Killer | None = None
        until = time.monotonic() + _LONGEST
        while not tabs.is_over():
            if killer is not None and killer.done:
                killer, until = None, time.monotonic() + _LONGEST
            if killer is None and kills:
                kills -= 1
                self.tally.kills += 1
                killer = _Killer(server, self._chance.uniform(0, self._apart))
            self.tally.answered += tabs.answer_one()
            if time.monotonic() > until:
                self.tally.wrong.append("a session did not come to its end")
                break
        if killer is not None:
            killer.wait()

    def _compare(self, left: _Tabs, fresh: _Tabs, root: Path, task: str) -> None:
        kept = [
            line["text"]
            for line in self._machine.lines(root, "log", task)
            if line["type"] == "message"
        ]
        seen = fresh.settled_rows()
        if left.settled_rows() != seen:
            self.tally.wrong.append(f"talk: {left.settled_rows()} is not {seen}")
        numbers = [number for number, _ in seen]
        if numbers != sorted(set(numbers)):
            self.tally.wrong.append(f"talk: out of order or duplicated: {numbers}")
        shown = " ".join(text for _, text in seen)
        self.tally.wrong += [f"not shown: {text}" for text in kept if _start(text) not in shown]
        tickets = {line["id"]: line["state"] for line in self._machine.lines(root, "tickets", task)}
        states = {name: state.capitalize() for name, state in tickets.items()}
        for tabs in (left, fresh):
            if tabs.settled_board(len(states)) != states:
                self.tally.wrong.append(f"board: {board(tabs.tickets)} is not {states}")


def _start(text: str) -> str:
    """Return the first line: the rest is rendered as Markdown."""
    return " ".join(text.partition("\n")[0].split())


class _Tabs:
    """The tabs that are left open."""

    def __init__(self, context: BrowserContext, server: Server, root: Path, task: str) -> None:
        self._server = server
        self._place = f"/projects/{server.project(root)}/tasks/{task}"
        addresses = (
            server.place(root, "t", task),
            server.place(root, "t", task, "tickets"),
            f"{server.origin}/inbox",
        )
        first = context.new_page()
        first.goto(server.address)
        first.get_by_role("main").wait_for()
        first.close()
        self.talk, self.tickets, self.inbox = (_opened(context, one) for one in addresses)

    def is_over(self) -> bool:
        """Whether the task has ended, as far as the server can be asked."""
        with contextlib.suppress(URLError, OSError, HTTPException):
            return self._server.call("GET", self._place)["status"] == "completed"
        return False

    def answer_one(self) -> int:
        """Answer a question on the page; return how many answers were given."""
        with contextlib.suppress(Error):
            for question in asked(self.inbox):
                answer(self.inbox, question, "approve")
                # If the server was killed meanwhile, the card says so and is answered again.
                card(self.inbox, question).wait_for(state="detached", timeout=2_000)
                return 1
        self.inbox.wait_for_timeout(50)
        return 0

    def settled_rows(self) -> list[tuple[int, str]]:
        """Return the rows, once the one about the end is shown."""
        self.talk.locator(ROWS).last.get_by_text("completed").wait_for()
        return rows(self.talk)

    def settled_board(self, count: int) -> dict[str, str]:
        """Return the board, once everything is done."""
        self.tickets.get_by_text(f"{count} of {count} done").wait_for()
        return board(self.tickets)


def _opened(context: BrowserContext, address: str) -> Page:
    page = context.new_page()
    page.set_default_timeout(TIMEOUT)
    page.goto(address)
    return page
