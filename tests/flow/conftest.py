"""Fixtures that several of these tests share."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio.to_thread
import pytest

from bench.chaos.stores import Stores
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.postgres import Databases

MEMORY = Path("/dev/shm")


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """Like `tmp_path`, in memory where possible: for simulated deaths that do not concern the disk.

    A store waits for the disk at every commit; hundreds of sessions do little else.
    """
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        made = Path(folder) / "place"
        made.mkdir()
        yield made


# -- the same tests on another store --------------------------------------------------------------

STORE = os.environ.get("COTERIE_TEST_STORE", "sqlite")
"""The store that these tests run on: `COTERIE_TEST_STORE=postgres make test ARGS=tests/flow`."""
ON_BOTH = frozenset({"test_gate", "test_subtask", "test_workflow_changed"})
"""Tests that always run on both stores: questions, answers, subtasks and replay; they are cheap."""
ON_SQLITE = frozenset(
    {
        # They open or copy the database file.
        "test_rows_that_are_no_envelopes_are_reported_as_damage",
        "test_what_was_not_signed_with_the_key_is_not_trusted",
        "test_dying_between_a_yes_and_what_it_was_for",
        "test_what_is_unknown_is_asked_about_with_a_warning",
        "test_what_is_read_does_not_grow_with_what_others_did",
        # They start a process that opens it.
        "test_of_two_that_race_for_a_dead_task_one_wins_every_time",
        "test_an_owner_that_is_stopped_still_lives",
        "test_a_daemon_of_an_agent_is_gone_within_five_seconds",
        "test_cancel_is_final_and_ends_the_agents",
        "test_a_human_turn_survives_a_kill_and_is_answered_from_another_process",
        "test_an_owner_stopped_by_a_signal_keeps_its_task",
    }
)
"""Tests of a single file, or of several processes that are given no other store."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.path.stem in ON_BOTH and STORE == "sqlite":
        metafunc.parametrize("store", ["sqlite", "postgres"], indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if STORE == "postgres":
        items[:] = [item for item in items if not _is_on_sqlite(item)]


def _is_on_sqlite(item: pytest.Item) -> bool:
    given = getattr(item, "callspec", None)
    uses_sqlite = given is not None and given.params.get("stores") == "sqlite"
    return uses_sqlite or item.name.partition("[")[0] in ON_SQLITE


@pytest.fixture
def stores(request: pytest.FixtureRequest) -> Iterator[Stores]:
    """Stores for projects whose processes are configured as users configure them."""
    made = Stores(request.getfixturevalue("postgres") if request.param == "postgres" else None)
    yield made
    made.drop()


@pytest.fixture(autouse=True)
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """On PostgreSQL, open a database of the same name wherever a test opens a database file."""
    if getattr(request, "param", STORE) != "postgres":
        yield
        return
    from coterie.stores.postgres import PostgresStorage, schema

    postgres: Databases = request.getfixturevalue("postgres")
    template = postgres.prepare("stores", schema.init)
    made: dict[str, str] = {}

    def url_of(name: str) -> str:
        if name not in made:
            made[name] = f"test_{secrets.token_hex(8)}"
            postgres.create(made[name], template)
        return postgres.url(made[name])

    async def open_postgres(path: Path, **_: object) -> PostgresStorage:
        return await PostgresStorage.open(await anyio.to_thread.run_sync(url_of, str(path)))

    async def open_named(name: str | None = None) -> PostgresStorage:
        return await open_postgres(Path(name or secrets.token_hex(8)))

    monkeypatch.setattr(SqliteStorage, "open", open_postgres)
    monkeypatch.setattr(SqliteStorage, "in_memory", open_named)
    yield
    for name in made.values():
        postgres.drop(name)
