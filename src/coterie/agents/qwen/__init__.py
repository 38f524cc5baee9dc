"""Qwen Code: the Agent Client Protocol, in a home that keeps a repository from configuring it."""

from coterie.model.agent import AdapterFacts, AgentFacts, ShellTool
from coterie.model.flags import FlagFacts

FACTS = AgentFacts(
    name="qwen",
    display_name="Qwen Code",
    install="npm i -g @qwen-code/qwen-code",
    tested="0.15.10",
    keys=("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", "DASHSCOPE_API_KEY"),
    sign_in="qwen",
    model_variables=("DASHSCOPE_",),
    settings=(".qwen",),
    adapter=AdapterFacts("acp", "coterie.agents.qwen.home:QwenAdapter"),
    base_args=("--acp",),
    flags=FlagFacts(
        auto_approve_flags={"--approval-mode": frozenset({"yolo"})}, short_y_approves=True
    ),
    isolating=("QWEN_HOME", "QWEN_RUNTIME_DIR"),
    shell=ShellTool(
        "run_shell_command",
        arguments={"description": "Coterie checks whether this works.", "is_background": False},
    ),
)
