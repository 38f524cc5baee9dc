"""One browser, one wheel and one server per test worker, for all tests of the page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from bench.page.browser import CHROMIUM, BrowserThread, Watch, chromium
from bench.page.machine import Machine, Server, installed
from tests.web.browser.forked_machine import ForkedMachine, ServerOfWheel

_browser_thread = BrowserThread()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run the tests of this folder in the browser's thread."""
    names = pyfuncitem._fixtureinfo.argnames
    _browser_thread(pyfuncitem.obj, **{name: pyfuncitem.funcargs[name] for name in names})
    return True


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed: scripts/system-packages")
    stack = ExitStack()

    def launched() -> Browser:
        return stack.enter_context(chromium())

    yield _browser_thread(launched)
    _browser_thread(stack.close)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The `bin` of an environment with Coterie as users install it."""
    base = tmp_path_factory.getbasetemp()
    return installed(base if worker_id == "master" else base.parent)


@pytest.fixture(scope="session")
def forks(wheel: Path) -> ServerOfWheel:
    """The process that the commands of machines are forked from."""
    return ServerOfWheel(wheel / "python")


@pytest.fixture(scope="session")
def machine(wheel: Path, forks: ServerOfWheel, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """A user's machine."""
    return ForkedMachine(tmp_path_factory.mktemp("machine") / "all", wheel, forks)


@pytest.fixture
def own_machine(wheel: Path, forks: ServerOfWheel, tmp_path: Path) -> Machine:
    """A machine of the test's own: nothing else waits in its inbox."""
    return ForkedMachine(tmp_path / "machine", wheel, forks)


@pytest.fixture(scope="session")
def server(machine: Machine) -> Iterator[Server]:
    """`coterie serve` in an empty project."""
    with Server(machine, machine.project("shop")) as made:
        yield made


@pytest.fixture
def watch(browser: Browser, server: Server) -> Iterator[Watch]:
    """An isolated browser context; fails if anything forbidden happened."""
    made = _browser_thread(browser.new_context)
    watch = _browser_thread(Watch, made, server.origin)
    yield watch
    _browser_thread(made.close)
    assert watch.found == []


@pytest.fixture
def context(watch: Watch) -> BrowserContext:
    """The context in which a test opens its pages."""
    return watch.context


@pytest.fixture
def page(context: BrowserContext, server: Server) -> Page:
    """The page, signed in through the printed address."""

    def opened() -> Page:
        page = context.new_page()
        page.goto(server.address)
        return page

    return _browser_thread(opened)
