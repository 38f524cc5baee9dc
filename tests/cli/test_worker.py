"""`coterie worker` when something is wrong: it says so in a sentence, and nothing is lost."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from coterie.stores.postgres.schema import latest
from tests.cli.command import Cli
from tests.cli.fleet import Computer, Fleet, until
from tests.cli.test_store import IN_URL, PASSWORD, UnprivilegedUser, execute, refused, role
from tests.cli.ticket_project import git

__all__ = ["role"]
LATEST = latest()
SAYS = """
import json, os, sys
sys.stdin.read()
print(json.dumps({"type": "result", "text": " ".join([*sys.argv[1:], os.environ.get("WORD", "")])}))
"""


def tried(cli: Cli, url: str, shown: str | None = None) -> tuple[int, str, str]:
    """The exit code, the error and what to type, of a worker on that store."""
    ran = cli("worker", "--store", url, "--agents", "ada")
    assert PASSWORD not in ran.err
    assert IN_URL not in ran.err
    return refused(ran, shown or url)


# -- a store that cannot be used ------------------------------------------------------------------


def test_a_wrong_url_or_none(cli: Cli) -> None:
    url = f"mysql://ada:{IN_URL}@db/shop"
    code, said, way = tried(cli, url)
    assert (code, said) == (2, "This is not the URL of a PostgreSQL database.")
    assert way.startswith("Write it like postgresql://user@host/database")
    ran = cli("worker", "--agents", "ada")
    assert (ran.code, ran.out) == (2, "")
    said = "! No shared store is configured: tasks are kept in each project's folder.\n"
    assert ran.err.startswith(said + "  Name it:  --store postgresql://")


def test_a_server_that_does_not_answer_at_the_start(cli: Cli) -> None:
    code, said, way = tried(cli, "postgresql://ada@localhost:1/shop")
    assert (code, way) == (1, "Check the host and the port, or start the server.")
    assert said.startswith("PostgreSQL does not answer: connection to server at ")


def test_a_password_a_database_or_a_right_that_is_missing(cli: Cli, role: UnprivilegedUser) -> None:
    nowhere = role.url(database="nowhere")
    execute(role.admin, f"REVOKE CONNECT ON DATABASE {role.database} FROM PUBLIC")
    said = [
        tried(cli, role.url("wrong"), role.url()),
        tried(cli, role.url(IN_URL, "nowhere"), nowhere),
        tried(cli, role.url(IN_URL), role.url()),
    ]
    execute(role.admin, f"GRANT CONNECT ON DATABASE {role.database} TO {role.name}")
    said.append(tried(cli, role.url(IN_URL), role.url()))
    assert cli("store", "init", role.admin).code == 0
    said.append(tried(cli, role.url(IN_URL), role.url()))
    assert [(code, words) for code, words, _ in said] == [
        (1, f"The server refuses the password of user {role.name} (URL)."),
        (1, "There is no database nowhere on the server (URL)."),
        (1, f"User {role.name} may not connect to the database {role.database} (URL)."),
        (1, "The database has no Coterie store (URL)."),
        (
            1,
            f"User {role.name} lacks a privilege: permission denied for schema coterie (URL).",
        ),
    ]
    assert all(way for _, _, way in said)


def test_a_schema_of_another_version(cli: Cli, database: str) -> None:
    assert cli("store", "init", database).code == 0
    execute(database, "INSERT INTO coterie.schema_version (number) VALUES (9999)")
    assert tried(cli, database) == (
        1,
        f"The store was made by a newer Coterie (9999, this one knows {LATEST}) (URL).",
        "pip install --upgrade 'coterie[postgres]'",
    )
    execute(
        database,
        "DELETE FROM coterie.schema_version",
        f"INSERT INTO coterie.schema_version (number) VALUES ({LATEST - 1})",
    )
    assert tried(cli, database) == (
        1,
        f"The store was made by an older Coterie ({LATEST - 1}, this one needs {LATEST}) (URL).",
        "coterie store upgrade URL",
    )


def test_another_project_s_store(cli: Cli, database: str, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q", "-b", "main")
    git(other, "commit", "-qm", "begin", "--allow-empty")
    first = git(other, "rev-parse", "HEAD").strip()
    assert cli("store", "init", database, cwd=other).code == 0
    code, said, way = tried(cli, database)
    assert (code, said) == (
        1,
        f"The store belongs to another project, other (first commit {first[:10]}); "
        "this project is project (not in git) (URL).",
    )
    assert way.startswith("Create one for this project: createdb NAME, then coterie store init ")


def test_agents_that_are_not_here(cli: Cli, database: str) -> None:
    assert cli("store", "init", database).code == 0
    ran = cli("worker", "--store", database, "--agents", "ada,nobody")
    said = "! No agent nobody in the registry; it has ada, rex, cy, builtin."
    assert (ran.code, ran.err.splitlines()[1:]) == (2, [said])


# -- a worker that runs ---------------------------------------------------------------------------


@pytest.fixture
def fleet(tmp_path: Path, database: str) -> Fleet:
    """Machines with an agent that replies with its arguments and WORD from its environment."""
    agent = tmp_path / "says.py"
    agent.write_text(SAYS)
    made = Fleet(tmp_path, database, agents={"says": (sys.executable, str(agent))})
    made.create({})
    return made


def offered(computer: Computer, *words: str) -> str:
    """Offer a chat and return its task's id."""
    ran = computer("chat", "--detach", "--json", *words, "hello")
    assert ran.code == 0, ran.err
    return str(ran.of("task")[0]["id"])


