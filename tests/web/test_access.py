"""Access control: every illegitimate way in, tried on a running server."""

from __future__ import annotations

import re
import socket
import stat
from collections.abc import AsyncGenerator, Generator, Mapping
from dataclasses import dataclass, field
from itertools import cycle

import httpx
import pytest

from coterie.app import web_sessions
from coterie.app.web_sessions import WebSessions
from coterie.web.access import BODY, Access, Bucket, RateLimits
from tests.conftest import IsolatedUser
from tests.web.server import API, TIMEOUT, Api, Process, served, started, user_env

PROJECTS = f"{API}/projects"
JSON = {"content-type": "application/json"}


@dataclass(frozen=True)
class Attack:
    """A request that must not get through."""

    status: int
    method: str = "GET"
    path: str = PROJECTS
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content: bytes = b""
    cookie: str | None = None
    """Sent instead of the token; `own` is one that was issued for the token."""
    token: bool = True


OWN = {"origin": "{address}"}
ATTACKS = {
    "no token": Attack(401, token=False),
    "guessed token": Attack(401, headers={"authorization": "Bearer guess"}, token=False),
    "token as a password": Attack(401, headers={"authorization": "Basic {token}"}, token=False),
    "token in the query": Attack(401, path=f"{PROJECTS}?token={{token}}", token=False),
    "guessed cookie": Attack(401, cookie="guess", token=False),
    "foreign origin": Attack(403, headers={"origin": "https://example.com"}),
    "foreign origin with a cookie": Attack(
        403, headers={"origin": "https://example.com"}, cookie="own", token=False
    ),
    "null origin": Attack(403, headers={"origin": "null"}),
    "origin of another port": Attack(403, headers={"origin": "http://127.0.0.1:1"}),
    "origin of another scheme": Attack(403, headers={"origin": "https://{host}"}),
    "cross-site": Attack(403, headers={"sec-fetch-site": "cross-site"}),
    "another port of this machine": Attack(403, headers={"sec-fetch-site": "same-site"}),
    "a link to the API": Attack(
        403, headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    ),
    "rebound name": Attack(421, headers={"host": "evil.example.com:{port}"}),
    "own name, another port": Attack(421, headers={"host": "127.0.0.1:1"}),
    "number of another machine": Attack(421, headers={"host": "192.0.2.1:{port}"}),
    "name that begins like ours": Attack(421, headers={"host": "localhost.example.com:{port}"}),
    "host without a port": Attack(421, headers={"host": "127.0.0.1"}),
    "stream of a foreign page": Attack(
        403, path=f"{API}/events", headers={"origin": "https://example.com"}
    ),
    "stream without a token": Attack(401, path=f"{API}/events", token=False),
    "stream under a rebound name": Attack(
        421, path=f"{API}/events", headers={"host": "evil.example.com:{port}"}
    ),
    "sign-in from a foreign page": Attack(
        403,
        "POST",
        f"{API}/session",
        {**JSON, "origin": "https://example.com"},
        b'{"token": "{token}"}',
        token=False,
    ),
    "form post": Attack(
        415,
        "POST",
        f"{API}/session",
        {"content-type": "application/x-www-form-urlencoded", **OWN},
        b"token={token}",
        token=False,
    ),
    "form post as text": Attack(
        415, "POST", f"{API}/session", {"content-type": "text/plain"}, b"{}", token=False
    ),
    "cookie without an origin": Attack(403, "DELETE", f"{API}/session", cookie="own", token=False),
    "WebSocket upgrade": Attack(
        403,
        headers={
            "connection": "Upgrade",
            "upgrade": "websocket",
            "sec-websocket-version": "13",
            "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        },
    ),
    "a body that is too long": Attack(
        413, "POST", f"{API}/session", JSON, b" " * (BODY + 1), token=False
    ),
    "an address that is too long": Attack(414, path=f"{PROJECTS}?{'x' * 9000}"),
    "header lines that are too long": Attack(431, headers={"x-filler": "x" * 33_000}),
    "posting to the page": Attack(405, "POST", "/", token=False),
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Generator[Process]:
    """One server for all refused requests."""
    place = tmp_path_factory.mktemp("shared")
    user = IsolatedUser(place, place / ".coterie", place / "project")
    user.project.mkdir()
    with started(user, "--api-only", env=user_env(user)) as process:
        yield process


@pytest.fixture(scope="module")
def cookie(shared: Process) -> str:
    """The cookie that a browser gets for the token."""
    answer = httpx.post(
        f"{shared.address}{API}/session", json={"token": shared.token}, timeout=TIMEOUT
    )
    assert answer.status_code == 204, answer.text
    return cookie_in(answer)


def cookie_in(answer: httpx.Response) -> str:
    """The cookie's value; no script and no other site can read it."""
    given = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(given.split("; "))
    return given.partition("=")[2].partition(";")[0]


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_refused(shared: Process, cookie: str, attack: Attack) -> None:
    port = str(shared.port)
    known = {
        "{address}": shared.address,
        "{token}": shared.token,
        "{port}": port,
        "{host}": f"127.0.0.1:{port}",
    }

    def filled(text: str) -> str:
        for name, value in known.items():
            text = text.replace(name, value)
        return text

    headers = {name: filled(value) for name, value in attack.headers.items()}
    if attack.token:
        headers["authorization"] = f"Bearer {shared.token}"
    if attack.cookie:
        value = cookie if attack.cookie == "own" else attack.cookie
        headers["cookie"] = f"coterie_session_{port}={value}"
    answer = httpx.request(
        attack.method,
        f"{shared.address}{filled(attack.path)}",
        headers=headers,
        content=filled(attack.content.decode()).encode() or None,
        timeout=TIMEOUT,
    )
    assert (answer.status_code, answer.json()["status"]) == (attack.status, attack.status)
    assert answer.headers["content-type"] == "application/problem+json"
    assert "set-cookie" not in answer.headers
    assert "access-control-allow-origin" not in answer.headers


OUTSIDE = ("../", "..%2F..%2F", "%2e%2e/", "..\\", "%00", "a/../b")
PARAMETER = re.compile(r"{\w+}")


def test_no_path_leaves_its_place(shared: Process) -> None:
    paths = shared.client.get(f"{API}/openapi.json").json()["paths"]
    known = [(path, found) for path in paths for found in PARAMETER.finditer(path)]
    assert len(known) > 20
    for (path, place), other in zip(known, cycle(OUTSIDE), strict=False):
        for part in ("..%2f", other):
            left, right = path[: place.start()], path[place.end() :]
            tried = PARAMETER.sub("k3f9", left) + part + "etc/passwd" + PARAMETER.sub("k3f9", right)
            answer = raw(shared, f"GET {tried} HTTP/1.1")
            assert answer.split(" ")[1] in ("400", "404", "405", "422"), (tried, answer)


def raw(process: Process, request: str) -> str:
    """The response to a request that no client would send."""
    lines = f"{request}\r\nHost: 127.0.0.1:{process.port}\r\nConnection: close\r\n"
    lines += f"Authorization: Bearer {process.token}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", process.port), TIMEOUT) as connection:
        connection.sendall(lines.encode())
        return b"".join(iter(lambda: connection.recv(65536), b"")).decode()


