"""Refs in the repository that the user named for branches to travel by.  All calls block.

A ref is created once, never moved, and removed only if it is unchanged.  If the repository is a
folder, git serves it locally, without running its hooks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from coterie.errors import GitFailed, UsageError
from coterie.model.remote import GitRemote
from coterie.workspace.bundle import FSCK_ENV
from coterie.workspace.git import CHECKOUT_TIMEOUT, Git

REFS = "refs/coterie"
_PUSH = ("push", "--quiet", "--no-verify", "--no-signed", "--no-follow-tags")
_FETCH = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--refmap=")
_NO_SUBMODULES = "--no-recurse-submodules"
_SERVED = (
    "git -c core.hooksPath=/dev/null -c core.alternateRefsCommand=: "
    "-c gc.auto=0 -c maintenance.auto=false"
)
"""How to serve a repository in a folder: its configuration must not run any program."""


def sent_ref(session: str, name: str, token: int, commit: str) -> str:
    """Return the remote name of a session's branch, sent under a lease.

    A branch may be sent several times: by its session, and by turns with leases of their own.
    """
    return f"{REFS}/{session}/{name}/{token}/{commit}"


def push_new(git: Git, remote: GitRemote, ref: str, commit: str) -> None:
    """Create a ref on the remote; do nothing if it is that commit already.

    Raises UsageError if it is another commit, which stays, and GitFailed if the remote cannot be
    reached.
    """
    create_only = f"--force-with-lease={ref}:"
    try:
        _push(git, remote, create_only, refspecs=(f"{commit}:{ref}",))
    except GitFailed:
        there = remote_refs(git, remote, ref).get(ref)
        if there is None:
            raise
        if there != commit:
            problem = f"{ref} is already on the remote, at {there[:12]}, and is not moved."
            raise UsageError(problem, None, remote.url) from None


def fetch(git: Git, remote: GitRemote, sent: Mapping[str, str]) -> None:
    """Fetch the commits that were sent as these refs; all objects are checked.

    Raises UsageError if a ref is gone or another commit, and GitFailed if the remote cannot be
    reached.
    """
    options = (*_FETCH, _NO_SUBMODULES, *_served("upload-pack", remote))
    try:
        words = (*options, "--", remote.url, *sent)
        replace(git, remote=remote).run(*words, env=FSCK_ENV, timeout=CHECKOUT_TIMEOUT)
    except GitFailed:
        there = remote_refs(git, remote)
        gone = [ref for ref in sent if ref not in there]
        if not gone:
            raise
        problem = f"{gone[0]} is no longer on the remote: its work was accepted or removed."
        raise UsageError(problem, "git fetch", str(git.folder)) from None
    for ref, commit in sent.items():
        if git.commit(commit) is None:
            problem = f"{ref} on the remote is not {commit[:12]}, which was sent under that name."
            raise UsageError(problem, None, remote.url)


def remote_refs(git: Git, remote: GitRemote, below: str = REFS) -> Mapping[str, str]:
    """Return the commits of the remote's refs at or below this name, by ref."""
    words = ("ls-remote", "--refs", *_served("upload-pack", remote), "--", remote.url)
    listed = replace(git, remote=remote).run(*words, below, f"{below}/*")
    parts = (line.partition("\t") for line in listed.splitlines())
    return {ref: commit for commit, _, ref in parts if f"{ref}/".startswith(f"{below}/")}


def remove_refs(git: Git, remote: GitRemote, refs: Mapping[str, str]) -> None:
    """Remove those remote refs that still are these commits."""
    if refs:
        seen = (f"--force-with-lease={ref}:{commit}" for ref, commit in refs.items())
        _push(git, remote, *seen, refspecs=tuple(f":{ref}" for ref in refs))


def _push(git: Git, remote: GitRemote, *options: str, refspecs: tuple[str, ...]) -> None:
    served = _served("receive-pack", remote)
    words = (*_PUSH, _NO_SUBMODULES, *served, *options, "--", remote.url, *refspecs)
    replace(git, remote=remote).run(*words, timeout=CHECKOUT_TIMEOUT)


def _served(program: str, remote: GitRemote) -> tuple[str, ...]:
    """Return the option for how to serve a folder; other repositories decide that themselves."""
    return (f"--{program}={_SERVED} {program}",) if remote.is_path else ()
