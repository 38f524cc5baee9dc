"""`coterie serve`: how it starts and stops, and what it says when it cannot."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import anyio
import httpx
import pytest

import coterie
from coterie.app.open_project import OpenProject, open_project
from coterie.app.run import StartRequest
from coterie.errors import Bug, LeaseLost
from coterie.model import instant
from coterie.model.journal import AppendEvent, Fence
from coterie.model.task import TaskStarted
from coterie.web import serve as server
from coterie.web.hub import open_hub
from tests.cli.command import InProcessCli
from tests.cli.in_process_agent import CurrentScript, install_adapter
from tests.conftest import IsolatedUser
from tests.web.api_client import api_client
from tests.web.server import API, TIMEOUT, Api, served
from tests.web.test_events import TEAM


@pytest.fixture
def cli(user: IsolatedUser) -> InProcessCli:
    """The command, run in this process."""
    return InProcessCli(user)


async def test_it_shows_the_project_around_it(api: Api) -> None:
    found = await api.client.get(f"{API}/projects")
    assert found.status_code == 200
    shown = {"id": api.project, "name": "project", "root": str(api.root)}
    assert shown.items() <= found.json()[0].items()


async def test_a_stream_starts_with_a_reset(api: Api) -> None:
    async with api.stream() as events:
        assert (await anext(events)).name == "reset"


def opener(user: IsolatedUser) -> tuple[dict[str, str], Path]:
    """An environment whose desktop opener writes the address to a file."""
    programs, opened = user.home / "programs", user.home / "opened"
    programs.mkdir()
    os.mkfifo(opened)
    (programs / "xdg-open").write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}\n')
    (programs / "xdg-open").chmod(0o755)
    return {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}, opened


def test_a_process_opens_a_browser_and_serves_until_it_is_stopped(user: IsolatedUser) -> None:
    command = [sys.executable, "-m", "coterie", "serve", "--api-only", "--port", "0", "--open"]
    env, opened = opener(user)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=user.project, env=env
    ) as process:
        assert process.stdout is not None
        said = [process.stdout.readline(), process.stdout.readline()]
        address = next(word for word in said[0].split() if word.startswith("http://127.0.0.1:"))
        token = (user.coterie_home / "serve.token").read_text().strip()
        assert str(user.coterie_home / "serve.token") in said[1]
        assert token not in "".join(said)  # anything but a terminal may be a log that others read
        assert opened.read_text() == f"{address}/#token={token}"
        headers = {"Authorization": f"Bearer {token}"}
        answer = httpx.get(f"{address}{API}/projects", headers=headers, timeout=TIMEOUT)
        assert answer.status_code == 200
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0


def test_without_its_packages_it_says_what_to_install(
    cli: InProcessCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith(("coterie.web", "fastapi"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    ran = cli("serve")
    assert (ran.code, ran.out) == (2, "")
    said = '! coterie serve needs the page\'s packages.\n  pip install "coterie[web]"\n'
    assert ran.err == said


REFUSED = {
    "no page": ([], "The page is not built", "make page"),
    "no certificate": (["--host", "0.0.0.0"], "it needs a certificate", "--insecure"),
    "no certificate, by name": (["--host", "desk.example.com"], "it needs a certificate", "--cert"),
    "a certificate alone": (["--cert", "{file}"], "go together", "--key"),
    "a key alone": (["--key", "{file}"], "go together", "--cert"),
    "no certificate in the file": (
        ["--cert", "{file}", "--key", "{file}"],
        "cannot be used as a certificate",
        "PEM",
    ),
    "a port that is taken": (["--port", "{taken}"], "the port is in use", "--port 0"),
    "an address of others": (["--host", "192.0.2.1", "--insecure"], "Cannot serve at", "--port 0"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_served_is_explained_in_a_sentence(
    cli: InProcessCli,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    case: tuple[list[str], str, str],
) -> None:
    options, why, way_out = case
    monkeypatch.setattr(server, "PAGE", tmp_path)
    file = tmp_path / "file"
    file.write_text("nothing")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = [word.replace("{file}", str(file)).replace("{taken}", port) for word in options]
        ran = cli("serve", *(["--api-only"] if options else []), *words)
    assert (ran.code, ran.out) == (2, "")
    assert why in ran.err
    assert way_out in ran.err


def test_a_project_that_came_with_its_folder_is_named_where_it_is_served(cli: InProcessCli) -> None:
    (cli.user.project / ".coterie" / "teams").mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as taken:  # reported before anything is served
        ran = cli("serve", "--api-only", "--port", str(taken.getsockname()[1]))
    assert "came with this folder: it was not made by your Coterie. It is skipped." in ran.err
    assert f"coterie project -C {cli.user.project}" in ran.err


async def test_a_port_that_nobody_asked_for_is_the_next_that_is_free(
    user: IsolatedUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(server, "PORT", taken.getsockname()[1])
        async with served(user.project, port=None) as api:
            port = int(api.serving.address.rpartition(":")[2])
            assert taken.getsockname()[1] < port < taken.getsockname()[1] + 20


async def test_other_machines_are_let_in_only_if_configured_and_with_the_token(
    user: IsolatedUser,
) -> None:
    async with served(user.project, host="0.0.0.0", insecure=True) as api:
        port = api.serving.address.rpartition(":")[2]

        async def status(host: str, **more: str) -> int:
            headers = {"host": f"{host}:{port}", **more}
            return (await api.client.get(f"{API}/projects", headers=headers)).status_code

        assert api.serving.address == f"http://127.0.0.1:{port}"
        assert await status("127.0.0.1") == 200
        assert await status(socket.gethostname()) == 200
        assert await status("192.0.2.7") == 200, "by whichever address of this machine"
        assert await status("evil.example") == 421
        assert await status("192.0.2.7", authorization="Bearer guessed") == 401


async def test_with_a_certificate_it_speaks_tls(user: IsolatedUser) -> None:
    key, certificate = user.home / "key.pem", user.home / "cert.pem"
    words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    words += ["-keyout", str(key), "-out", str(certificate), "-days", "2"]
    words += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(["openssl", *words], check=True, capture_output=True)
    async with served(user.project, certificate=certificate, key=key) as api:
        assert api.serving.address.startswith("https://127.0.0.1:")
        trusted = ssl.create_default_context(cafile=certificate)
        async with httpx.AsyncClient(
            base_url=api.serving.address, verify=trusted, timeout=TIMEOUT
        ) as client:
            answer = await client.post(f"{API}/session", json={"token": api.serving.sessions.token})
            assert "; Secure" in answer.headers["set-cookie"]
            own = {"origin": api.serving.address}
            assert (await client.get(f"{API}/projects", headers=own)).status_code == 200
            plain = {"origin": api.serving.address.replace("https", "http")}
            assert (await client.get(f"{API}/projects", headers=plain)).status_code == 403


async def test_the_page_is_served_at_every_address_of_its_own(
    user: IsolatedUser, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = tmp_path / "page"
    (page / "assets").mkdir(parents=True)
    (page / "index.html").write_text("<!doctype html>the page")
    (page / "icon.svg").write_text("<svg/>")
    (page / "assets" / "a.js").write_text("let a;")
    (tmp_path / "secret").write_text("secret")
    monkeypatch.setattr(server, "PAGE", page)
    async with served(user.project, api_only=False) as api:

        async def text(path: str) -> tuple[int, str]:
            answer = await api.client.get(path, headers={"authorization": ""})
            assert "script-src 'self'" in answer.headers["content-security-policy"]
            return answer.status_code, answer.text

        for path in ("/", "/inbox", "/p/0123456789ab/t/k3f9", "/secret", "/..%2fsecret"):
            assert await text(path) == (200, "<!doctype html>the page")
        assert await text("/assets/a.js") == (200, "let a;")
        assert await text("/icon.svg") == (200, "<svg/>")
        for path in ("/assets/..%2f..%2fsecret", "/assets/none.js", "/api/v2/x"):
            status, said = await text(path)
            assert (status, "secret" in said) == (404, False)
        link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        assert (await api.client.get("/", headers=link)).status_code == 200  # a link in a mail


ASKS = coterie.Caps(max_rounds=1, floor="ask")
"""Once everybody has spoken, it is the person's turn."""


