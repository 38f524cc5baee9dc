"""The homes of Gemini and other ACP agents: what is written, and how each one signs in."""

from __future__ import annotations

import json
import stat
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from coterie.agents.acp import adapter as acp
from coterie.agents.acp.adapter import AcpAdapter
from coterie.agents.gemini import home as gemini
from coterie.agents.opencode import home as opencode
from coterie.agents.opencode.home import OpencodeAdapter
from coterie.agents.qwen import home as qwen
from coterie.agents.qwen.home import QwenAdapter
from coterie.app.run import Adapters
from coterie.errors import UsageError
from coterie.model.agent import AgentDefinition
from coterie.model.team import Member, Mode, Permissions
from coterie.model.workspace import ToolCommands, Workspace
from coterie.ports import ChildLog
from coterie.workspace.folder import open_workspace
from tests.conftest import IsolatedUser

ANN = Member(
    id="ann", name="ann", display_name="Ann", agent="gemini", system_instruction="Ask @rex first."
)
URL = "http://127.0.0.1:4711"


def workspace(user: IsolatedUser, env: dict[str, str] | None = None, **more: Any) -> Workspace:
    made = open_workspace(user.project, "pair", ANN, {"PATH": "/usr/bin:/bin", **(env or {})})
    return replace(made, **more)


def ann(mode: Mode) -> Member:
    return ANN.model_copy(update={"permissions": Permissions(mode=mode)})


def settings(place: Workspace) -> dict[str, Any]:
    return json.loads((place.home / ".gemini" / "settings.json").read_text())


def sign_in(user: IsolatedUser, env: dict[str, str] | None = None, **more: Any) -> str:
    place = workspace(user, env, **more)
    gemini.prepare(ANN, place)
    return settings(place)["security"]["auth"]["selectedType"]


# -- Gemini ------------------------------------------------------------------------------------


def test_a_home(user: IsolatedUser) -> None:
    place = workspace(user, team_instruction="Be kind.\n")
    home = gemini.prepare(ANN, place)
    assert (home.cwd, home.args) == (user.project.resolve(), ())
    own = place.home / ".gemini"
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    assert stat.S_IMODE((own / "settings.json").stat().st_mode) == 0o600
    # Verbatim, including the word that begins with @: its special meaning is disabled.
    assert (own / "GEMINI.md").read_text() == "Ask @rex first.\n\nBe kind.\n"
    assert settings(place)["context"]["importFormat"] == "flat"
    assert home.env["GEMINI_CLI_TRUST_WORKSPACE"] == "false"
    assert home.env["GEMINI_CLI_NO_RELAUNCH"] == "true"
    assert home.env["HOME"] == str(place.home)


def test_an_edited_team_reaches_a_home_that_is_there(user: IsolatedUser) -> None:
    gemini.prepare(ANN, workspace(user, team_instruction="Be kind."))
    place = workspace(user, team_instruction="")
    gemini.prepare(ANN.model_copy(update={"system_instruction": "Ask nobody."}), place)
    assert (place.home / ".gemini" / "GEMINI.md").read_text() == "Ask nobody.\n"


def test_a_link_in_the_place_of_a_file_is_not_followed(user: IsolatedUser) -> None:
    place = workspace(user)
    theirs = user.home / "settings.json"
    theirs.write_text("{}")
    (place.home / ".gemini").mkdir()
    (place.home / ".gemini" / "settings.json").symlink_to(theirs)
    gemini.prepare(ANN, place)
    assert theirs.read_text() == "{}"
    (place.home / ".gemini" / "policies" / "coterie.toml").unlink()
    (place.home / ".gemini" / "policies").rmdir()
    (place.home / ".gemini" / "policies").symlink_to(user.home)
    with pytest.raises(UsageError, match="is not a folder"):
        gemini.prepare(ANN, place)


