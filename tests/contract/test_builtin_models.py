"""Which model the built-in agent uses, and that nothing else of the environment is sent."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from coterie.agents.builtin.adapter import _embedder
from coterie.agents.builtin.choice import ModelChoice, choose
from coterie.agents.builtin.providers import _certificates, _proxy, connect
from coterie.model.update import Spent, TurnFailed, Usage
from coterie.model.workspace import Workspace
from coterie.tools.search.ranking import HttpEmbedder
from tests.contract.builtin.harness import builtin_harness, says
from tests.contract.test_builtin import WIRES

KEYS = {"ANTHROPIC_API_KEY": "ka", "OPENAI_API_KEY": "ko", "GEMINI_API_KEY": "kg"}
ANTHROPIC, OPENAI = "https://api.anthropic.com", "https://api.openai.com/v1"
GOOGLE = "https://generativelanguage.googleapis.com"


@pytest.mark.parametrize(
    ("wanted", "env", "chosen"),
    [
        (None, KEYS, ModelChoice("anthropic", "claude-sonnet-5-5", ANTHROPIC, "ka")),
        (None, {"OPENAI_API_KEY": "ko"}, ModelChoice("openai", "gpt-5.5", OPENAI, "ko")),
        (None, {"GOOGLE_API_KEY": "kg"}, ModelChoice("google", "gemini-2.5-pro", GOOGLE, "kg")),
        ("anthropic:x", KEYS, ModelChoice("anthropic", "x", ANTHROPIC, "ka")),
        ("openai:x:y", KEYS, ModelChoice("openai", "x:y", OPENAI, "ko")),
        ("claude-x", KEYS, ModelChoice("anthropic", "claude-x", ANTHROPIC, "ka")),
        ("o3-mini", KEYS, ModelChoice("openai", "o3-mini", OPENAI, "ko")),
        ("gemini-x", KEYS, ModelChoice("google", "gemini-x", GOOGLE, "kg")),
        (
            "llama3:8b",
            {"OPENAI_BASE_URL": "http://localhost:11434/v1"},
            ModelChoice("openai", "llama3:8b", "http://localhost:11434/v1", "none", is_moved=True),
        ),
        (
            "claude-x",
            {"ANTHROPIC_AUTH_TOKEN": "kt", "ANTHROPIC_BASE_URL": "https://gate.example"},
            ModelChoice(
                *("anthropic", "claude-x", "https://gate.example", "kt"),
                is_token=True,
                is_moved=True,
            ),
        ),
    ],
)
def test_which_model_is_meant(wanted: str | None, env: dict[str, str], chosen: ModelChoice) -> None:
    assert choose(wanted, env, None) == chosen
    assert chosen.key not in repr(chosen)


@pytest.mark.parametrize(
    ("wanted", "provider", "name", "url"),
    [
        (None, "anthropic", "claude-sonnet-5-5", "http://127.0.0.1:1"),
        ("openai:x", "openai", "x", "http://127.0.0.1:1/v1"),
        ("what", "anthropic", "what", "http://127.0.0.1:1"),
    ],
)
def test_a_rehearsal_is_spoken_to_whatever_keys_there_are(
    wanted: str | None, provider: str, name: str, url: str
) -> None:
    chosen = choose(wanted, KEYS, "http://127.0.0.1:1")
    assert isinstance(chosen, ModelChoice)
    assert (chosen.provider, chosen.name, chosen.url) == (provider, name, url)
    assert (chosen.key, chosen.rehearsed) == ("rehearsal", True)


@pytest.mark.parametrize(
    ("wanted", "env", "kind", "message"),
    [
        (None, {}, "signed_out", "no API key for a model is set"),
        ("claude-x", {"OPENAI_API_KEY": "ko"}, "signed_out", "no API key for a model is set"),
        ("openai:x", {"ANTHROPIC_API_KEY": "ka"}, "signed_out", "OPENAI_API_KEY is not set"),
        ("mystery", KEYS, "model", 'unknown provider for model "mystery"'),
    ],
)
def test_no_model_can_be_asked(
    wanted: str | None, env: dict[str, str], kind: str, message: str
) -> None:
    failure = choose(wanted, env, None)
    assert isinstance(failure, TurnFailed)
    assert (failure.kind, failure.message, failure.retry) == (kind, message, False)
    assert failure.hint


def test_a_model_for_embeddings_of_the_users_own(tmp_path: Path) -> None:
    place = Workspace(tmp_path, tmp_path, tmp_path, tmp_path)
    env = {"OPENAI_EMBEDDING_MODEL": "nomic", "OPENAI_BASE_URL": "http://here/v1"}
    assert _embedder(place) is None
    assert _embedder(replace(place, env=env, rehearsal="http://x")) is None
    assert _embedder(replace(place, env=env)) == HttpEmbedder("http://here/v1", "nomic")


# -- requests ----------------------------------------------------------------------------------

STRAY = {
    "ALL_PROXY": "http://127.0.0.1:9",
    "ANTHROPIC_AUTH_TOKEN": "stray",
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
    "ANTHROPIC_CUSTOM_HEADERS": "Authorization: Bearer stray\nX-Stray: stray",
    "GOOGLE_API_KEY": "stray",
    "GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:9",
    "GOOGLE_GENAI_API_VERSION": "stray",
    "GOOGLE_GENAI_CLIENT_MODE": "replay",
    "GOOGLE_GENAI_USE_VERTEXAI": "true",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "OPENAI_API_KEY": "stray",
    "OPENAI_BASE_URL": "http://127.0.0.1:9",
    "OPENAI_CUSTOM_HEADERS": "X-Stray: stray",
    "OPENAI_ORG_ID": "stray",
    "OPENAI_PROJECT_ID": "stray",
}
SENT = {"accept", "accept-encoding", "connection", "content-length", "content-type", "host"}


@pytest.mark.parametrize("model", WIRES)
async def test_our_own_environment_does_not_leak(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    for name, value in STRAY.items():
        monkeypatch.setenv(name, value)
    provider = model.partition(":")[0].upper()
    async with builtin_harness(tmp_path, says("Hello.")) as it:
        given = {
            "ANTHROPIC_API_KEY": "sk-given",
            "ANTHROPIC_BASE_URL": it.server.url,
            "OPENAI_API_KEY": "sk-given",
            "OPENAI_BASE_URL": f"{it.server.url}/v1",
            "GEMINI_API_KEY": "sk-given",
            "GOOGLE_GEMINI_BASE_URL": it.server.url,
        }
        async with it.open(it.member(model=model), rehearsal=None, env=given) as channel:
            taken = await it.take_turn(channel)
        assert taken.text == "Hello."
        (seen,) = it.server.requests
        assert seen.token.reveal() == "sk-given"
        assert "stray" not in str([seen.path, *seen.headers.items()])
        own = {"ANTHROPIC": {"authorization", "x-api-key", "anthropic-version", "anthropic-beta"}}
        allowed = own.get(provider, {"authorization", "x-goog-api-key"})
        assert set(seen.headers) <= SENT | allowed | {"user-agent"}
        (spent,) = taken.of(Spent)
        tokens = spent.usage.input_tokens, spent.usage.output_tokens
        assert spent.usage == Usage(*tokens, None, "model")


async def test_a_token_from_a_sign_in(tmp_path: Path) -> None:
    async with builtin_harness(tmp_path, says("Hello.")) as it:
        env = {"ANTHROPIC_AUTH_TOKEN": "token", "ANTHROPIC_BASE_URL": it.server.url}
        async with it.open(rehearsal=None, env=env) as channel:
            await it.take_turn(channel)
        assert it.server.requests[0].token.reveal() == "token"


async def test_a_proxy_of_the_members_own(tmp_path: Path) -> None:
    async with builtin_harness(tmp_path) as it:
        env = {"ANTHROPIC_API_KEY": "k", "https_proxy": it.server.url}
        async with it.open(rehearsal=None, env=env) as channel:
            failure = (await it.take_turn(channel)).failure
        # It was asked for a tunnel to the provider, and refused.
        assert failure.kind == "model"
        assert [seen.method for seen in it.server.requests] == ["CONNECT"] * 3


@pytest.mark.parametrize(
    ("spared", "proxy"),
    [
        ("", "http://p"),
        ("openai.com", "http://p"),
        ("anthropic.com", None),
        ("x, .anthropic.com", None),
        ("*.anthropic.com", None),
        ("*", None),
        ("thropic.com", "http://p"),
    ],
)
def test_what_a_proxy_is_not_asked_for(spared: str, proxy: str | None) -> None:
    assert _proxy(ANTHROPIC, {"NO_PROXY": spared, "ALL_PROXY": "http://p"}) == proxy
    assert _proxy(ANTHROPIC, {"HTTP_PROXY": "http://p"}) is None


def test_certificates_of_the_members_own(tmp_path: Path) -> None:
    assert _certificates({}) is True
    assert _certificates({"SSL_CERT_DIR": str(tmp_path)}) is not True


def test_what_it_costs_is_known_for_models_on_a_list() -> None:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.usage import RequestUsage

    model = connect(ModelChoice("anthropic", "claude-sonnet-4-5", ANTHROPIC, "k"), {})
    counted = RequestUsage(input_tokens=1_000_000, output_tokens=0)
    response = ModelResponse([], usage=counted, model_name="claude-sonnet-4-5")
    usage = model._usage(response)
    assert usage == Usage(1_000_000, 0, usage.cost_usd, "model")
    assert usage.cost_usd
    unlisted = ModelResponse([], usage=counted, model_name="nobody-knows-it")
    assert model._usage(unlisted) == Usage(1_000_000, 0, None, "model")
    assert model._usage(ModelResponse([], model_name="x")) == Usage(source="model")
    anyio.run(model.close)


def test_nobody_pays_for_its_models_who_does_not_use_them() -> None:
    code = (
        "import sys, coterie.agents.builtin, coterie.app, coterie.cli.main\n"
        "heavy = {'pydantic_ai', 'anthropic', 'openai', 'google.genai', 'httpx2'}\n"
        "sys.exit(str(sorted(heavy & set(sys.modules))) if heavy & set(sys.modules) else 0)"
    )
    ended = subprocess.run([sys.executable, "-c", code], check=False, stderr=subprocess.PIPE)
    assert (ended.returncode, ended.stderr) == (0, b"")
