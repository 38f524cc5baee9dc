"""The `notify` setting: a command or an address is notified, once, when a question waits or a task
ends; none of this holds up a run.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import jsonschema
import pytest
from inline_snapshot import snapshot

import coterie
from coterie.app import notify
from coterie.app.project import App
from coterie.model import instant
from coterie.model.record import Record
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.crash import Crashed, CrashingStorage, CrashPoint
from tests.cli.command import InProcessCli
from tests.cli.in_process_agent import CurrentScript, in_turn, install_adapter
from tests.conftest import init_project

KEY = "sk-ant-api03-" + "x" * 40


@dataclass
class NotifiedProject:
    """A project with one member and a human, and a command that stores its notifications."""

    cli: InProcessCli
    patch: pytest.MonkeyPatch

    def __call__(self, *words: str) -> Any:
        return self.cli(*words)

    @property
    def file(self) -> Path:
        return self.cli.user.home / "notifications.jsonl"

    @property
    def all(self) -> list[dict[str, Any]]:
        """All notifications, in order."""
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return [json.loads(line) for line in lines]

    def notify_by(self, setting: str) -> NotifiedProject:
        """Set `notify` to this."""
        assert self.cli("config", "set", "notify", setting, "--user").code == 0
        return self


KEEPS = "sh -c 'cat >> ~/notifications.jsonl'"


@pytest.fixture
def notified(in_process: InProcessCli, monkeypatch: pytest.MonkeyPatch) -> NotifiedProject:
    install_adapter(in_process.user, monkeypatch)
    folder = init_project(in_process.user.project) / "teams" / "pair"
    folder.mkdir(parents=True)
    members = [{"id": "ada", "agent": "claude"}, {"id": "you"}]
    (folder / "team.json").write_text(json.dumps({"members": members}))
    monkeypatch.setattr(CurrentScript, "say", staticmethod(lambda *_: f"Which way, {KEY}?"))
    return NotifiedProject(in_process, monkeypatch)


def test_a_question_and_the_end_are_notified_once(notified: NotifiedProject) -> None:
    notified.notify_by(KEEPS)
    asked = notified("chat", "--json", f"Mend it with {KEY}\nand more")
    assert asked.code == 3
    assert notified("resume", "last").code == 3, "asked already"
    work = notified("do", "--as", "ada", f"Mend it with {KEY}", "--json")
    assert work.code == 0
    shown, project = json.dumps(notified.all), str(notified.cli.user.project)
    shown = shown.replace(project, "/project")
    for ran in (asked, work):
        shown = shown.replace(ran.lines[-1]["task"], "k3f9")
    assert [{**one, "at": ""} for one in json.loads(shown)] == snapshot(
        [
            {
                "version": 1,
                "id": "q1",
                "kind": "question",
                "at": "",
                "project": "/project",
                "task": "k3f9",
                "workflow": "chat",
                "title": "Mend it with [redacted 53]",
                "text": "q1: Your turn, You",
                "command": 'coterie answer -C /project q1 --say "…"',
                "question": {
                    "id": "q1",
                    "kind": "Input",
                    "author": "you",
                    "text": "Your turn, You",
                    "choices": [],
                },
            },
            {
                "version": 1,
                "id": "k3f9",
                "kind": "task_ended",
                "at": "",
                "project": "/project",
                "task": "k3f9",
                "workflow": "solo",
                "title": "Mend it with [redacted 53]",
                "text": "k3f9 is completed: Mend it with [redacted 53]",
                "command": "coterie show -C /project k3f9",
                "ended": {
                    "status": "completed",
                    "reason": "done",
                    "summary": "Which way, [redacted 53]?",
                },
            },
        ]
    )
    schema = notified("config", "schema", "notification", "--json").lines[0]["schema"]
    for one in notified.all:
        jsonschema.validate(one, schema)
    check = notified("doctor", "--json").of("check")[-1]
    assert (check["name"], check["ok"], check["detail"]) == snapshot(
        ("notify", True, "sh is notified when a question waits or a task ends")
    )


class Web(ThreadingHTTPServer):
    """A local HTTP server that answers with a given status."""

    status = 204

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.requests: list[tuple[str, dict[str, str], Any]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook/secret-path"


class _Answers(BaseHTTPRequestHandler):
    server: Web  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, dict(self.headers), json.loads(body)))
        self.send_response(self.server.status)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def web() -> Iterator[Web]:
    with Web() as server:
        beside = threading.Thread(target=server.serve_forever, args=(0.01,))
        beside.start()
        yield server
        server.shutdown()
        beside.join()


def test_an_address_is_posted_to(notified: NotifiedProject, web: Web) -> None:
    notified.notify_by(web.address)
    assert notified("chat", "Mend it").code == 3
    ((path, headers, body),) = web.requests
    assert (path, headers["Content-Type"]) == ("/hook/secret-path", "application/json")
    assert (body["id"], body["kind"], body["title"]) == ("q1", "question", "Mend it")


@pytest.mark.parametrize("status", [302, 500])
def test_what_an_address_refuses_is_reported_and_not_tried_elsewhere(
    notified: NotifiedProject, web: Web, status: int
) -> None:
    web.status = status
    ran = notified.notify_by(web.address)("chat", "--json", "Mend it")
    (error,) = ran.of("error")
    assert (ran.code, error["code"]) == (3, "not_notified")
    assert (
        f"127.0.0.1:{web.server_port} could not be notified of q1: the server answered {status}"
        in error["message"]
    )
    assert [path for path, _, _ in web.requests] == ["/hook/secret-path"]
    check = notified("doctor", "--json").of("check")[-1]
    assert (check["name"], check["ok"]) == ("notify", False)
    assert f"the server answered {status}" in check["detail"]
    assert "secret-path" not in ran.out + ran.err + json.dumps(check)


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        (
            f"sh -c 'echo {KEY} >&2; exit 4'",
            "sh could not be notified of q1: it exited with 4: [redacted 53].",
        ),
        ("sh -c 'sleep 600'", "sh could not be notified of q1: it took longer than 0.2 s."),
        ("no-such-program", "no-such-program could not be notified of q1: it cannot be started"),
        ("http://127.0.0.1:1/x", "http://127.0.0.1:1 could not be notified of q1: "),
    ],
)
def test_a_notification_that_fails_changes_nothing_else(
    notified: NotifiedProject, setting: str, problem: str
) -> None:
    if "sleep" in setting:
        notified.patch.setattr(notify, "LIMIT", 0.2)
    ran = notified.notify_by(setting)("chat", "--json", "Mend it")
    (error,) = ran.of("error")
    assert (ran.code, ran.lines[-1]["status"]) == (3, "waiting")
    assert problem in error["message"]
    assert KEY not in ran.out
    assert notified("resume", "last", "--json").of("error") == [], "it is not tried again"
    assert not notified("doctor", "--json").of("check")[-1]["ok"]


@pytest.mark.parametrize("key", ["notify", "notifyAfter"])
def test_a_project_has_no_say(notified: NotifiedProject, key: str) -> None:
    ran = notified("config", "set", key, "1m")
    assert (ran.code, ran.err) == (
        2,
        f"! {key} is a user setting; a project cannot set it.\n"
        f"  coterie config set {key} 1m --user\n",
    )
    path = notified.cli.user.project / ".coterie" / "settings.json"
    path.write_text(json.dumps({"quietAfter": "1m", key: "1m"}, indent=1))
    said = f"settings.json:3 {key} is a user setting; a project cannot set it"
    for words, code in ((["chat", "hello"], 2), (["config", "list"], 2), (["doctor", "--json"], 0)):
        ran = notified(*words)
        assert (ran.code, said in ran.out + ran.err) == (code, True)
    assert notified.all == []


@pytest.mark.parametrize(
    "value",
    ["", "  ", "sh -c 'open", "ftp://example.com/x", "https://", "http://a b/", "http://x:99999/"],
)
def test_what_is_neither_a_command_nor_an_address(notified: NotifiedProject, value: str) -> None:
    ran = notified("config", "set", "notify", value, "--user")
    assert (ran.code, "notify" in ran.err) == (2, True)
    assert notified("config", "get", "notify").out == "-\n"


@dataclass
class IdleTerminal:
    """A terminal at which somebody last typed `idle` seconds ago."""

    idle: float | None
    seen: list[Record] = field(default_factory=list[Record])

    def saw(self, record: Record) -> None:
        self.seen.append(record)

    def idle_seconds(self) -> float | None:
        return self.idle


async def _work(root: Path) -> str:
    """Start a task that ends when its member has done it; return its id."""
    async with coterie.open_project(root) as project:
        return await project.start("pair", "Mend it", workflow="solo")


async def _run(root: Path, terminal: IdleTerminal, task: str | None = None, wait: float = 0) -> str:
    async with coterie.open_project(root) as project:
        if task is None:
            task = await project.start("pair", "Mend it")
        await App.run(project, task, terminal, wait=wait)
        return task


def test_whoever_sees_it_on_screen_is_not_notified(notified: NotifiedProject) -> None:
    """Somebody who typed a moment ago is not notified; once idle, in a later run, they are."""
    root = notified.notify_by(KEEPS).cli.user.project
    notified("config", "set", "notifyAfter", "1h", "--user")
    task = anyio.run(_run, root, IdleTerminal(3.0))
    assert notified.all == []
    anyio.run(_run, root, IdleTerminal(3600.0), task)
    assert [one["id"] for one in notified.all] == ["q1"]
    notified.patch.setattr(CurrentScript, "say", in_turn("Mended."))
    anyio.run(_run, root, IdleTerminal(3.0), anyio.run(_work, root))
    assert [one["id"] for one in notified.all] == ["q1"], "they saw it end"


def test_what_a_person_did_themselves_is_not_notified(notified: NotifiedProject) -> None:
    """Their message that ends a conversation, and a task that they cancel while another, unattended
    process works on it."""
    root = notified.notify_by(KEEPS).cli.user.project
    assert notified("chat", "Mend it").code == 3
    assert notified("answer", "q1", "--say", "/end").code == 0
    assert notified("resume", "last").code == 0

    async def cancel_it() -> None:
        async with coterie.open_project(root) as project, anyio.create_task_group() as group:
            task = await _work(root)
            group.start_soon(_run, root, IdleTerminal(None), task)
            await begun.wait()
            await project.cancel(task)

    begun = anyio.Event()
    says_nothing = staticmethod(lambda *_: anyio.from_thread.run_sync(begun.set))
    notified.patch.setattr(CurrentScript, "say", says_nothing)
    anyio.run(cancel_it)
    assert [one["status"] for one in notified("tasks", "--json").lines] == ["completed", "canceled"]
    assert [one["id"] for one in notified.all] == ["q1"]


def test_a_rate_limit_that_parked_a_task_is_notified_once(notified: NotifiedProject) -> None:
    until = instant.after(3600)
    limited = coterie.TurnFailed("rate_limit", "429", until=until)
    notified.notify_by(KEEPS).patch.setattr(
        CurrentScript, "say", in_turn(limited, limited, "Done.")
    )
    ran = notified("do", "--as", "ada", "Mend it", "--wait", "0s", "--json")
    task, project = ran.lines[-1]["task"], str(notified.cli.user.project)
    assert (ran.code, ran.lines[-1]["reason"]) == (3, "rate_limit")
    assert notified("resume", task, "--wait", "0s").code == 3, (
        "tried too early, it meets the same one"
    )
    (one,) = notified.all
    shown = json.loads(json.dumps(one).replace(project, "/project").replace(task, "k3f9"))
    end = f"{until[:10]} {until[11:16]} UTC"
    assert {**shown, "at": ""} == {
        "version": 1,
        "id": f"k3f9@{until}",
        "kind": "task_limited",
        "at": "",
        "project": "/project",
        "task": "k3f9",
        "workflow": "solo",
        "title": "Mend it",
        "text": f"k3f9 waits for ada's rate limit until {end}: Mend it",
        "command": "coterie resume -C /project k3f9 --at-reset",
        "limit": {"member": "ada", "until": until},
    }
    jsonschema.validate(
        one, notified("config", "schema", "notification", "--json").lines[0]["schema"]
    )
    assert notified("resume", task).code == 0
    assert [one["id"].partition("@")[0] for one in notified.all] == [task, task], "and its end"


def test_it_is_notified_when_nobody_has_typed_for_a_while(notified: NotifiedProject) -> None:
    root = notified.notify_by(KEEPS).cli.user.project
    notified("config", "set", "notifyAfter", "20ms", "--user")

    async def wait_for_it() -> None:
        with anyio.move_on_after(30) as waited:
            async with anyio.create_task_group() as group:
                group.start_soon(_run, root, terminal, None, 600)
                while not notified.all:
                    await anyio.sleep(0.01)
                    terminal.idle = (terminal.idle or 0) + 0.01
                group.cancel_scope.cancel()
        assert not waited.cancelled_caught

    terminal = IdleTerminal(0.0)
    anyio.run(wait_for_it)
    assert [one["id"] for one in notified.all] == ["q1"]


async def _run_process(
    project: Path, task: str, death: CrashPoint | None = None
) -> tuple[str, int, bool]:
    """Run the task in one process; return it, the number of store calls and whether it survived."""
    storage = CrashingStorage(await SqliteStorage.open(project / ".coterie" / "coterie.db"), death)
    try:
        async with coterie.open_project(project, storage=storage) as opened:
            task = task or await opened.start("pair", "hello", workflow="solo")
            async for _ in opened.stream(task, wait=0):
                pass
    except* Crashed:
        pass
    return task, storage.calls, not storage.dead


def test_whenever_it_dies_it_is_notified_at_most_once(notified: NotifiedProject) -> None:
    """Crash at the last uses of the store, before and after they take effect: only the notification
    being sent may be lost."""
    project = notified.notify_by(KEEPS).cli.user.project
    _, uses, _ = anyio.run(_run_process, project, "")
    for before_the_end in range(5):
        notified.file.unlink(missing_ok=True)
        death = CrashPoint(uses - before_the_end, before_the_end % 2 == 0, True)
        task, _, lived = anyio.run(_run_process, project, "", death)
        if not lived:
            anyio.run(_run_process, project, task)
        assert [one["id"] for one in notified.all] in ([], [task])
