"""Members: their instruction files, opening their CLI as them, and their identity after an edit."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.model.team import Member, Team
from coterie.model.workspace import OURS, UNWRITTEN
from tests.cli.command import Cli, InProcessCli
from tests.cli.test_ps import TURN, run_by_us
from tests.cli.test_terminal import Terminal

PROGRAM = f"""#!{sys.executable}
import json, os, sys
if "--version" in sys.argv:
    print("1.0.0")
else:
    print("OPENED", json.dumps({{"argv": sys.argv, "cwd": os.getcwd(), "env": dict(os.environ)}}))
"""
CLIS = ("claude", "codex", "gemini", "qwen", "opencode")


@pytest.fixture
def clis(bare: Cli) -> Cli:
    """Programs named like the real CLIs that print how they were started."""
    folder = bare.user.home / "bin"
    folder.mkdir()
    for name in (*CLIS, "mine", "mute"):
        (folder / name).write_text(PROGRAM)
        (folder / name).chmod(0o755)
    entries = {name: {"command": str(folder / name)} for name in CLIS}
    entries["qwen"] |= {"adapter": "acp", "baseArgs": ["--acp"]}  # pyright: ignore[reportArgumentType]
    entries["opencode"] |= {"adapter": "acp", "baseArgs": ["acp"]}  # pyright: ignore[reportArgumentType]
    flags = {"systemPromptFlag": "--role", "modelFlag": "-m", "completionDetection": "idleTimeout"}
    entries["mine"] = {"command": str(folder / "mine")}
    entries["mine"] |= {"baseArgs": ["--ask"], "capabilities": flags}  # pyright: ignore[reportArgumentType]
    entries["mute"] = {"command": str(folder / "mute")}
    registry = bare.user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": entries}))
    return bare


def write_team(cli: Cli, *members: dict[str, Any], **more: Any) -> Path:
    cli("team", "new", "crew", "--agents", "a=claude")
    path = cli.user.project / ".coterie" / "teams" / "crew" / "team.json"
    path.write_text(json.dumps({**more, "members": members}))
    return path


def opened(out: str) -> dict[str, Any]:
    return json.loads(out.partition("OPENED ")[2])


# -- instruction files ---------------------------------------------------------------------------

FILES = {"claude": "CLAUDE.md", "codex": "AGENTS.md", "gemini": "GEMINI.md", "qwen": "AGENTS.md"}


def test_new_teams_and_members_have_instruction_files(clis: Cli) -> None:
    clis("team", "new", "crew", "--agents", "claude,codex,gemini,qwen")
    team = clis.user.project / ".coterie" / "teams" / "crew"
    for agent, name in FILES.items():
        assert "../team_instruction.md" in (team / agent / name).read_text()
    assert (team / "team_instruction.md").read_text() == f"{UNWRITTEN}\n"
    assert (team / "_shared_assets").is_dir()
    clis("team", "add", "ada", "--agent", "mute", "--prompt", "You write.")
    clis("team", "add", "max")
    assert "You write." in (team / "ada" / "AGENTS.md").read_text()
    assert not (team / "max" / "AGENTS.md").exists(), "a human needs none"
    (team / "team_instruction.md").write_text(f"{UNWRITTEN}\nBe kind.\n")
    assert '"teamInstruction": "Be kind."' in clis("team", "show", "crew", "--full").out


def test_an_inline_team_instruction_is_a_file_too_and_is_sent_only_once(clis: Cli) -> None:
    path = write_team(clis, {"id": "a", "agent": "claude"}, teamInstruction="Be kind.")
    text = path.with_name("team_instruction.md")
    clis("team", "add", "b", "--agent", "codex")
    assert text.read_text() == f"{OURS}\n\nBe kind.\n"
    assert clis("team", "validate").code == 0
    path.write_text(path.read_text().replace("Be kind.", "Be quick."))
    clis("team", "open", "b")
    assert text.read_text() == f"{OURS}\n\nBe quick.\n"
    text.write_text("Mine.\n")
    assert "keep one of them" in clis("team", "validate").err


# -- opened by hand ------------------------------------------------------------------------------

ROLE = "You are Ada.\nYou write."
OPENED: dict[str, list[str]] = {
    "claude": [
        *(f"--append-system-prompt={ROLE}", "--model=best", "--setting-sources=user"),
        "--permission-mode=default",  # else it allows itself what it considers harmless
    ],
    "codex": ["-c", f"developer_instructions={json.dumps(ROLE)}"],
    "gemini": ["--model", "best"],
    "qwen": ["--model", "best"],
    "opencode": ["--model", "best"],
    "mine": ["--ask", "-m", "best", "--role", ROLE],
    "mute": [],
}
"""By agent: some of the arguments that its program is started with."""
MEMORY = {
    "codex": ".codex/config.toml",
    "gemini": ".gemini/GEMINI.md",
    "qwen": ".qwen/QWEN.md",
    "opencode": ".config/opencode/AGENTS.md",
}
"""By agent: the file in its home that holds the role, or what its arguments do not pass."""


@pytest.mark.parametrize("agent", OPENED)
def test_a_member_is_opened_as_itself_whichever_cli_it_has(clis: Cli, agent: str) -> None:
    elsewhere = clis.user.project / "elsewhere"
    elsewhere.mkdir()
    ada = {"id": "ada", "agent": agent, "prompt": ROLE, "workDir": str(elsewhere)}
    ada |= {} if agent == "mute" else {"model": "best"}  # it accepts no model
    write_team(clis, {**ada, "additionalArgs": ["--more"], "env": {"MINE": "1"}})
    ran = clis("team", "open", "ada")
    started = opened(ran.out)
    argv: list[str] = started["argv"]
    assert set(OPENED[agent]) <= set(argv), argv
    assert "--more" in argv
    assert not {"-p", "acp", "--acp", "exec", "app-server"} & set(argv), "a person speaks to it"
    home = clis.user.project / ".coterie" / "teams" / "crew" / "ada" / "home"
    assert (started["cwd"], started["env"]["HOME"]) == (str(elsewhere), str(home))
    assert started["env"]["MINE"] == "1"
    if agent in MEMORY:
        kept = (home / MEMORY[agent]).read_text()
        assert ("best" if agent == "codex" else ROLE) in kept
    assert ("starts without its role" in ran.err) == (agent == "mute")


def test_who_has_been_welcomed_by_claude_is_not_by_every_member(clis: Cli) -> None:
    write_team(clis, {"id": "ada", "agent": "claude"})
    state = clis.user.project / ".coterie/teams/crew/ada/home/.claude/.claude.json"
    clis("team", "open", "ada")
    assert not state.exists(), "the user has not been either"
    users = {"hasCompletedOnboarding": True, "theme": "light", "oauthAccount": {"x": 1}}
    (clis.user.home / ".claude.json").write_text(json.dumps(users))
    state.write_text('{"machineID": "m"}')
    clis("team", "open", "ada")
    kept = {"machineID": "m", "hasCompletedOnboarding": True, "theme": "light"}
    assert json.loads(state.read_text()) == kept


# -- identity ------------------------------------------------------------------------------------


def edited(path: Path, **changes: object) -> None:
    team = json.loads(path.read_text())
    team["members"][0] |= changes
    path.write_text(json.dumps(team))


ADA = {"id": "ada", "agent": "mine", "prompt": "You are Ada."}
WAYS = ("team update ada", "team keep ada", "team rename ada ada2")


@pytest.mark.parametrize("change", [{"prompt": "You are Eve."}, {"workingDir": "ada-elsewhere"}])
@pytest.mark.parametrize("verb", [("team", "open", "ada"), ("chat", "hello"), ("do", "it")])
def test_an_edited_member_is_asked_about_on_every_path(
    clis: Cli, change: dict[str, str], verb: tuple[str, ...]
) -> None:
    path = write_team(clis, ADA)
    assert clis("team", "update", "ada").code == 0
    edited(path, **change)
    ran = clis(*verb)
    assert ran.code == 2
    assert "changed since its folder was made" in ran.err
    for way in WAYS:
        assert way in ran.err


def test_each_answer_about_a_folder_that_was_changed(clis: Cli) -> None:
    path = write_team(clis, ADA)
    clis("team", "update", "ada")
    old = path.parent / "ada"
    (old / "home" / "memory").write_text("of old")
    edited(path, workingDir="ada-elsewhere")
    assert clis("team", "keep", "ada").code == 0
    assert opened(clis("team", "open", "ada").out)["env"]["HOME"] == str(old / "home")
    assert clis("team", "update", "ada").code == 0
    new = path.parent / "ada-elsewhere"
    assert opened(clis("team", "open", "ada").out)["env"]["HOME"] == str(new / "home")
    assert (new / "home" / "memory").read_text() == "of old"
    edited(path, workingDir="third")
    assert clis("team", "rename", "ada", "eve").code == 0
    home = opened(clis("team", "open", "eve").out)["env"]["HOME"]
    assert home == str(path.parent / "third" / "home")
    assert (new / "home" / "memory").exists(), "the old member's folder is kept"
    assert not (path.parent / "third" / "home" / "memory").exists()


@pytest.fixture
def with_memory(clis: Cli, in_process: InProcessCli) -> tuple[InProcessCli, Path]:
    """A member that remembers something, and the file of its team."""
    path = write_team(in_process, ADA)
    in_process("team", "update", "ada")
    (path.parent / "ada" / "home" / "memory").write_text("of old")
    return in_process, path


@pytest.mark.parametrize("place", ["empty", "one/two/three", "full", "../../elsewhere"])
def test_what_a_member_remembers_moves_wherever_its_folder_goes(
    with_memory: tuple[InProcessCli, Path], place: str
) -> None:
    cli, path = with_memory
    (path.parent / "empty").mkdir()
    (path.parent / "full").mkdir()
    (path.parent / "full" / "notes.txt").write_text("the user's own")
    edited(path, workingDir=place)
    for folder in (path.parent / place, path.parent / "ada"):  # there, and back again
        assert cli("team", "update", "ada").code == 0
        assert (folder / "home" / "memory").read_text() == "of old"
        assert (folder / "work").resolve() == cli.user.project, "its link is moved, too"
        path.write_text(json.dumps({"members": [ADA]}))
    assert (path.parent / "full" / "notes.txt").exists(), "of a folder that they named"


def test_a_move_that_was_cut_short_is_finished_by_the_same_answer(
    with_memory: tuple[InProcessCli, Path],
) -> None:
    cli, path = with_memory
    old, new = path.parent / "ada", path.parent / "new"
    edited(path, workingDir="new")
    new.mkdir()
    (old / "tmp").rename(new / "tmp")
    assert "workingDir changed since" in cli("chat", "hello").err
    assert cli("team", "update", "ada").code == 0
    assert (new / "home" / "memory").read_text() == "of old"
    assert sorted(one.name for one in old.iterdir()) == ["identity.json"]


def test_a_folder_that_somebody_works_from_is_not_moved(
    with_memory: tuple[InProcessCli, Path],
) -> None:
    cli, path = with_memory
    edited(path, workingDir="new")
    ada = Member(id="ada", name="ada", display_name="Ada", agent="mine")
    with run_by_us(cli, [TURN], Team(name="crew", members=(ada,))):
        refused = cli("team", "update", "ada")
    assert refused.code == 2
    assert "ada is working on k3f9 right now, in the folder that it would leave." in refused.err
    assert "coterie stop k3f9, then coterie team update ada -t crew" in refused.err
    assert (path.parent / "ada" / "home" / "memory").exists()
    assert cli("team", "update", "ada").code == 0


@pytest.fixture
def terminal(clis: Cli) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def make(*words: str) -> Terminal:
        opened.append(Terminal(clis, *words, columns=200))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def test_a_person_is_asked_with_all_three_answers(
    clis: Cli, terminal: Callable[..., Terminal]
) -> None:
    path = write_team(clis, ADA)
    clis("team", "update", "ada")
    for number, (key, prompt, name) in enumerate(
        [("k", "You are Ada.", "ada"), ("u", "You are 1.", "ada"), ("n", "You are 2.", "ada2")]
    ):
        edited(path, prompt=f"You are {number}.")
        window = terminal("team", "open", "ada")
        window.until("[u] update ada, memory kept  [n] new member ada2  [k] keep the old")
        window.type(f"{key}\r")
        window.until("OPENED")
        assert window.ended() == 0
        started = opened(clis("team", "open", name).out)
        assert started["argv"][started["argv"].index("--role") + 1] == prompt
    assert [one["id"] for one in json.loads(path.read_text())["members"]] == ["ada2"]


# -- the folder's own instruction files ------------------------------------------------------------


def test_a_no_to_the_folders_instructions_is_remembered(
    clis: Cli, terminal: Callable[..., Terminal]
) -> None:
    (clis.user.project / "CLAUDE.md").write_text("Use tabs.\n")
    write_team(clis, ADA)
    clis("team", "update", "ada")
    told = clis("team", "open", "ada").err
    assert f"To allow them: coterie team trust {clis.user.project}" in told
    window = terminal("team", "open", "ada")
    window.until("Pass them to the models")
    window.type("n\r")
    window.until("OPENED")
    assert "brings CLAUDE.md" not in clis("team", "open", "ada").err, "they said no"
    root = str(clis.user.project)
    assert clis("team", "trust", root, "--json").of("trust")[0]["trusted"] is True
    assert clis("team", "trust", root, "--no", "--json").of("trust")[0]["trusted"] is False
    assert clis("team", "trust", "team.json", "--no").code == 2


# -- env -----------------------------------------------------------------------------------------

WINS = {
    "claude": {"MCP_TOOL_TIMEOUT": "5", "DISABLE_TELEMETRY": "0", "ANTHROPIC_API_KEY": "mine"},
    "codex": {"OPENAI_API_KEY": "mine", "PATH": "/opt/mine/bin"},
    "gemini": {"GEMINI_CLI_NO_RELAUNCH": "false", "NO_COLOR": "0", "NO_BROWSER": "0"},
    "qwen": {"QWEN_CODE_NO_RELAUNCH": "false", "OPENAI_MODEL": "mine"},
    "opencode": {"OPENCODE_DISABLE_AUTOUPDATE": "0"},
    "mine": {"LANG": "de_DE.UTF-8", "TERM": "dumb"},
}
"""By agent: variables that Coterie or the user's environment also sets."""
REFUSED = (
    "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS CLAUDE_CONFIG_DIR CODEX_HOME COTERIE_MARK "
    "GEMINI_CLI_TRUST_WORKSPACE HOME OPENCODE_PERMISSION OPENCODE_DISABLE_PROJECT_CONFIG TMPDIR"
)


