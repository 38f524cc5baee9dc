"""How branches are exchanged: the setting, addresses, and the pauses between retries."""

from __future__ import annotations

from itertools import islice

import pytest

from coterie.model.remote import GitRemote, Travel, pauses

ADDRESSES = {
    "/srv/git/shop.git": "file",
    "file:///srv/git/shop.git": "file",
    "ssh://ada@db.example.org:2222/shop.git": "https:ssh",
    "ada@db.example.org:shop.git": "https:ssh",
    "db:shop.git": "https:ssh",
    "https://db.example.org/shop.git": "https:ssh",
    "https://ada@db.example.org/shop.git": "https:ssh",
}


@pytest.mark.parametrize(("url", "protocols"), ADDRESSES.items())
def test_an_address_is_reached_by_its_protocols_and_no_other(url: str, protocols: str) -> None:
    assert Travel.parsed(f"git:{url}") == Travel(url=url)
    assert GitRemote(url).allowed == {"GIT_ALLOW_PROTOCOL": protocols}
    assert GitRemote(url).is_path == (protocols == "file")


def test_a_name_is_one_of_a_remote() -> None:
    assert Travel.parsed("bundle") == Travel()
    for name in ("origin", "a-b.c_1", "bundle"):
        assert Travel.parsed(f"git:{name}") == Travel(remote=name)
    assert Travel.parsed("git:~/shop.git") == Travel(url="~/shop.git")


WRONG = {
    "": "it must be bundle, or git: and",
    "git": "it must be bundle, or git: and",
    "git:": "it must be bundle, or git: and",
    "origin": "it must be bundle, or git: and",
    "git:../shop.git": "absolute path",
    "git:./shop.git": "absolute path",
    "git:http://db.example.org/shop.git": "is not an ssh://",
    "git:git://db.example.org/shop.git": "is not an ssh://",
    "git:HTTPS://db.example.org/shop.git": "is not an ssh://",
    "git:ext::sh -c touch% mark": "is not an ssh://",
    "git:transport::/srv/git": "is not an ssh://",
    "git:-oProxyCommand=touch:x": "is not the address",
    "git:ada@-oProxyCommand=x:y": "is not an ssh://",
    "git:/srv\n/git": "is not the address",
    "git:/srv/\x1b[2J": "is not the address",
    "git:https://ada:secret@db.example.org/shop.git": "contains a password",
    "git:ssh://ada:secret@db.example.org/shop.git": "contains a password",
}


@pytest.mark.parametrize(("setting", "said"), WRONG.items())
def test_what_leads_nowhere_is_refused(setting: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        Travel.parsed(setting)
    assert "secret" not in str(caught.value)


def test_a_remote_that_is_away_is_tried_less_and_less_often() -> None:
    assert [*islice(pauses(), 8)] == [5, 10, 20, 40, 80, 160, 300, 300]
