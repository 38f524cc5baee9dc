"""Codex: its app-server as a long-lived process, `codex exec` where there is none."""

from coterie.model.agent import AdapterFacts, AgentFacts, ShellTool
from coterie.model.flags import FlagFacts

FACTS = AgentFacts(
    name="codex",
    display_name="OpenAI Codex",
    install="npm i -g @openai/codex",
    tested="0.166.0",
    keys=("CODEX_API_KEY", "OPENAI_API_KEY"),
    sign_in="codex login",
    sign_in_check=("login", "status"),
    adapter=AdapterFacts(
        name="codex",
        make="coterie.agents.codex.adapter:CodexAdapter",
        is_ours=True,
    ),
    base_args=("exec", "--json", "--skip-git-repo-check"),
    capabilities={
        "supportsSystemPrompt": False,
        "completionDetection": "jsonl",
        # Not turn.failed: the exit that follows it says more than an empty reply would.
        "completionTypes": ["turn.completed"],
        "modelFlag": "--model",
    },
    flags=FlagFacts(
        mode={
            "-": 0,
            "app-server": 0,
            "e": 0,
            "exec": 0,
            "--experimental-json": 0,
            "--json": 0,
            "--skip-git-repo-check": 0,
            "--color": 1,
            "-o": 1,
            "--output-last-message": 1,
        },
        chosen={
            "--dangerously-bypass-approvals-and-sandbox": 0,
            "--dangerously-bypass-hook-trust": 0,
            "--full-auto": 0,
            "--yolo": 0,
            "-C": 1,
            "--cd": 1,
            "-a": 1,
            "--ask-for-approval": 1,
            "-s": 1,
            "--sandbox": 1,
        },
        setting=frozenset({"-c", "--config"}),
        prompt_keys=frozenset(
            {"developer_instructions", "instructions", "model_instructions_file"}
        ),
        yes={
            "--sandbox": frozenset({"danger-full-access"}),
            "-s": frozenset({"danger-full-access"}),
        },
        yes_keys={"sandbox_mode": "danger-full-access"},
    ),
    isolating=("CODEX_HOME",),
    instructions=("AGENTS.md",),
    shell=ShellTool("exec_command", command="cmd"),
)
