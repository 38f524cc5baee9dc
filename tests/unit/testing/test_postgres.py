"""A test run's PostgreSQL: shared, with a database for each test, and removed with the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import psycopg
import pytest

from coterie.testing.postgres import Databases

OWNER = """
import os, sys, time
from coterie.testing.postgres import shared_cluster

cluster = shared_cluster("a run that is killed", os.getpid())
assert shared_cluster("a run that is killed", os.getpid()) == cluster
print(cluster.pid, cluster.folder, cluster.url(), sep="\\n", flush=True)
sys.stdin.read()
"""


def execute(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def test_a_database_is_empty_and_a_test_s_own(postgres: Databases, database: str) -> None:
    execute(database, "CREATE TABLE known (n int)")
    other = postgres.create("test_beside")
    try:
        tables = "SELECT count(*) FROM pg_tables WHERE tablename = 'known'"
        assert [execute(database, tables), execute(other, tables)] == [[(1,)], [(0,)]]
    finally:
        postgres.drop("test_beside")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        execute(other, "SELECT 1")


def test_a_template_is_made_once_whoever_asks(postgres: Databases) -> None:
    filled: list[str] = []

    def fill(url: str) -> None:
        execute(url, "CREATE TABLE known AS SELECT 7 AS n")
        filled.append(url)

    with ThreadPoolExecutor(3) as pool:
        names = list(pool.map(lambda _: postgres.prepare("template_seven", fill), range(3)))
    assert names == ["template_seven"] * 3
    assert len(filled) <= 1  # another worker may have created it
    try:
        made = postgres.create("test_of_template", "template_seven")
        assert execute(made, "SELECT n FROM known") == [(7,)]
    finally:
        postgres.drop("test_of_template")


def test_the_server_and_its_files_are_gone_with_a_run_that_is_killed(postgres: Databases) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdin is not None
    assert owner.stdout is not None
    with owner:
        pid, folder, url = (owner.stdout.readline().strip() for _ in range(3))
        server = psutil.Process(int(pid))
        assert execute(url, "SELECT 1") == [(1,)]
        assert Path(folder).stat().st_mode & 0o077 == 0
        os.kill(owner.pid, signal.SIGKILL)
    server.wait()
    while Path(folder).exists():  # its keeper removes it last
        time.sleep(0.01)
    assert execute(postgres.url("postgres"), "SELECT 1") == [(1,)]  # the run's own is still up
