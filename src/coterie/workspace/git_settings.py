"""The configuration that our git uses, and the repository's own, parsed as data.

Git obeys about a hundred settings that name a program, a file or another repository, and every
release adds more.  So a repository's own configuration is never given to git: its files are parsed
here, and only a few settings that are plain data are passed on.  Includes are not followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import starmap
from pathlib import Path

from coterie.workspace.beneath import read_regular

LARGEST = 1_000_000
"""Bytes; no configuration that a person wrote is larger."""

OVERRIDES = """\
[core]
	hooksPath = /dev/null
	fsmonitor = false
	pager = cat
	safecrlf = false
[commit]
	gpgSign = false
[tag]
	gpgSign = false
[log]
	showSignature = false
[submodule]
	recurse = false
[status]
	submoduleSummary = false
[diff]
	submodule = short
[merge]
	verifySignatures = false
[gc]
	auto = 0
[maintenance]
	auto = false
[lfs]
	url = file:///dev/null
	skipDownloadErrors = true
	locksverify = false
"""
"""Overrides the user's own git configuration.  Git LFS uses what is available locally, and leaves
its pointer where it would have to fetch: a file in the tree may say from where."""

_BOOLEAN = "|true|false|yes|no|on|off|0|1"
_NAME = r"[^\n]*"
_ALLOWED_SETTINGS: Mapping[str, str] = {
    "core.repositoryformatversion": r"\d{1,4}",
    "core.filemode": _BOOLEAN,
    "core.ignorecase": _BOOLEAN,
    "core.precomposeunicode": _BOOLEAN,
    "core.symlinks": _BOOLEAN,
    "core.trustctime": _BOOLEAN,
    "core.checkstat": "default|minimal",
    "core.autocrlf": f"{_BOOLEAN}|input",
    "core.eol": "lf|crlf|native",
    "core.logallrefupdates": f"{_BOOLEAN}|always",
    "core.sharedrepository": f"{_BOOLEAN}|umask|group|all|world|everybody|0[0-7]{{3}}",
    "core.sparsecheckout": _BOOLEAN,
    "core.sparsecheckoutcone": _BOOLEAN,
    "index.sparse": _BOOLEAN,
    "extensions.objectformat": "sha1|sha256",
    "extensions.refstorage": "files|reftable",
    "user.name": _NAME,
    "user.email": _NAME,
    "author.name": _NAME,
    "author.email": _NAME,
    "committer.name": _NAME,
    "committer.email": _NAME,
}
"""What is passed on, with the permitted values: how files are stored, and who commits."""
_EXTENSIONS = frozenset(
    {
        "noop",
        "noop-v1",
        "objectformat",
        "partialclone",
        "preciousobjects",
        "refstorage",
        "relativeworktrees",
        "worktreeconfig",
    }
)
"""The repository format extensions that need nothing else from us."""

_TOKEN = re.compile(
    r"""
    [ \t\r\n]* (?:
        [#;][^\n]*
      | \[ (?P<section>[A-Za-z0-9.-]+) (?: [ \t]+ "(?P<part>(?:[^"\\\n]|\\.)*)" )? [ \t]* \]
      | (?P<name>[A-Za-z][A-Za-z0-9-]*) [ \t]*+
        (?: = (?P<value>(?: [^"\\\n\#;] | \\(?:.|\r?\n) | "(?:[^"\\\n]|\\(?:.|\r?\n))*" )*+) )?
        (?= [\#;\r\n] | \Z )
      | \Z
    )
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(r'\\\r?\n|\\(.)|"', re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "b": "\b"}
_TRUE_VALUES = frozenset({"true", "yes", "on", "1"})


def settings_for(common: Path, git_dir: Path) -> str:
    """Return our configuration for a repository; ValueError says why its own cannot be parsed."""
    known = repository_settings(common, git_dir)
    for key in known:
        section, _, name = key.partition(".")
        if section == "extensions" and name not in _EXTENSIONS:
            raise ValueError(f"its format has the extension {name}, which Coterie does not support")
    passed = ((key, known[key]) for key in _ALLOWED_SETTINGS if key in known)
    lines = [
        _written(key, value)
        for key, value in passed
        if re.fullmatch(_ALLOWED_SETTINGS[key], value, re.IGNORECASE)
    ]
    return "".join(lines) + OVERRIDES


def repository_settings(common: Path, git_dir: Path) -> dict[str, str]:
    """Return the settings in a repository's own files, by name."""
    settings = dict(_settings_in(common / "config"))
    if _counts_worktrees(settings):
        settings |= dict(_settings_in(git_dir / "config.worktree"))
    return settings


def has_worktree_settings(common: Path) -> bool:
    """Whether git also reads `config.worktree`; ValueError if that cannot be determined."""
    return _counts_worktrees(dict(_settings_in(common / "config")))


def _counts_worktrees(settings: Mapping[str, str]) -> bool:
    return settings.get("extensions.worktreeconfig", "false").lower() in _TRUE_VALUES


_PLAIN_KEY = re.compile(
    r"core\.bare|(?:remote|branch|submodule)\..*\.(?:url|pushurl|fetch|tagopt|remote|merge|active)",
    re.DOTALL,
)


def plain_settings(path: Path) -> str | None:
    """Return a configuration file reduced to plain data; None if it holds nothing else."""
    try:
        every = list(_settings_in(path))
    except ValueError:
        return ""
    kept = [(key, value) for key, value in every if _is_plain(key)]
    return None if kept == every else "".join(starmap(_written, kept))


def other_settings(path: Path) -> list[str]:
    """Return a file's settings that are not plain data; ValueError if it cannot be parsed."""
    return [f"{key}={value}" for key, value in _settings_in(path) if not _is_plain(key)]


def _is_plain(key: str) -> bool:
    return key in _ALLOWED_SETTINGS or _PLAIN_KEY.fullmatch(key) is not None


def _written(key: str, value: str) -> str:
    section, _, rest = key.partition(".")
    part, _, name = rest.rpartition(".")
    return f"[{section}{f' {_quoted(part)}' if part else ''}]\n\t{name} = {_quoted(value)}\n"


def _settings_in(path: Path) -> Iterator[tuple[str, str]]:
    text, position, section = _text_of(path), 0, ""
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            blank = len(text) - len(text[position:].lstrip())
            line = text.count("\n", 0, blank) + 1
            raise ValueError(f"{path} cannot be read from line {line} on")
        position = token.end()
        if token["section"] is not None:
            part = "" if token["part"] is None else "." + re.sub(r"\\(.)", r"\1", token["part"])
            section = token["section"].lower() + part
        elif token["name"] is not None:
            yield f"{section}.{token['name'].lower()}", _unquoted(token["value"])


def _text_of(path: Path) -> str:
    try:
        data = read_regular(path, LARGEST, follow=True)
        return data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from error


def _unquoted(written: str | None) -> str:
    if written is None:
        return "true"

    def piece(match: re.Match[str]) -> str:
        return _ESCAPED.get(match[1], match[1]) if match[1] else ""

    return _ESCAPE.sub(piece, written.strip())


def _quoted(value: str) -> str:
    kept = "".join(char for char in value if char.isprintable() or char >= "\udc80")
    return '"' + kept.replace("\\", "\\\\").replace('"', '\\"') + '"'
