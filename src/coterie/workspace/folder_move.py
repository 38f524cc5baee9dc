"""A member's folder moves to where its team file says, with all that the member remembers.

Each entry is moved by itself, and none that the new place has already: so a move that was cut short
is finished by the same command, and what a user keeps in a folder that they named stays there.  All
of it blocks.
"""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path

from coterie.workspace.stderr_file import ENDING

_OWN = frozenset({"home", "tmp", "work"})


def move_folder(old: Path, new: Path, root: Path, *, keep: str | None = None) -> None:
    """Move what is a member's own from one folder to another, which is made if there is none.

    `keep` names a file that stays, of a folder that is the member's as a whole; None: the user
    named the folder, and only what Coterie makes in such folders is moved.
    """
    if not old.is_dir():
        return
    new.mkdir(mode=0o700, parents=True, exist_ok=True)
    for entry in sorted(old.iterdir()):
        is_ours = entry.name in _OWN or entry.name.endswith(ENDING)
        if entry.name == keep or (keep is None and not is_ours):
            continue
        if entry.name == "work" and entry.is_symlink():
            _move_link(entry, new / entry.name, root)
        elif not os.path.lexists(new / entry.name):
            _move(entry, new / entry.name)
    with suppress(OSError):
        old.rmdir()


def _move_link(old: Path, new: Path, root: Path) -> None:
    """Move the link to the material; ours is relative, and is made again where it is missing."""
    target = old.resolve()
    if target != root.resolve() and not os.path.lexists(new):
        new.symlink_to(target)
    old.unlink()


def _move(old: Path, new: Path) -> None:
    try:
        old.rename(new)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    else:
        return
    draft = new.with_name(f".{new.name}.{os.urandom(4).hex()}.new")
    if old.is_dir() and not old.is_symlink():
        shutil.copytree(old, draft, symlinks=True)
        draft.rename(new)  # before the other is removed: one of them is always whole
        shutil.rmtree(old)
    else:
        shutil.copy2(old, draft, follow_symlinks=False)
        draft.rename(new)
        old.unlink()
