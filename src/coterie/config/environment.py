"""The one place that looks at our own environment; everyone else is handed data."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from coterie.errors import UsageError

_PASSED = frozenset(
    {
        "COLORTERM",
        "LANG",
        "LANGUAGE",
        "LOGNAME",
        "PATH",
        "SHELL",
        "TERM",
        "TZ",
        "USER",
        # Behind a company's proxy nothing works without these.
        "ALL_PROXY",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "all_proxy",
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "CURL_CA_BUNDLE",
        "NODE_EXTRA_CA_CERTS",
        "REQUESTS_CA_BUNDLE",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
    }
)


def coterie_home() -> Path:
    """The user's own folder, `~/.coterie` unless COTERIE_HOME moves it."""
    moved = os.environ.get("COTERIE_HOME")
    try:
        return Path(moved).expanduser().absolute() if moved else Path.home() / ".coterie"
    except RuntimeError:
        raise UsageError(
            "Your home folder cannot be found.", "Set HOME, or COTERIE_HOME to a folder of yours."
        ) from None


def user_home() -> Path | None:
    """The user's home folder, where there is one."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def passthrough(keys: Collection[str] = ()) -> dict[str, str]:
    """What of our environment a member's process may see: nothing of ours, and of keys only
    those that are named."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED or name.startswith("LC_") or name in keys
    }


def search_path() -> str:
    """Where programs are looked for."""
    return os.environ.get("PATH", os.defpath)
