"""The two tools that Coterie gives CLI members: their meaning, and the real program."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from coterie.agents.team_tools import listening, program
from coterie.agents.team_tools.listening import ToolSocket, call_in
from coterie.agents.team_tools.program import called, replied, result_of
from coterie.agents.team_tools.serving import Result, Serving, is_ours, tools_for
from coterie.model.conversation import parse_markers
from coterie.model.interaction import Display, Option, Response, Validation
from coterie.model.update import Asked, TurnCompleted
from tests.unit.process.children import until

Json = dict[str, Any]
OTHERS = {"rex": "speed", "You": ""}


def response(
    choice: str | None = None, said: str | None = None, word: str | None = None
) -> Response:
    return Response(
        interaction_id="q1",
        task_id="t1",
        author_actor_id="you",
        selected_option_id=choice,
        input_value=said,
        comment=word,
    )


# -- meaning -----------------------------------------------------------------------------------


def test_what_models_receive() -> None:
    ask, hand_over = tools_for(OTHERS)
    assert (ask["name"], ask["inputSchema"]["required"]) == ("ask_human", ["question"])
    assert hand_over["inputSchema"]["properties"]["to"]["enum"] == ["rex", "You"]
    assert "The others are: rex (speed), You." in hand_over["description"]
    assert [tool["name"] for tool in tools_for({})] == ["ask_human"]


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("ask_human", True),
        ("mcp__coterie__hand_over", True),
        ("mcp_coterie_ask_human", True),
        ("coterie_ask_human", True),
        ("discovered_tool_hand_over", True),
        ("mcp__other__ask_human", False),
        ("ask_human; rm x", False),
        ("ask_user", False),
    ],
)
def test_which_tools_are_ours(name: str, ours: bool) -> None:
    assert is_ours(name) == ours


def result_of_call(serving: Serving, tool: str, given: Json) -> Result:
    """The result of a call that needs no answer."""
    results: list[Result] = []
    assert serving.call("k1", tool, given, results.append) is None
    [result] = results
    return result


def test_a_question_and_its_answer() -> None:
    serving = Serving(OTHERS)
    results: list[Result] = []
    asked = serving.call("k1", "ask_human", {"question": " Why? "}, results.append)
    required = Validation(required=True)
    assert asked == Asked("k1", "Input", "request_info", Display(title="Why?"), validation=required)
    assert serving.answer("k1", response(said="So."))
    assert not serving.answer("k1", response(said="So."))  # answered once
    assert results == [Result("So.")]


def test_a_question_with_choices() -> None:
    serving = Serving({})
    labels = ["Red", "red!", "…", 7, *map(str, range(30))]
    results: list[Result] = []
    given = {"question": "Which?", "options": labels}
    asked = serving.call("k1", "ask_human", given, results.append)
    assert isinstance(asked, Asked)
    assert asked.options[:3] == (
        Option(id="red", label="Red"),
        Option(id="red-2", label="red!"),
        Option(id="-3", label="…"),
    )
    assert len(asked.options) == 20
    assert serving.answer("k1", response("red", word="like wine"))
    assert results == [Result("Red (like wine)")]


@pytest.mark.parametrize("given", [response(), response("nothing of it")])
def test_nobody_answers(given: Response) -> None:
    serving = Serving({})
    results: list[Result] = []
    options = {"question": "Which?", "options": ["a", "b"]}
    serving.call("k1", "ask_human", options, results.append)
    assert serving.answer("k1", given)
    assert results == [Result("Nobody answered.", failed=True)]


@pytest.mark.parametrize(
    ("tool", "given", "told"),
    [
        ("ask_human", {"question": 7}, 'ask_human needs a "question".'),
        (
            "hand_over",
            {"to": "eve"},
            'hand_over: no member "eve" in the team; the others are rex, You.',
        ),
        ("rm", {}, 'Unknown tool "rm"; available: ask_human and hand_over.'),
    ],
)
def test_calls_that_mean_nothing(tool: str, given: Json, told: str) -> None:
    assert result_of_call(Serving(OTHERS), tool, given) == Result(told, failed=True)


def test_who_is_alone_cannot_hand_over() -> None:
    told = 'Unknown tool "hand_over"; available: ask_human.'
    assert result_of_call(Serving({}), "hand_over", {"to": "rex"}) == Result(told, failed=True)


@pytest.mark.parametrize(
    ("said", "message", "text"),
    [
        ("Done.", "Look at it.", "Done.\n\nLook at it."),
        ("", "Look at it.", "Look at it."),
        ("Done. Look at it.\n", "Look at it.", "Done. Look at it."),
        ("Done.", "", "Done."),
    ],
)
def test_handing_over(said: str, message: str, text: str) -> None:
    serving = Serving(OTHERS)
    handed = result_of_call(serving, "hand_over", {"to": "REX", "message": message})
    assert handed == Result("ok, your turn ends here")
    end = serving.finished(TurnCompleted(said))
    assert isinstance(end, TurnCompleted)
    marked = parse_markers(end.text)
    assert (marked.text, marked.names) == (text, ("rex",))
    serving.begin()  # the next turn has its own handover
    assert serving.finished(TurnCompleted(said)) == TurnCompleted(said)


# -- the protocol ------------------------------------------------------------------------------


def test_what_a_server_replies() -> None:
    hello = {"id": 0, "method": "initialize", "params": {"protocolVersion": "2024-11-05"}}
    initialized = replied(hello, [])
    assert initialized is not None
    assert initialized["result"]["protocolVersion"] == "2024-11-05"
    assert replied({"id": 1, "method": "ping"}, []) == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert replied({"method": "notifications/initialized"}, []) is None
    assert replied({"id": [[1]], "method": "ping"}, []) is None  # not sent back: it may be deep
    assert called({"id": {}, "method": "tools/call", "params": {"name": "x"}}) is None
    assert replied({"id": 7, "result": {}}, []) is None
    assert replied({"id": 2, "method": "prompts/list"}, []) == {
        "jsonrpc": "2.0",
        "id": 2,
        "error": {"code": -32601, "message": "prompts/list is not supported"},
    }
    call = {"id": 3, "method": "tools/call", "params": {"name": "x", "arguments": [1]}}
    assert called(call) == ("x", {})
    assert called({"method": "tools/call"}) is None
    assert result_of(call, {"text": "hi"})["result"] == {
        "content": [{"type": "text", "text": "hi"}],
        "isError": False,
    }


# -- the program -------------------------------------------------------------------------------


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder with a path short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="c") as folder:
        yield Path(folder)


class CallCollector:
    """Collects tool calls, to be answered by the test."""

    def __init__(self) -> None:
        self.calls: list[listening.ToolRequest] = []

    def put(self, message: Json) -> None:
        call = call_in(message)
        assert call is not None
        self.calls.append(call)


@pytest.fixture
async def served(short_folder: Path) -> AsyncGenerator[tuple[ToolSocket, CallCollector]]:
    table = CallCollector()
    opened = await ToolSocket.open(short_folder, tools_for(OTHERS))
    opened.divert(table.put)
    yield opened, table
    await opened.close()
    assert list(short_folder.iterdir()) == []


async def test_an_opening_that_is_cancelled_completes_so_that_it_can_be_closed(
    short_folder: Path,
) -> None:
    opened: list[ToolSocket] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        opened.append(await ToolSocket.open(short_folder, tools_for(OTHERS)))
    await opened[0].close()
    assert list(short_folder.iterdir()) == []


def server_of(opened: ToolSocket) -> subprocess.Popen[str]:
    [server] = opened.servers
    assert (server["name"], server["env"]) == ("coterie", [])
    return subprocess.Popen(
        [server["command"], *server["args"]], stdin=-1, stdout=-1, stderr=-1, text=True, env={}
    )


def send(child: subprocess.Popen[str], *messages: Json | str) -> None:
    assert child.stdin is not None
    for message in messages:
        child.stdin.write((message if isinstance(message, str) else json.dumps(message)) + "\n")
    child.stdin.flush()


async def receive(child: subprocess.Popen[str]) -> Json:
    assert child.stdout is not None
    return json.loads(await anyio.to_thread.run_sync(child.stdout.readline))


async def wait_for_exit(child: subprocess.Popen[str]) -> None:
    """Wait for it to exit, without any complaints."""
    assert child.stdin is not None
    child.stdin.close()
    assert await anyio.to_thread.run_sync(child.wait) == 0
    for stream in (child.stdout, child.stderr):
        assert stream is not None
        assert stream.read() == ""
        stream.close()


def calling(number: int, tool: str, **given: object) -> Json:
    params = {"name": tool, "arguments": given}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


async def test_a_server_carries_calls_several_at_once(
    served: tuple[ToolSocket, CallCollector],
) -> None:
    opened, table = served
    child = server_of(opened)
    send(child, "no JSON", "[1]", {"id": 1, "method": "tools/list"})
    listed = await receive(child)
    assert listed["result"]["tools"] == tools_for(OTHERS)
    send(child, calling(2, "ask_human", question="a"), calling(3, "ask_human", question="b"))
    await until(lambda: len(table.calls) == 2)
    first, second = sorted(table.calls, key=lambda call: str(call.given))
    assert (first.tool, first.given) == ("ask_human", {"question": "a"})
    assert first.key != second.key
    second.answer(Result("two"))
    assert await receive(child) == result_of({"id": 3}, {"text": "two"})
    first.answer(Result("one", failed=True))
    first.answer(Result("again"))  # ignored
    assert await receive(child) == result_of({"id": 2}, {"text": "one", "failed": True})
    await wait_for_exit(child)


async def test_whoever_is_gone_is_not_waited_for(served: tuple[ToolSocket, CallCollector]) -> None:
    opened, table = served
    child = server_of(opened)
    send(child, calling(2, "ask_human", question="a"))
    await until(lambda: len(table.calls) == 1)
    child.kill()
    child.communicate()
    await until(lambda: table.calls[0].is_over)


async def test_a_long_wait_is_reported(
    served: tuple[ToolSocket, CallCollector], monkeypatch: pytest.MonkeyPatch
) -> None:
    """MCP clients time out after a minute of silence.  Runs in this process, as do the next two
    tests, for coverage."""
    assert program.PROGRESS_INTERVAL < 30
    monkeypatch.setattr(program, "PROGRESS_INTERVAL", 0.05)
    opened, table = served
    config = json.loads((opened._folder / "tools.json").read_text())
    told: list[Json] = []
    source, sink = os.pipe()

    def serve() -> None:
        program.Server(config, told.append).run(source)

    def write(*messages: Json) -> None:
        lines = ("no JSON", "[]", *map(json.dumps, messages))
        os.write(sink, "".join(f"{line}\n" for line in lines).encode())

    async with anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, serve)
        call = calling(2, "ask_human", question="a")
        call["params"]["_meta"] = {"progressToken": 7}
        write({"id": 1, "method": "ping"}, {"method": "x"}, call, calling(3, "x"))
        await until(lambda: len(table.calls) == 2 and len(told) > 3)
        for one in table.calls:
            one.answer(Result("x" * 100_000))  # which arrives in pieces
        await until(lambda: sum("result" in one for one in told) == 3)
        await opened.close()
        write(calling(4, "x"))
        await until(lambda: told[-1].get("id") == 4)
        os.close(sink)
    os.close(source)
    progress = [one["params"] for one in told if "params" in one]
    assert progress
    assert [one for one in progress if one != {"progressToken": 7, "progress": 0}] == []
    assert told[-1] == result_of({"id": 4}, {"text": "Nobody answered.", "failed": True})


async def test_a_place_that_answers_nonsense(short_folder: Path) -> None:
    def answer() -> None:
        line, _ = bound.accept()
        with line:
            line.recv(1000)
            line.sendall(b"what?")

    place = {"socket": str(short_folder / "s"), "token": "t", "tools": []}
    pieces: list[Json | None] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as bound:
        bound.bind(str(short_folder / "s"))
        bound.listen()
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, answer)
            call = await anyio.to_thread.run_sync(program.ToolConnection, place, "x", {})
            pieces += [await anyio.to_thread.run_sync(call.outcome) for _ in range(2)]
    assert pieces == [None, program.NOBODY]


def test_the_words_of_the_program(
    short_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = short_folder / "tools.json"
    place = {"socket": str(short_folder / "s"), "token": "t", "tools": tools_for({})}
    file.write_text(json.dumps(place))
    program.main(["list", str(file)])
    assert json.loads(capsys.readouterr().out)[0]["function_declarations"][0]["name"] == "ask_human"
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    program.main(["call", str(file), "ask_human"])
    assert capsys.readouterr().out == "Nobody answered.\n"
    source, sink = os.pipe()
    os.close(sink)
    with os.fdopen(source) as ended:
        monkeypatch.setattr("sys.stdin", ended)
        program.main(["serve", str(file)])  # exits when stdin ends
    assert capsys.readouterr().out == ""


async def test_a_server_whose_coterie_is_gone(served: tuple[ToolSocket, CallCollector]) -> None:
    opened, table = served
    child = server_of(opened)
    send(child, calling(1, "ask_human", question="a"))
    await until(lambda: len(table.calls) == 1)
    await opened.close()
    nobody = {"text": "Nobody answered.", "failed": True}
    assert await receive(child) == result_of({"id": 1}, nobody)
    send(child, calling(2, "ask_human", question="b"))
    assert await receive(child) == result_of({"id": 2}, nobody)
    await wait_for_exit(child)


async def test_commands_list_and_call(served: tuple[ToolSocket, CallCollector]) -> None:
    opened, table = served
    commands = opened.commands

    async def run(command: str, given: str = "") -> subprocess.CompletedProcess[bytes]:
        return await anyio.run_process(["/bin/sh", "-c", command], input=given.encode(), env={})

    [listed] = json.loads((await run(commands.listing)).stdout)
    declared = {each["name"]: each for each in listed["function_declarations"]}
    assert set(declared) == {"ask_human", "hand_over"}
    # Gemini reads the first, Qwen the second.
    assert declared["ask_human"]["parameters"] == declared["ask_human"]["parametersJsonSchema"]
    told: list[bytes] = []

    async def call() -> None:
        told.append((await run(f"{commands.calling} ask_human", '{"question": "a"}')).stdout)

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await until(lambda: len(table.calls) == 1)
        table.calls[0].answer(Result("one\ntwo"))
    assert (told, table.calls[0].given) == ([b"one\ntwo\n"], {"question": "a"})
    await opened.close()
    (opened._folder).mkdir()
    place = {"socket": str(opened._folder / "s"), "token": "", "tools": []}
    (opened._folder / "tools.json").write_text(json.dumps(place))
    words = [sys.executable, "-IS", str(listening.PROGRAM), "call", opened._folder / "tools.json"]
    gone = await anyio.run_process([*map(str, words), "ask_human"])
    assert (gone.stdout, gone.stderr) == (b"Nobody answered.\n", b"")


async def test_an_address_that_is_too_long_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("n" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with pytest.raises(OSError, match="too long"):
        await ToolSocket.open(long, tools_for(OTHERS))
    assert list(long.iterdir()) == []


# -- strangers on the socket -------------------------------------------------------------------


async def connect_and_send(address: str, said: bytes) -> Json:
    def knock() -> Json:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.connect(address)
            line.sendall(said)
            with line.makefile() as told:
                return json.loads(told.read())

    return await anyio.to_thread.run_sync(knock)


@pytest.mark.parametrize(
    "said",
    [
        b'{"tool": "ask_human"}\n',
        b'{"token": "\xc3\xa4", "tool": "ask_human"}\n',
        b"[]\n",
    ],
)
async def test_input_from_anyone_else_is_refused(
    served: tuple[ToolSocket, CallCollector], said: bytes
) -> None:
    opened, table = served
    answer = await connect_and_send(str(opened._folder / "s"), said)
    told = "It is not your turn, so nobody can be asked."
    assert answer == {"text": told, "failed": True}
    assert table.calls == []


async def test_a_client_that_never_stops_sending_is_disconnected(
    served: tuple[ToolSocket, CallCollector],
) -> None:
    opened, table = served
    with pytest.raises(OSError, match=r"Broken pipe|Connection reset"):
        await connect_and_send(str(opened._folder / "s"), b"x" * 3_000_000)
    assert table.calls == []


async def test_before_there_is_a_channel_nobody_is_asked(short_folder: Path) -> None:
    opened = await ToolSocket.open(short_folder, [])
    child = server_of(opened)
    send(child, calling(1, "ask_human", question="a"))
    said = (await receive(child))["result"]["content"][0]["text"]
    assert said == "It is not your turn, so nobody can be asked."
    await wait_for_exit(child)
    await opened.close()


async def test_what_a_kill_left_behind_goes_and_what_is_in_use_stays(short_folder: Path) -> None:
    left, new = short_folder / "inside-0000", short_folder / "inside-1111"
    for folder in (left, new):
        folder.mkdir()
        (folder / "s").touch()
    others = {short_folder / "looking-inside-docker", short_folder / "inside-out"}
    for folder in others:
        folder.mkdir()
        (folder / "notes").touch()
    first = await ToolSocket.open(short_folder, [])
    assert (first._folder.stat().st_mode & 0o077) == 0
    for old in (left, first._folder, *others):
        os.utime(old, (0, 0))
    second = await ToolSocket.open(short_folder, [])
    assert set(short_folder.iterdir()) == {new, first._folder, second._folder, *others}
    for opened in (first, second):
        await opened.close()


async def test_a_folder_with_a_long_name(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A socket's path is limited to about a hundred bytes: use another folder then."""
    monkeypatch.setattr(tempfile, "tempdir", str(short_folder))
    deep = short_folder / ("x" * 60) / ("y" * 60)
    deep.mkdir(parents=True)
    opened = await ToolSocket.open(deep, [])
    assert opened._folder.parent == short_folder
    assert list(deep.iterdir()) == []
    child = server_of(opened)
    send(child, {"id": 1, "method": "ping"})
    assert (await receive(child))["result"] == {}
    await wait_for_exit(child)
    await opened.close()