def ended(computer: Computer, task: str) -> bool:
    """Whether a task has completed."""
    return ("completed",) in computer.rows("SELECT status FROM coterie.tasks WHERE id = %s", task)


def replies(computer: Computer, task: str) -> list[str]:
    """The replies to the first message."""
    text = "SELECT text FROM coterie.messages WHERE task_id = %s ORDER BY seq"
    return [row[0] for row in computer.rows(text, task)][1:]


def refusals(computer: Computer, task: str) -> dict[str, str]:
    """Why machines refused a task, by machine."""
    [(found,)] = computer.rows("SELECT refused FROM coterie.offers WHERE task_id = %s", task)
    return json.loads(found)


def test_a_full_disk_of_the_database_loses_nothing(fleet: Fleet) -> None:
    """PostgreSQL reports it by a code, whichever file ran out of space."""
    desk, runner = fleet.computer("desk"), fleet.computer("runner")
    execute(
        fleet.url,
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$",
        "CREATE TRIGGER full_disk BEFORE INSERT ON coterie.turns "
        "FOR EACH ROW EXECUTE FUNCTION full_disk()",
    )
    with runner.worker("--agents", "says", "--seats", "1"):
        task = offered(desk, "--agents", "sam=says")
        until(lambda: "The disk of the database is full" in runner.output)
        assert not ended(desk, task)
        execute(fleet.url, "DROP TRIGGER full_disk ON coterie.turns")
        until(lambda: ended(desk, task))
    assert [reply.strip() for reply in replies(desk, task)] == [""]
    assert "Traceback" not in runner.output


def test_a_worker_of_another_version_with_the_same_schema(fleet: Fleet, tmp_path: Path) -> None:
    facts = tmp_path / "newer" / "coterie-99.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: coterie\nVersion: 99.0\n")
    desk, runner = fleet.computer("desk"), fleet.computer("runner")
    runner.more = {"PYTHONPATH": str(facts.parent)}
    with runner.worker("--agents", "says"):
        task = offered(desk, "--agents", "sam=says")
        until(lambda: ended(desk, task))
    versions = desk.rows("SELECT version FROM coterie.machines WHERE name = 'runner'")
    assert versions == [("99.0",)]


POWERS = {
    "environment": {"env": {"WORD": "given"}},
    "arguments": {"additionalArgs": ["--given"]},
    "everything": {"permissions": {"mode": "full"}},
}


def test_a_team_that_is_not_trusted_goes_to_a_machine_that_trusts_it(fleet: Fleet) -> None:
    """The others refuse it, and the offer says why."""
    desk, stranger, friend = (fleet.computer(name) for name in ("desk", "stranger", "friend"))
    for computer in (desk, stranger, friend):
        for name, powers in POWERS.items():
            team = {"name": name, "members": [{"id": "sam", "agent": "says", **powers}]}
            (computer.clone / f"{name}.json").write_text(json.dumps(team))
    for computer in (desk, friend):
        for name in POWERS:
            ran = computer("team", "trust", f"{name}.json", "--yes")
            assert ran.code == 0, ran.err
    tasks = {name: offered(desk, "-t", f"{name}.json") for name in POWERS}
    with stranger.worker("--agents", "says", "--allow", "full"):
        until(lambda: all(refusals(desk, task) for task in tasks.values()))
        for name, task in tasks.items():
            said = refusals(desk, task)["stranger"]
            assert said.startswith(f"Team {name} is not trusted on this machine: sam "), said
            assert not ended(desk, task)
            assert replies(desk, task) == []
    with friend.worker("--agents", "says", "--allow", "full"):
        until(lambda: all(ended(desk, task) for task in tasks.values()))
    said = {name: replies(desk, task)[0].split() for name, task in tasks.items()}
    assert said == {"environment": ["[redacted", "5]"], "arguments": ["--given"], "everything": []}
    assert "runs here" in friend.output
