"""Two terminals that accept the same work: one commit, and one clear sentence for the other."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.command import Cli, InProcessCli
from tests.cli.ticket_project import git
from tests.conftest import init_project

MEMBERS = [{"id": "mira", "role": "manager", "agent": "qwen"}, {"id": "wren", "agent": "opencode"}]
LOST = re.compile(
    r"! Not accepted: (?:(?P<task>\w+) was already accepted, as [0-9a-f]{7}"
    r"|another terminal is accepting or reverting \w+ \(pid \d+\)"
    r"|\w+ is already approved: it will be committed by its next run)\.\n"
    r"  coterie (?:diff|show|resume) \w+\n"
)
WORDS = {
    "run": ("run", "--rehearse", "--yes"),
    "build": ("build", "--rehearse", "--yes", "--graph", "small", "--eval", "true"),
}


def set_up_project(cli: Cli, **limits: object) -> Path:
    root = cli.user.project
    (root / "cart.py").write_text("total = 0\n")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "cart.py")
    git(root, "commit", "-qm", "begin")
    folder = init_project(root) / "teams" / "crew"
    folder.mkdir(parents=True)
    (folder / "team.json").write_text(json.dumps({"members": MEMBERS}))
    (root / ".coterie" / "scheduler_config.json").write_text(json.dumps(limits))
    return root


@pytest.mark.parametrize("verb", WORDS)
def test_of_two_at_the_same_moment_one_commits_and_the_other_is_refused(
    in_process: InProcessCli, verb: str
) -> None:
    root = set_up_project(in_process)
    assert in_process(*WORDS[verb], "Add a line to cart.py").code == 0
    before = git(root, "rev-parse", "HEAD").strip()
    both = [in_process.start("accept", "last") for _ in range(2)]
    ended = [(*child.communicate(timeout=60), child.returncode) for child in both]
    assert sorted(code or 0 for *_, code in ended) == [0, 1], ended
    ((_, err, _),) = (one for one in ended if one[2])
    assert LOST.fullmatch(err), err
    commits = git(root, "rev-list", "--first-parent", f"{before}..HEAD").split()
    assert len(commits) == (1 if verb == "build" else 3), "one for each that was merged"
    assert git(root, "status", "--porcelain") == ""
    late = in_process("accept", "last")
    assert (late.code, bool(LOST.fullmatch(late.err))) == (1, True), late.err
    assert in_process("revert", "last").code == 0, "and it can be taken back as a whole"
    assert git(root, "diff", "--name-only", before, "HEAD") == ""


def test_what_was_done_in_the_folder_itself_is_taken_by_nobody(in_process: InProcessCli) -> None:
    root = set_up_project(in_process)
    assert in_process("do", "--rehearse", "--agent", "qwen", "Add a line to cart.py").code == 0
    before = git(root, "rev-parse", "HEAD"), (root / "cart.py").read_text()
    both = [in_process.start("accept", "last") for _ in range(2)]
    for child in both:
        _, err = child.communicate(timeout=60)
        assert (child.returncode, "no branch of its own: its work is in the folder" in err) == (
            1,
            1,
        )
    assert (git(root, "rev-parse", "HEAD"), (root / "cart.py").read_text()) == before
