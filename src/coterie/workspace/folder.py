"""A member's folder: `home`, `tmp`, `work`, and the environment its process sees.

Everything is created if missing and kept if present.  Nothing is created through a link in place
of a folder: a repository could have put it there.  A member's identity is recorded when its folder
is created, so that editing a team never silently changes who a member is, or moves it.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Required, TypedDict, cast

from coterie.errors import NotOurs, StorageError, StorageFull, StorageReadOnly, UsageError
from coterie.model.agent import InstructionFile
from coterie.model.redaction import Redactor, is_kept_as
from coterie.model.team import ISOLATING, Member, Team, breaks_isolation, member_folder
from coterie.model.workspace import (
    OURS,
    SHARED_ASSETS,
    TEAM_INSTRUCTION,
    UNWRITTEN,
    Workspace,
)
from coterie.workspace.beneath import read_file, remove_start_files, write_file
from coterie.workspace.own_worktree import own_worktree


def make_folder(root: Path, team: str, member: Member) -> Workspace:
    """Create a member's folder in the project at `root`; its environment is still empty."""
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
    """Create a member's folder and compute the whole environment of its process."""
    workspace = make_folder(root, team, member)
    if member.home_dir is None:  # a home that the user named is theirs
        try:
            remove_start_files(workspace.home)
        except OSError as error:
            raise _storage_error(workspace.home, error) from error
    return replace(workspace, env=environment(member, workspace, passthrough, agent_env, isolating))


def environment(
    member: Member,
    workspace: Workspace,
    passthrough: Mapping[str, str],
    agent_env: Mapping[str, str] | None = None,
    isolating: Collection[str] = ISOLATING,
) -> dict[str, str]:
    """Return a member's environment: passthrough, its agent's, its own; isolation comes last."""
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
                f"{path} is not a folder.",
                "A member's folder cannot be a link or a file: remove it.",
            ) from None


def _make_private(path: Path) -> None:
    _make(path)
    if path.stat().st_mode & 0o077:
        path.chmod(0o700)


def leads_to_task_worktree(link: Path, root: Path) -> bool:
    """Whether `work` leads to the worktree of a task, as earlier releases left it."""
    return link.is_symlink() and link.resolve().is_relative_to(_task_worktrees(root).resolve())


def _task_worktrees(root: Path) -> Path:
    return root / ".coterie" / "worktrees"


def _work(place: Path, root: Path, team: str, member: Member) -> Path:
    if leads_to_task_worktree(place, root):
        _point(place, _default_target(place, root))
    if member.work == "link" or member.type == "human":
        return _link_work(place, root, member)
    if member.execution_dir is not None:
        raise UsageError(
            f"{member.id} has a worktree of its own, so it cannot work in {member.execution_dir}.",
            'Leave out "workDir", or "work": "worktree".',
        )
    return own_worktree(root, place, f"{team}/{member.id}")


def _link_work(link: Path, root: Path, member: Member) -> Path:
    """Make `work` lead to the material; what a person linked or put there by hand is kept."""
    wanted = Path(member.execution_dir) if member.execution_dir else None
    if wanted is not None and not wanted.is_relative_to(link):
        if not wanted.is_dir():
            raise _no_material(member, wanted)
        if not wanted.is_relative_to(_task_worktrees(root)):  # those are for one task only
            _point(link, wanted)
        return wanted
    if not os.path.lexists(link):
        with suppress(FileExistsError):  # another task of the team began at the same moment
            link.symlink_to(_default_target(link, root))
    work = wanted or link
    if not work.is_dir():
        raise _no_material(member, work)
    return work


def _no_material(member: Member, work: Path) -> UsageError:
    target = f", which links to {work.readlink()}" if work.is_symlink() else ""
    return UsageError(
        f"{member.id} works in {work}{target}: there is no such folder.",
        "Make it a link to the folder to work in, or remove it to work in the project.",
        str(work),
    )


