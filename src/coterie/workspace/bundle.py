"""Commits on their way from one clone to another, as bundles.  All of it blocks."""

from __future__ import annotations

import tempfile
from pathlib import Path

from coterie.errors import GitFailed, UsageError
from coterie.workspace.git import CHECKOUT, Git

CHECKED = {
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "transfer.fsckObjects",
    "GIT_CONFIG_VALUE_0": "true",
}
"""With it git checks every object that it takes in."""


def bundle(git: Git, ref: str) -> bytes | None:
    """What a ref has that another clone may lack; None: nothing, for what a remote has every clone
    can fetch."""
    own = (ref, "--not", "--remotes")
    if not git.run("rev-list", "--max-count=1", *own).strip():
        return None
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "bundle"
        git.run("bundle", "create", "--quiet", str(file), *own, patience=CHECKOUT)
        return file.read_bytes()


def take_in(git: Git, commit: str, data: bytes | None) -> None:
    """Have a commit in a clone: it is there, or in the bundle, whose objects are all checked.

    Raises UsageError where neither is so.
    """
    if git.commit(commit) is not None:
        return
    if data is None:
        raise _lacking(git, commit)
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "bundle"
        file.write_bytes(data)
        try:
            git.run("bundle", "verify", "--quiet", str(file))
        except GitFailed:
            raise _lacking(git, commit) from None
        git.run("bundle", "unbundle", str(file), env=CHECKED, patience=CHECKOUT)
    if git.commit(commit) is None:
        raise GitFailed("bundle", str(git.folder), f"the bundle does not hold {commit[:12]}")


def _lacking(git: Git, commit: str) -> UsageError:
    said = f"This clone lacks commits that the work begins at ({commit[:12]})."
    return UsageError(said, "git fetch", str(git.folder))
