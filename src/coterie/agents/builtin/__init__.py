"""The built-in agent: a model, our own tools and a loop that survives a crash at any point."""

from coterie.model.agent import AdapterFacts, AgentFacts
from coterie.model.flags import words

FACTS = AgentFacts(
    name="builtin",
    display_name="Built-in agent",
    install='pip install "coterie[builtin]"',
    keys=words(
        "ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN ANTHROPIC_BASE_URL OPENAI_API_KEY OPENAI_BASE_URL "
        "GEMINI_API_KEY GOOGLE_API_KEY GOOGLE_GEMINI_BASE_URL"
    ),
    sign_in="export ANTHROPIC_API_KEY=...",
    model_variables=words("AZURE_OPENAI_ COHERE_ DEEPSEEK_ GROQ_ MISTRAL_ TOGETHER_ XAI_"),
    adapter=AdapterFacts("builtin", "coterie.agents.builtin.adapter:BuiltinAdapter", is_ours=True),
    needs="pydantic_ai",
    is_program=False,
)
