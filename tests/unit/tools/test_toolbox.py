"""A call is checked before it runs, and the error says how to correct it."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from coterie.model.tool_call import Action
from coterie.tools.edit_file import EditFile
from coterie.tools.read_tools import Grep, ListFiles, ReadFile
from coterie.tools.run_command import CommandRunner, RunCommand
from coterie.tools.sandbox import Sandbox
from coterie.tools.toolbox import PreparedCall, Toolbox, ToolInput, ToolOutcome, fields, schema
from coterie.tools.workspace_files import FileVersions
from tests.unit.tools.member_project import Log, MemberProject, member_project


def make_toolbox(shop: MemberProject, sandbox: Sandbox) -> Toolbox:
    root, seen = shop.root, FileVersions()
    commands = CommandRunner("ann", root.path, shop.workspace, Log(), sandbox)
    tools = [
        ReadFile(root, seen),
        EditFile(root, seen),
        ListFiles(root),
        Grep(root, ""),
        RunCommand(commands),
    ]
    return Toolbox(root.path, sandbox, tools)


@pytest.fixture
def shop(tmp_path: Path) -> MemberProject:
    return member_project(tmp_path)


@pytest.fixture
def box(shop: MemberProject) -> Toolbox:
    return make_toolbox(shop, Sandbox("bubblewrap"))


def test_what_the_model_receives(box: Toolbox) -> None:
    assert {spec.name: spec.parameters for spec in box.specs()} == snapshot(
        {
            "readFile": {
                "properties": {
                    "path": {
                        "description": "The path of the file, relative to the workspace.",
                        "type": "string",
                    },
                    "offset": {
                        "default": 1,
                        "description": "The first line to show, starting at 1.",
                        "minimum": 1,
                        "type": "integer",
                    },
                    "limit": {
                        "default": 2000,
                        "description": "The maximum number of lines to show.",
                        "minimum": 1,
                        "type": "integer",
                    },
                },
                "additionalProperties": False,
                "required": ["path"],
                "type": "object",
            },
            "editFile": {
                "properties": {
                    "path": {
                        "description": "The path of the file, relative to the workspace.",
                        "type": "string",
                    },
                    "oldStr": {
                        "description": "The text to replace, exactly as in the file; "
                        "empty to create a new file.",
                        "type": "string",
                    },
                    "newStr": {"description": "The new text.", "type": "string"},
                },
                "additionalProperties": False,
                "required": ["path", "oldStr", "newStr"],
                "type": "object",
            },
            "listFiles": {
                "properties": {
                    "path": {
                        "default": ".",
                        "description": "The path of the folder, relative to the workspace.",
                        "type": "string",
                    }
                },
                "additionalProperties": False,
                "type": "object",
            },
            "grep": {
                "properties": {
                    "pattern": {
                        "description": "A regular expression; it may match anywhere in a line.",
                        "type": "string",
                    },
                    "path": {
                        "default": ".",
                        "description": "The folder or file to search.",
                        "type": "string",
                    },
                    "glob": {
                        "default": "",
                        "description": "Search only files that match this glob, "
                        "such as *.py or src/**/*.ts.",
                        "type": "string",
                    },
                },
                "additionalProperties": False,
                "required": ["pattern"],
                "type": "object",
            },
            "runCommand": {
                "properties": {
                    "command": {
                        "description": "The command line for bash, run in the work folder.",
                        "minLength": 1,
                        "type": "string",
                    },
                    "timeoutSeconds": {
                        "default": 120,
                        "description": "The time limit in seconds.",
                        "exclusiveMinimum": 0,
                        "maximum": 600,
                        "type": "number",
                    },
                },
                "additionalProperties": False,
                "required": ["command"],
                "type": "object",
            },
        }
    )
    assert all(spec.description for spec in box.specs())


def test_what_may_be_left_out_is_no_choice_of_types() -> None:
    class Choosing(ToolInput):
        which_one: int | None = None

    assert schema(Choosing) == {
        "additionalProperties": False,
        "properties": {"whichOne": {"type": "integer"}},
        "type": "object",
    }
    assert fields(Choosing) == "whichOne (integer, optional)"


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        (
            "read_file",
            {"path": "f"},
            "There is no tool 'read_file'. Did you mean readFile? "
            "The tools are: readFile, editFile, listFiles, grep, runCommand.",
        ),
        (
            "teleport",
            {},
            "There is no tool 'teleport'. "
            "The tools are: readFile, editFile, listFiles, grep, runCommand.",
        ),
        (
            "editFile",
            {"path": 5, "old_str": "a", "newStr": "b\ud800"},
            "Wrong arguments for editFile:\n"
            "- path: should be a valid string\n"
            "- oldStr is missing\n"
            "- newStr: it contains a lone surrogate (half a character)\n"
            "- old_str is not an argument of this tool\n"
            "It takes path (string), oldStr (string), newStr (string).",
        ),
        (
            "readFile",
            {"path": "f", "offset": 0, "limit": "many"},
            "Wrong arguments for readFile:\n"
            "- offset: should be greater than or equal to 1\n"
            "- limit: should be a valid integer, unable to parse string as an integer\n"
            "It takes path (string), offset (integer, optional), limit (integer, optional).",
        ),
        (
            "runCommand",
            {"command": "", "timeoutSeconds": 601},
            "Wrong arguments for runCommand:\n"
            "- command: String should have at least 1 character\n"
            "- timeoutSeconds: should be less than or equal to 600\n"
            "It takes command (string), timeoutSeconds (number, optional).",
        ),
        (
            "grep",
            ["not", "an object"],
            "Wrong arguments for grep:\n"
            "- the arguments: should be a valid dictionary or instance of GrepInput\n"
            "It takes pattern (string), path (string, optional), glob (string, optional).",
        ),
    ],
)
def test_what_is_wrong_is_reported(box: Toolbox, name: str, arguments: object, why: str) -> None:
    assert box.check(name, arguments) == ToolOutcome.not_run(why)


@pytest.mark.parametrize(
    ("name", "arguments", "given", "action"),
    [
        (
            "readFile",
            {"path": "f", "offset": "3", "limit": None},
            {"path": "f", "offset": 3, "limit": 2000},
            {"effect": "read", "paths": ("f",), "confined": True},
        ),
        (
            "editFile",
            {"path": "f", "oldStr": "", "newStr": "x"},
            {"path": "f", "oldStr": "", "newStr": "x"},
            {"effect": "write", "paths": ("f",)},
        ),
        (
            "listFiles",
            {},
            {"path": "."},
            {"effect": "read", "paths": (".",), "confined": True, "names_only": True},
        ),
        (
            "grep",
            {"pattern": "x", "path": "src"},
            {"pattern": "x", "path": "src", "glob": ""},
            {"effect": "read", "paths": ("src",), "confined": True},
        ),
        (
            "runCommand",
            {"command": "rm -rf x"},
            {"command": "rm -rf x", "timeoutSeconds": 120.0},
            {"effect": "run", "command": "rm -rf x"},
        ),
    ],
)
def test_a_good_call_is_what_the_rules_need_to_know(
    box: Toolbox, name: str, arguments: object, given: object, action: dict[str, object]
) -> None:
    prepared = box.check(name, arguments)
    assert isinstance(prepared, PreparedCall)
    tool = prepared.tool
    expected = Action(tool=name, cwd=str(box.root), **action)  # type: ignore[arg-type]
    assert (prepared.given, prepared.action, prepared.must_ask) == (given, expected, False)
    assert tool.name == name
    assert tool.read_only == (name in {"readFile", "listFiles", "grep"})


def test_where_nothing_holds_a_command_a_person_must_be_asked(shop: MemberProject) -> None:
    box = make_toolbox(shop, Sandbox("none"))
    asked = {
        name: prepared.must_ask
        for name, arguments in {"runCommand": {"command": "ls"}, "listFiles": {}}.items()
        if isinstance(prepared := box.check(name, arguments), PreparedCall)
    }
    assert asked == {"runCommand": True, "listFiles": False}


async def test_what_the_system_refuses_is_an_outcome(shop: MemberProject, box: Toolbox) -> None:
    prepared = box.check("readFile", {"path": "x" * 300})
    assert isinstance(prepared, PreparedCall)
    assert await box.run(prepared) == ToolOutcome.refused(f"{'x' * 300}: File name too long")
