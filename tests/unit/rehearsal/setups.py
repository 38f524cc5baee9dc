"""What makes each bare CLI talk to a rehearsal server instead of its vendor, without Coterie.

Measured with the versions that scripts/real-clis installs.  Nothing here is a secret, and
nothing is written: whoever starts a CLI merges `config` into the file of that name in the home
it gives to the CLI, adds `env` to the environment and `args` to the command line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import cast

from coterie.rehearsal.lenient_json import Json
from coterie.rehearsal.server import MODEL

KEY = "rehearsal"
"""Stands where an API key would; the server takes any."""


@dataclass(frozen=True)
class CliSetup:
    """How one CLI is pointed at the server."""

    env: Mapping[str, str]
    args: tuple[str, ...] = ()
    """Flags after the program's name."""
    config: Mapping[str, object] = field(default_factory=dict[str, object])
    """What its configuration file must say, beside anything else."""
    config_file: str | None = None
    """That file, from the home folder of the CLI."""

    @property
    def config_text(self) -> str:
        """The file with nothing else in it."""
        if self.config_file and self.config_file.endswith(".toml"):
            return toml(self.config)
        return json.dumps(self.config, indent=2) + "\n"


def claude(url: str, key: str = KEY) -> CliSetup:
    """Claude Code: variables alone; any key counts as signed in."""
    return CliSetup(
        {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": key,
            # With these it speaks to nobody but the server.
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_TELEMETRY": "1",
        }
    )


def codex(url: str, key: str = KEY) -> CliSetup:
    """Codex: a provider of its own; the built-in one would try WebSocket and want a login."""
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
    """Codex with the sign-in that is in its home: the built-in provider, sent to the server."""
    config: Json = {
        "model_provider": "openai",
        "openai_base_url": f"{url}/v1",
        **_codex_stays_here(url),
    }
    return CliSetup({}, (), config, "config.toml")


def _codex_stays_here(url: str) -> Json:
    return {
        # A model of its catalogue with plain tools; others want JavaScript in a tool called exec.
        "model": "gpt-5.5",
        "check_for_update_on_startup": False,
        "web_search": "disabled",
        # Signed in to ChatGPT it would look up account, settings and apps with the real token.
        "chatgpt_base_url": f"{url}/backend-api",
        "analytics": {"enabled": False},
        "features": {
            "apps": False,
            # Signed in to ChatGPT it packs its requests with zstd.
            "enable_request_compression": False,
            # Else git is sent to its vendor's list of plug-ins at every start.
            "plugins": False,
        },
    }


def gemini(url: str, key: str = KEY) -> CliSetup:
    """Gemini CLI: the way to sign in must be chosen, else it exits with 41."""
    config: Json = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    }
    env = {"GEMINI_API_KEY": key, "GOOGLE_GEMINI_BASE_URL": url}
    # The default model is a router that asks another model first.
    return CliSetup(env, ("--model", "gemini-2.5-pro"), config, ".gemini/settings.json")


def qwen(url: str, key: str = KEY) -> CliSetup:
    """Qwen Code: any service that speaks Chat Completions."""
    config: Json = {
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"enableAutoUpdate": False},
        # Else a second conversation follows every turn, about what to remember.
        "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False},
    }
    env = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": key, "OPENAI_MODEL": MODEL}
    return CliSetup(env, ("--auth-type", "openai"), config, ".qwen/settings.json")


def opencode(url: str, key: str = KEY) -> CliSetup:
    """OpenCode: a provider of its own, and nothing fetched at start."""
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
        # Else it fetches its plug-in package into every configuration folder, in the background.
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
"""By the name of the agent."""


def toml(table: Mapping[str, object], path: tuple[str, ...] = ()) -> str:
    """TOML of nested tables; keys must be bare words, values what JSON spells alike."""
    values = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
    if path and values:
        lines.insert(0, f"[{'.'.join(path)}]")
    text = "".join(f"{line}\n" for line in lines)
    for key, value in table.items():
        if isinstance(value, Mapping):
            text += toml(cast("Mapping[str, object]", value), (*path, key))
    return text
