"""OpenCode: the Agent Client Protocol, with permissions and plug-ins kept under control."""

from coterie.model.agent import AdapterFacts, AgentFacts, LoginFacts, ShellTool
from coterie.model.flags import words

FACTS = AgentFacts(
    name="opencode",
    display_name="OpenCode",
    install="npm i -g opencode-ai",
    tested="1.18.33",
    keys=("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY"),
    sign_in="opencode auth login",
    login=LoginFacts(".local/share/opencode/auth.json", ("*", "expires")),
    model_variables=("OPENROUTER_",),
    settings=(".opencode",),
    adapter=AdapterFacts("acp", "coterie.agents.opencode.home:OpencodeAdapter"),
    base_args=("acp",),
    isolating=words(
        "OPENCODE_CONFIG OPENCODE_CONFIG_DIR OPENCODE_DB OPENCODE_DISABLE_CLAUDE_CODE "
        "OPENCODE_DISABLE_EXTERNAL_SKILLS OPENCODE_DISABLE_PROJECT_CONFIG OPENCODE_PERMISSION"
    ),
    shell=ShellTool("bash", arguments={"description": "Coterie checks whether this works."}),
)
