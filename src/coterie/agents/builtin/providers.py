"""Create a model whose client gets the chosen URL and key, and nothing else.

The vendors' libraries read many settings from the environment of the process by themselves: keys,
URLs, organizations, headers, proxies.  That environment is Coterie's own and not the member's, so
each of these is passed explicitly, and what still gets into a request is removed.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2
from pydantic_ai.models import Model as Library

from coterie.agents.builtin.choice import ModelChoice, Provider
from coterie.agents.builtin.model import LibraryModel
from coterie.model.flags import words

USER_AGENT = "coterie-builtin"
_TIMEOUT = httpx2.Timeout(600.0, connect=15.0)
_SENT = frozenset(
    words(
        "accept accept-encoding anthropic-beta anthropic-version connection content-length "
        "content-type host user-agent"
    )
)
_CREDENTIALS: Mapping[str, str] = {
    "authorization": "Bearer ",
    "x-api-key": "",
    "x-goog-api-key": "",
}
"""The headers that carry a key, and the prefix before it."""


def connect(choice: ModelChoice, env: Mapping[str, str]) -> LibraryModel:
    """Create a model's client.  Blocks: it reads certificates, and imports a lot."""
    http = httpx2.AsyncClient(
        timeout=_TIMEOUT,
        trust_env=False,
        proxy=_proxy(choice.url, env),
        verify=_certificates(env) if choice.url.startswith("https:") else False,
        event_hooks={"request": [_Outgoing(choice.key)]},
    )
    return LibraryModel(_MAKE[choice.provider](choice, http), http, choice)


@dataclass(frozen=True)
class _Outgoing:
    """Removes headers that are not needed, and replaces credentials with the given one."""

    key: str

    async def __call__(self, request: httpx2.Request) -> None:
        for name in list(request.headers):
            if name in _CREDENTIALS:
                request.headers[name] = f"{_CREDENTIALS[name]}{self.key}"
            elif name not in _SENT:
                del request.headers[name]
        request.headers["user-agent"] = USER_AGENT


def _proxy(url: str, env: Mapping[str, str]) -> str | None:
    """Return the proxy that the member's environment names for this URL."""
    parts = urlsplit(url)
    named = {name.lower(): value for name, value in env.items() if value}
    host = f".{parts.hostname}"
    spared = [one.strip().lstrip("*.") for one in named.get("no_proxy", "").split(",")]
    if named.get("no_proxy") == "*" or any(one and host.endswith(f".{one}") for one in spared):
        return None
    return named.get(f"{parts.scheme}_proxy") or named.get("all_proxy")


def _certificates(env: Mapping[str, str]) -> ssl.SSLContext | bool:
    file, folder = env.get("SSL_CERT_FILE"), env.get("SSL_CERT_DIR")
    return ssl.create_default_context(cafile=file, capath=folder) if file or folder else True


def _anthropic(choice: ModelChoice, http: httpx2.AsyncClient) -> Library[Any]:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    client = AsyncAnthropic(
        api_key=None if choice.is_token else choice.key,
        auth_token=choice.key if choice.is_token else None,
        base_url=choice.url,
        http_client=http,
        max_retries=0,
        open_telemetry=False,
    )
    return AnthropicModel(choice.name, provider=AnthropicProvider(anthropic_client=client))


def _openai(choice: ModelChoice, http: httpx2.AsyncClient) -> Library[Any]:
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    client = AsyncOpenAI(api_key=choice.key, base_url=choice.url, http_client=http, max_retries=0)
    if choice.is_moved:
        provider = OpenAICompatibleProvider("openai-compatible", openai_client=client)
        return OpenAIChatModel(choice.name, provider=provider)
    return OpenAIChatModel(choice.name, provider=OpenAIProvider(openai_client=client))


def _google(choice: ModelChoice, http: httpx2.AsyncClient) -> Library[Any]:
    from google.genai import Client
    from google.genai.client import DebugConfig
    from google.genai.types import HttpOptions
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    options = HttpOptions(
        base_url=choice.url,
        api_version="v1beta",
        httpx_async_client=http,
        timeout=int((_TIMEOUT.read or 0) * 1000),
    )
    client = Client(
        vertexai=False,
        api_key=choice.key,
        debug_config=DebugConfig(client_mode=None, replays_directory=None, replay_id=None),
        http_options=options,
    )
    return GoogleModel(choice.name, provider=GoogleProvider(client=client))


_MAKE: Mapping[Provider, Callable[[ModelChoice, httpx2.AsyncClient], Library[Any]]] = {
    "anthropic": _anthropic,
    "openai": _openai,
    "google": _google,
}
