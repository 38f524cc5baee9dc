"""Moving a member's folder to where its team file says, with everything that the member remembers.

Each entry is moved separately, unless the new folder has it already: so an interrupted move can be
finished by the same command, and what a user keeps in a folder that they named stays there.  All
calls block.
"""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path

from coterie.workspace.beneath import remove_tree
from coterie.workspace.stderr_file import ENDING

_OWN = frozenset({"home", "tmp", "work"})


def move_folder(old: Path, new: Path, root: Path, *, keep: str | None = None) -> None:
    """Move a member's files from one folder to another, which is created if missing.

    `keep` names a file that stays behind; everything else moves.  None means that the user named
    the folder: then only what Coterie creates in such folders is moved.
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
    """Move the link to the material; the default, relative link is recreated when needed."""
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
        try:
            _copy_tree(old, draft)
        except BaseException:
            with suppress(OSError):
                remove_tree(draft)
            raise
        draft.rename(new)  # before removing the old one: one of them is always complete
        remove_tree(old)
    else:
        shutil.copy2(old, draft, follow_symlinks=False)
        draft.rename(new)
        old.unlink()


def _copy_tree(old: Path, new: Path) -> None:
    """Copy a folder, however deep, except for pipes and sockets, which hold nothing.

    `shutil.copytree` needs a stack frame for every level.
    """
    folders = [(old, new)]
    for source, target in folders:  # grows meanwhile
        target.mkdir(mode=0o700)
        with os.scandir(source) as listed:
            for entry in listed:
                at = target / entry.name
                if entry.is_dir(follow_symlinks=False):
                    folders.append((Path(entry.path), at))
                elif entry.is_symlink() or entry.is_file():
                    shutil.copy2(entry.path, at, follow_symlinks=False)
    for source, target in reversed(folders):  # the inner ones first: an outer one may be read-only
        shutil.copystat(source, target)
