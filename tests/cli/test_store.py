"""`coterie store` and `doctor --store`: a store is created, upgraded and shown; a problem with a
database is reported in one sentence, with what to type, and without its password.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import psycopg
import pytest

from coterie.stores.postgres.schema import latest
from coterie.testing.postgres import Databases
from tests.cli.command import Cli, CommandResult, InProcessCli
from tests.cli.pooler import TransactionPooler, serving, without_tls
from tests.cli.ticket_project import git
from tests.conftest import TEST_SERVER, init_project

PASSWORD = "se/c:r@t?"
IN_URL = "se%2Fc%3Ar%40t%3F"
LATEST = latest()


def execute(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def refused(ran: CommandResult, url: str) -> tuple[int, str, str]:
    """The exit code, the error and what to type, with the URL as `URL`."""
    assert ran.out == ""
    said, _, way = ran.err.replace(f"'{url}'", "URL").replace(url, "URL").partition("\n  ")
    return ran.code, said.removeprefix("! "), way.strip()


def test_a_store_is_made_shown_and_made_only_once(in_process: InProcessCli, database: str) -> None:
    made = in_process("store", "init", database)
    assert (made.err, made.code) == ("", 0)
    assert made.out.splitlines()[:3] == [
        f"Created the store in {database}",
        "  project   project (not in git)",
        f"  schema    {LATEST}",
    ]
    (again,) = in_process("store", "init", database, "--json").of("store")
    assert (again["made"], again["tasks"], again["encrypted"]) == (False, 0, False)
    (shown,) = in_process("store", "show", database, "--json").of("store")
    assert shown["project"] == {"name": "project", "root_commit": ""}
    assert (
        in_process("store", "upgrade", database).out
        == f"The store is up to date: schema {LATEST}.\n"
    )
    assert list(in_process.user.project.iterdir()) == []  # nothing of it is stored here


def test_two_who_make_it_at_once_make_it_once(bare: Cli, database: str) -> None:
    both = [bare.start("store", "init", database) for _ in range(2)]
    said = sorted(one.communicate()[0].partition(" ")[0] for one in both)
    assert ([one.returncode for one in both], said) == ([0, 0], ["Created", "The"])


def test_its_verbs_are_completed(bare: Cli) -> None:
    asked = {
        "_COTERIE_COMPLETE": "bash_complete",
        "COMP_WORDS": "coterie store ",
        "COMP_CWORD": "2",
    }
    assert Cli(bare.user, asked)().out == "plain,continue\nplain,init\nplain,show\nplain,upgrade\n"


def test_an_older_store_is_upgraded_by_a_command_alone(
    in_process: InProcessCli, database: str
) -> None:
    table = "CREATE TABLE coterie.schema_version (number INTEGER PRIMARY KEY, at TIMESTAMPTZ"
    execute(database, "CREATE SCHEMA coterie", f"{table} NOT NULL DEFAULT now())")
    said = f"The store was made by an older Coterie (0, this one needs {LATEST}) (URL)."
    for verb in ("show", "init"):
        ran = in_process("store", verb, database)
        assert refused(ran, database) == (1, said, "coterie store upgrade URL")
    assert (
        in_process("store", "upgrade", database).out
        == f"Upgraded the store from schema 0 to {LATEST}.\n"
    )
    (upgraded,) = in_process("store", "upgrade", database, "--json").of("upgrade")
    assert (upgraded["before"], upgraded["after"]) == (LATEST, LATEST)


def test_the_store_may_stand_in_the_environment_or_the_user_s_settings(
    in_process: InProcessCli, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert in_process("config", "set", "store", database, "--user").code == 0
    assert in_process("store", "init").code == 0
    assert in_process("store").out.startswith(database)
    monkeypatch.setenv("COTERIE_STORE", "postgresql://localhost:1/none")  # takes precedence
    assert in_process("store").err.startswith("! PostgreSQL does not answer: ")


def test_without_a_store_it_says_how_to_name_one(in_process: InProcessCli) -> None:
    ran = in_process("store")
    assert (ran.code, ran.err.splitlines()[1:]) == (
        2,
        [
            "  Name it:  --store postgresql://user@host/database",
            "  or once for all your projects:  coterie config set store URL --user",
        ],
    )


def test_a_store_never_stands_in_a_project_s_files_nor_a_password_in_any(
    in_process: InProcessCli,
) -> None:
    own = "store is a user setting; a project cannot set it"
    url = f"postgresql://ada:{IN_URL}@db/shop"
    ran = in_process("config", "set", "store", url)
    assert refused(ran, url)[0] == 2
    assert f"! {own}.\n  coterie config set store URL --user\n" in ran.err
    ran = in_process("config", "set", "store", url, "--user")
    way = "it contains a password, which belongs in ~/.pgpass"
    assert refused(ran, url)[:2] == (2, f"store cannot be used: {way}.\n")
    settings = init_project(in_process.user.project) / "settings.json"
    settings.write_text('{"store": "postgresql://db/shop"}')
    ran = in_process("config")
    assert (ran.code, own in ran.err, "settings.json" in ran.err) == (2, True, True)


NO_URL = "Write it like postgresql://user@host/database, with %2F for / in a name or password."
BAD_URLS = {
    "no URL": (f"host=db password={PASSWORD}", "This is not the URL of a PostgreSQL database."),
    "another's": (
        f"mysql://ada:{PASSWORD}@db/shop",
        "This is not the URL of a PostgreSQL database.",
    ),
    "a slash": (f"postgresql://ada:{PASSWORD}@db/shop", "postgresql://ada@db/shop is not a valid"),
    "a port": ("postgresql://ada:x@db:port/shop", "postgresql://ada@db:port/shop is not a valid"),
    "an option": ("postgresql://db/shop?what=1", "postgresql://db/shop?what=1 is not a valid"),
}


@pytest.mark.parametrize(("url", "said"), BAD_URLS.values(), ids=BAD_URLS.keys())
def test_a_wrong_url_is_refused_and_its_password_never_shown(
    in_process: InProcessCli, url: str, said: str
) -> None:
    for verb in ("init", "upgrade", "show"):
        ran = in_process("store", verb, url)
        assert (ran.code, ran.err.startswith(f"! {said}"), NO_URL in ran.err) == (2, True, True)
        assert PASSWORD not in ran.err


def test_nothing_goes_unencrypted_to_another_host(in_process: InProcessCli) -> None:
    url = "postgresql://ada@db.example.org/shop?sslmode=prefer"
    code, said, way = refused(in_process("store", "show", url), url)
    assert (code, said) == (2, "URL may connect to another host without encryption.")
    assert way.startswith("Use 'postgresql://ada@db.example.org/shop?sslmode=require', or ")
    with serving(without_tls) as port:
        url = f"postgresql://ada:{IN_URL}@db.example.org:{port}/shop?hostaddr=127.0.0.1"
        ran = in_process("store", "show", url)
    shown = url.replace(f":{IN_URL}", "")
    assert refused(ran, shown) == (
        1,
        "The server does not offer TLS, which connections to another host require (URL).",
        "Set ssl = on there; on a network that you trust:  "
        "coterie doctor --store 'URL&sslmode=disable'",
    )


def test_a_server_that_does_not_answer(in_process: InProcessCli) -> None:
    url = "postgresql://ada@localhost:1/shop"
    code, said, way = refused(in_process("store", "init", url), url)
    assert (code, way) == (1, "Check the host and the port, or start the server.")
    assert said.startswith("PostgreSQL does not answer: connection to server at ")


# -- a server that refuses ------------------------------------------------------------------------


@dataclass(frozen=True)
class UnprivilegedUser:
    """A user of the server with a password and no rights, and a database owned by somebody else."""

    name: str
    database: str
    admin: str

    def url(self, password: str = "", database: str = "") -> str:
        place = urlsplit(self.admin)
        login = f"{self.name}:{password}" if password else self.name
        path = f"/{database or self.database}"
        return place._replace(netloc=f"{login}@", path=path).geturl()


@pytest.fixture
def role(database: str, postgres: Databases) -> Iterator[UnprivilegedUser]:
    if TEST_SERVER:
        pytest.skip("who needs a password is known of a server of our own alone")
    made = UnprivilegedUser(f"ada{secrets.token_hex(4)}", urlsplit(database).path[1:], database)
    execute(database, f"CREATE ROLE {made.name} LOGIN PASSWORD '{PASSWORD}'")
    yield made
    execute(database, f"DROP OWNED BY {made.name}")
    execute(postgres.url("postgres"), f"ALTER DATABASE {made.database} OWNER TO coterie")
    execute(postgres.url("postgres"), f"DROP ROLE {made.name}")


def test_a_login_that_the_server_refuses(in_process: InProcessCli, role: UnprivilegedUser) -> None:
    line = f"localhost:5432:{role.database}:{role.name}:PASSWORD   (chmod 600)"
    put = f"Add it to ~/.pgpass:  {line}"
    plain = role.url()
    assert refused(in_process("store", "init", plain), plain) == (
        1,
        f"User {role.name} needs a password, and none was given (URL).",
        put,
    )
    assert refused(in_process("store", "init", role.url("wrong")), plain) == (
        1,
        f"The server refuses the password of user {role.name} (URL).",
        put,
    )


def test_a_database_that_is_not_there_or_not_for_this_user(
    in_process: InProcessCli, role: UnprivilegedUser
) -> None:
    execute(role.admin, f"REVOKE CONNECT ON DATABASE {role.database} FROM PUBLIC")
    assert refused(in_process("store", "init", role.url(IN_URL)), role.url()) == (
        1,
        f"User {role.name} may not connect to the database {role.database} (URL).",
        f"As its owner:  GRANT CONNECT ON DATABASE {role.database} TO {role.name};",
    )
    nowhere = role.url(database="nowhere")
    code, said, way = refused(in_process("store", "init", role.url(IN_URL, "nowhere")), nowhere)
    assert (code, said) == (1, "There is no database nowhere on the server (URL).")
    assert way.startswith("createdb -h /")
    assert way.endswith(f"-U {role.name} nowhere\n  coterie store init URL")


def test_a_right_to_connect_is_not_asked_for_where_it_is_there(
    in_process: InProcessCli, role: UnprivilegedUser
) -> None:
    execute(role.admin, f"ALTER DATABASE {role.database} CONNECTION LIMIT 0")
    code, said, way = refused(in_process("store", "init", role.url(IN_URL)), role.url())
    assert (code, way) == (1, "Try again.")
    assert said.startswith("The server closed the connection: ")


def test_rights_are_asked_for_and_a_password_is_never_kept(
    in_process: InProcessCli, role: UnprivilegedUser
) -> None:
    given = role.url(IN_URL)
    assert refused(in_process("store", "init", given), role.url()) == (
        1,
        f"User {role.name} lacks a privilege: "
        f"permission denied for database {role.database} (URL).",
        f"As its owner:  ALTER DATABASE {role.database} OWNER TO {role.name};",
    )
    execute(role.admin, f"ALTER DATABASE {role.database} OWNER TO {role.name}")
    said = [
        in_process("store", "init", given),
        in_process("store", "show", given, "--json"),
        in_process("store", "upgrade", given),
        in_process("doctor", "--store", given, "--json"),
    ]
    assert [ran.code for ran in said[:3]] == [0, 0, 0]
    files = [path for path in in_process.user.home.parent.rglob("*") if path.is_file()]
    everything = "".join([one.out + one.err for one in said] + [path.read_text() for path in files])
    assert [word for word in (PASSWORD, IN_URL) if word in everything] == []


# -- a database that is not a store of this project -----------------------------------------------


def test_a_schema_that_is_none_newer_or_foreign(in_process: InProcessCli, database: str) -> None:
    ran = in_process("store", "show", database)
    said = "The database has no Coterie store (URL)."
    assert refused(ran, database) == (1, said, "coterie store init URL")
    execute(database, "CREATE SCHEMA coterie")
    for verb in ("init", "upgrade", "show"):
        code, said, way = refused(in_process("store", verb, database), database)
        assert (code, said) == (1, "The schema 'coterie' of the database is not Coterie's (URL).")
        assert way.startswith("Use another database: createdb NAME, then coterie store init ")
    execute(database, "DROP SCHEMA coterie")
    in_process("store", "init", database)
    execute(database, "INSERT INTO coterie.schema_version (number) VALUES (9999)")
    for verb in ("init", "upgrade", "show"):
        said = f"The store was made by a newer Coterie (9999, this one knows {LATEST}) (URL)."
        way = "pip install --upgrade 'coterie[postgres]'"
        assert refused(in_process("store", verb, database), database) == (1, said, way)


def test_another_project_s_store_is_refused_whatever_the_folders_are_called(
    in_process: InProcessCli, database: str, tmp_path: Path
) -> None:
    shop = in_process.user.project
    (shop / "cart.py").touch()
    git(shop, "init", "-q", "-b", "main")
    git(shop, "add", ".")
    git(shop, "commit", "-qm", "begin")
    first = git(shop, "rev-parse", "HEAD").strip()
    clone, other = tmp_path / "clone", tmp_path / "other" / "project"
    git(tmp_path, "clone", "-q", str(shop), str(clone))
    other.mkdir(parents=True)
    assert in_process("store", "init", database).code == 0
    git(clone, "commit", "-qm", "more", "--allow-empty")
    (shown,) = in_process("store", "show", database, "-C", str(clone), "--json").of("store")
    assert shown["project"] == {"name": "project", "root_commit": first}
    for verb in ("init", "show"):
        code, said, way = refused(in_process("store", verb, database, "-C", str(other)), database)
        assert (code, said) == (
            1,
            f"The store belongs to another project, project (first commit {first[:10]}); "
            "this project is project (not in git) (URL).",
        )
        assert way.startswith(
            "Create one for this project: createdb NAME, then coterie store init "
        )
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{clone}", str(shallow))
    ran = in_process("store", "show", database, "-C", str(shallow))
    assert (ran.code, ran.err.splitlines()[-1]) == (2, "  git fetch --unshallow")


def test_a_pooler_in_transaction_mode_is_refused(in_process: InProcessCli, database: str) -> None:
    if TEST_SERVER:
        pytest.skip("a pooler is put before a server of our own alone")
    assert in_process("store", "init", database).code == 0
    place = urlsplit(database)
    given = parse_qs(place.query)
    socket = f"{unquote(given['host'][0])}/.s.PGSQL.{given['port'][0]}"
    pooler = TransactionPooler(socket, place.path[1:])
    try:
        with serving(pooler) as port:
            url = f"postgresql://coterie@127.0.0.1:{port}{place.path}"
            for verb in ("init", "upgrade", "show"):
                assert refused(in_process("store", verb, url), url) == (
                    1,
                    "A connection pooler such as PgBouncer is in between, "
                    "which may share connections (URL).",
                    "Use the URL of PostgreSQL itself, usually on port 5432.",
                )
    finally:
        pooler.close()


def test_without_its_packages_it_says_what_to_install(
    in_process: InProcessCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = ("coterie.stores.postgres", "psycopg")
    for name in [name for name in sys.modules if name.startswith(ours)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    ran = in_process("store", "show", "postgresql://db/shop")
    assert (ran.code, ran.err) == (
        2,
        "! A store in PostgreSQL needs packages that are not installed.\n"
        '  pip install "coterie[postgres]"\n',
    )


def test_the_doctor_says_what_is_wrong_with_a_store(bare: Cli, database: str) -> None:
    bare = InProcessCli(bare.user)
    ran = bare("doctor", "--store", database)
    way = f"  coterie store init '{database}'\n"
    assert f"\n! The database has no Coterie store ({database}).\n{way}" in ran.out
    assert ran.code == 1
    bare("store", "init", database)

    def check() -> tuple[bool, str, str]:
        found = bare("doctor", "--store", database, "--json").of("check")
        (one,) = [one for one in found if one["name"] == "store"]
        return one["ok"], one["detail"].partition(":")[0], one["hint"]

    ok, detail, hint = check()
    assert (ok, detail.startswith("PostgreSQL 1"), hint) == (True, True, "")
    assert detail.endswith(f", schema {LATEST}, 0 tasks")
    name = urlsplit(database).path[1:]
    execute(database, f"ALTER DATABASE {name} SET synchronous_commit = off")
    assert check()[::2] == (False, "set synchronous_commit = on there")
