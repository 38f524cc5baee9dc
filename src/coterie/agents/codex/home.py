"""A Codex member's home: its config.toml, its AGENTS.md, its login, and what its commands may do.

Six things of Codex 0.166 decide what stands here:

- A folder without a trust level of its own is marked as trusted as soon as a thread is started
  in it with a sandbox or a permission profile; then the repository's MCP servers run, and its
  rules answer for the user.  So the folder and all above it are marked as untrusted, by us.
- In an untrusted folder Codex reads no AGENTS.md.  Where the user trusts the material, its
  text is copied into the home's own.
- `sandbox_mode` lets a command write all of the project, and with it `.coterie` and the homes
  of every member.  A permission profile can leave that out, and does.
- A git worktree's own folder below `.git` is kept from writing unless a profile names it.
- A command that was allowed and that the sandbox stops is run a second time, without it.  Not so
  where the profile keeps something from being read: so there is always such a folder.  Then even
  a command that is allowed to leave the sandbox only gets to write everywhere, and has the
  network only where all have it: which they do where each is asked about.
- What is typed into a terminal is asked about only where that has left the sandbox, so there are
  terminals for those alone who need not be asked.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from coterie.model.team import Member
from coterie.model.workspace import Workspace
from coterie.workspace import homes
from coterie.workspace.git_guard import held_of_own
from coterie.workspace.git_work import GuardedWork
from coterie.workspace.worktree import Worktree

PROFILE = "coterie"
"""The permission profile that every command runs under."""
LOOKING = "coterie-read"
"""The one of a Codex that can ask nobody."""
NETWORK = f"permissions.{PROFILE}.network.enabled"
"""The setting that opens the network to commands."""
OFF = ("apps", "goals", "hooks", "multi_agent", "plugins", "unbounded_connection_retries")
"""Features that would run what nobody of the team asked for, or wait for a network for ever."""
_TERMINALS = "unified_exec_tty"
_KEPT = "kept"
_HELPERS = "tmp"
"""Below its home: links to itself, by which it starts what makes its sandbox."""
_WORDS = "words"
_ELF = b"\x7fELF"
_BINARY = "codex-*/vendor/*/bin/codex"
REHEARSAL_MODEL = "gpt-5.5"
"""A model of its catalogue with plain tools; a rehearsal need not speak any other."""
KEY = "CODEX_API_KEY"
_KEYS = (KEY, "OPENAI_API_KEY")
_REHEARSAL_KEY = "REHEARSAL_API_KEY"
_DOCUMENTS = ("AGENTS.override.md", "AGENTS.md")

Table = Mapping[str, object]


@dataclass(frozen=True)
class CodexHome:
    """What its process is started with; `path` is its CODEX_HOME."""

    path: Path
    cwd: Path
    """Where it works, without links: Codex would take a link for another folder."""
    env: Mapping[str, str]
    read_only: bool
    """Whether its commands can change nothing at all."""
    words: Path
    """Where its commands find whether they may run; they can read it and not write."""
    confined: bool = False
    """Whether they then see nothing but the work folder and the system's programs either."""


def prepare(member: Member, workspace: Workspace, command: str = "codex") -> CodexHome:
    """Write a member's home, as the team is now; `command` is the program's.  Blocks."""
    path = homes.private_folder(workspace.home / ".codex")
    homes.private_folder(_scratch(workspace))
    cwd = workspace.execution_dir.resolve()
    worktree = Worktree.around(cwd)
    read_only = member.permissions.mode == "read"
    login = _link_login(path / "auth.json", workspace)
    kept = dict.fromkeys((str(homes.private_folder(path / _KEPT)), *login), "deny")
    programs = _programs(command, workspace.env.get("PATH"))
    seen = _seen(cwd, path, worktree, programs) if programs else {":root": "read"}
    looking = {"filesystem": {**seen, **kept}}
    writing = {"filesystem": {**_writable(cwd, worktree, workspace), **kept}}
    config = {
        **_provider(workspace),
        **({"model": member.model} if member.model else {}),
        **_settings(_scratch(workspace)),
        "features": {**dict.fromkeys(OFF, False), _TERMINALS: member.permissions.mode == "full"},
        "permissions": {PROFILE: looking if read_only else writing, LOOKING: looking},
        "projects": {
            str(folder): {"trust_level": "untrusted"} for folder in _around(cwd, worktree)
        },
    }
    homes.write_private(path / "config.toml", toml(config))
    _write_documents(path / "AGENTS.md", cwd, workspace)
    env = _environment(path, workspace)
    words = homes.private_folder(homes.private_folder(path / _HELPERS).resolve() / _WORDS)
    return CodexHome(path, cwd, env, read_only, words, confined=read_only and bool(programs))


