"""The files that control what git does in a folder, so that changes to them can be reported.

With an agent that runs commands as the user, nothing can be protected.  But what it leaves in
`.git` is in no diff, so it is listed.  Settings that are plain data do not count: every clone and
every branch adds some.  All calls block.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from coterie.workspace.beneath import walk
from coterie.workspace.git_edits import bytes_of, names_of
from coterie.workspace.git_settings import other_settings
from coterie.workspace.worktree import POINTER, checkout_at, top_of

CONTROL_FILE_WARNING = "git acts on it: check it before you run git here"
_SETTINGS = ("config", "config.worktree")
_SAMPLE = ".sample"
_READ_EVERYWHERE = frozenset({".gitattributes", ".gitignore", ".gitmodules", ".mailmap"})
_PLAIN = frozenset({stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK})


def control_files(folder: Path) -> Iterator[Path]:
    """Yield the existing files that control what git does."""
    top = top_of(folder)
    checkout = checkout_at(top) if top else None
    if top is None or checkout is None:
        return
    yield from _present(top, POINTER) if (top / POINTER).is_file() else ()
    yield from _present(checkout.git_dir, "config.worktree")
    if checkout.git_dir == checkout.common:
        yield from _present(checkout.common, "commondir")
    yield from _in_repository(checkout.common)


def control_file_digests(folder: Path) -> dict[str, str]:
    """Return a digest of each such file that is not empty, by its path relative to the folder."""
    contents = {os.path.relpath(path, folder): _content(path) for path in control_files(folder)}
    return {path: hashlib.sha256(text).hexdigest() for path, text in contents.items() if text}


def special_file(folder: Path) -> str | None:
    """Return the path in a folder of a pipe, socket or device that git would read settings from,
    and wait for without end."""
    for name, entry in walk(folder, lambda name: name.rpartition("/")[2] != POINTER):
        with suppress(OSError):
            kind = stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode)
            if entry.name in _READ_EVERYWHERE and kind not in _PLAIN:
                return name
    return None


def _in_repository(git_dir: Path) -> Iterator[Path]:
    yield from _present(git_dir, "config")
    hooks = git_dir / "hooks"
    yield from (hooks / name for name in names_of(hooks) if not name.endswith(_SAMPLE))
    stack = [git_dir / "modules"]
    while stack:  # the name of a submodule may contain slashes
        for name in names_of(here := stack.pop()):
            inner = here / name
            if (inner / "HEAD").exists():
                yield from _in_repository(inner)
            elif inner.is_dir() and not inner.is_symlink():
                stack.append(inner)


def _present(folder: Path, name: str) -> Iterator[Path]:
    if os.path.lexists(folder / name):
        yield folder / name


def _content(path: Path) -> bytes:
    if path.name in _SETTINGS and not path.is_symlink():
        try:
            return "\n".join(other_settings(path)).encode("utf-8", "surrogateescape")
        except ValueError:
            pass
    kind = b"link " if path.is_symlink() else b"runs " if os.access(path, os.X_OK) else b""
    return kind + (bytes_of(path) or b"?")