def rules(place: Workspace) -> list[tuple[str, object, bool | None]]:
    """Return decision, tools and "interactive only" of each rule, by descending priority."""
    written = (place.home / ".gemini" / "policies" / "coterie.toml").read_text()
    found = tomllib.loads(written).get("rule", [])
    found.sort(key=lambda each: -each["priority"])
    assert [each for each in found if each["priority"] == 950] == []  # Gemini ignores this priority
    return [(each["decision"], each["toolName"], each.get("interactive")) for each in found]


WRITING = ["write_file", "replace", "run_shell_command"]


@pytest.mark.parametrize("mode", ["read", "ask", "accept-edits", "full"])
def test_rules(user: IsolatedUser, mode: Mode) -> None:
    place = replace(workspace(user), tools=ToolCommands("list it", "/call it"))
    gemini.prepare(ann(mode), place)
    harmless, *others = rules(place)
    assert harmless[0] == "allow"
    assert set(harmless[1]).isdisjoint({*WRITING, "read_file", "web_fetch"})  # type: ignore[call-overload]
    asked = [("ask_user", "run_shell_command", True), ("ask_user", "*", True)]
    assert others == ([("deny", WRITING, None)] if mode == "read" else []) + asked
    tools = json.loads((place.home / ".gemini" / "settings.json").read_text())["tools"]
    assert (tools["discoveryCommand"], tools["callCommand"]) == ("list it", "/call it")


@pytest.mark.parametrize("mode", ["read", "full"])
def test_one_who_is_started_by_hand_asks_the_person(user: IsolatedUser, mode: Mode) -> None:
    place = workspace(user)
    gemini.prepare(ann(mode), place)
    assert rules(place) == ([("deny", WRITING, None)] if mode == "read" else [])
    settings = json.loads((place.home / ".gemini" / "settings.json").read_text())
    assert settings["tools"] == {"shell": {"enableInteractiveShell": False}}


def test_a_rehearsal_has_nobodys_key(user: IsolatedUser) -> None:
    (user.home / ".gemini").mkdir()
    (user.home / ".gemini" / "oauth_creds.json").write_text("{}")
    real = {"GOOGLE_API_KEY": "real", "GOOGLE_GENAI_USE_VERTEXAI": "true", "GEMINI_API_KEY": "real"}
    assert sign_in(user, user_home=user.home) == "oauth-personal"
    place = workspace(user, real, rehearsal=URL, user_home=user.home)
    home = gemini.prepare(ANN, place)
    assert settings(place)["security"]["auth"]["selectedType"] == "gemini-api-key"
    assert home.args == ("--model", "gemini-2.5-pro")
    keys = {name: value for name, value in home.env.items() if "G" in name and "_API" in name}
    assert keys == {"GEMINI_API_KEY": "rehearsal"}
    assert home.env["GOOGLE_GEMINI_BASE_URL"] == URL
    assert "GOOGLE_GENAI_USE_VERTEXAI" not in home.env
    # The link from an earlier, real run is gone.
    assert not (place.home / ".gemini" / "oauth_creds.json").is_symlink()


def test_who_signs_in_with_what(user: IsolatedUser) -> None:
    own = user.home / ".gemini"
    own.mkdir()

    def chose(what: object) -> None:
        (own / "settings.json").write_text(json.dumps(what))

    user_home: dict[str, Any] = {"user_home": user.home}
    assert sign_in(user) == "gemini-api-key"
    assert sign_in(user, {"GOOGLE_GENAI_USE_VERTEXAI": "true"}, **user_home) == "vertex-ai"
    chose({"security": {"auth": {"selectedType": "oauth-personal"}}})
    # Without a login Gemini would prompt for one on the protocol's stream.
    assert sign_in(user, **user_home) == "gemini-api-key"
    (own / "oauth_creds.json").write_text("{}")
    assert sign_in(user, {"GEMINI_API_KEY": "k"}, **user_home) == "oauth-personal"
    chose({"security": {"auth": {"selectedType": "vertex-ai"}}})
    assert sign_in(user, **user_home) == "vertex-ai"
    for odd in ({"security": []}, {"security": {"auth": {"selectedType": 5}}}, []):
        chose(odd)
        assert sign_in(user, **user_home) == "oauth-personal"
        assert sign_in(user, {"GEMINI_API_KEY": "k"}, **user_home) == "gemini-api-key"
    (own / "settings.json").write_text("{ not JSON")
    assert sign_in(user, **user_home) == "oauth-personal"


