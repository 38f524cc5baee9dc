"""What must hold between a team's members, their agents and their folders."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from coterie.config.document import Place
from coterie.config.flags import objections
from coterie.config.mistakes import Mistake, did_you_mean, listing, quoted
from coterie.config.registry import Registry
from coterie.model.team import Member, breaks_isolation

LONGEST_PROMPT = 100_000
"""Bytes.  It may go by flag, and the system refuses an argument over 128 KiB."""

LONGEST_PATH = 4096

_TAKEN = frozenset({"team.json", "team.toml", "team_instruction.md"})
"""Files beside the members' folders."""


@dataclass(frozen=True)
class Surroundings:
    """What a team file stands among."""

    folder: Path
    registry: Registry
    user_home: Path | None = None
    project: Path | None = None
    """The project whose own team it is; None for a file from elsewhere, used in any project."""

    def absolute(self, path: str) -> Path:
        """A path in the file: relative to the file, `~` is the user's home."""
        if self.user_home and (path == "~" or path.startswith("~/")):
            path = str(self.user_home) + path[1:]
        # Links are left as they are: `work` in a member's folder is one, and may change.
        return Path(os.path.normpath(self.folder / path))

    def isolating(self, member: Member) -> frozenset[str]:
        """The variables that may not be set for this member."""
        agent = self.registry.agents.get(member.agent or "")
        known = self.registry.known
        return known.isolating(known.of(agent) if agent else None)

    def holds(self, path: str) -> bool:
        """Whether a path in the file stays inside the file's own folder."""
        return self.absolute(path).resolve().is_relative_to(self.folder.resolve())


class _Placed(Protocol):
    @property
    def place(self) -> Place: ...


Placed = tuple[Member, Mapping[str, _Placed]]


def check_members(members: Sequence[Placed], around: Surroundings) -> Iterator[Mistake]:
    """All that is wrong with members whose entries have the right shape."""
    for index, (member, givens) in enumerate(members):
        at: Place = ("members", index)
        for key, problem, hint in _about(member, around):
            place = givens[key].place if key in givens else at
            yield Mistake(place, problem, hint)
        isolating = around.isolating(member)
        for variable in member.env:
            if breaks_isolation(variable, isolating):
                place = (*givens["env"].place, variable)
                yield Mistake(place, "is set by Coterie for each member; leave it out")
    yield from _shared_names(members)
    yield from _shared_folders(members)


_Complaint = tuple[str, str, str | None]
"""Key, problem, hint."""


def _about(member: Member, around: Surroundings) -> Iterator[_Complaint]:
    if member.id.casefold() in _TAKEN:
        yield "id", f"is {quoted(member.id)}, which is the name of a file beside it", None
    size = len(member.system_instruction.encode())
    if size > LONGEST_PROMPT:
        yield (
            "systemInstruction",
            f"is {size:,} bytes long; expected at most {LONGEST_PROMPT:,}",
            None,
        )
    yield from _agent(member, around.registry)
    yield from _folders(member, around)
    yield from _worktree(member, around.project)


def _worktree(member: Member, project: Path | None) -> Iterator[_Complaint]:
    if member.work == "link":
        return
    if member.execution_dir is not None:
        problem = f'is "worktree", but workDir names {quoted(member.execution_dir, LONGEST_PATH)}'
        yield "work", f"{problem}; keep one", None
    up = (project, *project.parents) if project else ()
    if project and not any((folder / ".git").exists() for folder in up):
        yield "work", f'is "worktree", but {project} is in no git repository', "git init"


def _agent(member: Member, registry: Registry) -> Iterator[_Complaint]:
    agents = registry.agents
    if member.type == "human":
        if member.agent is not None:
            yield "agentConfigId", f'is {quoted(member.agent)}, but its type is "human"', None
        return
    if member.agent is None:
        yield "type", f'is "ai", but it has no agent; known: {listing(agents)}', None
        return
    definition = agents.get(member.agent)
    if definition is None:
        guess = did_you_mean(member.agent, agents)
        hint = None if guess else "coterie agents scan"
        yield "agentConfigId", f"is {quoted(member.agent)}; known: {listing(agents)}.{guess}", hint
        return
    for objection in objections(registry.known, definition, member):
        yield objection.key, objection.problem, objection.hint


def _folders(member: Member, around: Surroundings) -> Iterator[_Complaint]:
    theirs = {Path("/"), *([around.user_home.resolve()] if around.user_home else [])}
    for key, path in (("homeDir", member.home_dir), ("workingDir", member.working_dir)):
        if path is not None and Path(path).resolve() in theirs:
            yield (
                key,
                f"is {quoted(path, LONGEST_PATH)}; a member's own folder cannot be yours",
                None,
            )
    work = member.execution_dir
    if work is None or Path(work).is_dir():
        return
    made_later = Path(member.working_dir or around.folder / member.id)
    if not Path(work).is_relative_to(made_later):
        yield "executionDir", f"is {quoted(work, LONGEST_PATH)}; there is no such folder", None


def _shared_names(members: Sequence[Placed]) -> Iterator[Mistake]:
    """A name that meant two members would send `[NEXT: name]` to the wrong one."""
    owners: dict[str, tuple[int, str]] = {}
    for index, (member, givens) in enumerate(members):
        mine: set[str] = set()
        for key, name in zip(("id", "name", "displayName"), member.names, strict=True):
            folded = name.casefold()
            owner = owners.get(folded)
            if owner is not None and owner[0] != index and folded not in mine:
                place = givens[key].place if key in givens else ("members", index)
                other = f"the {owner[1]} of members[{owner[0]}]"
                yield Mistake(place, f"is {quoted(name)}, which is also {other}")
            mine.add(folded)
            owners.setdefault(folded, (index, key))


def _shared_folders(members: Sequence[Placed]) -> Iterator[Mistake]:
    owners: dict[str, tuple[int, str]] = {}
    for index, (member, givens) in enumerate(members):
        for key, path in (("workingDir", member.working_dir), ("homeDir", member.home_dir)):
            if path is None:
                continue
            owner = owners.setdefault(str(Path(path).resolve()), (index, key))
            if owner[0] != index:
                other = f"the {owner[1]} of members[{owner[0]}]"
                yield Mistake(
                    givens[key].place, f"is {quoted(path, LONGEST_PATH)}, which is also {other}"
                )
