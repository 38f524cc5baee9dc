"""Claude Code: one long-lived process per member, JSON lines both ways."""

from coterie.model.agent import AdapterFacts, AgentFacts, LoginFacts, ShellTool
from coterie.model.flags import FlagFacts, flags_of, words

FACTS = AgentFacts(
    name="claude",
    display_name="Claude Code",
    install="npm i -g @anthropic-ai/claude-code",
    tested="2.1.325",
    keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"),
    sign_in="claude auth login",
    login=LoginFacts(".claude/.credentials.json", ("claudeAiOauth", "expiresAt")),
    model_variables=("ANTHROPIC_", "CLAUDE_"),
    settings=(".claude",),
    sign_in_check=("auth", "status"),
    adapter=AdapterFacts("claude", "coterie.agents.claude.adapter:ClaudeAdapter", is_ours=True),
    # Without the last three, opening a repository that was never trusted would run its hooks and
    # its MCP servers.
    base_args=words(
        "-p --output-format stream-json --verbose --setting-sources user --strict-mcp-config"
    ),
    capabilities={
        "supportsSystemPrompt": True,
        "systemPromptFlag": "--append-system-prompt",
        "completionDetection": "jsonl",
        "completionTypes": ["result"],
        "textField": "result",
        "modelFlag": "--model",
    },
    flags=FlagFacts(
        mode=flags_of(
            "-p --print --verbose --include-partial-messages --replay-user-messages",
            "--input-format --output-format --permission-prompt-tool",
        ),
        chosen=flags_of(
            "--strict-mcp-config -c --continue --fork-session --no-session-persistence "
            "--dangerously-skip-permissions --allow-dangerously-skip-permissions",
            "--permission-mode --permission-prompts --setting-sources --session-id -r --resume",
        ),
        prompt=frozenset(
            words(
                "--append-system-prompt --append-system-prompt-file "
                "--system-prompt --system-prompt-file"
            )
        ),
        auto_approve_flags={"--permission-mode": frozenset({"bypassPermissions"})},
    ),
    isolating=(
        "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS",
        "CLAUDE_CODE_TMPDIR",
        "CLAUDE_CONFIG_DIR",
    ),
    instructions=("CLAUDE.md",),
    follows_imports=True,
    shell=ShellTool("Bash", arguments={"description": "Coterie checks whether this works."}),
)
