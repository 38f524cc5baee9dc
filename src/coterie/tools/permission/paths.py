"""Resolution of paths, with links followed and `..` resolved, and path patterns.

In a pattern `*` matches within a name and `**` across folders, relative to the work folder.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from glob import iglob
from itertools import islice, takewhile

from coterie.model.workspace import START_FILES
from coterie.tools.permission.shell_lexer import name_set

MAX_LINKS = 40
MAX_GLOB_MATCHES = 1000
"""A glob that matches more files than this is not expanded."""

MAX_ENTRIES = 100_000
"""How many files and folders a decision looks at; searching more takes too long."""

_OF_PROJECTS = name_set(".env .gitattributes")
"""Startup files in a home that are plain data in a project."""
GUARDED = name_set(
    ".git .coterie .mcp.json .devcontainer .fleet .idea .vscode .zed "  # editors and their tasks
    ".aider.conf.yml .amazonq .continue .cursor .kiro .windsurf "  # other agents
    ".githooks .husky .lefthook.yml .overcommit.yml .pre-commit-config.yaml lefthook.yml "
    ".envrc .autoenv .mise.toml mise.toml "  # entering a folder
    ".irbrc .lldbinit .nvim.lua .nvimrc .octaverc .pryrc .rprofile"  # starting a program there
) | {name for name in START_FILES.split() if "/" not in name and name not in _OF_PROJECTS}
"""What other programs run by themselves when a folder is opened, entered or committed to: hooks,
tasks, servers, startup files of shells and git; also the settings of agents.  Permission to edit
files must not become permission to run commands."""

PRIVATE = frozenset({".coterie"})
"""Contains the homes of all members, with their logins."""

STANDARD_DEVICES = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"})

_OF_A_PROCESS = re.compile(r"/proc/[^/]+(?:/task/[^/]+)?/(cwd|root)")


@dataclass(frozen=True)
class ResolvedPath:
    """Where a path leads."""

    named: str
    """Absolute, with `..` removed lexically."""
    real: str
    """Absolute, with every link followed, as the system would."""
    sure: bool = True
    """Whether every other process or program would reach the same file."""

    def within(self, root: str) -> bool:
        """Whether it is certainly the folder or something in it."""
        return self.sure and is_below(self.real, root)

    def touches(self, names: frozenset[str], root: str) -> bool:
        """Whether its path below `root` contains one of these names, ignoring case."""
        inside = (path[len(root) :] for path in (self.named, self.real) if is_below(path, root))
        return any(not names.isdisjoint(path.casefold().split("/")) for path in inside)


def is_below(path: str, folder: str) -> bool:
    """Whether a path is the folder or in it; both must be absolute and free of links."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def resolve(path: str, cwd: str) -> ResolvedPath:
    """Resolve a path from a folder that is itself free of links."""
    # Some tools strip a path, or interpret it as a URL or a home folder; others do not.
    ambiguous = "\0" in path or path != path.strip() or path.startswith(("~", "file:"))
    path = path.replace("\0", "")
    real, sure = _follow(path, cwd)
    return ResolvedPath(_absolute(path, cwd), real, sure and not ambiguous)


def expand_home(path: str) -> str:
    """Expand a leading `~`."""
    return os.path.expanduser(path)  # noqa: PTH111 - Path would drop a last slash and dots


def _absolute(path: str, cwd: str) -> str:
    return "/" + os.path.normpath(os.path.join(cwd, path)).lstrip("/")  # noqa: PTH118


def _follow(path: str, cwd: str) -> tuple[str, bool]:
    here = "" if path.startswith("/") else cwd.rstrip("/")
    links, sure = 0, not here.startswith("/proc/")
    remaining = deque(path.split("/"))
    while remaining:
        part = remaining.popleft()
        if part in ("", "."):
            continue
        if part == "..":
            here = here.rpartition("/")[0]
            continue
        there = f"{here}/{part}"
        sure = sure and not there.startswith("/proc/")  # `self` is the process that looks
        target = _link(there, cwd)
        if target is None:
            here = there
            continue
        links += 1
        if links > MAX_LINKS:
            return there, False
        here = "" if target.startswith("/") else here
        remaining.extendleft(reversed(target.split("/")))
    return here or "/", sure


def _link(path: str, cwd: str) -> str | None:
    of_a_process = _OF_A_PROCESS.fullmatch(path)
    if of_a_process:
        return "/" if of_a_process[1] == "root" else cwd
    try:
        return os.readlink(path)  # noqa: PTH115 - keeps names that are no UTF-8 as they are
    except (OSError, ValueError):
        return None


def exists_at_top(path: str) -> bool:
    """Whether the first name of an absolute path exists: `/api/users` is rarely a file path."""
    return os.path.lexists("/" + path.strip("/").split("/")[0])


