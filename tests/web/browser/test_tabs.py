"""Many tabs of one browser, which opens six connections per server: all tabs share one stream."""

from __future__ import annotations

from playwright.sync_api import BrowserContext, Page, Request, expect

from bench.page.events import TASK, committed, talk, wait_for_task
from bench.page.machine import Machine, Server
from bench.page.screens import ROWS, TO_END, connection

TABS = 10


def test_ten_tabs_and_three_projects_share_one_stream(
    context: BrowserContext, server: Server, machine: Machine
) -> None:
    streams: list[Request] = []
    roots = [machine.project(f"tabs{number}") for number in range(3)]
    for root in roots:
        machine.coterie(root, "team", "new", "pair", "--agents", "builtin,builtin")
        server.add(root)
    context.on("request", lambda one: streams.append(one) if one.url.endswith("/events") else None)
    tabs = [context.new_page() for _ in range(TABS)]
    for tab in tabs:
        tab.goto(server.origin if streams else server.address)
        expect(connection(tab)).to_have_text("Live")
    for root in roots:
        server.begin(root, "chat", f"hello from {root.name}")
    for tab in tabs:
        for root in roots:
            expect(tab.get_by_text(f"hello from {root.name}").first).to_be_visible()
    assert len(streams) == 1
    streams[0].frame.page.close()
    left = [tab for tab in tabs if not tab.is_closed()]
    assert len(left) == TABS - 1
    server.begin(roots[0], "chat", "and now without it")
    for tab in left:
        expect(tab.get_by_text("and now without it").first).to_be_visible()
    assert len(streams) == 2


def test_a_talk_is_followed_to_its_end_however_fast_it_is(
    page: Page, server: Server, machine: Machine
) -> None:
    root = machine.project("fast")
    server.add(root)
    held = talk(machine, root, 300, 0)
    wait_for_task(server, root)
    page.goto(server.place(root, "t", TASK))
    expect(page.locator(ROWS)).to_have_count(1)
    committed(held)
    expect(page.get_by_text("event 300", exact=True)).to_be_in_viewport()
    expect(page.locator(TO_END)).to_have_count(0)
