"""Which model a member speaks to, at which address and with whose key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast
from urllib.parse import urlsplit

from coterie.model.update import TurnFailed
from coterie.workspace import homes

Provider = Literal["anthropic", "openai", "google"]

_NO_KEY = "none"
"""A placeholder key, for the user's own service that needs none."""


@dataclass(frozen=True)
class _Service:
    model: str
    """The model used if none is named."""
    names: str
    """A regular expression for how the names of its models begin."""
    keys: tuple[str, ...]
    """Variables that may hold the key; the first one that does counts."""
    address: str
    """The variable that overrides its URL."""
    url: str
    """Its default URL; a rehearsal uses the same path."""


_SERVICES: Mapping[Provider, _Service] = {
    "anthropic": _Service(
        model="claude-sonnet-5-5",
        names=r"claude",
        keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
        address="ANTHROPIC_BASE_URL",
        url="https://api.anthropic.com",
    ),
    "openai": _Service(
        model="gpt-5.5",
        names=r"gpt|chatgpt|codex|o\d",
        keys=("OPENAI_API_KEY",),
        address="OPENAI_BASE_URL",
        url="https://api.openai.com/v1",
    ),
    "google": _Service(
        model="gemini-2.5-pro",
        names=r"gemini",
        keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        address="GOOGLE_GEMINI_BASE_URL",
        url="https://generativelanguage.googleapis.com",
    ),
}


@dataclass(frozen=True)
class ModelChoice:
    """A model that can be asked."""

    provider: Provider
    name: str
    url: str
    key: str
    is_token: bool = False
    """Whether the key is a token from signing in, which Anthropic takes in another header."""
    is_moved: bool = False
    """Whether the URL is not the vendor's own."""
    rehearsed: bool = False

    def __repr__(self) -> str:
        return f"{self.provider}:{self.name} at {self.url}"


def choose(
    wanted: str | None, env: Mapping[str, str], rehearsal: str | None
) -> ModelChoice | TurnFailed:
    """Return the chosen model, or why no model can be asked."""
    if wanted is None:
        provider = "anthropic" if rehearsal else _usable(env)
        if provider is None:
            return _no_key("anthropic")
        name = _SERVICES[provider].model
    else:
        provider, name = _named(wanted, env, rehearsal)
        if provider is None:
            return TurnFailed(
                "model",
                f'unknown provider for model "{wanted}"',
                retry=False,
                hint="Write it as anthropic:NAME, openai:NAME or google:NAME.",
            )
    service = _SERVICES[provider]
    if rehearsal is not None:
        url = rehearsal + urlsplit(service.url).path
        return ModelChoice(provider, name, url, homes.REHEARSAL_KEY, is_moved=True, rehearsed=True)
    return _keyed(provider, name, env)


def _keyed(provider: Provider, name: str, env: Mapping[str, str]) -> ModelChoice | TurnFailed:
    service = _SERVICES[provider]
    moved = address(provider, env) != service.url
    holder = next((key for key in service.keys if env.get(key)), None)
    if holder is None and not (moved and provider == "openai"):
        return _no_key(provider)
    return ModelChoice(
        provider,
        name,
        address(provider, env),
        env[holder] if holder else _NO_KEY,
        is_token=holder == "ANTHROPIC_AUTH_TOKEN",
        is_moved=moved,
    )


def address(provider: Provider, env: Mapping[str, str]) -> str:
    """Return the URL of a service, for a process with this environment."""
    service = _SERVICES[provider]
    return env.get(service.address) or service.url


def _usable(env: Mapping[str, str]) -> Provider | None:
    """Return the first service that there is a key for."""
    for provider, service in _SERVICES.items():
        if any(env.get(key) for key in service.keys):
            return provider
    return None


def _named(
    wanted: str, env: Mapping[str, str], rehearsal: str | None
) -> tuple[Provider | None, str]:
    before, colon, after = wanted.partition(":")
    if colon and before in _SERVICES and after:
        return cast("Provider", before), after
    for provider, service in _SERVICES.items():
        if re.match(service.names, wanted):
            return provider, wanted
    # The model names of the user's own server, such as Ollama or vLLM, cannot be guessed.
    if env.get(_SERVICES["openai"].address):
        return "openai", wanted
    return ("anthropic" if rehearsal else None), wanted


def _no_key(provider: Provider) -> TurnFailed:
    first = _SERVICES[provider].keys[0]
    others = [one.keys[0] for name, one in _SERVICES.items() if name != provider]
    return TurnFailed(
        "signed_out",
        "no API key for a model is set" if provider == "anthropic" else f"{first} is not set",
        retry=False,
        hint=f"export {first}=... (or {', '.join(others)} for other providers), then try again.",
    )
