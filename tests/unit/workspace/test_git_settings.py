"""A repository's configuration, parsed as data just as git does, and little of it passed on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from coterie.workspace.git_settings import (
    OVERRIDES,
    plain_settings,
    repository_settings,
    settings_for,
)


def as_git_reads(path: Path) -> dict[str, str] | None:
    words = ["git", "config", "--file", str(path), "--no-includes", "--null", "--list"]
    ran = subprocess.run(words, capture_output=True, check=False)
    if ran.returncode != 0:
        return None
    entries = ran.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]
    # A key without a value is true.
    pairs = (entry.partition("\n") if "\n" in entry else (entry, "", "true") for entry in entries)
    return {key: value for key, _, value in pairs}


TEXTS = (
    "[core]\n\tfilemode = true\n\tbare = false\n",
    "[core] filemode = true\n[CORE] FileMode = false",
    "[core]\nsymlinks\nignorecase =\n",
    '[remote "a b"] url = x ; a comment\n[remote "A B"] url = y # another\n',
    '[a "q\\"u\\\\o"]\n k = "v ; not # a comment" and more\n',
    '[a]\n k = one \\\n two\n m = "in \\\n side"\n',
    '[a]\n k = tab\\there\\nline\\\\ \\"quoted\\"\n',
    "# nothing\n; at all\n",
    "\ufeff[a]\n b = c\n",
    "[a.b]\n c = d\n",
    "[a]\r\n\tk = v\r\n",
    "[a]\n k = v  \t \n m =    \n",
    "[include]\n path = elsewhere\n",
)


@pytest.mark.parametrize("text", TEXTS)
def test_it_is_read_as_git_reads_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_bytes(text.encode())
    assert repository_settings(tmp_path, tmp_path) == as_git_reads(path)


@given(st.text(st.sampled_from('[]="\\#; \t\nabkv.-1"'), max_size=40))
def test_what_it_says_is_never_more_than_git_says(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "config"
    path.write_text(f"[a]\n{text}")
    try:
        found = repository_settings(path.parent, path.parent)
    except ValueError:
        return
    told = as_git_reads(path)
    assert told is None or found.keys() == told.keys()


@pytest.mark.parametrize("before", ["k", "k ="])
def test_a_long_line_that_cannot_be_read_is_refused_at_once(tmp_path: Path, before: str) -> None:
    blanks = " " * 900_000  # hours if they were read again from each
    (tmp_path / "config").write_text(f'[a]\n{before}{blanks}"')
    with pytest.raises(ValueError, match="cannot be read from line 2 on"):
        repository_settings(tmp_path, tmp_path)


def test_only_plain_data_is_passed_on(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(
        "[core]\n repositoryformatversion = 0\n filemode = false\n fsmonitor = evil\n"
        " autocrlf = input\n eol = evil\n worktree = /\n hooksPath = /\n sharedRepository = 0640\n"
        '[user]\n name = "A \\"B\\" \\\\ C"\n email = a@b\n signingKey = x\n'
        "[include]\n path = evil\n"
        "[extensions]\n objectFormat = sha256\n partialClone = evil\n worktreeConfig = true\n"
    )
    (tmp_path / "config.worktree").write_text("[core]\n sparseCheckout\n editor = evil\n")
    assert settings_for(tmp_path, tmp_path).removesuffix(OVERRIDES) == snapshot("""\
[core]
	repositoryformatversion = "0"
[core]
	filemode = "false"
[core]
	autocrlf = "input"
[core]
	sharedrepository = "0640"
[core]
	sparsecheckout = "true"
[extensions]
	objectformat = "sha256"
[user]
	name = "A \\"B\\" \\\\ C"
[user]
	email = "a@b"
""")


def test_a_format_that_is_not_known_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[extensions]\n next = true\n")
    with pytest.raises(ValueError, match="extension next, which Coterie does not support"):
        settings_for(tmp_path, tmp_path)
    (tmp_path / "config").write_text("[core]\n a = b\n[broken\n")
    with pytest.raises(ValueError, match="config cannot be read from line 3 on"):
        settings_for(tmp_path, tmp_path)


def test_a_new_repository_keeps_where_it_came_from(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text('[core]\n bare = false\n[remote "origin"]\n url = x\n fetch = +a:b\n')
    assert plain_settings(path) is None
    with path.open("a") as file:
        file.write("[alias]\n st = !evil\n")
    assert plain_settings(path) == snapshot("""\
[core]
	bare = "false"
[remote "origin"]
	url = "x"
[remote "origin"]
	fetch = "+a:b"
""")
