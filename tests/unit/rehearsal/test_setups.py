"""How each CLI is pointed at the server."""

from __future__ import annotations

import json
import tomllib

import pytest
from inline_snapshot import snapshot

from tests.unit.rehearsal.setups import SETUPS, codex, codex_signed_in, toml

URL = "http://127.0.0.1:1234"


@pytest.mark.parametrize("name", sorted(SETUPS))
def test_a_setup_names_the_server_and_a_key_that_is_none(name: str) -> None:
    setup = SETUPS[name](URL)
    told = json.dumps([dict(setup.env), setup.config])
    assert told.count(URL) == (2 if name == "codex" else 1)
    assert "rehearsal" in told
    assert "://" not in told.replace(URL, "")


def test_codex_config() -> None:
    setup = codex(URL)
    assert setup.config_file == "config.toml"
    assert setup.config_text == snapshot("""\
model_provider = "rehearsal"
model = "gpt-5.5"
check_for_update_on_startup = false
web_search = "disabled"
chatgpt_base_url = "http://127.0.0.1:1234/backend-api"
[model_providers.rehearsal]
name = "Rehearsal"
base_url = "http://127.0.0.1:1234/v1"
wire_api = "responses"
env_key = "REHEARSAL_API_KEY"
request_max_retries = 1
stream_max_retries = 1
[analytics]
enabled = false
[features]
apps = false
enable_request_compression = false
plugins = false
""")
    assert tomllib.loads(setup.config_text) == setup.config


def test_codex_with_the_sign_in_of_its_home() -> None:
    setup = codex_signed_in(URL)
    assert dict(setup.env) == {}
    assert setup.config["openai_base_url"] == f"{URL}/v1"
    assert setup.config["chatgpt_base_url"] == f"{URL}/backend-api"
    assert "://" not in setup.config_text.replace(URL, "")


def test_toml() -> None:
    table = {"a": 'x"\\\n', "b": [1, True], "c": {"d": {"e": False}, "f": 1.5}, "g": {}}
    kept = {key: value for key, value in table.items() if key != "g"}
    assert tomllib.loads(toml(table)) == kept


def test_json_config() -> None:
    setup = SETUPS["gemini"](URL)
    assert setup.config_file == ".gemini/settings.json"
    assert json.loads(setup.config_text) == setup.config
    assert SETUPS["claude"](URL).config_file is None
