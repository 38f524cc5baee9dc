"""A repository created by a member inside the work: reported, kept, never run, never half added."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.app.project import App
from coterie.model.about import FailedPhaseStep
from coterie.model.team import Member
from tests.flow.pipeline_harness import CODE, GRAPHS, folder_of, pipeline, replying
from tests.flow.ticket_harness import git, repository

WHO = ("-c", "user.name=a", "-c", "user.email=a@b")


def nested_repository(folder: Path, *, has_commit: bool) -> Path:
    """Create a nested repository, with a hook and a setting that would run something."""
    within = folder / "lib" / "within"
    within.mkdir(parents=True)
    git(within, "init", "-q")
    (within / "a.py").write_text("kept = 1\n")
    if has_commit:
        git(within, "add", ".")
        git(within, *WHO, "commit", "-qm", "within")
    ran = f"touch {folder.parents[4] / 'ran'}"
    hook = within / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\n{ran}\n")
    hook.chmod(0o755)
    git(within, "config", "core.fsmonitor", ran)
    return within


@pytest.mark.parametrize("has_commit", [True, False], ids=["commit", "unborn"])
async def test_a_build_sends_it_back_and_then_asks(memory_path: Path, has_commit: bool) -> None:
    project = repository(memory_path)
    told: list[str] = []

    def codes(member: Member, text: str) -> object:
        told.append(text)
        if len(told) == 1:
            nested_repository(folder_of(member), has_commit=has_commit)
        return CODE(member, text)

    async with pipeline(project, graph=GRAPHS["small"]) as built:
        assert (await built.run(replying(Make_the_change_now=codes))).reason == "question"
        asked = (await built.asked()).about
        problem = "lib/within is a separate repository, which a commit cannot contain"
        assert isinstance(asked, FailedPhaseStep)
        assert (asked.step, asked.reason) == ("codegen", problem)
        assert [f"Your work cannot be committed: {problem}." in one for one in told] == [
            False,
            True,
        ]
        work = project / ".coterie" / "worktrees" / "k3f9" / "work"
        within = work / "lib" / "within"
        assert (within / "a.py").read_text() == "kept = 1\n", "nothing of it is lost"
        aside = (within / ".git").rename(memory_path.parent / "aside.git")
        await built.answer("again")
        # Only cart.py is planned: the rest is shown, and needs approval.
        await built.run(replying())
        assert await built.answer("allow") == "unplanned_files"
        await built.run(replying())
        await built.answer("accept", "Coupons")
        assert (await built.run(replying())).reason == "accepted"
    assert git(project, "show", "HEAD:lib/within/a.py") == "kept = 1\n"
    ran = memory_path.parent / "ran"
    assert not ran.exists()
    git(project, f"--git-dir={aside}", f"--work-tree={project}", "status")
    assert ran.exists(), "as a control: git of the user's own does obey it"


async def test_a_build_is_reverted_although_its_work_cannot_be_committed(
    memory_path: Path,
) -> None:
    project = repository(memory_path)

    def codes(member: Member, text: str) -> object:
        if not (folder_of(member) / "lib").exists():
            nested_repository(folder_of(member), has_commit=True)
        return CODE(member, text)

    async with pipeline(project, graph=GRAPHS["small"]) as built:
        assert (await built.run(replying(Make_the_change_now=codes))).reason == "question"
    async with App.open(project) as app:
        assert not (await app.revert("k3f9")).did_something
        assert (await app.pipelines.view("k3f9")).state.meta.status == "redo"
        assert (await app.diff("k3f9")).reverted_at is not None
    within = project / ".coterie" / "worktrees" / "k3f9" / "work" / "lib" / "within"
    assert (within / "a.py").read_text() == "kept = 1\n", "nothing of it is lost"
    async with pipeline(project) as built:
        assert (await built.run(replying())).reason == "question"
        await built.answer("next")
        await built.run(replying())
        async with App.open(project) as app:
            assert (await app.diff("k3f9")).reverted_at is None, "it has been done again"
        await built.answer("accept", "Coupons")
        assert (await built.run(replying())).reason == "accepted"
    assert (within / "a.py").exists()