async def test_a_body_without_a_length_is_limited_too(api: Api) -> None:
    async def pieces() -> AsyncGenerator[bytes]:
        for _ in range(20):
            yield b" " * 100_000

    answer = await api.client.post(f"{API}/session", headers=JSON, content=pieces())
    assert (answer.status_code, answer.json()["status"]) == (413, 413)


async def test_a_browser_comes_in_with_the_token_and_goes_out_again(api: Api) -> None:
    port = api.serving.address.rpartition(":")[2]
    given = {"token": api.serving.sessions.token}
    answer = await api.client.post(f"{API}/session", json=given, headers={"authorization": ""})
    cookies = {f"coterie_session_{port}": cookie_in(answer)}
    own = {"origin": api.serving.address, "sec-fetch-site": "same-origin"}
    async with httpx.AsyncClient(
        base_url=api.serving.address, cookies=cookies, timeout=TIMEOUT
    ) as browser:
        assert (await browser.get(PROJECTS)).status_code == 200
        async with browser.stream("GET", f"{API}/events") as stream:
            assert stream.status_code == 200
        assert (await browser.delete(f"{API}/session", headers=own)).status_code == 204
    async with httpx.AsyncClient(
        base_url=api.serving.address, cookies=cookies, timeout=TIMEOUT
    ) as browser:
        assert (await browser.get(PROJECTS)).status_code == 401  # an old cookie


