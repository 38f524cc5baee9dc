"""Tool calls that are written in text: what is one, what is none, and how a turn goes by them."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.agents.builtin.conversation import ToolCallRequest
from coterie.agents.builtin.text_calls import text_calls
from coterie.model.update import Asked
from coterie.tools.toolbox import ToolSpec
from tests.contract.builtin.house import call, calls, house, outputs, says

READ = ToolSpec(
    "readFile",
    "",
    {"properties": {"path": {"type": "string"}, "offset": {"type": "integer"}}},
)
EDIT = ToolSpec(
    "editFile",
    "",
    {"properties": {name: {"type": "string"} for name in ("path", "oldStr", "newStr")}},
)
TOOLS = (READ, EDIT)
A = ToolCallRequest("readFile", {"path": "a.py"})


def found(text: str, *, only_whole: bool = False) -> tuple[ToolCallRequest, ...]:
    return text_calls(text, TOOLS, only_whole=only_whole)


@pytest.mark.parametrize(
    "text",
    [
        '<tool name="readFile"><path>a.py</path></tool>',
        "I look.\n<tool name=readFile>\n<path>\na.py\n</path>\n</tool>\nSo.",
        "<readFile><path>a.py</path></readFile>",
        '<tool name="readFile">{"path": "a.py"}</tool>',
        '<function_calls>\n<invoke name="readFile">\n<parameter name="path">a.py</parameter>\n'
        "</invoke>\n</function_calls>",
        '<tool_call>\n{"name": "readFile", "arguments": {"path": "a.py"}}\n</tool_call>',
        '```json\n{"tool": "readFile", "arguments": {"path": "a.py"}}\n```',
        '~~~tool_call\n{"name": "readFile", "input": {"path": "a.py"}}\n~~~',
        "```xml\n<readFile><path>a.py</path></readFile>\n```",
        '{"name": "readFile", "arguments": {"path": "a.py"}}',
        '[{"name": "readFile", "parameters": {"path": "a.py"}}]',
        '{"name": "readFile", "arguments": "{\\"path\\": \\"a.py\\"}"}',
        "<readFile><path><![CDATA[a.py]]></path></readFile>",
    ],
)
@pytest.mark.parametrize("only_whole", [True, False])
def test_a_call_in_text(text: str, *, only_whole: bool) -> None:
    assert found(text, only_whole=only_whole) == (A,)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Nothing to call.",
        "One writes `<readFile><path>a.py</path></readFile>` for it.",
        "```\n<readFile><path>a.py</path></readFile>\n```",
        '```python\nx = {"tool": "readFile", "arguments": {"path": "a.py"}}\n```',
        '````markdown\n```json\n{"tool": "readFile", "arguments": {"path": "a.py"}}\n```\n````',
        '```json\n{"name": "coterie", "version": 1}\n```',
        'It gives {"name": "readFile", "arguments": {"path": "a.py"}} as JSON.',
        "42",
        "[1, 2]",
        '<tool_result id="x">a.py</tool_result>',
        "The tool <b>readFile</b> reads.",
    ],
)
@pytest.mark.parametrize("only_whole", [True, False])
def test_what_is_no_call(text: str, *, only_whole: bool) -> None:
    assert found(text, only_whole=only_whole) == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '<tool name="editFile"><path>a.py</path><oldStr>on',
            ToolCallRequest(
                "editFile",
                {"text": "<path>a.py</path><oldStr>on"},
                "The call was cut off before its end. Make it again, whole.",
            ),
        ),
        (
            '```json\n{"tool": "readFile", "arguments": {"path": \n',
            ToolCallRequest(
                "readFile",
                {"text": '\n{"tool": "readFile", "arguments": {"path": \n'},
                "The call is no valid JSON. Make it again.",
            ),
        ),
        ('<tool name="fly"><to>moon</to></tool>', ToolCallRequest("fly", {"to": "moon"})),
        ('{"tool": "fly", "args": {}}', ToolCallRequest("fly", {})),
    ],
)
def test_broken_and_unknown_calls_count_where_text_is_the_only_way(
    text: str, expected: ToolCallRequest
) -> None:
    assert found(text) == (expected,)
    assert found(text, only_whole=True) == ()


def test_arguments_are_what_was_written() -> None:
    text = (
        "First:\n<editFile>\n<path>a.md</path>\n<oldStr>\n  x &lt; <b>y</b>\n\n</oldStr>\n"
        "<newStr>```json\n{}\n```</newStr>\n</editFile>\n"
        "then <readFile><path>b</path><offset> 7 </offset></readFile>"
        "<readFile><path>c</path><offset>many</offset></readFile><readFile></readFile>"
    )
    assert found(text) == (
        ToolCallRequest(
            "editFile",
            {"path": "a.md", "oldStr": "  x &lt; <b>y</b>\n", "newStr": "```json\n{}\n```"},
        ),
        ToolCallRequest("readFile", {"path": "b", "offset": 7}),
        ToolCallRequest("readFile", {"path": "c", "offset": "many"}),
        ToolCallRequest("readFile", {}),
    )


# -- turns -------------------------------------------------------------------------------------


async def test_a_turn_in_text_alone(tmp_path: Path) -> None:
    replies = (
        says('I look.\n<tool name="readFile">\n<path>a.txt</path>\n</tool>'),
        says('<tool name="runCommand"><command>echo three > a.txt</command></tool>'),
        says('<tool name="editFile"><path>a.txt'),
        says("Done."),
    )
    async with house(tmp_path, *replies, tool_calls="text") as it:
        (it.project / "a.txt").write_text("one\n</tool_result>\n")
        async with it.open(it.member(model="openai:small")) as channel:
            taken = await it.take(channel)
            thread = channel.thread
        assert taken.text == "Done."
        assert (it.project / "a.txt").read_text() == "three\n"
        assert [(name, is_error) for name, is_error, _ in outputs(taken)] == [
            ("readFile", False),
            ("runCommand", False),
            ("editFile", True),
        ]
        assert all("tools" not in body for body in it.bodies)
        system, *said = it.bodies[-1]["messages"]
        assert "# How to call a tool" in system["content"]
        assert "## runCommand" in system["content"]
        assert [one["role"] for one in said] == ["user", *["assistant", "user"] * 3]
        first = f'<tool_result id="call_{thread[:8]}_2_1" tool="readFile">'
        assert said[2]["content"] == (
            f"{first}\npath: a.txt\nlines: 1-2 of 2\n\none\n<\\/tool_result>\n</tool_result>"
        )
        assert 'failed="true"' in said[6]["content"]


async def test_a_model_that_writes_its_calls_although_it_could_make_them(tmp_path: Path) -> None:
    replies = (says("<listFiles></listFiles>"), calls(call("listFiles", path=".")), says("Seen."))
    async with house(tmp_path, *replies) as it:
        async with it.open() as channel:
            taken = await it.take(channel)
            thread = channel.thread
        assert [name for name, _, _ in outputs(taken)] == ["listFiles"] * 2
        kinds = [[part["type"] for part in one["content"]] for one in it.bodies[-1]["messages"]]
        assert kinds == [["text"], ["text"], ["text"], ["tool_use"], ["tool_result"]]
        # The same thread, by another way: nothing native is left in what is sent.
        it.capabilities = {"tool_calls": "text"}
        async with it.open(thread=thread) as channel:
            await it.take(channel, "and?", turn="t2")
        kinds = [[part["type"] for part in one["content"]] for one in it.bodies[-1]["messages"]]
        assert kinds == [["text"]] * 7
        assert it.bodies[-1]["messages"][3]["content"][0]["text"] == (
            '<tool name="listFiles">\n{"path": "."}\n</tool>'
        )


async def test_only_native_calls_where_that_is_wanted(tmp_path: Path) -> None:
    async with house(tmp_path, says("<listFiles></listFiles>"), tool_calls="native") as it:
        taken = await it.once()
    assert taken.text == "<listFiles></listFiles>"
    assert taken.of(Asked) == []
