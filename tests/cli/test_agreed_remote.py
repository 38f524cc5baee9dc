"""`coterie config set travel`: naming a remote means the address that the user has seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coterie.app.store import init_store
from coterie.app.travel import ProjectRemote, reached_remote
from coterie.config.project import Project
from coterie.errors import UsageError
from tests.cli.command import Cli
from tests.cli.ticket_project import git


@pytest.fixture
def cloned(cli: Cli) -> Cli:
    git(cli.user.project, "init", "--quiet")
    git(cli.user.project, "remote", "add", "origin", "ssh://ada@db.example.org/shop.git")
    return cli


def test_an_address_counts_once_the_user_has_seen_it(cloned: Cli) -> None:
    project, home = cloned.user.project, cloned.user.coterie_home
    ran = cloned("config", "set", "travel", "git:origin", "--user")
    assert (ran.code, ran.out) == (
        0,
        "travel = git:origin   (user)\n"
        "Branches of this project travel via ssh://ada@db.example.org/shop.git\n",
    )
    assert json.loads((home / "settings.json").read_text()) == {"travel": "git:origin"}
    found = ProjectRemote(Project(project))()
    assert found is not None
    assert found.url == "ssh://ada@db.example.org/shop.git"

    # An agent changed the address, or the folder was swapped for another.
    git(project, "remote", "set-url", "origin", "ssh://eve@evil.example.org/shop.git")
    with pytest.raises(UsageError) as caught:
        ProjectRemote(Project(project))()
    assert (str(caught.value), caught.value.hint) == (
        "Branches travel through origin, but you have not agreed to its address "
        "ssh://eve@evil.example.org/shop.git.",
        "To agree:  coterie config set travel git:origin --user",
    )
    assert cloned("config", "set", "travel", "git:origin", "--user").code == 0
    assert ProjectRemote(Project(project))() is not None


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ext::touch mark", "Branches travel through origin, whose address is not an ssh://"),
        ("../shop.git", "Branches travel through origin, whose address is not an ssh://"),
        ("https://ada:secret@db.example.org/x", "whose address contains a password"),
    ],
)
def test_an_address_that_cannot_be_used(cloned: Cli, url: str, said: str) -> None:
    git(cloned.user.project, "config", "remote.origin.url", url)
    ran = cloned("config", "set", "travel", "git:origin", "--user")
    assert (ran.code, said in ran.err, "secret" in ran.err) == (2, True, False), ran.err
    assert not (cloned.user.coterie_home / "settings.json").exists()
    assert not (cloned.user.project / "mark").exists()


def test_a_remote_that_is_not_there_and_a_project_that_wants_one(cloned: Cli) -> None:
    ran = cloned("config", "set", "travel", "git:boat", "--user")
    assert (ran.code, ran.err.splitlines()[0]) == (
        2,
        "! This clone has no remote boat. There are: origin.",
    )
    ran = cloned("config", "set", "travel", "git:origin")
    assert (ran.code, ran.err.partition("\n")[2]) == (
        2,
        "! travel is a user setting; a project cannot set it.\n"
        "  coterie config set travel git:origin --user\n",
    )
    ran = cloned("config", "set", "travel", "git:http://db/x", "--user")
    assert (ran.code, "the part after git: is not an ssh://" in ran.err) == (2, True), ran.err


def test_the_doctor_says_whether_branches_can_travel(
    cloned: Cli, database: str, tmp_path: Path
) -> None:
    project, bare = cloned.user.project, tmp_path / "shop.git"
    git(project, "commit", "--quiet", "--allow-empty", "-m", "begin")
    git(tmp_path, "init", "--quiet", "--bare", str(bare))
    git(project, "remote", "set-url", "origin", str(bare))
    assert cloned("config", "set", "travel", "git:origin", "--user").code == 0
    init_store(database, Project(project))
    bare.rename(tmp_path / "away")
    ran = cloned("doctor", "--store", database, "--json")
    (check,) = (one for one in ran.of("check") if one["name"] == "travel")
    assert (ran.code, check["ok"], "git ls-remote failed" in check["detail"]) == (1, False, True)
    (tmp_path / "away").rename(bare)
    assert reached_remote(Project(project)) == str(bare)
