"""Codex: its app-server as a long-lived process, `codex exec` where there is none."""

from coterie.model.agent import AdapterFacts, AgentFacts, LoginFacts, ShellTool
from coterie.model.flags import FlagFacts, flags_of

FACTS = AgentFacts(
    name="codex",
    display_name="OpenAI Codex",
    install="npm i -g @openai/codex",
    tested="0.166.0",
    keys=("CODEX_API_KEY", "OPENAI_API_KEY"),
    sign_in="codex login",
    login=LoginFacts(".codex/auth.json", ("tokens", "access_token")),
    model_variables=("CODEX_", "OPENAI_", "REHEARSAL_API_"),
    settings=(".codex",),
    sign_in_check=("login", "status"),
    adapter=AdapterFacts("codex", "coterie.agents.codex.adapter:CodexAdapter", is_ours=True),
    base_args=("exec", "--json", "--skip-git-repo-check"),
    capabilities={
        "supportsSystemPrompt": False,
        "completionDetection": "jsonl",
        # Not turn.failed: the exit that follows it says more than an empty reply would.
        "completionTypes": ["turn.completed"],
        "modelFlag": "--model",
    },
    flags=FlagFacts(
        mode=flags_of(
            "- app-server e exec --experimental-json --json --skip-git-repo-check",
            "--color -o --output-last-message",
        ),
        chosen=flags_of(
            "--dangerously-bypass-approvals-and-sandbox --dangerously-bypass-hook-trust "
            "--full-auto --yolo",
            "-C --cd -a --ask-for-approval -s --sandbox",
        ),
        setting=frozenset({"-c", "--config"}),
        prompt_keys=frozenset(
            {"developer_instructions", "instructions", "model_instructions_file"}
        ),
        auto_approve_flags=dict.fromkeys(("--sandbox", "-s"), frozenset({"danger-full-access"})),
        auto_approve_settings={"sandbox_mode": "danger-full-access"},
    ),
    isolating=("CODEX_HOME",),
    instructions=("AGENTS.md",),
    shell=ShellTool("exec_command", command="cmd"),
)
