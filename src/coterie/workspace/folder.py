"""A member's folder: `home`, `tmp`, `work`, and the environment its process sees.

Everything is made if absent and kept if present.  Nothing is made through a link that stands
where a folder should be: a repository could have put it there.  The folder also remembers the
member's prompt, so that editing a team never silently changes who a member is.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from coterie.errors import NotOurs, StorageError, StorageFull, StorageReadOnly, UsageError
from coterie.model.redaction import Redactor, is_kept_as
from coterie.model.team import ISOLATING, Member, Team, breaks_isolation, member_folder
from coterie.model.workspace import START_FILES, Workspace
from coterie.workspace.beneath import read_file, write_file
from coterie.workspace.own_worktree import own_worktree


def make_folder(root: Path, team: str, member: Member) -> Workspace:
    """Make a member's folder in the project at `root`; its environment is still empty."""
    folder = member_folder(root, team, member)
    try:
        if member.working_dir is None:
            for parent in (root / ".coterie", folder.parent.parent, folder.parent):
                _make(parent)
        else:
            folder.parent.mkdir(parents=True, exist_ok=True)
        _make(folder)
        home = Path(member.home_dir) if member.home_dir else folder / "home"
        if member.home_dir:
            home.parent.mkdir(parents=True, exist_ok=True)
        _make_private(home)
        _make_private(folder / "tmp")
        work = _work(folder / "work", root, team, member)
    except OSError as error:
        raise _storage_error(folder, error) from error
    return Workspace(folder=folder, home=home, tmp=folder / "tmp", execution_dir=work)


def open_workspace(
    root: Path,
    team: str,
    member: Member,
    passthrough: Mapping[str, str],
    agent_env: Mapping[str, str] | None = None,
    isolating: Collection[str] = ISOLATING,
) -> Workspace:
    """A member's folder, made, with the whole environment of its process."""
    made = make_folder(root, team, member)
    if member.home_dir is None:  # one that the user named is theirs
        try:
            _remove_start_files(made.home)
        except OSError as error:
            raise _storage_error(made.home, error) from error
    return replace(made, env=environment(member, made, passthrough, agent_env, isolating))


def _remove_start_files(home: Path) -> None:
    """Have none of `START_FILES` in a home, so that a turn leaves nothing that the next one runs.

    No link is followed: one that stands for a folder on the way is removed itself.
    """
    folder = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for path in START_FILES.split():
            _remove_below(folder, *path.split("/"))
    finally:
        os.close(folder)


def _remove_below(folder: int, name: str, *more: str) -> None:
    try:
        kind = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(kind):
        os.unlink(name, dir_fd=folder)
    elif not more:
        shutil.rmtree(name, dir_fd=folder)
    else:
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
        try:
            _remove_below(inner, *more)
        finally:
            os.close(inner)


def environment(
    member: Member,
    workspace: Workspace,
    passthrough: Mapping[str, str],
    agent_env: Mapping[str, str] | None = None,
    isolating: Collection[str] = ISOLATING,
) -> dict[str, str]:
    """What a member's process sees: what may be passed on, its agent's, its own; isolation last."""
    for variable in member.env:
        if breaks_isolation(variable, isolating):
            raise UsageError(
                f"{member.id}: {variable} in env would break its isolation.", "Leave it out."
            )
    given = {**passthrough, **(agent_env or {}), **member.env}
    kept = {name: value for name, value in given.items() if not breaks_isolation(name, isolating)}
    return {**kept, "HOME": str(workspace.home), "TMPDIR": str(workspace.tmp)}


def _make(path: Path) -> None:
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        if not stat.S_ISDIR(path.lstat().st_mode):
            raise UsageError(
                f"{path} is no folder.", "A member's folder cannot be a link or a file: remove it."
            ) from None


def _make_private(path: Path) -> None:
    _make(path)
    if path.stat().st_mode & 0o077:
        path.chmod(0o700)


def _work(place: Path, root: Path, team: str, member: Member) -> Path:
    if member.work == "link" or member.type == "human":
        return _link_work(place, root, member)
    if member.execution_dir is not None:
        raise UsageError(
            f"{member.id} has a worktree of its own, so it cannot work in {member.execution_dir}.",
            'Leave out "workDir", or "work": "worktree".',
        )
    return own_worktree(root, place, f"{team}/{member.id}")


