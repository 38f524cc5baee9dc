"""The rule that is offered to a person instead of approving each time; none where it is unsafe."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from coterie.model.tool_call import Action
from coterie.tools.permission import nested_commands
from coterie.tools.permission.nested_commands import without_shell, without_wrappers
from coterie.tools.permission.paths import GUARDED, resolve
from coterie.tools.permission.read_only import is_read_only_program
from coterie.tools.permission.rules import AddressPattern
from coterie.tools.permission.shell_lexer import name_set
from coterie.tools.permission.shell_parser import KEYWORDS, OPAQUE, parse

_UNSAFE = frozenset[str]().union(
    name_set(
        "rm rmdir unlink shred dd mv cp ln install rsync truncate tee chmod chown chgrp kill "
        "pkill killall curl wget scp sftp nc socat telnet sed find tar unzip zip gdb vim vi ed ex "
        "emacs nano crontab at mount umount mkfs reboot shutdown systemctl service passwd "
        "apt apt-get brew yum dnf apk cd pushd popd export unset declare read"
    ),
    nested_commands.SHELLS | nested_commands.WRAPPERS | nested_commands.AWKS | OPAQUE | KEYWORDS,
)
"""Programs that can do or destroy anything: a rule with open arguments would be unsafe."""

_NESTED_SUBCOMMANDS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(name_set("npm pnpm yarn bun"), name_set("run exec dlx x")),
    **dict.fromkeys(name_set("uv poetry pdm pipenv hatch pipx"), name_set("run")),
    **dict.fromkeys(name_set("docker podman"), name_set("compose")),
    "bundle": name_set("exec"),
    "git": name_set("remote stash worktree submodule"),
    "gh": name_set("pr issue run repo release"),
}
"""Subcommands that have subcommands; to allow all of these would be to allow anything."""
_RUN_ANYTHING: Mapping[str, frozenset[str]] = dict.fromkeys(
    name_set("docker kubectl podman"), name_set("cp exec run")
)
"""Subcommands that run or overwrite whatever their arguments say."""
_RUN_WHAT_FOLLOWS = name_set("npx bunx pnpx uvx")
_MODULES = name_set("pytest unittest mypy ruff black build pylint flake8")
_SUBCOMMAND = re.compile(r"[a-z][a-z0-9:_-]*")
_PLAIN = re.compile(r"[\w@./+:=-]+", re.ASCII)
_LEAST_DEPTH = 3
"""A folder nearer to the root than this is never offered."""


def suggest(action: Action, root: Path | None = None, guarded: frozenset[str] = frozenset()) -> str:
    """The rule to offer, or nothing; without `root`, the action's folder is the work folder."""
    top = resolve(str(root or action.cwd), "/").real
    if action.command:
        rule = _for_command(action.command)
        # A program by its path counts from the work folder, and so would be another one.
        elsewhere = resolve(action.cwd, top).real != top
        return "" if elsewhere and "/" in rule.partition(" ")[0] else rule
    if action.effect in ("read", "write") and action.paths:
        return _for_paths(action, top, GUARDED | guarded)
    if action.effect == "fetch":
        return _for_address(action.target)
    named = action.effect == "other" and _PLAIN.fullmatch(action.tool)
    return f"tool({action.tool})" if named else ""


def _for_command(text: str) -> str:
    line = without_shell(parse(text))
    if not (line.clear and line.understood) or len(line.commands) != 1:
        return ""
    command = without_wrappers(line.commands[0])
    if not command.is_bare or not command.words:
        return ""
    kept = _kept(command.texts)
    if not kept or not all(_PLAIN.fullmatch(word) for word in kept):
        return ""
    return f"run({' '.join(kept)}{' *' if len(command.words) > 1 else ''})"


def _kept(words: Sequence[str]) -> Sequence[str]:
    """The words that a rule keeps; the rest may vary."""
    program, name = words[0], words[0].rpartition("/")[2]
    if nested_commands.INTERPRETERS.fullmatch(name) and name != "bun":
        module = len(words) > 2 and words[1] == "-m" and words[2] in _MODULES
        return words[:3] if module and name == program else ()
    # What only looks is asked about where it looks elsewhere: that is a matter of paths.
    looks = is_read_only_program(name) and name != "git"
    if looks or name in _UNSAFE or program.startswith(("/", "~")):
        return ()
    return words[: _depth(words)]


def _depth(words: Sequence[str]) -> int:
    program, first = words[0], words[1] if len(words) > 1 else ""
    if program in _RUN_WHAT_FOLLOWS:
        return 2 if _is_own_thing(first) else 0
    if first in _NESTED_SUBCOMMANDS.get(program, ()):
        return 3 if len(words) > 2 and _is_own_thing(words[2]) else 0
    if _SUBCOMMAND.fullmatch(first):
        return 0 if first in _RUN_ANYTHING.get(program, ()) else 2
    return 0 if program in _NESTED_SUBCOMMANDS else 1


def _is_own_thing(word: str) -> bool:
    """Whether a word names one thing to run that cannot in turn run anything else."""
    name = word.rpartition("/")[2]
    runs_anything = name in _UNSAFE or nested_commands.INTERPRETERS.fullmatch(name)
    return not (word.startswith("-") or runs_anything)


def _for_paths(action: Action, root: str, guarded: frozenset[str]) -> str:
    cwd = resolve(action.cwd, root).real
    places = [resolve(path, cwd) for path in action.paths]
    folders = {place.real.rpartition("/")[0] for place in places}
    if len(folders) != 1 or not all(place.sure for place in places):
        return ""
    folder = folders.pop()
    if places[0].within(root):
        touched = any(place.touches(guarded, root) for place in places)
        below = folder[len(root) :].strip("/")
        if touched or (below and not _is_path(below)):
            return ""
        return f"{action.effect}({below}/**)" if below else f"{action.effect}(*)"
    # Elsewhere only what is looked at, and nothing that is hidden or near the top.
    way = folder.strip("/").split("/")
    hidden = any(name.startswith(".") for name in way)
    if action.effect == "write" or hidden or len(way) < _LEAST_DEPTH or not _is_path(folder):
        return ""
    return f"read({folder}/**)"


def _is_path(text: str) -> bool:
    return text == text.strip() and not re.search(r"[*?()\x00-\x1f\x7f]", text)


def _for_address(target: str) -> str:
    host = re.match(r"(?:[A-Za-z][A-Za-z0-9+.-]*://)?([A-Za-z0-9.-]+)(?=[:/?#]|$)", target)
    if host is None:
        return ""
    address = AddressPattern.of(host[1])
    return f"fetch({host[1].lower()})" if address and address.allows(target) else ""