def _environment(path: Path, workspace: Workspace) -> dict[str, str]:
    env = {**workspace.env, "CODEX_HOME": str(path)}
    if workspace.rehearsal is None:
        return env
    kept = {name: value for name, value in env.items() if name not in _KEYS}
    return {**kept, _REHEARSAL_KEY: "rehearsal"}


def _settings(scratch: Path) -> Table:
    return {
        "approval_policy": "on-request",
        "default_permissions": PROFILE,
        # A login shell would take PATH from /etc/profile in place of the one we give.
        "allow_login_shell": False,
        "check_for_update_on_startup": False,
        "cli_auth_credentials_store": "file",
        "project_doc_max_bytes": 0,
        "web_search": "disabled",
        "agents": {"enabled": False},
        "analytics": {"enabled": False},
        "skills": {"include_instructions": False, "bundled": {"enabled": False}},
        # What has KEY, SECRET or TOKEN in its name is kept from commands; our mark is not.
        "shell_environment_policy": {
            "inherit": "all",
            "ignore_default_excludes": False,
            "set": {"TMPDIR": str(scratch)},
        },
    }


def _provider(workspace: Workspace) -> Table:
    """Whom it asks: a rehearsal, OpenAI by a key, or whatever its login says."""
    if workspace.rehearsal is not None:
        retries = {"request_max_retries": 1, "stream_max_retries": 1}
        provider = _by_key("Rehearsal", f"{workspace.rehearsal}/v1", _REHEARSAL_KEY)
        providers = {"rehearsal": {**provider, **retries}}
        return {
            "model_provider": "rehearsal",
            "model": REHEARSAL_MODEL,
            "model_providers": providers,
        }
    if KEY in workspace.env:  # which app-server itself, unlike exec, does not look at
        provider = _by_key("OpenAI", "https://api.openai.com/v1", KEY)
        return {"model_provider": "openai-key", "model_providers": {"openai-key": provider}}
    return {}


def _by_key(name: str, url: str, variable: str) -> dict[str, object]:
    return {"name": name, "base_url": url, "wire_api": "responses", "env_key": variable}


def _writable(cwd: Path, worktree: Worktree | None, workspace: Workspace) -> dict[str, object]:
    """The folder it works in, except what agents are run by: their homes, and all of Coterie."""
    folder = workspace.folder.resolve()
    ours = next((above for above in folder.parents if above.name == ".coterie"), folder)
    kept = [ours, folder, workspace.home.resolve()]
    if (cwd / ".coterie").exists():  # else Codex would make an empty one
        kept.append(cwd / ".coterie")
    given = [_scratch(workspace), *(worktree.changed_by_commits if worktree else ())]
    held = held_of_own(cwd) if worktree else ()  # of another `.git` Codex lets nothing be written
    return {
        ":root": "read",
        ":workspace_roots": {".": "write", ".agents": "read", ".codex": "read"},
        **dict.fromkeys(map(str, kept), "read"),
        **dict.fromkeys(map(str, given), "write"),
        **dict.fromkeys(map(str, held), "read"),
    }


def _seen(
    cwd: Path, home: Path, worktree: Worktree | None, programs: Iterable[Path]
) -> dict[str, object]:
    """What a command that only looks may read: the folder it works in, and what runs programs."""
    helpers = homes.private_folder(home / _HELPERS)
    given = [*programs, helpers, *((worktree.common,) if worktree else ())]
    return {
        ":minimal": "read",
        ":workspace_roots": {".": "read"},
        **dict.fromkeys(map(str, _beside(helpers.resolve(), cwd / ".coterie")), "deny"),
        **dict.fromkeys(map(str, given), "read"),
    }


def _beside(path: Path, folder: Path) -> Iterator[Path]:
    """All of a folder that is not on the way to a path: nothing is shown inside what is kept.

    No links: what one leads to counts by itself, and Codex cannot keep it.
    """
    if not folder.is_dir():
        return
    if not path.is_relative_to(folder):
        yield folder
        return
    while folder != path:
        onward = folder / path.relative_to(folder).parts[0]
        beside = (entry for entry in folder.iterdir() if entry != onward)
        yield from (entry for entry in beside if not entry.is_symlink())
        folder = onward


