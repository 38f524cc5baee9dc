"""A manager that plans nonsense, and workers that cannot be trusted: each gets a named error,
and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.model.envelope import ArtifactRef, Report
from coterie.model.record import ErrorRecord
from coterie.model.team import Member
from coterie.model.ticket import SchedulerConfig
from coterie.model.update import TurnFailed
from tests.flow.ticket_harness import (
    PLAN,
    block,
    folder_of,
    git,
    obedient,
    part,
    plan,
    replying,
    repository,
    session,
    team,
    ticket_in,
)

ONE = plan(part("a"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return repository(tmp_path / "shop")


def in_turn(*said: object) -> Callable[[Member, str], object]:
    """Give each answer once, then the last one forever."""
    left = [*said]

    def answer(member: Member, text: str) -> object:
        return left.pop(0) if len(left) > 1 else left[0]

    return answer


def repository_within(folder: Path) -> None:
    """Make a git repository in a folder, with a commit: what is around it cannot be committed."""
    nested = folder / "nested"
    nested.mkdir()
    git(nested, "init", "-q")
    git(nested, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty",
        "-m", "x")  # fmt: skip


# -- the manager -------------------------------------------------------------------------------

NO_PLAN = "The reply is not a valid plan:"
NONSENSE: dict[str, tuple[object, str]] = {
    "an unknown worker": (
        plan(part("a", assigned_to={"role_id": "bob"})),
        "The plan cannot be carried out: a is assigned to bob; the workers are wren, finn",
    ),
    "a skill that nobody has": (
        plan(part("a", capability="rust")),
        "The plan cannot be carried out: a needs rust; the workers offer python, sql",
    ),
    "an unknown part": (
        plan(part("a", "z")),
        "The plan cannot be carried out: a depends on z, which is not in the plan",
    ),
    "a part twice": (
        plan(part("a"), part("a")),
        "The plan cannot be carried out: a appears twice",
    ),
    "too much": (
        plan(*(part(f"t{n}") for n in range(10_000))),
        "The plan cannot be carried out: the plan has 10000 tasks; the maximum is 1000",
    ),
    "nothing": ({"tasks": []}, f"{NO_PLAN} tasks: Tuple should have at least 1 item"),
    "no JSON": ("I would rather not.", f"{NO_PLAN} there is no JSON object in it"),
    "half of it": ('```json\n{"tasks": [\n```', f"{NO_PLAN} there is no JSON object"),
    "another kind": (
        {"payload_type": "review", "payload": {"decision": "approved"}},
        f'{NO_PLAN} payload_type is "review"; it must be plan',
    ),
}


@pytest.mark.parametrize("what", NONSENSE)
async def test_a_plan_that_is_none_goes_back_with_the_reason(project: Path, what: str) -> None:
    nonsense, why = NONSENSE[what]
    prompts: list[str] = []

    def planned(member: Member, text: str) -> object:
        prompts.append(text)
        return nonsense if len(prompts) == 1 else ONE

    async with session(project, team(capabilities=("python", "sql"))) as harness:
        assert await harness.run(replying(Split_the_goal=planned)) == "completed done 1 done"
        assert await harness.errors() == ["validation_failed"]
        assert (await harness.error("validation_failed")).startswith(why)
    told = why.removeprefix("The plan cannot be carried out: ").removeprefix(f"{NO_PLAN} ")
    assert told[:60] in prompts[1]


async def test_a_manager_that_only_ever_plans_nonsense_ends_as_a_question(project: Path) -> None:
    circle = plan(part("a", "b"), part("b", "a"))
    async with session(project) as harness:
        assert await harness.run(replying(Split_the_goal=circle)) == "waiting question"
        assert await harness.errors() == ["validation_failed"] * 3
        assert await harness.answer("retry") == "mira gave no plan that can be carried out"
        assert await harness.run(replying(Split_the_goal=in_turn(PLAN))) == "completed done 3 done"


async def test_a_manager_that_never_says_json_ends_as_a_question(project: Path) -> None:
    async with session(project) as harness:
        assert await harness.run(replying(Split_the_goal="no")) == "waiting question"
        assert await harness.answer("retry") == "mira (manager) gave no usable answer"
        assert await harness.run() == "completed done 3 done"


async def test_a_manager_that_fails_on_the_way_is_asked_about_once(project: Path) -> None:
    """Two tickets need it at the same time; there is one question, and both continue after it."""
    gone = TurnFailed("exit", "it broke", exit_code=3, retry=False)
    two = plan(part("a"), part("b"))
    async with session(project) as harness:
        say = replying(Split_the_goal=two, Write_the_instruction=gone)
        assert await harness.run(say) == "waiting question"
        assert await harness.states() == {"T1": "pending", "T2": "pending"}
        assert await harness.answer("retry") == "mira (manager) gave no usable answer"
        assert await harness.run(replying(Split_the_goal=two)) == "completed done 2 done"


async def test_a_review_that_is_none_moves_nothing(project: Path) -> None:
    odd = in_turn({"decision": "perhaps"}, {"decision": "approved"})
    async with session(project) as harness:
        say = replying(Split_the_goal=ONE, **{"Is_it_done?": odd})
        assert await harness.run(say) == "completed done 1 done"
        assert await harness.errors() == ["validation_failed"]
        assert await harness.moves("T1") == ["created", "in_progress", "awaiting_review", "done"]


# -- workers -----------------------------------------------------------------------------------


async def test_two_reports_in_one_reply_are_none(project: Path) -> None:
    both = block({"status": "blocked", "issues": ["no"]}) + "\n" + block({"status": "completed"})
    reported = in_turn(both, {"status": "completed"})
    async with session(project) as harness:
        say = replying(Split_the_goal=ONE, Do_the_work_now=reported)
        assert await harness.run(say) == "completed done 1 done"
        assert await harness.error("validation_failed") == (
            "The reply is not a valid report: it holds 2 different reports; give one; "
            "it came from wren (.coterie/teams/shop/wren)"
        )
        reports = [one for one in await harness.envelopes() if isinstance(one.payload, Report)]
        assert len(reports) == 1


async def test_a_report_about_another_ticket_is_refused(project: Path) -> None:
    def works(member: Member, text: str) -> object:
        ticket = ticket_in(text)
        said = "T2" if ticket == "T1" and "The reply is not a valid report" not in text else ticket
        return {"ticket_id": said, "status": "completed"}

    say = replying(Split_the_goal=plan(part("a"), part("b")), Do_the_work_now=works)
    async with session(project) as harness:
        assert await harness.run(say) == "completed done 2 done"
        assert await harness.errors() == ["validation_failed"]
        assert await harness.error("validation_failed") == (
            'The reply is not a valid report: ticket_id is "T2"; this is about T1; '
            "it came from wren (.coterie/teams/shop/wren)"
        )
        about = [one.ticket_id for one in await harness.envelopes() if one.payload_type == "error"]
        assert about == ["T1"]


async def test_an_edit_outside_the_worktree_is_named_and_never_put_back(project: Path) -> None:
    def works(member: Member, text: str) -> object:
        if "An earlier attempt" not in text:
            (project / "cart.py").write_text("mine now\n")
            (project / "new.py").write_text("new\n")
        return obedient(member, text)

    say = replying(Split_the_goal=ONE, Do_the_work_now=works)
    async with session(project, team("wren")) as harness:
        assert await harness.run(say) == "waiting question"
        assert await harness.states() == {"T1": "blocked"}
        wren = "wren (.coterie/teams/shop/wren)"
        told = f"While {wren} worked on T1, files outside its worktree changed: cart.py, new.py"
        assert await harness.error("outside_worktree") == told
        records = [r for r in harness.scripted.recorder.records if isinstance(r, ErrorRecord)]
        assert [(r.code, r.message) for r in records] == [("outside_worktree", told)]
        assert (project / "cart.py").read_text() == "mine now\n"
        assert await harness.answer("redo") == f"Was it you? {told}"
        assert await harness.run(say) == "completed done 1 done"
    assert (project / "cart.py").read_text() == "mine now\n"


async def test_the_users_own_edit_costs_nothing_but_a_question(project: Path) -> None:
    """The report counts: the worker is not asked to do it again."""
    turns: list[str] = []

    def works(member: Member, text: str) -> object:
        turns.append(member.id)
        (project / "notes.md").write_text("an idea\n")
        return obedient(member, text)

    say = replying(Split_the_goal=ONE, Do_the_work_now=works)
    async with session(project) as harness:
        assert await harness.run(say) == "waiting question"
        await harness.answer("mine")
        assert await harness.run(say) == "completed done 1 done"
        moves = ["created", "in_progress", "blocked", "in_progress", "awaiting_review", "done"]
        assert await harness.moves("T1") == moves
    assert len(turns) == 1


async def test_what_a_worker_registered_is_kept_although_the_user_edited_meanwhile(
    project: Path,
) -> None:
    (project / ".gitignore").write_text("*.csv\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "ignore")

    def works(member: Member, text: str) -> object:
        (project / "notes.md").write_text("an idea\n")
        for name in ("sales", "costs"):
            (folder_of(member) / f"{name}.csv").write_text(name)
        artifacts = [{"label": "sales", "uri": "sales.csv"}, {"label": "none", "uri": "none.csv"}]
        return {"status": "completed", "outputs": ["costs.csv"], "artifacts": artifacts}

    say = replying(Split_the_goal=ONE, Do_the_work_now=works)
    async with session(project) as harness:
        assert await harness.run(say) == "waiting question"
        await harness.answer("mine")
        assert await harness.run(say) == "completed done 1 done"
        payloads = [one.payload for one in await harness.envelopes()]
        kept = [one.label for one in payloads if isinstance(one, ArtifactRef)]
        assert kept == ["sales", "costs.csv"]
        assert await harness.errors() == ["artifact_wrong", "outside_worktree"]


@pytest.mark.parametrize("trouble", ["uncommitted", "blocked", "failed"])
async def test_after_the_users_own_edit_work_goes_on_from_how_its_turn_ended(
    project: Path, trouble: str
) -> None:
    """No work is done that is in no commit, and neither question counts as an attempt."""
    prompts: list[str] = []

    def works(member: Member, text: str) -> object:
        prompts.append(text)
        if len(prompts) > 1:
            nested = folder_of(member) / "nested" / ".git"
            if nested.exists():
                nested.rename(nested.with_name("git"))
            return obedient(member, text)
        (project / "notes.md").write_text("an idea\n")
        if trouble == "uncommitted":
            repository_within(folder_of(member))
        done = obedient(member, text)
        blocked = {"status": "blocked", "issues": ["no database here"]}
        return {"blocked": blocked, "failed": TurnFailed("exit", "exit 1")}.get(trouble, done)

    say = replying(
        Split_the_goal=ONE, Do_the_work_now=works, cannot_continue={"summary": "Make one."}
    )
    async with session(project, team("wren"), SchedulerConfig(retries=1)) as harness:
        assert await harness.run(say) == "waiting question"
        await harness.answer("mine")
        assert await harness.run(say) == "completed done 1 done"
        moves = (await harness.moves("T1"))[1:]
        tried = ["in_progress", "blocked"]
        assert moves == [*tried, *tried, "in_progress", "awaiting_review", "done"]
    told = {
        "uncommitted": "cannot be committed",
        "blocked": "no database here",
        "failed": "exit 1",
    }
    assert told[trouble] in prompts[1]
    assert git(project, "show", "coterie/k3f9/merged:T1.txt") == "by wren\n"


async def test_a_question_about_the_users_own_edit_is_no_failed_attempt(project: Path) -> None:
    def works(member: Member, text: str) -> object:
        (project / "notes.md").write_text(f"idea {len(text)}\n")
        return obedient(member, text)

    say = replying(Split_the_goal=ONE, Do_the_work_now=works)
    async with session(project, team("wren"), SchedulerConfig(retries=1)) as harness:
        for _ in range(2):
            assert await harness.run(say) == "waiting question"
            await harness.answer("redo")
        fails = in_turn(TurnFailed("exit", "exit 1"), {"status": "completed"})
        say = replying(Split_the_goal=ONE, Do_the_work_now=fails)
        assert await harness.run(say) == "completed done 1 done"


async def test_a_commit_of_the_users_is_nobodys_edit(project: Path) -> None:
    (project / "cart.py").write_text("total = 1\n")

    def works(member: Member, text: str) -> object:
        git(project, "commit", "-qam", "mine")
        return obedient(member, text)

    async with session(project) as harness:
        say = replying(Split_the_goal=ONE, Do_the_work_now=works)
        assert await harness.run(say) == "completed done 1 done"


async def test_work_that_cannot_be_committed_blocks_its_ticket_and_no_other(project: Path) -> None:
    def works(member: Member, text: str) -> object:
        if ticket_in(text) == "T1":
            nested = folder_of(member) / "nested"
            if "cannot be committed" in text:
                (nested / ".git").rename(nested / "git")
            else:
                repository_within(folder_of(member))
        return obedient(member, text)

    say = replying(Split_the_goal=plan(part("a"), part("b")), Do_the_work_now=works)
    async with session(project) as harness:
        assert await harness.run(say) == "completed done 2 done"
        assert await harness.errors() == ["not_committed"]
