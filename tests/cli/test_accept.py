"""A session's work, accepted into the user's branch on request, and reverted again."""

from __future__ import annotations

from inline_snapshot import snapshot

from tests.cli.command import Cli
from tests.cli.ticket_project import TicketProject, git, register_agents


def test_work_is_taken_in_only_as_it_was_checked(bare: Cli) -> None:
    project = TicketProject(register_agents(bare)).set_up(checks=["test -s cart.py"])
    project("run", "Add coupons")
    unfinished = project("accept", "last")
    assert (unfinished.code, project.normalized(unfinished)) == snapshot(
        (
            1,
            """\
! Not accepted: k3f9 is waiting, not completed.
  coterie resume k3f9
""",
        )
    )
    project("answer", "q1", "approve")
    assert project("resume", "last").code == 3
    project("answer", "q2", "approve")
    assert project("resume", "last").code == 0
    assert project.normalized(project("diff", "last", "--stat")) == snapshot("""\
  T1.py    +1  -0
  T2.py    +1  -0
  form.py  +1  -0
3 files    +3  -0
""")
    (project.root / "other.py").write_text("mine = 1\n")
    git(project.root, "add", "other.py")
    git(project.root, "commit", "-qm", "my own")
    for more in (["-m", "Add coupons"], ["--override"]):
        assert project.normalized(project("accept", "last", *more)) == snapshot("""\
! k3f9 is not a build: a message or an override would have no effect.
  coterie accept k3f9
""")
    moved = project("accept", "last")
    assert (moved.code, project.normalized(moved)) == snapshot(
        (
            1,
            """\
! Not accepted: main moved since the checks (9c1e44, now 9c1e44).
  coterie accept k3f9 --recheck
""",
        )
    )
    assert not (project.root / "form.py").exists()
    taken = project("accept", "last", "--recheck")
    assert (taken.code, project.normalized(taken)) == snapshot(
        (
            0,
            """\
Accepted  k3f9 into main at 9c1e44   3 files +3 -0
  checked  test -s cart.py exit 0, on your branch as it is now
  undo     coterie revert k3f9
""",
        )
    )
    assert git(project.root, "status", "--porcelain") == ""
    assert sorted(path.name for path in project.root.glob("*.py")) == snapshot(
        ["T1.py", "T2.py", "cart.py", "form.py", "other.py"]
    )
    back = project("revert", "last")
    assert (back.code, project.normalized(back)) == snapshot(
        (
            0,
            """\
Reverted k3f9
  removed   T1.py
  removed   T2.py
  removed   form.py
  undo      coterie revert k3f9 --undo
""",
        )
    )
    assert sorted(path.name for path in project.root.glob("*.py")) == ["cart.py", "other.py"]


def test_what_was_never_taken_in_is_only_marked(bare: Cli) -> None:
    project = TicketProject(register_agents(bare)).set_up()
    project("run", "--yes", "Add coupons")
    assert project.normalized(project("revert", "last")) == snapshot("""\
k3f9 was not accepted, so none of your files changed. It is marked as reverted.
  undo      coterie revert k3f9 --undo
""")
    assert project.normalized(project("accept", "last")) == snapshot("""\
! Not accepted: k3f9 was reverted.
  coterie revert k3f9 --undo
""")
    assert project.normalized(project("revert", "last", "--undo")) == snapshot(
        "k3f9 is no longer marked as reverted.   coterie show k3f9\n"
    )
    (accepted,) = project("accept", "last", "--json").lines
    assert (accepted["type"], accepted["branch"], len(accepted["files"])) == snapshot(
        ("accept", "main", 3)
    )
