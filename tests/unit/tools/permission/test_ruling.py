"""How rules and modes take precedence, and the reason given for each ruling."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.model.team import Mode, Permissions
from coterie.model.tool_call import Action, Effect, Ruling
from coterie.tools.permission import decide, decide_at_once
from coterie.tools.permission.nested_commands import sed_runs_commands
from tests.unit.tools.permission.conftest import make_repository
from tests.unit.tools.permission.lines import LINES


def ran(command: str, work: Path, *, sandbox: bool = False) -> Action:
    return Action("run", "Bash", str(work), command=command, read_only_sandbox=sandbox)


@pytest.mark.parametrize(
    ("command", "permissions", "ruling"),
    [
        ("rm x", Permissions(deny=("run(rm *)",)), Ruling("deny", "deny run(rm *)")),
        ("rm x", Permissions(deny=("rm",)), Ruling("deny", "deny rm")),
        ("npm test", Permissions(allow=("npm *",)), Ruling("allow", "allow npm *")),
        ("npm test", Permissions(), Ruling("ask", "mode ask")),
        ("npm test", Permissions(mode="read"), Ruling("deny", "mode read")),
        ("npm test", Permissions(mode="full"), Ruling("allow", "mode full")),
        ("ls", Permissions(), Ruling("allow", "mode ask")),
        (
            "ls && npm test && make",
            Permissions(allow=("make", "npm *")),
            Ruling("allow", "allow npm *, allow make, mode ask"),
        ),
        ("npm test && make", Permissions(allow=("make",)), Ruling("ask", "mode ask")),
        (
            "npm test",
            Permissions(mode="full", deny=("Bash(rm)",)),
            Ruling("ask", "deny Bash(rm) (not a valid rule)"),
        ),
        ("npm test", Permissions(allow=("Bash(npm test)",)), Ruling("ask", "mode ask")),
    ],
)
def test_the_words_of_the_team_file(
    command: str, permissions: Permissions, ruling: Ruling, work: Path
) -> None:
    assert decide(ran(command, work), permissions, None, work) == ruling


@pytest.mark.parametrize("mode", ["read", "ask", "accept-edits", "full"])
@pytest.mark.parametrize("path", ["a.py", ".", "src/b/c.py", "not/there", "./x/../a.py", ".hidden"])
def test_what_is_decided_at_once_is_what_a_look_would_say(
    work: Path, mode: Mode, path: str
) -> None:
    action = Action("read", "readFile", str(work), paths=(path,), confined=True)
    permissions = Permissions(mode=mode)
    assert decide_at_once(action, permissions, None) == decide(action, permissions, None, work)


@pytest.mark.parametrize(
    ("action", "mine", "team"),
    [
        (Action("read", "readFile", ".", paths=("a.py",)), Permissions(), None),
        (Action("write", "editFile", ".", paths=("a.py",), confined=True), Permissions(), None),
        (Action("run", "x", ".", command="ls", confined=True), Permissions(), None),
        (Action("read", "r", ".", paths=("a/.Coterie/x",), confined=True), Permissions(), None),
        (Action("read", "r", ".", confined=True), Permissions(deny=("read(.env)",)), None),
        (Action("read", "r", ".", confined=True), Permissions(), Permissions(deny=("tool(r)",))),
    ],
)
def test_all_else_is_looked_at(action: Action, mine: Permissions, team: Permissions | None) -> None:
    assert decide_at_once(action, mine, team) is None


def test_rules_of_the_team_and_of_the_task_count_too(work: Path) -> None:
    action, mine = ran("npm test", work), Permissions()
    team = Permissions(mode="full", allow=("npm test",))
    assert decide(action, mine, team, work) == Ruling("allow", "allow npm test")
    assert decide(action, mine, None, work, ["npm *"]) == Ruling("allow", "granted npm *")
    denying = Permissions(deny=("npm",))
    assert decide(action, mine, denying, work, ["npm *"]) == Ruling("deny", "deny npm")
    # The member's mode applies: the team's is copied to its members when the file is read.
    assert decide(action, mine, Permissions(mode="full"), work) == Ruling("ask", "mode ask")


@pytest.mark.parametrize("script", [";s" * 8_000, "s1" * 5_000 + "1" * 6_000])
def test_a_script_that_almost_runs_commands_is_read_at_once(script: str) -> None:
    assert not sed_runs_commands(script)  # far too long if the time grew with the cube


_SED = re.compile(
    r"(^|[;{}/$0-9\s!])e(\s|$)|(^|[;{}/$0-9\s!])s(.)((?!\4).)*\4.*\4[gpiImM0-9]*e", re.DOTALL
)
"""What makes a sed script run commands; for long ones it takes too long."""


@settings(max_examples=2_000)
@given(script=st.text("se1gp/,; a", max_size=16))
def test_scripts_that_run_commands(script: str) -> None:
    assert sed_runs_commands(script) == bool(_SED.search(script))


def test_scripts_that_are_too_long_together(work: Path) -> None:
    denying = Permissions(mode="full", deny=("rm",))
    for scripts, verdict in ((["s/a/b/"] * 9, "allow"), (["s/a/b/"] * 900, "deny")):
        line = f"sed {' '.join(scripts)}; echo rm"
        assert decide(ran(line, work), denying, None, work).verdict == verdict


def test_the_work_folder_may_be_reached_through_a_link(work: Path) -> None:
    link = work.parent / "by-link"
    action = Action("write", "Edit", str(link), paths=("docs/a.md", str(work / "docs/b.md")))
    allowed = Permissions(allow=("write(docs/**)",))
    assert decide(action, allowed, None, link).verdict == "allow"
    assert decide(ran("cd .. && npm test", link), Permissions(allow=("npm *",)), None, link) == (
        Ruling("ask", "mode ask")
    )


def test_git_in_a_folder_that_passes_for_a_repository(tmp_path: Path) -> None:
    """Ordinary files can form a repository whose settings name programs that git would run."""
    (tmp_path / ".git").mkdir()
    fake = tmp_path / "sub"
    for name in ("objects", "refs"):
        (fake / name).mkdir(parents=True)
    (fake / "HEAD").write_text("ref: refs/heads/main\n")
    action = ran("git status", tmp_path, sandbox=True)
    assert decide(action, Permissions(), None, tmp_path).verdict == "allow_read_only"
    for command, cwd in (("git status", fake), ("cd sub && git status", tmp_path)):
        action = ran(command, cwd, sandbox=True)
        assert decide(action, Permissions(), None, tmp_path).verdict == "ask"


def test_git_of_a_repository_above_the_work_folder(tmp_path: Path) -> None:
    """It is not part of the work folder, and a sandbox would not show it."""
    root = tmp_path / "root"
    make_repository(root / "sub")
    action = ran("git status", root, sandbox=True)
    assert decide(action, Permissions(), None, root).verdict == "allow_read_only"  # none there yet
    make_repository(tmp_path)
    assert decide(action, Permissions(), None, root).verdict == "ask"
    (root / ".git").mkdir()  # git passes over it
    assert decide(action, Permissions(), None, root).verdict == "ask"
    below = ran("cd sub && git status", root, sandbox=True)
    assert decide(below, Permissions(), None, root).verdict == "allow_read_only"


def test_git_of_a_repository_below_a_file_that_is_denied(tmp_path: Path) -> None:
    """Git shows what is in the repository that it finds, and nothing above it."""
    for name in ("own/deep", "none/.git"):
        (tmp_path / name).mkdir(parents=True)
    make_repository(tmp_path)
    make_repository(tmp_path / "own")
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / ".git").write_text("gitdir: /elsewhere\n")
    denying = Permissions(deny=("read(secret.txt)",))
    for folder, verdict in (
        ("own", "allow_read_only"),
        ("own/deep", "allow_read_only"),
        ("linked", "allow_read_only"),
        ("none", "ask"),
    ):
        action = ran("git log -p", tmp_path / folder, sandbox=True)
        assert decide(action, denying, None, tmp_path).verdict == verdict


def test_the_homes_of_members_are_not_looked_through(tmp_path: Path) -> None:
    for project in (tmp_path, tmp_path / "packages" / "shop"):
        (project / ".coterie" / "teams").mkdir(parents=True)
    for command, verdict in (
        ("grep -r token packages", "ask"),
        ("grep -r token packages/shop/.coterie/..", "ask"),
        ("diff packages packages/shop", "ask"),
        ("cat .coterie/teams/x", "ask"),
        ("grep -r token .", "ask"),
        ("rg -uu token", "ask"),
        ("rg -g '.coterie/**' token", "ask"),
        ("rg -ng'*' token packages", "ask"),
        ("rg token", "allow_read_only"),
        ("git grep token", "allow_read_only"),
        ("git grep --no-index token", "ask"),
        ("ls -a", "allow_read_only"),
    ):
        action = ran(command, tmp_path, sandbox=True)
        assert decide(action, Permissions(), None, tmp_path).verdict == verdict


@pytest.mark.parametrize(("names_only", "confined"), [(False, False), (True, False), (False, True)])
def test_a_tool_that_heeds_ignore_files_may_search_a_repository(
    tmp_path: Path, names_only: bool, confined: bool
) -> None:
    (tmp_path / ".coterie" / "members").mkdir(parents=True)
    action = Action(
        "read", "Grep", str(tmp_path), paths=(".",), names_only=names_only, confined=confined
    )
    unhindered = names_only or confined
    before = decide(action, Permissions(), None, tmp_path).verdict
    make_repository(tmp_path)
    after = decide(action, Permissions(), None, tmp_path).verdict
    assert (before, after) == ("allow" if unhindered else "ask", "allow")


def test_nothing_named_is_nothing_allowed(work: Path) -> None:
    effects: tuple[Effect, ...] = ("write", "run", "fetch", "other")
    for effect in effects:
        action = Action(effect, "Tool", str(work))
        assert decide(action, Permissions(mode="accept-edits"), None, work).verdict == "ask"


# -- what holds for every rule and every line --------------------------------------------------

RULES = st.sampled_from(
    [
        *("*", "okay *", "evil", "npm *", "half one", "rm -rf *", "git push"),
        *("write(**)", "write(/**)", "write(src/**)", "read(**)", "read(/**)", "read(.env)"),
        *("fetch(*)", "tool(*)", "tool(Bash)"),
    ]
)
SOME = st.lists(RULES, max_size=4).map(tuple)
MODES: st.SearchStrategy[Mode] = st.sampled_from(["read", "ask", "accept-edits", "full"])


@given(line=LINES, allow=SOME, deny=SOME, more=SOME, mode=MODES)
def test_what_is_denied_by_a_rule_stays_denied(
    line: str,
    allow: tuple[str, ...],
    deny: tuple[str, ...],
    more: tuple[str, ...],
    mode: Mode,
    work: Path,
) -> None:
    action = ran(line, work)
    before = decide(action, Permissions(mode=mode, allow=allow, deny=deny), None, work)
    wider = Permissions(mode="full", allow=(*allow, *more), deny=(*more, *deny))
    after = decide(action, wider, Permissions(mode="full", allow=("*",)), work, granted=more)
    if before.because.startswith("deny "):
        assert after.verdict == "deny"


@given(line=LINES, allow=SOME, rule=RULES, mode=MODES)
def test_one_more_rule_that_allows_never_allows_less(
    line: str, allow: tuple[str, ...], rule: str, mode: Mode, work: Path
) -> None:
    heaviness = ["allow", "ask", "deny"]
    action = ran(line, work)
    before = decide(action, Permissions(mode=mode, allow=allow), None, work)
    after = decide(action, Permissions(mode=mode, allow=(*allow, rule)), None, work)
    assert heaviness.index(after.verdict) <= heaviness.index(before.verdict)


@given(text=st.text(max_size=40), mode=MODES)
def test_any_text_gets_a_ruling(text: str, mode: Mode, work: Path) -> None:
    permissions = Permissions(mode=mode, allow=(text, "*"), deny=(text, "read(.env)", "rm"))
    for action in (
        ran(text, work),
        Action("write", text, str(work), paths=(text,)),
        Action("read", text, text, paths=(text, f"src/{text}")),
        Action("fetch", text, str(work), target=text),
    ):
        assert decide(action, permissions, None, work).verdict in ("allow", "ask", "deny")
