"""Refs on a repository that the user named for branches to travel by.  All of it blocks.

A ref is made once and never moved, and is removed only as it was seen.  Where the repository is a
folder, git serves it here: then its hooks are not run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from coterie.errors import GitFailed, UsageError
from coterie.model.remote import GitRemote
from coterie.workspace.bundle import CHECKED
from coterie.workspace.git import CHECKOUT, Git

REFS = "refs/coterie"
_PUSH = ("push", "--quiet", "--no-verify", "--no-signed", "--no-follow-tags")
_FETCH = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--refmap=")
_NO_SUBMODULES = "--no-recurse-submodules"
_SERVED = (
    "git -c core.hooksPath=/dev/null -c core.alternateRefsCommand=: "
    "-c gc.auto=0 -c maintenance.auto=false"
)
"""How a repository in a folder is served: nothing of its configuration runs a program."""


def sent_ref(session: str, name: str, token: int, commit: str) -> str:
    """What a branch of a session is called there, as it was sent under a lease: one may be sent
    several times, by its session and by turns that have leases of their own."""
    return f"{REFS}/{session}/{name}/{token}/{commit}"


def sent_by(session: str, refs: Mapping[str, str]) -> Mapping[str, str]:
    """Those of the refs there that are branches of a session."""
    below = f"{REFS}/{session}/"
    return {ref: commit for ref, commit in refs.items() if ref.startswith(below)}


def push_new(git: Git, remote: GitRemote, ref: str, commit: str) -> None:
    """Make a ref there; nothing happens where it is that commit already.

    Raises UsageError where it is another, which stays, and GitFailed where it cannot be reached.
    """
    create_only = f"--force-with-lease={ref}:"
    try:
        _push(git, remote, create_only, refspecs=(f"{commit}:{ref}",))
    except GitFailed:
        there = remote_refs(git, remote, ref).get(ref)
        if there is None:
            raise
        if there != commit:
            said = f"{ref} is {there[:12]} on the remote already, and is not moved."
            raise UsageError(said, None, remote.url) from None


def fetch(git: Git, remote: GitRemote, sent: Mapping[str, str]) -> None:
    """Have the commits here that were sent as these refs; all objects are checked.

    Raises UsageError where a ref is not there any more, or another commit, and GitFailed where it
    cannot be reached.
    """
    options = (*_FETCH, _NO_SUBMODULES, *_served("upload-pack", remote))
    try:
        words = (*options, "--", remote.url, *sent)
        replace(git, remote=remote).run(*words, env=CHECKED, patience=CHECKOUT)
    except GitFailed:
        there = remote_refs(git, remote)
        gone = [ref for ref in sent if ref not in there]
        if not gone:
            raise
        said = f"{gone[0]} is not on the remote any more, as its work was accepted or removed."
        raise UsageError(said, "git fetch", str(git.folder)) from None
    for ref, commit in sent.items():
        if git.commit(commit) is None:
            said = f"{ref} on the remote does not hold {commit[:12]}, which was sent as that."
            raise UsageError(said, None, remote.url)


def remote_refs(git: Git, remote: GitRemote, below: str = REFS) -> Mapping[str, str]:
    """By name: the commit of a ref there, or of all below that name."""
    words = ("ls-remote", "--refs", *_served("upload-pack", remote), "--", remote.url)
    listed = replace(git, remote=remote).run(*words, below, f"{below}/*")
    found = (line.partition("\t") for line in listed.splitlines())
    return {ref: commit for commit, _, ref in found if f"{ref}/".startswith(f"{below}/")}


def remove_refs(git: Git, remote: GitRemote, refs: Mapping[str, str]) -> None:
    """Remove refs there that still are these commits."""
    if refs:
        seen = (f"--force-with-lease={ref}:{commit}" for ref, commit in refs.items())
        _push(git, remote, *seen, refspecs=tuple(f":{ref}" for ref in refs))


def _push(git: Git, remote: GitRemote, *options: str, refspecs: tuple[str, ...]) -> None:
    served = _served("receive-pack", remote)
    words = (*_PUSH, _NO_SUBMODULES, *served, *options, "--", remote.url, *refspecs)
    replace(git, remote=remote).run(*words, patience=CHECKOUT)


def _served(program: str, remote: GitRemote) -> tuple[str, ...]:
    """The option that says how git is to be run in a folder; elsewhere that is others' to say."""
    return (f"--{program}={_SERVED} {program}",) if remote.is_path else ()
