"""Gemini CLI: the Agent Client Protocol on one long-lived process, or headless without it."""

from coterie.model.agent import AdapterFacts, AgentFacts, LoginFacts, ShellTool
from coterie.model.flags import FlagFacts, flags_of, words

FACTS = AgentFacts(
    name="gemini",
    display_name="Gemini CLI",
    install="npm i -g @google/gemini-cli",
    tested="0.61.0",
    keys=words(
        "GEMINI_API_KEY GOOGLE_API_KEY GOOGLE_CLOUD_LOCATION GOOGLE_CLOUD_PROJECT "
        "GOOGLE_GENAI_USE_VERTEXAI"
    ),
    credentials=".gemini/oauth_creds.json",
    sign_in="gemini",
    login=LoginFacts(".gemini/oauth_creds.json", ("expiry_date",)),
    model_variables=("GEMINI_", "GOOGLE_API_", "GOOGLE_GENAI_"),
    settings=(".gemini",),
    adapter=AdapterFacts("gemini", "coterie.agents.gemini.adapter:GeminiAdapter", is_ours=True),
    base_args=("--output-format", "stream-json"),
    capabilities={
        "supportsSystemPrompt": False,
        "completionDetection": "jsonl",
        "completionTypes": ["result"],
        "modelFlag": "--model",
    },
    # Otherwise it relaunches itself: twice the memory, half the speed.
    env={"GEMINI_CLI_NO_RELAUNCH": "true"},
    flags=FlagFacts(
        mode=flags_of("--acp --experimental-acp", "-o --output-format -p --prompt"),
        chosen=flags_of(
            "--list-sessions --skip-trust -y --yolo",
            "--approval-mode --delete-session -i --prompt-interactive -r --resume --session-id",
        ),
        auto_approve_flags={"--approval-mode": frozenset({"yolo"})},
        short_y_approves=True,
    ),
    isolating=("GEMINI_CLI_HOME", "GEMINI_CLI_TRUST_WORKSPACE"),
    instructions=("GEMINI.md",),
    follows_imports=True,
    shell=ShellTool(
        "run_shell_command", arguments={"description": "Coterie checks whether this works."}
    ),
)