class FolderWalk:
    """Searches folders for names, up to a number of entries in all of them together."""

    def __init__(self, entries: int = MAX_ENTRIES) -> None:
        self.left: int = entries
        """How many entries it may still look at."""

    def may_find(self, names: frozenset[str], folder: str) -> bool:
        """Whether something below a folder may have one of these names, ignoring case."""
        # A loop: a tree may be deeper than the stack.
        folders = [folder]
        while folders:
            try:
                with os.scandir(folders.pop()) as entries:
                    for entry in entries:
                        self.left -= 1
                        if self.left < 0 or entry.name.casefold() in names:
                            return True
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(entry.path)
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                continue  # nobody else can search it either
            except OSError:  # its path may be too long for us, and not for others
                return True
        return False


def expand_glob(pattern: str, cwd: str) -> Sequence[str] | None:
    """Return the files that a shell may expand a glob to, and possibly more; None if too many.

    Shells differ on `[^a]`, so brackets match anything.  Use the result only to deny, never to
    allow.
    """
    pattern = _BRACKETS.sub("*", pattern)
    if "**" in pattern:
        return None  # some shells search whole trees
    matches = iglob(pattern, root_dir=cwd, include_hidden=True)  # noqa: PTH207
    try:
        paths = list(islice(matches, MAX_GLOB_MATCHES + 1))
    except (OSError, ValueError):
        return None
    return None if len(paths) > MAX_GLOB_MATCHES else paths


def glob_folder(pattern: str) -> str:
    """The folder that contains all files that a glob may match."""
    return re.split(r"[*?\[]", pattern, maxsplit=1)[0].rpartition("/")[0] or (
        "/" if pattern.startswith("/") else "."
    )


_BRACKETS = re.compile(r"\[[^/]*\]")
_WILD = re.compile(r"[*?]")


@dataclass(frozen=True)
class PathPattern:
    """A path pattern, relative to the work folder unless it is absolute or begins with `~`."""

    text: str

    def allows(self, place: ResolvedPath, root: str, guarded: frozenset[str]) -> bool:
        """Whether the pattern covers where the path really leads.

        The pattern must spell out guarded names: `**` does not reach into them.
        """
        if not place.sure:
            return False
        # A folder in the work folder that became a link is not what the pattern was meant for.
        anywhere = self.text.startswith(("/", "~"))
        readings = self._spellings(root) if anywhere else (_anchored(self.text, root),)
        for anchored in readings:
            named = frozenset(name.casefold() for name in anchored.split("/"))
            prefix = "/" + "/".join(_literal(anchored))
            if _matcher(anchored, below=False).fullmatch(place.real):
                return not place.touches(guarded - named, prefix)
        return False

    def forbids(self, place: ResolvedPath, root: str) -> bool:
        """Whether the path, as named or as resolved, may be something the pattern covers."""
        return any(
            _matcher(anchored, below=True).fullmatch(path)
            for anchored in self._spellings(root)
            for path in (place.named, place.real)
        )

    def lies_in(self, folder: str, root: str) -> bool:
        """Whether a folder may contain something that the pattern covers."""
        return any(
            is_below(literal, folder) or (_WILD.search(anchored) and is_below(folder, literal))
            for anchored in self._spellings(root)
            for literal in ["/" + "/".join(_literal(anchored))]
        )

    def mentioned_in(self, text: str) -> bool:
        """Whether a text that cannot be parsed mentions what the pattern covers."""
        names = [name for name in self.text.split("/") if name not in ("", ".", "..", "~", "**")]
        if not names:
            return True
        plain = [name for name in names if not _WILD.search(name)]
        return mentions(text, plain[-1]) if plain else max(_WILD.split(names[-1]), key=len) in text

    def _spellings(self, root: str) -> tuple[str, ...]:
        """Return the pattern as written, and with the links in its fixed part resolved."""
        anchored = _anchored(self.text, root)
        literal = _literal(anchored)
        rest = anchored.split("/")[len(literal) + 1 :]
        real = resolve("/" + "/".join(literal), "/").real
        return (anchored, "/".join([real.rstrip("/"), *rest]) or "/")


def mentions(text: str, name: str) -> bool:
    """Whether a name occurs in a text as a word of its own."""
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", text) is not None


def _anchored(text: str, root: str) -> str:
    path = expand_home(text)
    absolute = _absolute(path, root)
    return f"{absolute.rstrip('/')}/**" if path.endswith("/") else absolute


def _literal(anchored: str) -> list[str]:
    """The names before the first wildcard."""
    names = anchored.strip("/").split("/")
    return list(takewhile(lambda name: not _WILD.search(name), names))


@lru_cache(maxsize=512)
def _matcher(anchored: str, *, below: bool) -> re.Pattern[str]:
    """With `below`, a match covers everything below it, and `x/**` also the folder `x` itself."""
    names = anchored.strip("/").split("/")
    last = len(names) - 1
    parts: list[str] = []
    wild = {"*": "[^/]*", "?": "[^/]"}
    for place, name in enumerate(names):
        if name == "**":
            parts.append("(?:/[^/]+)+" if place == last and not below else "(?:/[^/]+)*")
        else:
            parts.append("/" + "".join(wild.get(char) or re.escape(char) for char in name))
    return re.compile("".join(parts) + ("(?:/.*)?" if below else ""), re.DOTALL)