def test_logins_are_linked(user: IsolatedUser) -> None:
    own = user.home / ".gemini"
    own.mkdir()
    (own / "oauth_creds.json").write_text("secret")
    (own / ".env").write_text("GEMINI_API_KEY=secret")
    place = workspace(user, user_home=user.home)
    gemini.prepare(ANN, place)
    assert (place.home / ".gemini" / "oauth_creds.json").readlink() == own / "oauth_creds.json"
    assert (place.home / ".env").readlink() == own / ".env"
    assert not (place.home / ".gemini" / "gemini-credentials.json").is_symlink()
    copies = [path for path in place.folder.rglob("*") if path.is_file() and not path.is_symlink()]
    assert [path for path in copies if "secret" in path.read_text()] == []
    (own / "oauth_creds.json").unlink()  # signed out
    gemini.prepare(ANN, place)
    assert not (place.home / ".gemini" / "oauth_creds.json").is_symlink()


# -- the project's own instructions ------------------------------------------------------------


def test_the_materials_instructions_where_it_is_trusted(user: IsolatedUser, tmp_path: Path) -> None:
    (user.project / ".git").mkdir()
    below = user.project / "shop"
    below.mkdir()
    (user.project.parent / "GEMINI.md").write_text("Not of this repository.")
    (user.project / "GEMINI.md").write_text("Use tabs.\n")
    (below / "GEMINI.md").write_text("Use spaces.\n")
    member = ANN.model_copy(update={"execution_dir": str(below)})
    made = open_workspace(user.project, "pair", member, {})
    memory = made.home / ".gemini" / "GEMINI.md"
    gemini.prepare(member, made)
    assert memory.read_text() == "Ask @rex first.\n"
    gemini.prepare(member, replace(made, trusted=True))
    assert memory.read_text() == (
        "Ask @rex first.\n\nThe project's own instructions:\n\nUse tabs.\n\nUse spaces.\n"
    )
    # A link may only lead to another file in the repository.
    (below / "GEMINI.md").unlink()
    (tmp_path / "secret").write_text("secret")
    (below / "GEMINI.md").symlink_to(tmp_path / "secret")
    gemini.prepare(member, replace(made, trusted=True))
    assert memory.read_text().endswith("\n\nUse tabs.\n")


# -- other ACP agents --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "command", "adapter"),
    [
        ("qwen", "/opt/bin/qwen", QwenAdapter),
        ("my-qwen", "qwen", QwenAdapter),
        ("opencode", "/opt/bin/opencode", OpencodeAdapter),
        ("acme", "/opt/bin/acme", AcpAdapter),
    ],
)
def test_whose_home_it_is(name: str, command: str, adapter: type[AcpAdapter]) -> None:
    agent = AgentDefinition(name=name, command=command, adapter="acp")
    member = Member(id="ann", name="ann", display_name="Ann", agent=name)

    async def recall(_: str) -> list[str]:
        return []

    adapters = Adapters({name: agent}, "auto", 1.0, recall)
    made = adapters.of(member, cast("ChildLog", None))
    assert type(getattr(made, "inner", made)) is adapter  # a wrapper may maintain the login


def test_an_agent_that_nobody_knows(user: IsolatedUser) -> None:
    (user.project / "AGENTS.md").write_text("Use tabs.")
    env = {"ACME_KEY": "k", "OPENAI_API_KEY": "real"}
    place = workspace(user, env, team_instruction="Be kind.", trusted=True)
    home = acp.prepare(ANN, place)
    assert home == acp.AcpHome(
        cwd=user.project.resolve(),
        env=place.env,
        introduction="[SYSTEM]\nAsk @rex first.\n\nBe kind.\n\n",
    )
    assert list(place.home.iterdir()) == []
    rehearsing = acp.prepare(ANN, replace(place, rehearsal=URL)).env
    keys = {name: value for name, value in rehearsing.items() if name.endswith("_API_KEY")}
    assert set(keys.values()) == {"rehearsal"}
    assert (rehearsing["ACME_KEY"], rehearsing["OPENAI_BASE_URL"]) == ("k", f"{URL}/v1")


