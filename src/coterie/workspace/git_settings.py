"""The configuration that our git runs on, and the repository's own read as data.

Git obeys some hundred settings that name a program, a file or another repository, and every
release brings more.  So none of a repository's own configuration is ever given to git: its files
are read here, and of what they say a few settings are passed on that are plain data.  Includes
are not followed.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Mapping
from itertools import starmap
from pathlib import Path

LARGEST = 1_000_000
"""Bytes; no configuration that a person wrote is longer."""

OURS = """\
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
"""What holds whatever the user has configured for their own git.  Git LFS takes what is there, and
leaves its pointer where it would have to fetch: a file of the tree may say from where."""

_BOOLEAN = "|true|false|yes|no|on|off|0|1"
_NAME = r"[^\n]*"
_DATA: Mapping[str, str] = {
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
"""What is passed on, with the values that are: how files are stored, and who commits."""
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
"""The repository formats that need nothing else of us."""

_TOKEN = re.compile(
    r"""
    [ \t\r\n]* (?:
        [#;][^\n]*
      | \[ (?P<section>[A-Za-z0-9.-]+) (?: [ \t]+ "(?P<part>(?:[^"\\\n]|\\.)*)" )? [ \t]* \]
      | (?P<name>[A-Za-z][A-Za-z0-9-]*) [ \t]*
        (?: = (?P<value>(?: [^"\\\n\#;] | \\(?:.|\r?\n) | "(?:[^"\\\n]|\\(?:.|\r?\n))*" )*) )?
        [ \t]* (?= [\#;\r\n] | \Z )
      | \Z
    )
    """,
    re.VERBOSE,
)
_PIECE = re.compile(r'\\\r?\n|\\(.)|"', re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "b": "\b"}
_TRUE = frozenset({"true", "yes", "on", "1"})


def settings_for(common: Path, git_dir: Path) -> str:
    """Our configuration for a repository; ValueError says why its own cannot be understood."""
    known = repository_settings(common, git_dir)
    for key in known:
        section, _, name = key.partition(".")
        if section == "extensions" and name not in _EXTENSIONS:
            raise ValueError(f"its format has an extension {name} that Coterie does not know")
    passed = ((key, known[key]) for key in _DATA if key in known)
    lines = [
        _written(key, value)
        for key, value in passed
        if re.fullmatch(_DATA[key], value, re.IGNORECASE)
    ]
    return "".join(lines) + OURS


def repository_settings(common: Path, git_dir: Path) -> dict[str, str]:
    """What a repository's own files say, by the name of each setting, read as data."""
    found = dict(_settings_in(common / "config"))
    if _counts_worktrees(found):
        found |= dict(_settings_in(git_dir / "config.worktree"))
    return found


def has_worktree_settings(common: Path) -> bool:
    """Whether git reads `config.worktree` besides; ValueError where that cannot be told."""
    return _counts_worktrees(dict(_settings_in(common / "config")))


def _counts_worktrees(found: Mapping[str, str]) -> bool:
    return found.get("extensions.worktreeconfig", "false").lower() in _TRUE


_PLAIN_KEY = re.compile(
    r"core\.bare|(?:remote|branch|submodule)\..*\.(?:url|pushurl|fetch|tagopt|remote|merge|active)",
    re.DOTALL,
)


def plain_settings(path: Path) -> str | None:
    """A configuration file with what is plain data in it; None where it holds nothing else."""
    try:
        every = list(_settings_in(path))
    except ValueError:
        return ""
    kept = [(key, value) for key, value in every if _is_plain(key)]
    return None if kept == every else "".join(starmap(_written, kept))


def other_settings(path: Path) -> list[str]:
    """What a configuration file holds besides plain data; ValueError where that cannot be told."""
    return [f"{key}={value}" for key, value in _settings_in(path) if not _is_plain(key)]


def _is_plain(key: str) -> bool:
    return key in _DATA or _PLAIN_KEY.fullmatch(key) is not None


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
            yield f"{section}.{token['name'].lower()}", _plain(token["value"])


def _text_of(path: Path) -> str:
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > LARGEST:
            raise ValueError(f"{path} is no configuration file")
        return path.read_bytes().decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error


def _plain(written: str | None) -> str:
    if written is None:
        return "true"

    def piece(found: re.Match[str]) -> str:
        return _ESCAPED.get(found[1], found[1]) if found[1] else ""

    return _PIECE.sub(piece, written.strip())


def _quoted(value: str) -> str:
    kept = "".join(char for char in value if char.isprintable() or char >= "\udc80")
    return '"' + kept.replace("\\", "\\\\").replace('"', '\\"') + '"'
