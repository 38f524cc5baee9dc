"""Claude Code: one long-lived process per member, JSON lines both ways."""

from coterie.model.agent import AdapterFacts, AgentFacts, ShellTool
from coterie.model.flags import FlagFacts

FACTS = AgentFacts(
    name="claude",
    display_name="Claude Code",
    install="npm i -g @anthropic-ai/claude-code",
    tested="2.1.325",
    keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"),
    sign_in="claude auth login",
    sign_in_check=("auth", "status"),
    adapter=AdapterFacts(
        name="claude",
        make="coterie.agents.claude.adapter:ClaudeAdapter",
        is_ours=True,
    ),
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
    flags=FlagFacts(
        mode={
            "-p": 0,
            "--print": 0,
            "--verbose": 0,
            "--include-partial-messages": 0,
            "--replay-user-messages": 0,
            "--input-format": 1,
            "--output-format": 1,
            "--permission-prompt-tool": 1,
        },
        chosen={
            "--strict-mcp-config": 0,
            "-c": 0,
            "--continue": 0,
            "--fork-session": 0,
            "--no-session-persistence": 0,
            "--dangerously-skip-permissions": 0,
            "--allow-dangerously-skip-permissions": 0,
            "--permission-mode": 1,
            "--permission-prompts": 1,
            "--setting-sources": 1,
            "--session-id": 1,
            "-r": 1,
            "--resume": 1,
        },
        prompt=frozenset(
            {
                "--append-system-prompt",
                "--append-system-prompt-file",
                "--system-prompt",
                "--system-prompt-file",
            }
        ),
        yes={"--permission-mode": frozenset({"bypassPermissions"})},
    ),
    isolating=("CLAUDE_CODE_TMPDIR", "CLAUDE_CONFIG_DIR"),
    instructions=("CLAUDE.md",),
    shell=ShellTool("Bash", arguments={"description": "Coterie probes whether this works."}),
)