def test_qwen(user: IsolatedUser) -> None:
    (user.project / "QWEN.md").write_text("Use tabs.")
    place = workspace(user, trusted=True)
    home = acp.prepare(ann("read"), place, qwen.set_up)
    own = place.home / ".qwen"
    trust = json.loads((own / "trustedFolders.json").read_text())
    assert trust == {str(user.project.resolve()): "DO_NOT_TRUST"}
    told = json.loads((own / "settings.json").read_text())
    assert "run_shell_command" in told["tools"]["exclude"]
    assert (home.args, home.reads_only) == ((), True)
    assert home.introduction.endswith("The project's own instructions:\n\nUse tabs.\n\n")
    home = acp.prepare(ANN, replace(place, rehearsal=URL), qwen.set_up)
    assert (home.args, home.reads_only) == (("--auth-type", "openai"), False)
    assert home.env["OPENAI_MODEL"] == "rehearsal"
    assert (told["permissions"], home.tools_as_commands) == ({"ask": []}, True)
    acp.prepare(ANN, replace(place, tools=ToolCommands("list it", "/call it")), qwen.set_up)
    told = json.loads((own / "settings.json").read_text())
    assert set(told["permissions"]["ask"]) >= {"Bash", "Edit", "Monitor", "Read", "Write"}
    assert told["tools"]["discoveryCommand"] == "list it"


def test_opencode(user: IsolatedUser) -> None:
    login = user.home / ".local" / "share" / "opencode" / "auth.json"
    login.parent.mkdir(parents=True)
    login.write_text("{}")
    place = workspace(user, user_home=user.home)
    home = acp.prepare(ANN, place, opencode.set_up)
    assert (home.problem, home.reads_only) == (None, False)
    assert (place.home / ".local/share/opencode/auth.json").readlink() == login
    assert json.loads(home.env["OPENCODE_PERMISSION"])["*"] == "ask"
    home = acp.prepare(ann("read"), replace(place, rehearsal=URL), opencode.set_up)
    assert json.loads(home.env["OPENCODE_PERMISSION"])["*"] == "deny"
    assert not (place.home / ".local/share/opencode/auth.json").is_symlink()
    told = json.loads((place.home / ".config" / "opencode" / "opencode.json").read_text())
    assert told["provider"]["rehearsal"]["options"]["baseURL"] == f"{URL}/v1"
    assert not home.tools_as_commands
    by_hand = json.loads(home.env["OPENCODE_PERMISSION"])
    served = replace(place, tools=ToolCommands("list it", "/call it"))
    home = acp.prepare(ann("read"), served, opencode.set_up)
    ours = json.loads(home.env["OPENCODE_PERMISSION"])
    assert (by_hand["read"], ours["read"], ours["*"]) == ("allow", "ask", "deny")
    assert (ours["external_directory"], ours["coterie_*"]) == ("allow", "allow")


@pytest.mark.parametrize("name", ["opencode.json", "opencode.jsonc", ".opencode"])
def test_opencode_is_not_started_where_it_would_run_plug_ins(user: IsolatedUser, name: str) -> None:
    below = user.project / "shop"
    below.mkdir()
    (user.project / name).mkdir()
    member = ANN.model_copy(update={"execution_dir": str(below)})
    made = open_workspace(user.project, "pair", member, {})
    problem = acp.prepare(member, made, opencode.set_up).problem
    assert problem is not None
    assert str(user.project / name) in problem
    # Only folders inside the repository count, and the user's own installation does not.
    (below / ".git").mkdir()
    assert acp.prepare(member, made, opencode.set_up).problem is None
    (below / ".git").rmdir()
    own = replace(made, user_home=user.project.resolve())
    assert acp.prepare(member, own, opencode.set_up).problem is None
