"""The agents we know by name: where to get them, how to sign in, how they are called.

The calls are those of one turn per process, prompt on stdin, JSON lines out, so that an agent
can be run by its entry alone where it has no adapter of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import PurePath

from coterie.model.agent import AgentDefinition

BUILT_IN = "builtin"
"""The agent that is a part of Coterie."""


@dataclass(frozen=True)
class KnownAgent:
    """The facts of one agent."""

    name: str
    display_name: str
    install: str
    sign_in: str
    sign_in_check: tuple[str, ...] | None
    """Arguments with which it exits 0 when signed in; None where it cannot be asked."""
    base_args: tuple[str, ...]
    capabilities: Mapping[str, object] = field(default_factory=dict[str, object])
    adapter: str | None = None
    """None: its own, the one of its name."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    keys: tuple[str, ...] = ()
    """Variables of the user's environment that hold its vendor's keys, passed to it alone."""
    credentials: str | None = None
    """The file below the user's home that signing in leaves, where its program cannot be asked."""
    tested: str | None = None
    """The version that our own tests run."""
    is_program: bool = True
    """Whether it is a program of its own; else it is a part of Coterie."""

    def definition(self, command: str, version: str | None, installed_at: str) -> AgentDefinition:
        """Its entry in the registry."""
        facts = {
            "name": self.name,
            "displayName": self.display_name,
            "command": command,
            "baseArgs": self.base_args,
            "capabilities": self.capabilities,
            "version": version,
            "installedAt": installed_at,
            "adapter": self.adapter,
            "env": self.env,
        }
        return AgentDefinition.model_validate({key: fact for key, fact in facts.items() if fact})


KNOWN_AGENTS: tuple[KnownAgent, ...] = (
    KnownAgent(
        name="claude",
        display_name="Claude Code",
        install="npm i -g @anthropic-ai/claude-code",
        tested="2.1.325",
        keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"),
        sign_in="claude auth login",
        sign_in_check=("auth", "status"),
        # Without the last three, a repository that was never trusted has its hooks and its MCP
        # servers run by being opened.
        base_args=(
            "-p",
            "--output-format",
            "stream-json",
            "--verbose",
            "--setting-sources",
            "user",
            "--strict-mcp-config",
        ),
        capabilities={
            "supportsSystemPrompt": True,
            "systemPromptFlag": "--append-system-prompt",
            "completionDetection": "jsonl",
            "completionTypes": ["result"],
            "textField": "result",
            "modelFlag": "--model",
        },
    ),
    KnownAgent(
        name="codex",
        display_name="OpenAI Codex",
        install="npm i -g @openai/codex",
        tested="0.166.0",
        keys=("CODEX_API_KEY", "OPENAI_API_KEY"),
        sign_in="codex login",
        sign_in_check=("login", "status"),
        base_args=("exec", "--json", "--skip-git-repo-check"),
        capabilities={
            "supportsSystemPrompt": False,
            "completionDetection": "jsonl",
            # Not turn.failed: the exit that follows it says more than an empty reply would.
            "completionTypes": ["turn.completed"],
            "modelFlag": "--model",
        },
    ),
    KnownAgent(
        name="gemini",
        display_name="Gemini CLI",
        install="npm i -g @google/gemini-cli",
        tested="0.61.0",
        keys=(
            "GEMINI_API_KEY",
            "GOOGLE_API_KEY",
            "GOOGLE_CLOUD_LOCATION",
            "GOOGLE_CLOUD_PROJECT",
            "GOOGLE_GENAI_USE_VERTEXAI",
        ),
        credentials=".gemini/oauth_creds.json",
        sign_in="gemini",
        sign_in_check=None,
        base_args=("--output-format", "stream-json"),
        capabilities={
            "supportsSystemPrompt": False,
            "completionDetection": "jsonl",
            "completionTypes": ["result"],
            "modelFlag": "--model",
        },
        # It would start itself a second time: twice the memory, half the speed.
        env={"GEMINI_CLI_NO_RELAUNCH": "true"},
    ),
    KnownAgent(
        name="qwen",
        display_name="Qwen Code",
        install="npm i -g @qwen-code/qwen-code",
        tested="0.15.10",
        keys=("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", "DASHSCOPE_API_KEY"),
        sign_in="qwen",
        sign_in_check=None,
        base_args=("--acp",),
        adapter="acp",
    ),
    KnownAgent(
        name="opencode",
        display_name="OpenCode",
        install="npm i -g opencode-ai",
        tested="1.18.33",
        keys=("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY"),
        sign_in="opencode auth login",
        sign_in_check=None,
        base_args=("acp",),
        adapter="acp",
    ),
    KnownAgent(
        name=BUILT_IN,
        display_name="Built-in agent",
        install='pip install "coterie[builtin]"',
        keys=(
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "ANTHROPIC_BASE_URL",
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
            "GEMINI_API_KEY",
            "GOOGLE_API_KEY",
            "GOOGLE_GEMINI_BASE_URL",
        ),
        sign_in="export ANTHROPIC_API_KEY=...",
        sign_in_check=None,
        base_args=(),
        is_program=False,
    ),
)

_BY_NAME: Mapping[str, KnownAgent] = {known.name: known for known in KNOWN_AGENTS}


def built_in() -> AgentDefinition | None:
    """The entry of the built-in agent, which nobody has to find; None where its part of Coterie
    was not installed."""
    if find_spec("pydantic_ai") is None:
        return None
    own = _BY_NAME[BUILT_IN]
    return AgentDefinition(name=own.name, display_name=own.display_name, command=own.name)


def is_built_in(definition: AgentDefinition) -> bool:
    """Whether it is a part of Coterie, so that there is no program to look for."""
    return definition.adapter_in((BUILT_IN,)) == BUILT_IN


def known_agent(name: str) -> KnownAgent | None:
    """The facts of an agent, by its name."""
    return _BY_NAME.get(name)


def family(definition: AgentDefinition) -> str:
    """Whose flags an agent understands: by its adapter, its name or its program's name."""
    program = PurePath(definition.command).stem.lower()
    for name in (definition.adapter, definition.name, program):
        if name is not None and name in _BY_NAME:
            return name
    return definition.adapter or definition.name
