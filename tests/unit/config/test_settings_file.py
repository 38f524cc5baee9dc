"""User and project settings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.config.project import Project
from coterie.config.settings import (
    Settings,
    load_settings,
    milliseconds,
    set_value,
    unset_value,
    user_settings_path,
)
from coterie.errors import ConfigError, NotFound, UsageError
from tests.conftest import IsolatedUser, init_project

Write = Callable[[Path, str], Path]


def project_path(user: IsolatedUser) -> Path:
    return init_project(user.project) / "settings.json"


def test_without_settings_the_defaults_apply(user: IsolatedUser) -> None:
    found = load_settings(Project(user.project).folder)
    assert found.values == Settings()
    assert [(one.key, one.value, one.origin) for one in found.list()] == [
        ("keeper", "auto", "default"),
        ("contextMessageCount", 20, "default"),
        ("contextCharacters", 40_000, "default"),
        ("quietAfter", "2m", "default"),
        ("defaultTeam", None, "default"),
        ("notify", None, "default"),
        ("notifyAfter", "1m", "default"),
        ("store", None, "default"),
        ("machine", None, "default"),
        ("takeover", "auto", "default"),
        ("fence", None, "default"),
        ("travel", "bundle", "default"),
    ]
    assert all(one.description for one in found.list())


def test_the_project_wins(user: IsolatedUser) -> None:
    set_value(user_settings_path(), "keeper", "subreaper")
    set_value(user_settings_path(), "contextMessageCount", "5")
    set_value(project_path(user), "contextMessageCount", "7")
    found = load_settings(Project(user.project).folder)
    assert (found.values.keeper, found.values.context_message_count) == ("subreaper", 7)
    assert [found.get(key).origin for key in ("keeper", "contextMessageCount", "quietAfter")] == [
        "user",
        "project",
        "default",
    ]
    assert load_settings(None).values.context_message_count == 5


def test_set_and_unset(user: IsolatedUser) -> None:
    path = user_settings_path()
    assert set_value(path, "quietAfter", "90s") == "90s"
    assert set_value(path, "contextMessageCount", "0") == 0
    assert json.loads(path.read_text()) == {"quietAfter": "90s", "contextMessageCount": 0}
    assert load_settings(None).values.quiet_after_ms == 90_000
    assert unset_value(path, "quietAfter")
    assert not unset_value(path, "quietAfter")
    assert json.loads(path.read_text()) == {"contextMessageCount": 0}


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("keeper", "none", 'keeper is "none"; expected auto, bubblewrap or subreaper.'),
        (
            "keeper",
            "bwrap",
            'keeper is "bwrap"; expected auto, bubblewrap or subreaper. Did you mean bubblewrap?',
        ),
        ("contextMessageCount", "many", 'contextMessageCount is "many"; expected a whole number.'),
        ("contextMessageCount", "-1", 'contextMessageCount is "-1"; expected a whole number.'),
        (
            "contextMessageCount",
            "99999999",
            "contextMessageCount is 99999999; expected at most 10000.",
        ),
        ("quietAfter", "5", 'quietAfter is "5"; expected a time such as 90s, 5m or 1h.'),
        ("quietAfter", "0s", 'quietAfter is "0s"; expected a time such as 90s, 5m or 1h.'),
        ("fence", "end 'it", "fence cannot be used: it is not a command (is a quote left open?)."),
        (
            "fence",
            "https://db/",
            "fence cannot be used: it is not a command (is a quote left open?).",
        ),
        ("fence", "  ", "fence cannot be used: it is not a command (is a quote left open?)."),
    ],
)
def test_a_value_that_cannot_be(user: IsolatedUser, key: str, text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        set_value(user_settings_path(), key, text, "user")
    assert str(caught.value) == said
    assert not user_settings_path().exists()


def test_an_unknown_key(user: IsolatedUser) -> None:
    for act in (
        lambda: set_value(user_settings_path(), "keper", "auto"),
        lambda: unset_value(user_settings_path(), "keper"),
        lambda: load_settings(None).get("keper"),
    ):
        with pytest.raises(NotFound) as caught:
            act()
        assert str(caught.value) == (
            'No setting "keper". There are: keeper, contextMessageCount, contextCharacters, '
            "quietAfter, defaultTeam, notify, notifyAfter, store, machine, takeover, fence, "
            "travel. Did you mean keeper?"
        )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"keper": "auto"}', "settings.json:1 keper is not a known key. Did you mean keeper?"),
        (
            '{\n"keeper": "x"}',
            'settings.json:2 keeper is "x"; expected auto, bubblewrap or subreaper.',
        ),
        (
            '{"context_message_count": 3}',
            "settings.json:1 context_message_count is not a known key.",
        ),
        ('{"defaultTeam": null}', "settings.json:1 defaultTeam is null; leave it out."),
        ("[]", "settings.json:1 is a list; expected an object."),
        ('{"keeper": "auto", "keeper": "auto"}', "settings.json:1 keeper appears twice."),
    ],
)
def test_a_file_with_a_mistake(user: IsolatedUser, write: Write, text: str, said: str) -> None:
    write(project_path(user), text)
    with pytest.raises(ConfigError) as caught:
        load_settings(Project(user.project).folder)
    assert str(caught.value).startswith(f".coterie/{said}")


def test_a_schema_for_editors_is_kept_out(user: IsolatedUser, write: Write) -> None:
    write(user_settings_path(), '{"$schema": "x.json", "keeper": "subreaper"}')
    assert load_settings(None).values.keeper == "subreaper"


@pytest.mark.parametrize(
    ("text", "found"), [("250ms", 250), ("90s", 90_000), ("5m", 300_000), ("1h", 3_600_000)]
)
def test_durations(text: str, found: int) -> None:
    assert milliseconds(text) == found


def test_no_duration() -> None:
    with pytest.raises(UsageError, match=r'^"soon" is not a valid time\.$'):
        milliseconds("soon")
