"""What the git of a folder obeys, told by what it says: so that a change of it can be shown.

Of an agent that runs commands as the user nothing can be held.  But what it leaves in `.git` is in
no diff, so it is named.  Settings that are plain data do not count: every clone and every branch
brings some.  All of it blocks.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from coterie.workspace.git_edits import bytes_of, names_of
from coterie.workspace.git_settings import other_settings
from coterie.workspace.worktree import POINTER, checkout_at, top_of

OBEYED = "git obeys it: look before you run git here"
_SETTINGS = ("config", "config.worktree")
_SAMPLE = ".sample"


def obeyed_files(folder: Path) -> Iterator[Path]:
    """The files that say it, as far as they are there."""
    top = top_of(folder)
    found = checkout_at(top) if top else None
    if top is None or found is None:
        return
    yield from _present(top, POINTER) if (top / POINTER).is_file() else ()
    yield from _present(found.git_dir, "config.worktree")
    if found.git_dir == found.common:
        yield from _present(found.common, "commondir")
    yield from _of_repository(found.common)


def obeyed(folder: Path) -> dict[str, str]:
    """By its path from the folder: a digest of what such a file says; of nothing, none."""
    said = {os.path.relpath(path, folder): _said(path) for path in obeyed_files(folder)}
    return {path: hashlib.sha256(text).hexdigest() for path, text in said.items() if text}


def _of_repository(git_dir: Path) -> Iterator[Path]:
    yield from _present(git_dir, "config")
    hooks = git_dir / "hooks"
    yield from (hooks / name for name in names_of(hooks) if not name.endswith(_SAMPLE))
    stack = [git_dir / "modules"]
    while stack:  # a submodule's name may have slashes
        for name in names_of(here := stack.pop()):
            inner = here / name
            if (inner / "HEAD").exists():
                yield from _of_repository(inner)
            elif inner.is_dir() and not inner.is_symlink():
                stack.append(inner)


def _present(folder: Path, name: str) -> Iterator[Path]:
    if os.path.lexists(folder / name):
        yield folder / name


def _said(path: Path) -> bytes:
    if path.name in _SETTINGS and not path.is_symlink():
        try:
            return "\n".join(other_settings(path)).encode("utf-8", "surrogateescape")
        except ValueError:
            pass
    kind = b"link " if path.is_symlink() else b"runs " if os.access(path, os.X_OK) else b""
    return kind + (bytes_of(path) or b"?")
