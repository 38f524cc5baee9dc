"""A session's work, accepted into the user's branch on request, and reverted again."""

from __future__ import annotations

from inline_snapshot import snapshot

from tests.cli.command import Cli
from tests.cli.crew import Crew, git, registered


def test_work_is_taken_in_only_as_it_was_checked(bare: Cli) -> None:
    crew = Crew(registered(bare)).furnish(checks=["test -s cart.py"])
    crew("run", "Add coupons")
    unfinished = crew("accept", "last")
    assert (unfinished.code, crew.calm(unfinished)) == snapshot(
        (
            1,
            """\
! Not accepted: k3f9 is waiting, not completed.
  coterie resume k3f9
""",
        )
    )
    crew("answer", "q1", "approve")
    assert crew("resume", "last").code == 3
    crew("answer", "q2", "approve")
    assert crew("resume", "last").code == 0
    assert crew.calm(crew("diff", "last", "--stat")) == snapshot("""\
  T1.py    +1  -0
  T2.py    +1  -0
  form.py  +1  -0
3 files    +3  -0
""")
    (crew.root / "other.py").write_text("mine = 1\n")
    git(crew.root, "add", "other.py")
    git(crew.root, "commit", "-qm", "my own")
    for more in (["-m", "Add coupons"], ["--override"]):
        assert crew.calm(crew("accept", "last", *more)) == snapshot("""\
! k3f9 is not a build: a message or an override would have no effect.
  coterie accept k3f9
""")
    moved = crew("accept", "last")
    assert (moved.code, crew.calm(moved)) == snapshot(
        (
            1,
            """\
! Not accepted: main moved since the checks (9c1e44, now 9c1e44).
  coterie accept k3f9 --recheck
""",
        )
    )
    assert not (crew.root / "form.py").exists()
    taken = crew("accept", "last", "--recheck")
    assert (taken.code, crew.calm(taken)) == snapshot(
        (
            0,
            """\
Accepted  k3f9 into main at 9c1e44   3 files +3 -0
  checked  test -s cart.py exit 0, on your branch as it is now
  undo     coterie revert k3f9
""",
        )
    )
    assert git(crew.root, "status", "--porcelain") == ""
    assert sorted(path.name for path in crew.root.glob("*.py")) == snapshot(
        ["T1.py", "T2.py", "cart.py", "form.py", "other.py"]
    )
    back = crew("revert", "last")
    assert (back.code, crew.calm(back)) == snapshot(
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
    assert sorted(path.name for path in crew.root.glob("*.py")) == ["cart.py", "other.py"]


def test_what_was_never_taken_in_is_only_marked(bare: Cli) -> None:
    crew = Crew(registered(bare)).furnish()
    crew("run", "--yes", "Add coupons")
    assert crew.calm(crew("revert", "last")) == snapshot("""\
k3f9 was not accepted, so none of your files changed. It is marked as rejected.
  undo      coterie revert k3f9 --undo
""")
    assert crew.calm(crew("accept", "last")) == snapshot("""\
! Not accepted: k3f9 was reverted.
  coterie revert k3f9 --undo
""")
    assert crew.calm(crew("revert", "last", "--undo")) == snapshot(
        "k3f9 is no longer marked as rejected.   coterie accept k3f9\n"
    )
    (accepted,) = crew("accept", "last", "--json").lines
    assert (accepted["type"], accepted["branch"], len(accepted["files"])) == snapshot(
        ("accept", "main", 3)
    )
