"""How to point each bare CLI at a rehearsal server instead of its vendor, without Coterie.

Measured with the versions that scripts/real-clis installs.  Nothing here is a secret, and
nothing is written: the caller merges `config` into `config_file` in the CLI's home, adds `env`
to the environment and `args` to the command line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import cast

from coterie.rehearsal.lenient_json import Json
from coterie.rehearsal.server import MODEL

KEY = "rehearsal"
"""Used as the API key; the server accepts any."""


@dataclass(frozen=True)
class CliSetup:
    """The settings that point one CLI at the server."""

    env: Mapping[str, str]
    args: tuple[str, ...] = ()
    """Flags after the program's name."""
    config: Mapping[str, object] = field(default_factory=dict[str, object])
    """What its configuration file must contain, among other settings."""
    config_file: str | None = None
    """The path of that file, relative to the CLI's home folder."""

    @property
    def config_text(self) -> str:
        """The content of a file with only these settings."""
        if self.config_file and self.config_file.endswith(".toml"):
            return toml(self.config)
        return json.dumps(self.config, indent=2) + "\n"


def claude(url: str, key: str = KEY) -> CliSetup:
    """Claude Code: environment variables only; any key counts as signed in."""
    return CliSetup(
        {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": key,
            # With these it talks only to the server.
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_TELEMETRY": "1",
        }
    )


def codex(url: str, key: str = KEY) -> CliSetup:
    """Codex: a custom provider; the built-in one would try WebSocket and require a login."""
    provider: Json = {
        "name": "Rehearsal",
        "base_url": f"{url}/v1",
        "wire_api": "responses",
        "env_key": "REHEARSAL_API_KEY",
        "request_max_retries": 1,
        "stream_max_retries": 1,
    }
    config: Json = {
        "model_provider": "rehearsal",
        "model_providers": {"rehearsal": provider},
        **_codex_stays_here(url),
    }
    return CliSetup({"REHEARSAL_API_KEY": key}, (), config, "config.toml")


def codex_signed_in(url: str) -> CliSetup:
    """Codex with the login stored in its home: the built-in provider, redirected to the server."""
    config: Json = {
        "model_provider": "openai",
        "openai_base_url": f"{url}/v1",
        **_codex_stays_here(url),
    }
    return CliSetup({}, (), config, "config.toml")


def _codex_stays_here(url: str) -> Json:
    return {
        # A catalogue model with plain tools; others expect JavaScript in a tool called exec.
        "model": "gpt-5.5",
        "check_for_update_on_startup": False,
        "web_search": "disabled",
        # When signed in to ChatGPT, it would fetch account, settings and apps with the real token.
        "chatgpt_base_url": f"{url}/backend-api",
        "analytics": {"enabled": False},
        "features": {
            "apps": False,
            # When signed in to ChatGPT, it compresses its requests with zstd.
            "enable_request_compression": False,
            # Otherwise git fetches the vendor's list of plug-ins at every start.
            "plugins": False,
        },
    }


def gemini(url: str, key: str = KEY) -> CliSetup:
    """Gemini CLI: the sign-in method must be set, or it exits with 41."""
    config: Json = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    }
    env = {"GEMINI_API_KEY": key, "GOOGLE_GEMINI_BASE_URL": url}
    # The default model is a router that queries another model first.
    return CliSetup(env, ("--model", "gemini-2.5-pro"), config, ".gemini/settings.json")


def qwen(url: str, key: str = KEY) -> CliSetup:
    """Qwen Code: any service that speaks Chat Completions."""
    config: Json = {
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"enableAutoUpdate": False},
        # Otherwise every turn is followed by a second conversation about what to remember.
        "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False},
    }
    env = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": key, "OPENAI_MODEL": MODEL}
    return CliSetup(env, ("--auth-type", "openai"), config, ".qwen/settings.json")


def opencode(url: str, key: str = KEY) -> CliSetup:
    """OpenCode: a custom provider, and nothing fetched at startup."""
    model = f"{MODEL}/{MODEL}"
    provider: Json = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Rehearsal",
        "options": {"baseURL": f"{url}/v1", "apiKey": key},
        "models": {MODEL: {"name": "Rehearsal"}},
    }
    config: Json = {
        "autoupdate": False,
        "share": "disabled",
        "model": model,
        "small_model": model,
        "enabled_providers": [MODEL],
        "provider": {MODEL: provider},
    }
    env = {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        # Otherwise it fetches its plug-in package into every config folder in the background.
        "npm_config_offline": "true",
    }
    return CliSetup(env, (), config, ".config/opencode/opencode.json")


SETUPS: Mapping[str, Callable[[str], CliSetup]] = {
    "claude": claude,
    "codex": codex,
    "gemini": gemini,
    "opencode": opencode,
    "qwen": qwen,
}
"""By agent name."""


def toml(table: Mapping[str, object], path: tuple[str, ...] = ()) -> str:
    """Return nested tables as TOML; keys must be bare, values spelled the same in JSON."""
    values = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
    if path and values:
        lines.insert(0, f"[{'.'.join(path)}]")
    text = "".join(f"{line}\n" for line in lines)
    for key, value in table.items():
        if isinstance(value, Mapping):
            text += toml(cast("Mapping[str, object]", value), (*path, key))
    return text
