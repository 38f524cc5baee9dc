"""A task that was made on another machine, as it may be run on this one.

Anyone who can write to a shared store could make up any team.  So a team that was not made here
gets no power that could do harm, unless a trusted team file on this machine asks for it as well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path

from coterie.config.allowed import allowed_team
from coterie.config.project import Project, coterie_home
from coterie.config.registry import registry_path
from coterie.config.team_file import LoadedTeam
from coterie.config.teams import Power, learned_rules, powers, require_trust
from coterie.config.trust_record import TRUSTED_FILE
from coterie.errors import ConfigError, NotTrusted, UsageError
from coterie.model.machine import FULL, MOST_NEEDS, Offer, Pool
from coterie.model.task import TaskCreated
from coterie.model.team import TICKETS, Member, Permissions, Team

Load = Callable[[str], LoadedTeam]


def for_this_machine(created: TaskCreated, project: Project, load: Load) -> TaskCreated:
    """Return the task with its folders in this project and only the powers allowed here.

    Reads files.  Raises NotTrusted if it cannot run without a power that is not allowed.
    """
    was = created.allowed
    is_of_here = created.root in (None, str(project.root))
    if is_of_here and was is not None and was.team == _digest(created, project):
        return created  # as this user started it in this clone
    here = relocated(created, project.root)
    known = _trusted_file(here, project, load)
    rules = learned_rules(project, here.team.name)
    team = _only_allowed(here.team, known.team if known else None, rules)
    wanted = powers(LoadedTeam(team, known.path if known else None), project)
    allowed = set(powers(known, project)) if known else set[Power]()
    missing = [power for power in wanted if power not in allowed and power.kind != "allow"]
    if missing:
        details = "; ".join(f"{power.member} {power.what}" for power in missing)
        trust = f"coterie team trust {here.team.name}.json"
        way = f"Copy the team's file to this machine and review it:  {trust}"
        raise NotTrusted(f"Team {here.team.name} is not trusted on this machine: {details}.", way)
    file = str(known.path) if known and known.path else None
    return here.model_copy(update={"team": team, "team_file": file})


def _digest(created: TaskCreated, project: Project) -> str:
    return allowed_team(created.task_id, created.team, project.home).team


def relocated(created: TaskCreated, root: Path) -> TaskCreated:
    """Return the task with every path below its own project's folder moved below `root`."""
    if created.root is None or Path(created.root) == root:
        return created
    before = Path(created.root)

    def moved(path: str | None) -> str | None:
        if path is None or not Path(path).is_relative_to(before):
            return path
        return str(root / Path(path).relative_to(before))

    members = tuple(
        member.model_copy(
            update={
                "execution_dir": moved(member.execution_dir),
                "working_dir": moved(member.working_dir),
                "home_dir": moved(member.home_dir),
            }
        )
        for member in created.team.members
    )
    script = moved(created.script) if created.script else None
    team = created.team.model_copy(update={"members": members})
    places = {"team": team, "team_file": moved(created.team_file), "script": script}
    places["root"] = str(root)
    return created.model_copy(update=places)


def without_file(created: TaskCreated, root: Path) -> TaskCreated:
    """Return the task for a run that starts no member of its team and so needs no team file."""
    return relocated(created, root).model_copy(update={"team_file": None})


def _trusted_file(created: TaskCreated, project: Project, load: Load) -> LoadedTeam | None:
    """Return the team's file on this machine, if it is trusted."""
    own = project.teams / created.team.name / "team.json"
    for path in (created.team_file, str(own)):
        if path is None or not Path(path).is_file():
            continue
        try:
            loaded = load(path)
            require_trust(loaded, project, project.home)
        except (ConfigError, NotTrusted):
            continue
        return loaded
    return None


def _only_allowed(team: Team, known: Team | None, rules: Mapping[str, list[str]]) -> Team:
    """Return the team without rules from other machines: what they would allow is asked instead."""

    def restricted(member: Member) -> Member:
        mine = known.instance(member.id) if known else None
        own = {*(mine.permissions.allow if mine else ()), *rules.get(member.id, ())}
        allow = tuple(rule for rule in member.permissions.allow if rule in own)
        changed = member.permissions.model_copy(update={"allow": allow})
        return member.model_copy(update={"permissions": changed})

    shared = team.permissions
    if shared is not None:
        own = known.permissions if known and known.permissions else Permissions()
        allow = tuple(rule for rule in shared.allow if rule in own.allow)
        shared = shared.model_copy(update={"allow": allow})
    members = tuple(restricted(member) for member in team.members)
    return team.model_copy(update={"members": members, "permissions": shared})


def local_fingerprint(project: Project) -> object:
    """Return a value that changes when what may run here may have changed: what is trusted, the
    agents, the teams, what was fetched.  Reads files."""
    home = project.home or coterie_home()
    paths = [home / TRUSTED_FILE, registry_path(project.home), project.root / ".git" / "FETCH_HEAD"]
    if project.exists:
        paths += sorted(project.teams.glob("*/*.*"))
    stamps: list[tuple[str, int, int]] = []
    for path in paths:
        with suppress(OSError):
            stat = path.stat()
            stamps.append((str(path), stat.st_mtime_ns, stat.st_size))
    return stamps


def offer_of(created: TaskCreated) -> Offer:
    """Return the offer of a task, with what a machine must have to run it."""
    members = created.team.ai_members
    if created.member is not None:
        members = [one for one in members if one.id == created.member]
    needs = {member.agent for member in members if member.agent}
    if any(member.permissions.mode == "full" for member in members):
        needs.add(FULL)
    if len(needs) > MOST_NEEDS:
        problem = (
            f"{created.task_id} needs {len(needs)} different agents; {MOST_NEEDS} is the maximum."
        )
        raise UsageError(problem, "Run it here: without --detach.")
    pool: Pool = "session" if created.workflow == TICKETS else "seat"
    return Offer(created.task_id, pool, tuple(sorted(needs)))


def require_needs(created: TaskCreated, has: Collection[str]) -> None:
    """Raise NotTrusted if a machine lacks something that a task needs."""
    missing = [need for need in offer_of(created).needs if need not in has]
    if FULL in missing:
        text = f"{created.task_id} has members that never ask, which this machine does not accept."
        raise NotTrusted(text, "coterie worker --allow full")
    if missing:
        text = f"{created.task_id} needs {' and '.join(missing)}, which this machine does not run."
        raise NotTrusted(text, f"coterie worker --agents {','.join(missing)}")