@pytest.mark.parametrize("agent", WINS)
def test_a_members_env_wins(clis: Cli, agent: str) -> None:
    write_team(clis, {"id": "ada", "agent": agent, "env": WINS[agent]})
    seen = opened(clis("team", "open", "ada").out)["env"]
    assert {name: seen[name] for name in WINS[agent]} == WINS[agent]


def test_what_a_members_env_may_not_say_is_refused_by_name(clis: Cli) -> None:
    names = REFUSED.split()
    write_team(clis, {"id": "ada", "agent": "mine", "env": dict.fromkeys(names, "x")})
    ran = clis("team", "validate")
    assert ran.code == 2
    for name in names:
        assert f"env.{name} is set by Coterie for each member; leave it out" in ran.err


# -- one login for all ---------------------------------------------------------------------------


def test_a_login_is_renewed_once_however_many_start_at_the_same_time(clis: Cli) -> None:
    program = clis.user.home / "bin" / "gemini"
    agent = Path(__file__).with_name("signing_agent.py")
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {agent} "$@"\n')
    login = clis.user.home / ".gemini" / "oauth_creds.json"
    login.parent.mkdir()
    login.write_text(json.dumps({"refresh_token": "one", "expiry_date": 1_000}))
    commands = [clis.start("do", "--agent", f"gemini:{name}", "hello") for name in ("a", "b")]
    for command in commands:
        with command:
            assert "signed in" in command.out.read(), command.err.read()
            assert command.wait(30) == 0
    assert (login.parent / "renewed").read_text() == "once\n"