def _default_target(link: Path, root: Path) -> Path:
    """The project; relative if possible, so that the project can be moved as a whole."""
    folder = link.parent
    return Path(os.path.relpath(root, folder)) if folder.is_relative_to(root) else root


def _point(link: Path, target: Path) -> None:
    """Make the link show where the member really works; a real folder there is left alone."""
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


# -- instruction files, for people and for CLIs that are started by hand -------------------------


def write_instructions(root: Path, team: Team, member: Member, file: InstructionFile) -> None:
    """Write the team's instructions, its shared folder and the member's instruction file.

    That file holds the member's role and refers to the team's instructions, with an import if the
    agent follows those.  A file that a person wrote is kept: a member's folder may be any folder
    that the user named.
    """
    place, folder = root / ".coterie" / "teams" / team.name, member_folder(root, team.name, member)
    try:
        for needed in (root / ".coterie", place.parent, place, place / SHARED_ASSETS):
            _make(needed)
        instruction = (team.team_instruction or "").strip()
        text = f"{OURS}\n\n{instruction}\n" if instruction else f"{UNWRITTEN}\n"
        _write_ours(place, TEAM_INSTRUCTION, text)
        inside = folder.is_relative_to(root)
        where = place / TEAM_INSTRUCTION
        shown = os.path.relpath(where, folder) if inside else str(where)
        reference = f"The instructions for everyone in the team are in {shown}: read them first."
        parts = [
            OURS,
            member.system_instruction.strip(),
            f"@{shown}" if file.follows_imports else reference,
        ]
        _write_ours(folder, file.name, "\n\n".join(part for part in parts if part) + "\n")
    except OSError as error:
        raise _storage_error(folder, error) from error


def _write_ours(folder: Path, name: str, text: str) -> None:
    """Write this text to a file, unless a person has written the file."""
    data = text.encode("utf-8", "replace")
    try:
        known = read_file(folder, name)
    except FileNotFoundError:
        known = b""
    except NotOurs:  # a link, or not a file: somebody put it there
        return
    first = known.partition(b"\n")[0].decode("utf-8", "replace").strip()
    is_ours = not known or first == OURS or known.strip() == UNWRITTEN.encode()
    if is_ours and known != data:
        write_file(folder, (name,), data)


# -- who a member is, once its folder exists -------------------------------------------------------

FILE_NAME = "identity.json"


@dataclass(frozen=True)
class ChangedMember:
    """A member whose edited identity the user has not yet accepted or declined."""

    member: Member
    prompt: str | None
    """The previous prompt; None if it is the same."""
    folder: Path | None = None
    """The previous folder; None if it is the same."""


class _Identity(TypedDict, total=False):
    """What is stored about a member next to its team, wherever its folder is."""

    prompt: Required[str]
    folder: str
    """`workingDir`, relative to the project if it is inside; empty for the default folder."""
    declined: str
    """A prompt that the user declined."""
    declined_folder: str


def changed_members(root: Path, team: Team) -> list[ChangedMember]:
    """Return the members with an edited identity that the user has not yet accepted or declined."""
    changed: list[ChangedMember] = []
    for member in team.ai_members:
        known = _read(root, team.name, member)
        if known is None:
            continue
        prompt, place = member.system_instruction, _folder_of(root, member)
        same_prompt = any(
            is_kept_as(prompt, kept) for kept in (known["prompt"], known.get("declined"))
        )
        same_folder = place in (known.get("folder", ""), known.get("declined_folder"))
        if not (same_prompt and same_folder):
            was = None if same_folder else _known_folder(root, team.name, member, known)
            changed.append(ChangedMember(member, None if same_prompt else known["prompt"], was))
    return changed


