"""What every test stands on: a loop that never blocks, a home of its own, no skips in CI."""

from __future__ import annotations

import gc
import os
import secrets
import sys
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from blockbuster import BlockBuster

from coterie.config.project import Project, make_project

if TYPE_CHECKING:
    from coterie.testing.postgres import Databases

collect_ignore = ["repositories"]
"""Projects that tests copy: their tests are run there."""
IN_CI = os.environ.get("CI") == "true"

hypothesis.settings.register_profile("dev", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
# For a Python beside ours: what differs shows in few examples. pytest --hypothesis-profile=brief
hypothesis.settings.register_profile("brief", deadline=None, derandomize=True, max_examples=10)
hypothesis.settings.load_profile("ci" if IN_CI else "dev")


@dataclass(frozen=True)
class House:
    """A machine of one's own: nothing of the real user is read, nothing is left behind."""

    home: Path
    coterie_home: Path
    project: Path


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    """An empty HOME, COTERIE_HOME and project folder, set for this process and its children."""
    made = House(tmp_path / "home", tmp_path / "home" / ".coterie", tmp_path / "project")
    made.home.mkdir()
    made.project.mkdir()
    for name in [name for name in os.environ if name.startswith(("XDG_", "COTERIE_", "GIT_"))]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # few users have it, and it hides much
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setenv("COTERIE_HOME", str(made.coterie_home))
    monkeypatch.chdir(made.project)
    return made


@pytest.fixture(autouse=True, scope="session")
def _no_real_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What a test without a house makes is not entered into the real user's list."""
    os.environ["COTERIE_HOME"] = str(tmp_path_factory.mktemp("nobody") / ".coterie")


def ours(root: Path) -> Path:
    """The `.coterie` of a project, as Coterie has made it for this user."""
    root.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(1) as beside:  # the test may be on a loop, which never blocks
        beside.submit(make_project, Project(root)).result()
    return root / ".coterie"


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def _blocking_calls() -> BlockBuster:
    calls = BlockBuster(scanned_modules=["coterie"], excluded_modules=["coterie.testing"])
    for call in calls.functions.values():  # a commit on a disk that was quick last time
        call.can_block_in("stores/sqlite/transactions.py", "serve_at_once")
    return calls


@pytest.fixture(autouse=True)
def _loop_never_blocks(request: pytest.FixtureRequest) -> Iterator[None]:
    """In async tests, a call of ours that blocks the event loop raises BlockingError there."""
    if "anyio_backend" not in request.fixturenames:
        yield
        return
    blocking_calls: BlockBuster = request.getfixturevalue("_blocking_calls")
    blocking_calls.activate()
    yield
    blocking_calls.deactivate()


# -- PostgreSQL -----------------------------------------------------------------------------------

TEST_SERVER = os.environ.get("COTERIE_TEST_POSTGRES", "")
"""A server to use instead of one of our own; its role must be allowed to make databases."""


@pytest.fixture(scope="session")
def postgres(testrun_uid: str) -> Databases:
    """The databases of a PostgreSQL that this whole run shares; made when a test first needs it."""
    from coterie.testing.postgres import Databases, NoPostgres, shared_cluster

    if TEST_SERVER:
        return Databases(TEST_SERVER)
    # A worker may crash and be replaced; the one that started the workers is there to the end.
    owner = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    try:
        return Databases(shared_cluster(testrun_uid, owner).url())
    except NoPostgres as why:
        pytest.skip(str(why))


@pytest.fixture
def database(postgres: Databases) -> Iterator[str]:
    """The URL of an empty database that is this test's alone."""
    name = f"test_{secrets.token_hex(8)}"
    yield postgres.create(name)
    postgres.drop(name)


# -- collecting ---------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Keep the bytecode of test modules, also where PYTHONDONTWRITEBYTECODE is set.

    Every worker collects all of them, and compiling them is two thirds of that.  What is collected
    stays to the end: the garbage collector need not go through it, now or while tests run.
    """
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        sys.dont_write_bytecode = before


# -- in CI nothing is skipped ------------------------------------------------------------------


def _refuse_skip(report: Any) -> Any:
    expected_failure = hasattr(report, "wasxfail")
    if IN_CI and (report.skipped or expected_failure):
        what = "xfail" if expected_failure else "skip"
        report.outcome = "failed"
        report.longrepr = f"{what} is a failure when CI=true: {report.longrepr}"
        if expected_failure:
            del report.wasxfail
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    return _refuse_skip((yield))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, Any, Any]:
    return _refuse_skip((yield))
