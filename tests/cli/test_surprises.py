"""What used to surprise users: long lists, `last`, unused arguments, why a chat ended."""

from __future__ import annotations

import json
from collections.abc import Sequence

import anyio
import pytest

from coterie.config.project import Project, make_project
from coterie.model.journal import AppendAudit, AppendEvent, CloseTurn, Fence, OpenTurn
from coterie.model.task import TaskCompleted, TaskCreated
from coterie.model.tool_call import AuditEntry
from coterie.stores.sqlite import SqliteStorage
from tests.cli.command import Cli, InProcessCli
from tests.cli.recorded import TEAM, at, record

MANY = 45


async def _fill(cli: Cli, children: Sequence[str]) -> None:
    """Record many tasks with one turn and one call each; the last has child tasks."""
    project = Project(cli.user.project)
    make_project(project)
    storage = await SqliteStorage.open(project.database)
    names = [f"t{number:03}" for number in range(MANY)]
    for name in (*names, *children):
        created = TaskCreated(
            task_id=name,
            at=at(0),
            session_id=name,
            parent_id=names[-1] if name in children else None,
            workflow="chat",
            workflow_version=1,
            goal=f"goal of {name}",
            author="you",
            team=TEAM,
        )
        fence = await storage.create(created, "gone", None)
        assert fence is not None
        given = {"path": name}
        call = AuditEntry("ToolCallRequested", f"c-{name}", "Read", "ada", name, at(1), given)
        await storage.commit(
            fence,
            OpenTurn(name, "turn/1", 1, "ada", 1, at(1)),
            CloseTurn(name, "turn/1", 1, at(2), "completed", None, None, None),
            AppendAudit(call),
        )
        await storage.leases.park(Fence(name, fence.token))
    await storage.close()


@pytest.fixture
def full(in_process: InProcessCli) -> InProcessCli:
    anyio.run(_fill, in_process, [])
    return in_process


@pytest.mark.parametrize("verb", ["tasks", "cost", "audit"])
def test_a_long_list_shows_the_newest_twenty_and_says_how_to_see_the_rest(
    full: InProcessCli, verb: str
) -> None:
    def rows(*more: str) -> int:
        lines = full(verb, *more).out.splitlines()
        return sum("t0" in line for line in lines if "Resume: " not in line)

    shown = full(verb).out
    assert rows() == 20
    assert f"{MANY - 20} older ones: use --all" in shown
    assert "t044" in shown
    assert "t001" not in shown
    assert rows("--all") == MANY
    assert rows("--limit", "3") == 3
    assert full(verb, "--limit", "3", "--all").code == 2
    kind = {"tasks": "task"}.get(verb, verb)
    assert len(full(verb, "--json").of(kind)) == MANY  # a program gets all of them
    assert len(full(verb, "--json", "--limit", "2").of(kind)) == 2


def test_the_sum_is_of_all(full: InProcessCli) -> None:
    line = next(one for one in full("cost").out.splitlines() if one.startswith("all"))
    assert line.split()[1] == str(MANY)


def test_the_last_task_is_the_last_that_you_started(in_process: InProcessCli) -> None:
    """Not a child task that a member or a ticket started after it."""
    anyio.run(_fill, in_process, ["t044.1", "t044.2"])
    assert in_process("show", "last").out.split()[0] == "t044"


def test_of_many_tasks_the_newest_that_can_be_resumed_is_named(full: InProcessCli) -> None:
    ran = full("resume")
    assert (ran.code, ran.err.count("goal of")) == (2, 20)
    assert "older ones: coterie tasks --all" in ran.err


# -- unused arguments --------------------------------------------------------------------------


def test_arguments_that_an_adapter_does_not_pass_on_are_reported(bare: Cli) -> None:
    registry = bare.user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    entries = {
        "codex": ["exec", "--json", "--sandbox", "read-only", "--search"],
        "gemini": ["--output-format", "stream-json"],  # as a scan writes it, but by hand
        "mine": ["exec", "--json"],  # no adapter decides how this one is started
    }
    agents = {
        name: {"command": "/bin/true", "baseArgs": words, "capabilities": {}}
        for name, words in entries.items()
    }
    agents["mine"]["capabilities"] = {"completionDetection": "idleTimeout"}
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": agents}))
    bare.team("codex")
    path = bare.user.project / ".coterie/teams/pair/team.json"
    member = {"id": "ada", "agent": "codex", "additionalArgs": ["--json", "--search"]}
    path.write_text(json.dumps({"members": [member]}))
    told = {
        "note: codex: exec --json --sandbox read-only in baseArgs is ignored; "
        "the codex adapter decides how the agent is started.",
        "note: gemini: --output-format stream-json in baseArgs is ignored; "
        "the gemini adapter decides how the agent is started.",
    }
    of_member = (
        "note: ada: --json in additionalArgs is ignored; "
        "the codex adapter decides how the agent is started."
    )
    assert set(bare("agents", "list").err.splitlines()) == told
    assert told <= set(bare("doctor").err.splitlines())
    assert set(bare("do", "--dry-run", "x").err.splitlines()) == {*told, of_member}
    assert of_member in bare("team", "validate").err