def _programs(command: str, search_path: str | None) -> list[Path]:
    """Where Codex's own programs are, which its sandbox starts inside; empty: nobody can say."""
    found = shutil.which(command, path=search_path)
    if found is None:
        return []
    real = Path(found).resolve()
    package = next((above for above in real.parents if above.name == "codex"), None)
    if real.suffix != ".js" or package is None:
        return [real] if _is_binary(real) else []
    # A package for each kind of machine is beside it, or below.
    around = (package.parent, package / "node_modules" / "@openai")
    binaries = (found for place in around for found in place.glob(_BINARY))
    return [binary.resolve().parents[1] for binary in binaries]


def _is_binary(path: Path) -> bool:
    """Whether a file is the program itself and no script that starts it."""
    with path.open("rb") as file:
        return file.read(len(_ELF)) == _ELF


def _scratch(workspace: Workspace) -> Path:
    """Where commands may put what they need for a moment; not where Codex itself does."""
    return workspace.tmp.resolve() / "commands"


def _around(cwd: Path, worktree: Worktree | None) -> list[Path]:
    """Every folder by which Codex may look up whether this one is trusted."""
    return [cwd, *cwd.parents, *((worktree.common.parent,) if worktree else ())]


def toml(table: Table) -> str:
    """TOML of nested tables."""
    return "\n".join(_lines(table, ())) + "\n"


def _lines(table: Table, path: tuple[str, ...]) -> list[str]:
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    lines = [f"{toml_value(key)} = {toml_value(value)}" for key, value in plain.items()]
    if path and plain:
        lines.insert(0, f"[{'.'.join(map(toml_value, path))}]")
    for key, value in table.items():
        if isinstance(value, Mapping):
            lines += _lines(cast("Table", value), (*path, key))
    return lines


def toml_value(value: object) -> str:
    """One value, or one key, in TOML."""
    # What JSON spells TOML spells alike, except that it wants DEL escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _link_login(link: Path, workspace: Workspace) -> list[str]:
    """Let the user's login serve this member; the files that hold it.

    Codex writes a renewed login into the file itself, so it goes through the link to the user's
    own.  One who signed in inside this home, where the user's has no login, stays signed in.
    """
    if not homes.link_login(link, ".codex/auth.json", workspace):
        return []
    return [str(link), *([str(link.readlink())] if link.is_symlink() else [])]


def _write_documents(path: Path, cwd: Path, workspace: Workspace) -> None:
    parts = [workspace.team_instruction.strip()]
    if workspace.trusted:
        parts.append(homes.documents_of(cwd, _DOCUMENTS, one_a_folder=True))
    text = "\n\n--- project-doc ---\n\n".join(part for part in parts if part)
    if text:
        homes.write_private(path, f"{text}\n")
    else:
        homes.remove_private(path)


# -- what it leaves behind ---------------------------------------------------------------------

SYNTHETIC = (".agents", ".aws", ".codex", ".git")
"""Codex makes these, empty, in the folder it works in, to shield them from a command."""


@dataclass(frozen=True)
class Leftovers:
    """What was not in the working folder before and is to go again.  All of it blocks.

    What was absent is kept in a file too, so that a start after a crash still knows.
    """

    cwd: Path
    absent: frozenset[str]
    work: GuardedWork
    """What commands that were allowed may leave in git directories."""

    @classmethod
    def before(cls, home: CodexHome) -> Leftovers:
        """Look at the working folder before anything is started there."""
        kept = home.path / "absent.json"
        try:
            told = cast("object", json.loads(kept.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            told = None
        if isinstance(told, dict):
            known = cast("dict[str, list[str]]", told).get(str(home.cwd), [])
            _remove_empty(home.cwd, frozenset(SYNTHETIC).intersection(known))
        absent = frozenset(name for name in SYNTHETIC if not (home.cwd / name).exists())
        homes.write_private(kept, json.dumps({str(home.cwd): sorted(absent)}))
        return cls(home.cwd, absent, GuardedWork(home.cwd, "own"))

    def remove(self) -> None:
        """Remove what is there now and empty."""
        _remove_empty(self.cwd, self.absent)


def _remove_empty(cwd: Path, names: Iterable[str]) -> None:
    for name in names:
        try:
            (cwd / name).rmdir()
        except OSError:  # absent, in use, or not Codex's: then it is not empty
            continue
