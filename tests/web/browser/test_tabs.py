"""Many tabs of one browser, which opens six connections to a server: all tabs share one stream."""

from __future__ import annotations

from playwright.sync_api import BrowserContext, Page, Request, expect

from bench.page.machine import Machine, Server

TABS = 10


def test_ten_tabs_and_three_projects_share_one_stream(
    context: BrowserContext, page: Page, server: Server, machine: Machine
) -> None:
    streams: list[Request] = []
    roots = [machine.project(f"tabs{number}") for number in range(3)]
    for root in roots:
        machine.coterie(root, "team", "new", "pair", "--agents", "builtin,builtin")
    context.on("request", lambda one: streams.append(one) if one.url.endswith("/events") else None)
    page.reload()
    tabs = [page, *(context.new_page() for _ in range(TABS - 1))]
    for tab in tabs[1:]:
        tab.goto(server.origin)
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