def test_adding_an_agent_reports_which_words_will_not_be_used(bare: Cli) -> None:
    words = ("/bin/true", "exec", "--json", "--skip-git-repo-check")
    ran = bare("agents", "add", "codex", "--", *words)
    assert "note: codex: exec --json --skip-git-repo-check in baseArgs is ignored" in ran.err


# -- why a chat ended --------------------------------------------------------------------------


def test_a_talk_that_was_handed_on_and_on_says_so(in_process: InProcessCli) -> None:
    """That it ends this way is tested in tests/flow/test_chat.py."""
    record(in_process, AppendEvent(TaskCompleted(task_id="k3f9", at=at(9), reason="runaway")))
    shown = in_process("show", "k3f9").out
    assert "20 turns without a message from you: the members kept handing over" in shown


def test_a_talk_in_which_nobody_spoke_does_not_claim_that_all_did(cli: Cli) -> None:
    cli.team("ada")
    assert cli("chat", "ada-fails now").code == 3
    cli("answer", "q1", "skip")
    ran = cli("resume", "--json")
    assert ran.lines[-1]["reason"] == "skipped"


# -- the state of an agent ---------------------------------------------------------------------


def test_the_same_state_has_the_same_word_everywhere_and_init_picks_who_is_ready(bare: Cli) -> None:
    """Claude reports no login, Codex reports one, and Gemini has no login file."""
    folder = bare.user.home / "bin"
    folder.mkdir()
    for name, signed in (("claude", 1), ("codex", 0), ("gemini", 0)):
        program = folder / name
        program.write_text(
            f"#!/bin/sh\ncase $1 in --version) echo 1.0.0;; *) exit {signed};; esac\n"
        )
        program.chmod(0o755)
    cli = Cli(bare.user, {"PATH": f"{folder}:/usr/bin:/bin"})
    ran = cli("init")
    assert "ada (codex) writes, rex (codex) reviews" in ran.out
    assert "Not ready: claude, not signed in -> " in ran.out
    assert "Not ready: gemini, not signed in -> " in ran.out
    states = {"claude": "not signed in", "codex": "ready", "gemini": "not signed in"}
    for verb in (("agents", "list"), ("doctor",)):
        found = {one["name"]: one["state"] for one in cli(*verb, "--json").of("agent")}
        assert {name: found[name] for name in states} == states
        rows = {line.split()[0]: line for line in cli(*verb).out.splitlines() if line.strip()}
        assert all(state in rows[name] for name, state in states.items())


def test_where_nobody_is_signed_in_a_team_can_still_be_rehearsed(bare: Cli) -> None:
    folder = bare.user.home / "bin"
    folder.mkdir()
    (folder / "gemini").write_text("#!/bin/sh\necho 1.0.0\n")
    (folder / "gemini").chmod(0o755)
    ran = Cli(bare.user, {"PATH": f"{folder}:/usr/bin:/bin"})("init")
    assert (ran.code, "ada (gemini) writes" in ran.out) == (0, True)
    assert "Not ready: gemini, not signed in -> " in ran.out


# -- who speaks next ---------------------------------------------------------------------------


def test_a_team_chooses_how_it_is_routed(cli: Cli) -> None:
    """Who speaks in each case is tested in tests/flow/test_chat.py."""
    path = cli.team("ada", "rex", "cy")
    members = json.loads(path.read_text())
    ways = {"mention": ("chat",), "handoff": ("run", "--workflow", "chat")}
    for routing, verb in ways.items():
        path.write_text(json.dumps({"routing": routing, **members}))
        ran = cli(*verb, "--json", "@rex look")
        assert [said["member"] for said in ran.of("message")] == ["rex"]
        assert ran.lines[-1]["reason"] == "nobody_named"
    assert cli("team", "show", "--json").of("team")[0]["routing"] == "handoff"
    path.write_text(json.dumps({"routing": "shout", **members}))
    wrong = cli("team", "validate")
    assert (wrong.code, "routing" in wrong.err, "mention" in wrong.err) == (2, True, True)