def _link_work(link: Path, root: Path, member: Member) -> Path:
    """`work` stands for the material; what a person linked or put there by hand is kept."""
    wanted = Path(member.execution_dir) if member.execution_dir else None
    if wanted is not None and not wanted.is_relative_to(link):
        if not wanted.is_dir():
            raise _no_material(member, wanted)
        _point(link, wanted)
        return wanted
    if not os.path.lexists(link):
        # Relative, so that a project may be moved as a whole.
        inside = link.parent.is_relative_to(root)
        link.symlink_to(os.path.relpath(root, link.parent) if inside else root)
    work = wanted or link
    if not work.is_dir():
        raise _no_material(member, work)
    return work


def _no_material(member: Member, work: Path) -> UsageError:
    target = f", which links to {work.readlink()}" if work.is_symlink() else ""
    return UsageError(
        f"{member.id} works in {work}{target}: there is no such folder.",
        "Link it to the material, or remove it to work in the project.",
        str(work),
    )


def _point(link: Path, target: Path) -> None:
    """Have the link show where the member really works; a real folder there is left alone."""
    if os.path.lexists(link) and not link.is_symlink():
        return
    if link.is_symlink() and link.readlink() == target:
        return
    fresh = link.with_name(f".work.{os.urandom(4).hex()}")
    fresh.symlink_to(target)
    fresh.replace(link)


def _storage_error(folder: Path, error: OSError) -> StorageError:
    place = str(folder)
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        advice = f"Make {folder.parent} writable, or work elsewhere: -C DIR"
        return StorageReadOnly(place, "The member's folder cannot be made", advice)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFull(place, "The disk is full", "Free some space, then try again.")
    return StorageError(place, f"The member's folder cannot be made: {error.strerror}")


FILE_NAME = "identity.json"


@dataclass(frozen=True)
class ChangedPrompt:
    """A member whose prompt is not the one its folder was made with."""

    member: Member
    saved: str
    """The prompt that its folder knows."""


def changed_prompts(root: Path, team: Team) -> list[ChangedPrompt]:
    """The members of a team whose prompt was edited and not settled yet."""
    found: list[ChangedPrompt] = []
    for member in team.ai_members:
        known = _read(_file(root, team.name, member))
        if known and not any(
            is_kept_as(member.system_instruction, known.get(key)) for key in ("prompt", "declined")
        ):
            found.append(ChangedPrompt(member, known["prompt"]))
    return found


def with_saved_prompts(root: Path, team: Team) -> Team:
    """The team with the prompts that count: of a member that keeps its old one, the old one."""

    def settled(member: Member) -> Member:
        known = _read(_file(root, team.name, member)) if member.type == "ai" else None
        if known is None or not is_kept_as(member.system_instruction, known.get("declined")):
            return member
        return member.model_copy(update={"system_instruction": known["prompt"]})

    return team.model_copy(update={"members": tuple(map(settled, team.members))})


def save_prompt_if_new(root: Path, team: str, member: Member) -> None:
    """A folder that is new remembers who lives there."""
    if member.type == "ai" and not _file(root, team, member).exists():
        save_prompt(root, team, member)


def save_prompt(root: Path, team: str, member: Member) -> None:
    """From now on the member is who its team file says."""
    _write(_file(root, team, member), {"prompt": _kept_prompt(member)})


def keep_saved_prompt(root: Path, team: str, member: Member) -> None:
    """The member stays who it was, whatever its team file says now."""
    path = _file(root, team, member)
    known = _read(path)
    if known is not None:
        _write(path, {"prompt": known["prompt"], "declined": _kept_prompt(member)})


def _kept_prompt(member: Member) -> str:
    return Redactor(member.env.values()).text(member.system_instruction)


def _file(root: Path, team: str, member: Member) -> Path:
    return member_folder(root, team, member) / FILE_NAME


def _read(path: Path) -> dict[str, str] | None:
    try:
        data: object = json.loads(read_file(path.parent, path.name))
    except (OSError, ValueError, NotOurs):
        return None  # not settled yet, or nothing that could be: then the team file counts
    if not isinstance(data, dict):
        return None
    entries = cast("dict[str, object]", data)
    known = {key: value for key, value in entries.items() if isinstance(value, str)}
    return known if "prompt" in known else None


def _write(path: Path, identity: dict[str, str]) -> None:
    write_file(path.parent, (path.name,), (json.dumps(identity, indent=2) + "\n").encode())
