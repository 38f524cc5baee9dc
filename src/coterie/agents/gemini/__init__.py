"""Gemini CLI: the Agent Client Protocol on one long-lived process, headless where it has none."""

from coterie.model.agent import AdapterFacts, AgentFacts, ShellTool
from coterie.model.flags import FlagFacts

FACTS = AgentFacts(
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
    adapter=AdapterFacts(
        name="gemini",
        make="coterie.agents.gemini.adapter:GeminiAdapter",
        is_ours=True,
    ),
    base_args=("--output-format", "stream-json"),
    capabilities={
        "supportsSystemPrompt": False,
        "completionDetection": "jsonl",
        "completionTypes": ["result"],
        "modelFlag": "--model",
    },
    # It would start itself a second time: twice the memory, half the speed.
    env={"GEMINI_CLI_NO_RELAUNCH": "true"},
    flags=FlagFacts(
        mode={
            "--acp": 0,
            "--experimental-acp": 0,
            "-o": 1,
            "--output-format": 1,
            "-p": 1,
            "--prompt": 1,
        },
        chosen={
            "--list-sessions": 0,
            "--skip-trust": 0,
            "-y": 0,
            "--yolo": 0,
            "--approval-mode": 1,
            "--delete-session": 1,
            "-i": 1,
            "--prompt-interactive": 1,
            "-r": 1,
            "--resume": 1,
            "--session-id": 1,
        },
        yes={"--approval-mode": frozenset({"yolo"})},
        short_yes=True,
    ),
    isolating=("GEMINI_CLI_HOME",),
    instructions=("GEMINI.md",),
    shell=ShellTool(
        "run_shell_command", arguments={"description": "Coterie probes whether this works."}
    ),
)
