"""A browser that watches all its pages: what they load, what they run, what they must not."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Request,
    expect,
    sync_playwright,
)

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
"""The shell draws no windows, which would cost more than the pages in them."""
TIMEOUT = 60_000
"""Milliseconds; generous, for a busy machine."""
expect.set_options(timeout=TIMEOUT)
_Made = TypeVar("_Made")

# Every window of a full browser loads two more pages for suggestions below its address bar, which
# nobody types into: more than half of the cost of opening a window.
_SUGGESTIONS = ("WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup")
_OFF_BY_PLAYWRIGHT = (
    "AimEnabled",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "LensOverlay",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PaintHolding",
    "PreconnectToSearch",
    "ThirdPartyStoragePartitioning",
)
"""Repeated here: Chromium uses only the last of two such switches."""


class BrowserThread:
    """The only thread that talks to the browser.

    Playwright keeps an event loop running in the thread that it is used from, where tests of the
    same worker could then no longer run loops of their own.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "browser")

    def __call__(self, do: Callable[..., _Made], *args: Any, **kwargs: Any) -> _Made:
        """Call a function in that thread."""
        return self._thread.submit(do, *args, **kwargs).result()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the system's browser; nothing is downloaded."""
    assert CHROMIUM is not None
    args = [f"--disable-features={','.join(_OFF_BY_PLAYWRIGHT + _SUGGESTIONS)}"]
    if os.geteuid() == 0:  # Chromium's sandbox does not run as root
        args.append("--no-sandbox")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=args)
        yield browser
        browser.close()


class Watch:
    """Violations in a context: everything must come from `origins`."""

    def __init__(self, context: BrowserContext, *origins: str) -> None:
        self.context = context
        self.found: list[str] = []
        self._origins = {*origins}
        context.set_default_timeout(TIMEOUT)
        context.on("request", self._requested)
        context.on("console", self._logged)
        context.on("dialog", lambda dialog: self.found.append(f"dialog: {dialog.message}"))
        context.on("weberror", lambda error: self.found.append(f"error: {error.error}"))
        context.add_init_script("window.pwned = () => console.error('pwned')")

    def also(self, origin: str) -> None:
        """Permit another server that pages may talk to."""
        self._origins.add(origin)

    def _requested(self, request: Request) -> None:
        url = urlsplit(request.url)
        if url.scheme == "data" or f"{url.scheme}://{url.netloc}" in self._origins:
            return
        self.found.append(f"request: {request.url}")

    def _logged(self, message: ConsoleMessage) -> None:
        if any(word in message.text for word in ("pwned", "Content Security", "Trusted")):
            self.found.append(f"console: {message.text}")
