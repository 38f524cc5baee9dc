"""The basis of all tests: a loop that never blocks, an isolated home, no skips in CI."""

from __future__ import annotations

import gc
import os
import secrets
import sys
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from blockbuster import BlockBuster

from coterie.config.project import Project, make_project
from coterie.workspace.beneath import remove_tree

if TYPE_CHECKING:
    from coterie.testing.postgres import Databases

collect_ignore = ["repositories"]
"""Projects that tests copy; their own tests run in the copies."""
IN_CI = os.environ.get("CI") == "true"

hypothesis.settings.register_profile("dev", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
# For other Python versions, whose differences show in few examples: --hypothesis-profile=brief
hypothesis.settings.register_profile("brief", deadline=None, derandomize=True, max_examples=10)
hypothesis.settings.load_profile("ci" if IN_CI else "dev")


@dataclass(frozen=True)
class IsolatedUser:
    """An isolated user: nothing of the real user's is read, nothing is left behind."""

    home: Path
    coterie_home: Path
    project: Path


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> IsolatedUser:
    """An empty HOME, COTERIE_HOME and project folder, set for this process and its children."""
    made = IsolatedUser(tmp_path / "home", tmp_path / "home" / ".coterie", tmp_path / "project")
    made.home.mkdir()
    made.project.mkdir()
    for name in [name for name in os.environ if name.startswith(("XDG_", "COTERIE_", "GIT_"))]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # few users set it, and it hides bugs
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setenv("COTERIE_HOME", str(made.coterie_home))
    monkeypatch.chdir(made.project)
    return made


@pytest.fixture
def nest() -> Iterator[Callable[..., None]]:
    """Make folders in each other, all of one name; removed here, as pytest would by recursion."""
    made: list[Path] = []

    def nested(top: Path, levels: int = 1100, name: str = "a") -> None:
        made.append(top)
        top.mkdir()
        folder = os.open(top, os.O_RDONLY)
        for _ in range(levels):
            os.mkdir(name, dir_fd=folder)
            above, folder = folder, os.open(name, os.O_RDONLY, dir_fd=folder)
            os.close(above)
        os.close(os.open("last.txt", os.O_CREAT, dir_fd=folder))
        os.close(folder)

    yield nested
    for top in made:
        if top.is_dir() and not top.is_symlink():
            remove_tree(top)


@pytest.fixture(autouse=True, scope="session")
def _no_real_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep projects made by tests without an isolated user out of the real user's list."""
    os.environ["COTERIE_HOME"] = str(tmp_path_factory.mktemp("nobody") / ".coterie")


def init_project(root: Path) -> Path:
    """Create a project's `.coterie` the way Coterie does for this user."""
    root.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(1) as beside:  # the test may be on a loop, which must not block
        beside.submit(make_project, Project(root)).result()
    return root / ".coterie"


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def _blocking_calls() -> BlockBuster:
    calls = BlockBuster(scanned_modules=["coterie"], excluded_modules=["coterie.testing"])
    for call in calls.functions.values():  # a commit on a disk that was fast last time
        call.can_block_in("stores/sqlite/transactions.py", "serve_at_once")
    return calls


@pytest.fixture(autouse=True)
def _loop_never_blocks(request: pytest.FixtureRequest) -> Iterator[None]:
    """In async tests, a Coterie call that blocks the event loop raises BlockingError."""
    if "anyio_backend" not in request.fixturenames:
        yield
        return
    blocking_calls: BlockBuster = request.getfixturevalue("_blocking_calls")
    blocking_calls.activate()
    yield
    blocking_calls.deactivate()


# -- PostgreSQL -----------------------------------------------------------------------------------

TEST_SERVER = os.environ.get("COTERIE_TEST_POSTGRES", "")
"""A server to use instead of starting one; its role must be allowed to create databases."""


@pytest.fixture(scope="session")
def postgres(testrun_uid: str) -> Databases:
    """The databases of a PostgreSQL shared by the whole run; started when a test first needs it."""
    from coterie.testing.postgres import Databases, NoPostgres, shared_cluster

    if TEST_SERVER:
        return Databases(TEST_SERVER)
    # A worker may crash and be replaced; the process that started the workers lasts to the end.
    owner = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    try:
        return Databases(shared_cluster(testrun_uid, owner).url())
    except NoPostgres as why:
        pytest.skip(str(why))


@pytest.fixture
def database(postgres: Databases) -> Iterator[str]:
    """The URL of an empty database for this test alone."""
    name = f"test_{secrets.token_hex(8)}"
    yield postgres.create(name)
    postgres.drop(name)


# -- collection ---------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Keep the bytecode of test modules, even if PYTHONDONTWRITEBYTECODE is set.

    Every worker collects all of them, and compiling takes two thirds of that time.  Collected
    objects live to the end, so the garbage collector need not scan them, now or during tests.
    """
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        sys.dont_write_bytecode = before


_OF_BROWSER = "tests/web/browser/"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out whole files, and the tests of the page as if they were one: a browser, a server and
    the installed program, started once, cost as much as many of them."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler.loadfile import LoadFileScheduling

    class OneBrowser(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _OF_BROWSER if nodeid.startswith(_OF_BROWSER) else super()._split_scope(nodeid)

    return OneBrowser(config, log)


# -- no skips in CI ----------------------------------------------------------------------------


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
