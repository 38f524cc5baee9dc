"""Bundles, which carry commits from one clone to another.  All calls block."""

from __future__ import annotations

import tempfile
from pathlib import Path

from coterie.errors import GitFailed, UsageError
from coterie.workspace.git import CHECKOUT_TIMEOUT, Git

FSCK_ENV = {
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "transfer.fsckObjects",
    "GIT_CONFIG_VALUE_0": "true",
}
"""Makes git check every object that it receives."""


def bundle(git: Git, ref: str) -> bytes | None:
    """Bundle the commits of a ref that are on no remote; None if there are none.

    Every clone can fetch what is on a remote.
    """
    own = (ref, "--not", "--remotes")
    if not git.run("rev-list", "--max-count=1", *own).strip():
        return None
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "bundle"
        git.run("bundle", "create", "--quiet", str(file), *own, timeout=CHECKOUT_TIMEOUT)
        return file.read_bytes()


def import_commit(git: Git, commit: str, data: bytes | None) -> None:
    """Make a commit available in a clone, if need be from the bundle, whose objects are checked.

    Raises UsageError if neither has it.
    """
    if git.commit(commit) is not None:
        return
    if data is None:
        raise _missing_commit(git, commit)
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "bundle"
        file.write_bytes(data)
        try:
            git.run("bundle", "verify", "--quiet", str(file))
        except GitFailed:
            raise _missing_commit(git, commit) from None
        git.run("bundle", "unbundle", str(file), env=FSCK_ENV, timeout=CHECKOUT_TIMEOUT)
    if git.commit(commit) is None:
        raise GitFailed("bundle", str(git.folder), f"the bundle does not contain {commit[:12]}")


def _missing_commit(git: Git, commit: str) -> UsageError:
    problem = f"This clone lacks the commit that the work starts from ({commit[:12]})."
    return UsageError(problem, "git fetch", str(git.folder))