async def orphan(root: Path) -> str:
    """A task whose process died."""
    async with open_project(root) as app:
        return await app.create(StartRequest(TEAM, "hello", ASKS))


async def test_started_again_it_offers_to_go_on(user: IsolatedUser) -> None:
    task = await orphan(user.project)
    async with served(user.project) as api:
        await api.noted.wait()
        assert [one.task for one in api.notes] == [task]
        shown = (await api.client.get(f"{API}/tasks")).json()
        assert [(one["id"], one["resumable"]) for one in shown] == [(task, True)]


async def test_resume_goes_on_with_tasks_whose_process_died(
    user: IsolatedUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_adapter(user, monkeypatch)
    monkeypatch.setattr(CurrentScript, "say", lambda *_: "hello yourself")
    task = await orphan(user.project)
    async with open_project(user.project) as app:
        parked = await app.start(TEAM, "not this one")
    async with served(user.project, resume=True) as api, api.stream(f"{api.project}.1") as found:
        async for one in found:
            if one.name == "record" and one.data["record"].get("text") == "hello yourself":
                assert one.data["task"] == task
                break
        tasks = (await api.client.get(f"{API}/tasks")).json()
        assert {one["id"]: one["pid"] for one in tasks} == {task: os.getpid(), parked: None}
        assert api.notes == []


async def test_a_task_of_another_terminal_is_steered_and_its_questions_are_answered(
    user: IsolatedUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_adapter(user, monkeypatch)
    monkeypatch.setattr(CurrentScript, "say", lambda *_: "and you?")
    async with (
        open_project(user.project) as other,
        served(user.project) as api,
        api.stream() as found,
        anyio.create_task_group() as group,
    ):
        task = await other.create(StartRequest(TEAM, "hello", ASKS))
        group.start_soon(_run, other, task)
        path = f"{API}/projects/{api.project}/tasks/{task}"
        async for one in found:
            if one.name == "record" and one.data["record"].get("text") == "and you?":
                break
        said = await api.client.post(f"{path}/say", json={"text": "well"})
        assert said.status_code == 200, said.text
        async for one in found:
            if one.name == "record" and one.data["record"].get("text") == "well":
                break
        stopped = await api.client.post(f"{path}/stop")
        assert (stopped.status_code, stopped.json()["pid"]) == (200, None)


async def _run(other: OpenProject, task: str) -> None:
    async for _ in other.stream(task):
        pass


async def test_a_storage_that_refuses_all_writes_is_reopened(user: IsolatedUser) -> None:
    async with api_client(user.project) as api:
        app = await api.hub.project(api.project)
        task = await app.start(TEAM, "hello")
        event = TaskStarted(task_id=task, at=instant.now())
        with pytest.raises(LeaseLost):  # as after a temporarily full disk
            await app.storage.commit(Fence(task, 99), AppendEvent(event))
        path = f"{API}/projects/{api.project}/tasks/{task}/interrupt"
        assert [(await api.client.post(path)).status_code for _ in range(2)] == [409, 204]
        assert await api.hub.project(api.project) is not app


async def test_a_bug_in_one_project_is_an_error_of_the_server(user: IsolatedUser) -> None:
    async with open_hub(user.project, Path("no\0folder")) as hub:
        for _ in range(2):
            with pytest.raises(Bug, match="A bug in Coterie"):
                await hub.project(next(iter(await hub.projects())))


async def test_a_bug_in_one_run_is_an_error_of_the_server_and_parks_no_other(
    user: IsolatedUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_adapter(user, monkeypatch)
    monkeypatch.setattr(CurrentScript, "say", lambda *_: None)  # hang
    async with api_client(user.project) as api:
        app = await api.hub.project(api.project)
        well, failing = [await app.start(TEAM, "hello") for _ in range(2)]
        assert (await api("POST", f"~/tasks/{well}/resume"))[0] == 200
        app.runs = None  # so that a run fails before its first record
        status, problem = await api("POST", f"~/tasks/{failing}/resume")
        assert (status, problem["type"]) == (500, "urn:coterie:problem:bug"), problem
        assert await api.hub.project(api.project) is app
        assert (await api.get(f"~/tasks/{well}"))["pid"] == os.getpid()