def with_saved_identities(root: Path, team: Team) -> Team:
    """Return the team in effect: members with a declined change keep the old prompt and folder."""

    def settled(member: Member) -> Member:
        known = _read(root, team.name, member) if member.type == "ai" else None
        if known is None:
            return member
        kept: dict[str, object] = {}
        if is_kept_as(member.system_instruction, known.get("declined")):
            kept["system_instruction"] = known["prompt"]
        if _folder_of(root, member) == known.get("declined_folder"):
            folder = known.get("folder", "")
            kept["working_dir"] = str(root / folder) if folder else None
        return member.model_copy(update=kept) if kept else member

    return team.model_copy(update={"members": tuple(map(settled, team.members))})


def save_identity_if_new(root: Path, team: str, member: Member) -> None:
    """Record who a member is if its folder is new."""
    if member.type == "ai" and _read(root, team, member) is None:
        save_identity(root, team, member)


def former_folder(root: Path, team: str, member: Member) -> Path | None:
    """Return a member's recorded folder if its entry now names another one."""
    known = _read(root, team, member)
    if known is None or known.get("folder", "") == _folder_of(root, member):
        return None
    return _known_folder(root, team, member, known)


def save_identity(root: Path, team: str, member: Member) -> None:
    """Accept what the team file says about a member now, and move its folder along."""
    old, new = former_folder(root, team, member), member_folder(root, team, member)
    if old is not None:
        from coterie.workspace.folder_move import move_folder  # rare

        is_usual = old == member_folder(root, team, _in_usual_place(member))
        try:
            move_folder(old, new, root, keep=FILE_NAME if is_usual else None)
        except OSError as error:
            raise _storage_error(new, error) from error
    identity: _Identity = {"prompt": _kept_prompt(member), "folder": _folder_of(root, member)}
    _write(root, team, member, identity)


def keep_saved_identity(root: Path, team: str, member: Member) -> None:
    """Decline what the team file says now: the member stays who and where it was."""
    known = _read(root, team, member)
    if known is not None:
        declined: _Identity = {
            "prompt": known["prompt"],
            "folder": known.get("folder", ""),
            "declined": _kept_prompt(member),
            "declined_folder": _folder_of(root, member),
        }
        _write(root, team, member, declined)


def _folder_of(root: Path, member: Member) -> str:
    """Return a member's folder as stored: relative, so that a project can be moved as a whole."""
    if member.working_dir is None:
        return ""
    folder = Path(member.working_dir)
    return str(folder.relative_to(root) if folder.is_relative_to(root) else folder)


def _known_folder(root: Path, team: str, member: Member, known: _Identity) -> Path:
    kept = known.get("folder", "")
    return root / kept if kept else member_folder(root, team, _in_usual_place(member))


def _in_usual_place(member: Member) -> Member:
    return member.model_copy(update={"working_dir": None})


def _kept_prompt(member: Member) -> str:
    return Redactor(member.env.values()).text(member.system_instruction)


def _read(root: Path, team: str, member: Member) -> _Identity | None:
    names = ("teams", team, member.id, FILE_NAME)
    identity = _parsed(root / ".coterie", *names)
    if identity is None and member.working_dir is not None:  # where an earlier release stored it
        identity = _parsed(Path(member.working_dir), FILE_NAME)
        if identity is not None:
            identity["folder"] = _folder_of(root, member)
    return identity


def _parsed(base: Path, *names: str) -> _Identity | None:
    try:
        data: object = json.loads(read_file(base, *names))
    except (OSError, ValueError, NotOurs):
        return None  # not recorded yet, or unreadable: then the team file counts
    if not isinstance(data, dict):
        return None
    entries = cast("dict[str, object]", data)
    known = {key: value for key, value in entries.items() if isinstance(value, str)}
    return cast("_Identity", known) if "prompt" in known else None


def _write(root: Path, team: str, member: Member, identity: _Identity) -> None:
    names = ("teams", team, member.id, FILE_NAME)
    write_file(root / ".coterie", names, (json.dumps(identity, indent=2) + "\n").encode())
