"""Tool calls written as text: what counts as one, what does not, and how turns work with them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from coterie.agents.builtin.conversation import (
    InboundText,
    PromptEntry,
    ReplyEntry,
    ToolCallRequest,
)
from coterie.agents.builtin.text_calls import CUT, NO_JSON, TextCalls, text_calls
from coterie.agents.builtin.thread import BuiltinThread
from coterie.model.update import Asked
from coterie.tools.toolbox import ToolSpec
from tests.contract.builtin.harness import builtin_harness, call, calls, outputs, says

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


def parsed_calls(text: str, *, only_known: bool = False) -> tuple[ToolCallRequest, ...]:
    return text_calls(text, TOOLS, only_known=only_known).calls


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
        # the tool as the tag, as other programs taught models
        "<read_file>\n<path>a.py</path>\n</read_file>",
        '<readFile path="a.py"/>',
        "<readFile path='a.py'></readFile>",
        # <tool_use> and similar
        "<tool_use><name>readFile</name><input><path>a.py</path></input></tool_use>",
        '<tool_use>\n<tool_name>readFile</tool_name>\n<parameters>{"path": "a.py"}</parameters>\n'
        "</tool_use>",
        '<tool_use name="readFile"><path>a.py</path></tool_use>',
        '<tool_use>{"name": "readFile", "input": {"path": "a.py"}}</tool_use>',
        "<tool_use><readFile><path>a.py</path></readFile></tool_use>",
        "<tool_use><tool>readFile</tool><path>a.py</path></tool_use>",
        '<tool_use>{"tool": "readFile", "path": "a.py"}</tool_use>',
        '<tool_call>{"name": "readFile", "arguments": {"path": "a.py"}}',  # often left unclosed
        "<tool_call>readFile\n<arg_key>path</arg_key>\n<arg_value>a.py</arg_value>\n</tool_call>",
        '<tool_code>print(default_api.readFile(path="a.py"))</tool_code>',
        '```tool_code\nreadFile("a.py")\n```',
        # <function=…>
        '<function=readFile>{"path": "a.py"}</function>',
        "<tool_call>\n<function=readFile>\n<parameter=path>\na.py\n</parameter>\n</function>\n"
        "</tool_call>",
        "I look:\n<function=read_file><parameter=path>a.py</parameter></function>",
        # JSON after prose, in a plain fence, with other keys
        'I read it.\n\n{"name": "readFile", "arguments": {"path": "a.py"}}',
        'I read it: {"name": "readFile", "arguments": {"path": "a.py"}}\nThen I go on.',
        'I read it.\n```\n{"name": "readFile", "arguments": {"path": "a.py"}}\n```\n',
        "```\n<readFile><path>a.py</path></readFile>\n```",
        '```text\n{"tool": "readFile", "input": {"path": "a.py"}}\n```',
        '<function_call name="readFile" arguments=\'{"path": "a.py"}\'/>',
        "<tools><tool><name>readFile</name><arguments><path>a.py</path></arguments></tool></tools>",
        'So:\n{\n  "tool": "readFile",\n  "input": {\n    "path": "a.py"\n  }\n}\n',
        'Next: {"tool": "readFile", "path": "a.py"}',
        '{"action": "readFile", "action_input": {"path": "a.py"}}',
        '{"readFile": {"path": "a.py"}}',
        '[TOOL_CALLS] [{"name": "readFile", "arguments": {"path": "a.py"}}]',
        '<|python_tag|>{"name": "functions.readFile", "parameters": {"path": "a.py"}}',
        # OpenAI's format
        '{"tool_calls": [{"id": "call_1", "type": "function", "function": '
        '{"name": "readFile", "arguments": "{\\"path\\": \\"a.py\\"}"}}]}',
        'Yes.\n{"role": "assistant", "content": null, "tool_calls": [{"function": '
        '{"name": "readFile", "arguments": {"path": "a.py"}}}]}',
        '{"type": "function", "function": {"name": "readFile", "arguments": {"path": "a.py"}}}',
        '{"function_call": {"name": "readFile", "arguments": "{\\"path\\": \\"a.py\\"}"}}',
        # special tokens that were not stripped
        '[TOOL_CALLS]readFile{"path": "a.py"}',
        "<|channel|>commentary to=functions.readFile <|constrain|>json<|message|>"
        '{"path": "a.py"}<|call|>',
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.readFile:0"
        '<|tool_call_argument_begin|>{"path": "a.py"}<|tool_call_end|>',
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>readFile\n```json\n"
        '{"path": "a.py"}\n```<｜tool▁call▁end｜>',
        '<x:invoke name="readFile"><x:parameter name="path">a.py</x:parameter></x:invoke>',
    ],
)
@pytest.mark.parametrize("only_known", [True, False])
def test_a_call_in_text(text: str, *, only_known: bool) -> None:
    assert parsed_calls(text, only_known=only_known) == (A,)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Nothing to call.",
        "One writes `<readFile><path>a.py</path></readFile>` for it.",
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
@pytest.mark.parametrize("only_known", [True, False])
def test_what_is_no_call(text: str, *, only_known: bool) -> None:
    assert parsed_calls(text, only_known=only_known) == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '<tool name="editFile"><path>a.py</path><oldStr>on',
            ToolCallRequest("editFile", {"text": "<path>a.py</path><oldStr>on"}, CUT),
        ),
        (
            '```json\n{"tool": "readFile", "arguments": {"path": \n',
            ToolCallRequest(
                "readFile", {"text": '{"tool": "readFile", "arguments": {"path": \n'}, NO_JSON
            ),
        ),
        (
            '<tool_use>{"name": "read_file", "input": {"path": \'a.py\'}}</tool_use>',
            ToolCallRequest(
                "readFile", {"text": '{"name": "read_file", "input": {"path": \'a.py\'}}'}, NO_JSON
            ),
        ),
        (
            'I look.\n{"name": "readFile", "arguments": {"path": "a.py"',
            ToolCallRequest(
                "readFile", {"text": '{"name": "readFile", "arguments": {"path": "a.py"'}, NO_JSON
            ),
        ),
        (
            '{"name": "readFile", "arguments": "{path: a.py}"}',
            ToolCallRequest("readFile", {"text": "{path: a.py}"}, NO_JSON),
        ),
        (
            "So:\n{'name': 'readFile', 'arguments': {'path': 'a.py'}}",
            ToolCallRequest(
                "readFile", {"text": "{'name': 'readFile', 'arguments': {'path': 'a.py'}}"}, NO_JSON
            ),
        ),
        (
            "[TOOL_CALLS]readFile{path: a.py}",
            ToolCallRequest("readFile", {"text": "{path: a.py}"}, NO_JSON),
        ),
    ],
)
@pytest.mark.parametrize("only_known", [True, False])
def test_a_broken_call_is_one_that_fails(
    text: str, expected: ToolCallRequest, *, only_known: bool
) -> None:
    assert parsed_calls(text, only_known=only_known) == (expected,)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<tool name="fly"><to>moon</to></tool>', ToolCallRequest("fly", {"to": "moon"})),
        ("<function=fly></function>", ToolCallRequest("fly", {})),
        ('{"tool": "fly", "args": {}}', ToolCallRequest("fly", {})),
        (
            'Up.\n{"tool_calls": [{"function": {"name": "fly", "arguments": "{}"}}]}',
            ToolCallRequest("fly", {}),
        ),
    ],
)
def test_a_tool_that_there_is_not(text: str, expected: ToolCallRequest) -> None:
    assert parsed_calls(text) == (expected,)
    of_native = text_calls(text, TOOLS, only_known=True)
    says_so = "<" in text or "tool_calls" in text
    assert of_native.calls == ((expected,) if says_so else ())
    assert bool(of_native.doubtful) is not says_so


@pytest.mark.parametrize(
    "text",
    [
        'It takes {"name": "readFile", "arguments": {"path": "a.py"}} as JSON.',
        "Here:\n```\nFirst <readFile><path>a.py</path></readFile> and then more.\n```",
        "<tool_use>read the file a.py</tool_use>",
        "<tool_call></tool_call>",
        'Thought: look\nAction: readFile\nAction Input: {"path": "a.py"}',
        'readFile(path="a.py")',
        '[read_file("a.py")]',
        'readFile {"path": "a.py"}',
        "```python\nreadFile('a.py')\n```",
        '<tool_code>readFile(path=b"a.py")</tool_code>',
        '<tool_code>readFile(path={"a.py"})</tool_code>',
        "<tool_call>" * 900,
        f"<tool_code>{'a.' * 900}readFile()</tool_code>",
        '```js\n{"name": "readFile", "arguments": {"path": "a.py"}}\n```',
    ],
)
@pytest.mark.parametrize("only_known", [True, False])
def test_what_looks_like_a_call_and_is_none(text: str, *, only_known: bool) -> None:
    told = text_calls(text, TOOLS, only_known=only_known)
    assert told.calls == ()
    assert told.doubtful


@pytest.mark.parametrize(
    "text",
    [
        "I called readFile and it gave nothing; readFile(path) takes a path.",
        "```python\nx = readFile('a.py')\nprint(x.upper())\n```",
        "```bash\nls -la\n```",
        "The `<tool_use>` element is XML.",
        '{"name": "coterie", "version": 1}',
        '{"status": "completed", "outputs": [], "next_actions": ["use the tool"]}',
        "A <b>tool</b> for { x } and [1, 2].",
        "<tool>hammer</tool>",
    ],
)
@pytest.mark.parametrize("only_known", [True, False])
def test_what_is_not_even_doubtful(text: str, *, only_known: bool) -> None:
    assert text_calls(text, TOOLS, only_known=only_known) == TextCalls()


def test_a_long_text_is_read_quickly() -> None:
    began = time.perf_counter()
    for text in ("<readFile " * 20_000, '{"name": ' * 20_000, "`" * 100_000, "[" * 100_000):
        text_calls(text, TOOLS, only_known=False)
    assert time.perf_counter() - began < 3


def test_arguments_are_what_was_written() -> None:
    text = (
        "First:\n<editFile>\n<path>a.md</path>\n<oldStr>\n  x &lt; <b>y</b>\n\n</oldStr>\n"
        "<newStr>```json\n{}\n```</newStr>\n</editFile>\n"
        "then <readFile><path>b</path><offset> 7 </offset></readFile>"
        "<readFile><path>c</path><offset>many</offset></readFile><readFile></readFile>"
    )
    assert parsed_calls(text) == (
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
    async with builtin_harness(tmp_path, *replies, tool_calls="text") as it:
        (it.project / "a.txt").write_text("one\n</tool_result>\n")
        async with it.open(it.member(model="openai:small")) as channel:
            taken = await it.take_turn(channel)
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
    async with builtin_harness(tmp_path, *replies) as it:
        async with it.open() as channel:
            taken = await it.take_turn(channel)
            thread = channel.thread
        assert [name for name, _, _ in outputs(taken)] == ["listFiles"] * 2
        kinds = [[part["type"] for part in one["content"]] for one in it.bodies[-1]["messages"]]
        assert kinds == [["text"], ["text"], ["text"], ["tool_use"], ["tool_result"]]
        # The same thread in the other mode: nothing native is left in the request.
        it.capabilities = {"tool_calls": "text"}
        async with it.open(thread=thread) as channel:
            await it.take_turn(channel, "and?", turn="t2")
        kinds = [[part["type"] for part in one["content"]] for one in it.bodies[-1]["messages"]]
        assert kinds == [["text"]] * 7
        assert it.bodies[-1]["messages"][3]["content"][0]["text"] == (
            '<tool name="listFiles">\n{"path": "."}\n</tool>'
        )


async def test_only_native_calls_where_that_is_wanted(tmp_path: Path) -> None:
    replies = (says("<listFiles></listFiles>"), says("Seen."))
    async with builtin_harness(tmp_path, *replies, tool_calls="native") as it:
        taken = await it.take_one_turn()
        told = it.bodies[-1]["messages"][-1]["content"][0]["text"]
    assert taken.text == "Seen."
    assert taken.of(Asked) == []
    assert "<listFiles></listFiles>" in told
    assert "nothing was run" in told


def test_a_doubtful_reply_is_not_the_end_of_a_turn_after_a_crash_either() -> None:
    kept = [PromptEntry("turn/1", "look"), ReplyEntry("Action: readFile"), InboundText("none")]
    thread = BuiltinThread("t", kept)
    assert (thread.final, thread.ends_with_note) == (None, True)
    thread.append(ReplyEntry("Done."))
    assert thread.final == ReplyEntry("Done.")


async def test_the_model_is_informed_of_what_only_looks_like_a_call(tmp_path: Path) -> None:
    """Ask only once: what the model says then is what it means."""
    doubtful = says('Action: listFiles\nAction Input: {"path": "."}')
    replies = (doubtful, says("<listFiles></listFiles>"), doubtful, doubtful, says("Never."))
    async with builtin_harness(tmp_path, *replies, tool_calls="text") as it:
        taken = await it.take_one_turn()
        said = [one["content"][0]["text"] for one in it.bodies[-1]["messages"]]
    assert [name for name, _, _ in outputs(taken)] == ["listFiles"]
    assert [text.startswith("[Coterie] This part of your reply") for text in said] == [
        *(False, False, True, False, False, False, True)
    ]
    assert taken.text == doubtful["text"]