async def test_every_answer_is_for_this_page_alone(api: Api) -> None:
    for answer in (await api.client.get(PROJECTS), await api.client.get("/nothing")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert (await api.client.get(PROJECTS)).headers["cache-control"] == "no-store"


async def test_wrong_tokens_are_slowed_down(api: Api) -> None:
    async def guess() -> httpx.Response:
        return await api.client.post(f"{API}/session", json={"token": "guess"})

    answers = [await guess() for _ in range(10)]
    assert {one.status_code for one in answers} == {401}
    while answers[-1].status_code == 401:  # one more attempt every six seconds, on a slow machine
        answers.append(await guess())
    assert answers[-1].status_code == 429
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert (await api.client.get(PROJECTS)).status_code == 200  # the token still works


def test_so_many_requests_a_second() -> None:
    now = [0.0]
    bucket = Bucket(2.0, 3.0, lambda: now[0])
    assert [bucket.take("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert bucket.take("b") == 0
    now[0] = 0.5
    assert [bucket.take("a") for _ in range(2)] == [0, 0.5]


async def test_too_many_requests_are_refused(user: IsolatedUser) -> None:
    async with served(user.project, limits=RateLimits(requests=0.4)) as api:
        first = answer = await api.client.get(PROJECTS)
        while answer.status_code == 200:  # one more request every 2.5 seconds
            answer = await api.client.get(PROJECTS)
    assert (first.status_code, answer.status_code) == (200, 429)
    assert int(answer.headers["retry-after"]) >= 1


def access(host: str, *, port: int = 8420, secure: bool = False) -> Access:
    return Access(host, port, None, frozenset({"desk"}), secure)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("at", "host", "known"),
    [
        ("127.0.0.1", "127.0.0.1:8420", True),
        ("127.0.0.1", "localhost:8420", True),
        ("127.0.0.1", "LOCALHOST:8420", True),
        ("127.0.0.1", "[::1]:8420", True),
        ("127.0.0.1", "192.0.2.7:8420", False),
        ("0.0.0.0", "192.0.2.7:8420", True),
        ("0.0.0.0", "desk:8420", True),
        ("0.0.0.0", "example.com:8420", False),
        ("127.0.0.1", "127.0.0.1:08420x", False),
        ("127.0.0.1", "", False),
        ("127.0.0.1", "::1", False),
        ("desk.example.com", "desk.example.com:8420", True),
    ],
)
def test_names_of_this_server(at: str, host: str, known: bool) -> None:
    assert access(at).knows(host) == known


def test_a_default_port_need_not_be_named() -> None:
    assert access("127.0.0.1", port=443, secure=True).knows("localhost")
    assert not access("127.0.0.1", port=443).knows("localhost")


def test_a_token_that_others_could_read_or_change_is_replaced(user: IsolatedUser) -> None:
    made = WebSessions()
    assert stat.S_IMODE(made.token_file.stat().st_mode) == 0o600
    assert WebSessions().token == made.token
    made.begin("cookie")
    assert WebSessions().is_admitted("cookie")
    made.token_file.chmod(0o644)
    other = WebSessions()
    assert other.token != made.token
    assert stat.S_IMODE(other.token_file.stat().st_mode) == 0o600
    assert not other.is_admitted("cookie")  # it was issued for the old token
    elsewhere = user.home / "elsewhere"
    elsewhere.write_text(other.token)
    elsewhere.chmod(0o600)
    other.token_file.unlink()
    other.token_file.symlink_to(elsewhere)
    assert WebSessions().token != other.token
    assert elsewhere.read_text() == other.token
    assert not other.token_file.is_symlink()


def test_sessions_are_kept_as_hashes_and_not_without_end(
    user: IsolatedUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_sessions, "MAX_SESSIONS", 2)
    made = WebSessions()
    for number in range(3):
        made.begin(f"cookie {number}")
    kept = (user.coterie_home / "serve.sessions").read_text()
    assert "cookie" not in kept
    assert [WebSessions().is_admitted(f"cookie {number}") for number in range(3)] == [
        False,
        True,
        True,
    ]
    (user.coterie_home / "serve.sessions").write_text("{")
    assert not WebSessions().is_admitted("cookie 1")
