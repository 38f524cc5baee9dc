"""Many tabs of one browser, which opens six connections per server: all tabs share one stream."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Page, Request, Route, expect

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


def holding(held: list[Route]) -> Callable[[Route], None]:
    """Return what holds back the answers to requests."""

    def hold(route: Route) -> None:
        held.append(route)

    return hold


@pytest.mark.parametrize("comes_after", [False, True], ids=["its own reply", "the next reply"])
def test_a_message_that_is_read_meanwhile_ends_its_own_reply_and_not_the_next(
    page: Page, server: Server, machine: Machine, comes_after: bool
) -> None:
    root = machine.project(f"meanwhile{int(comes_after)}")
    server.add(root)
    committed(talk(machine, root, 3, 0))
    wait_for_task(server, root)
    project, streams, pages = server.project(root), list[Route](), list[Route]()
    entries = server.call("GET", f"/projects/{project}/tasks/{TASK}/timeline")["entries"]
    last = [one for one in entries if one["record"]["type"] == "message"][-1]
    about = {"project": project, "task": TASK}
    reply = {"member": last["record"]["member"], "turn": 1, "start": 0, "text": "event"}
    events = [("delta", {**about, **reply}), ("record", {**about, **last})]
    error = {"type": "error", "code": "x", "message": "Heard to the end."}
    end = ("record", {**about, **last, "seq": None, "record": error})
    told = [("reset", {}), *(reversed(events) if comes_after else events), end]
    body = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in told)
    page.route("**/api/v1/events", holding(streams))
    page.route("**/timeline?*", holding(pages), times=1)
    with page.expect_request("**/timeline?*"):
        page.goto(server.place(root, "t", TASK))
    with page.expect_request("**/api/v1/events"):  # the next: it has heard these
        streams[0].fulfill(body=body, content_type="text/event-stream")
    pages[0].continue_()
    expect(page.get_by_text("Heard to the end.")).to_be_visible()
    expect(page.get_by_text("event 3", exact=True)).to_be_visible()
    expect(page.locator(".written")).to_have_text(["event"] if comes_after else [])


def test_what_is_typed_while_a_message_is_sent_stays(
    page: Page, server: Server, machine: Machine
) -> None:
    root, held = machine.project("typing"), list[Route]()
    server.add(root)
    machine.coterie(root, "team", "new", "pair", "--agents", "builtin,builtin")
    task = server.begin(root, "chat", "hello")
    page.route("**/say", holding(held))
    page.goto(server.place(root, "t", task))
    box = page.get_by_role("textbox", name="say something")
    box.fill("hello")
    with page.expect_request("**/say"):
        box.press("Enter")
    box.fill("hello, and more")
    held[0].fulfill(json={"question": None, "resumable": False})
    expect(page.get_by_text("It will be read after the current turn.")).to_be_visible()
    expect(box).to_have_value("hello, and more")


def test_what_fails_is_not_asked_for_by_a_screen_that_is_gone(
    page: Page, server: Server, machine: Machine
) -> None:
    root = machine.project("gone")
    server.add(root)
    asked: list[Route] = []

    def fail(route: Route) -> None:
        asked.append(route)
        route.fulfill(status=503, json={"detail": "Not now."})

    page.route("**/cost?*", fail)
    page.goto(server.place(root, "record"))
    expect(page.get_by_text("Not now.").first).to_be_visible()
    page.get_by_role("link", name="Inbox").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Inbox")
    count = len(asked)
    page.wait_for_timeout(2500)
    assert len(asked) == count
