"""A Codex member's home: its config.toml, its AGENTS.md, its login, and what its commands may do.

Six properties of Codex 0.166 determine what is written here:

- A folder without a trust level of its own is marked as trusted as soon as a thread is started
  in it with a sandbox or a permission profile; then the repository's MCP servers run, and its
  rules answer for the user.  So we mark the folder and all its parents as untrusted.
- In an untrusted folder Codex reads no AGENTS.md.  If the user trusts the project, its text is
  copied into the home's own.
- `sandbox_mode` lets a command write to the whole project, including `.coterie` and every
  member's home.  A permission profile can exclude these, and does.
- A git worktree's own folder below `.git` is not writable unless a profile names it.
- An approved command that the sandbox stops is run a second time, without the sandbox.  Not so if
  the profile makes something unreadable: so there is always such a folder.  Then even a command
  that is allowed to leave the sandbox only gains write access everywhere, and has the network
  only where all commands have it: which they do where each is asked about.
- Input typed into a terminal is asked about only if the terminal has left the sandbox, so only
  members who need not ask get terminals.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from coterie.agents.fields import strings
from coterie.model.team import Member
from coterie.model.workspace import Workspace
from coterie.workspace import homes
from coterie.workspace.durable_git_guard import DurableGitGuard
from coterie.workspace.git_guard import protected_in_git_dir
from coterie.workspace.worktree import Worktree

PROFILE = "coterie"
"""The permission profile that every command runs under."""
READ_ONLY_PROFILE = "coterie-read"
"""The profile of a Codex that can ask nobody."""
NETWORK = f"permissions.{PROFILE}.network.enabled"
"""The setting that opens the network to commands."""
OFF = ("apps", "goals", "hooks", "multi_agent", "plugins", "unbounded_connection_retries")
"""Features that would run what nobody on the team asked for, or wait for a network forever."""
_TERMINALS = "unified_exec_tty"
_KEPT = "kept"
_HELPERS = "tmp"
"""Below its home: links to itself, through which it starts the programs of its sandbox."""
_PERMITS = "permits"
_ELF = b"\x7fELF"
_BINARY = "codex-*/vendor/*/bin/codex"
REHEARSAL_MODEL = "gpt-5.5"
"""A model in its catalogue with plain tools, so that a rehearsal need not support others."""
KEY = "CODEX_API_KEY"
_KEYS = (KEY, "OPENAI_API_KEY")
_REHEARSAL_KEY = "REHEARSAL_API_KEY"
_DOCUMENTS = ("AGENTS.override.md", "AGENTS.md")

Table = Mapping[str, object]


@dataclass(frozen=True)
class CodexHome:
    """What a Codex process is started with; `path` is its CODEX_HOME."""

    path: Path
    cwd: Path
    """Its working directory, with links resolved: Codex would take a link for another folder."""
    env: Mapping[str, str]
    permits_folder: Path
    """The folder of the permits for its commands, which can read but not write it."""
    confined: bool = False
    """Whether its commands can only read, and only in the folder it works in."""


def prepare(member: Member, workspace: Workspace, command: str = "codex") -> CodexHome:
    """Write a member's home, as the team is now; `command` starts the program.  Blocks."""
    path = homes.private_folder(workspace.home / ".codex")
    homes.private_folder(_scratch(workspace))
    cwd = workspace.execution_dir.resolve()
    worktree = Worktree.around(cwd)
    read_only = member.permissions.mode == "read"
    login = _link_login(path / "auth.json", workspace)
    denied = dict.fromkeys((str(homes.private_folder(path / _KEPT)), *login), "deny")
    programs = _programs(command, workspace.env.get("PATH"))
    seen = _seen(cwd, path, worktree, programs) if programs else {":root": "read"}
    reading = {"filesystem": {**seen, **denied}}
    writing = {"filesystem": {**_writable(cwd, worktree, workspace), **denied}}
    config = {
        **_provider(workspace),
        **({"model": member.model} if member.model else {}),
        **_settings(_scratch(workspace)),
        "features": {**dict.fromkeys(OFF, False), _TERMINALS: member.permissions.mode == "full"},
        "permissions": {PROFILE: reading if read_only else writing, READ_ONLY_PROFILE: reading},
        "projects": {
            str(folder): {"trust_level": "untrusted"} for folder in _around(cwd, worktree)
        },
    }
    homes.write_private(path / "config.toml", toml(config))
    _write_documents(path / "AGENTS.md", cwd, workspace)
    env = _environment(path, workspace)
    permits = homes.private_folder(homes.private_folder(path / _HELPERS).resolve() / _PERMITS)
    return CodexHome(path, cwd, env, permits, confined=read_only and bool(programs))


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
        # A login shell would take PATH from /etc/profile instead of ours.
        "allow_login_shell": False,
        "check_for_update_on_startup": False,
        "cli_auth_credentials_store": "file",
        "project_doc_max_bytes": 0,
        "web_search": "disabled",
        "agents": {"enabled": False},
        "analytics": {"enabled": False},
        "skills": {"include_instructions": False, "bundled": {"enabled": False}},
        # Commands get no variable with KEY, SECRET or TOKEN in its name, but do get our mark.
        "shell_environment_policy": {
            "inherit": "all",
            "ignore_default_excludes": False,
            "set": {"TMPDIR": str(scratch)},
        },
    }


def _provider(workspace: Workspace) -> Table:
    """Return the model provider: a rehearsal, OpenAI with a key, or whatever the login says."""
    if workspace.rehearsal is not None:
        retries = {"request_max_retries": 1, "stream_max_retries": 1}
        provider = _by_key("Rehearsal", f"{workspace.rehearsal}/v1", _REHEARSAL_KEY)
        providers = {"rehearsal": {**provider, **retries}}
        return {
            "model_provider": "rehearsal",
            "model": REHEARSAL_MODEL,
            "model_providers": providers,
        }
    if KEY in workspace.env:  # which app-server, unlike exec, does not read by itself
        provider = _by_key("OpenAI", "https://api.openai.com/v1", KEY)
        return {"model_provider": "openai-key", "model_providers": {"openai-key": provider}}
    return {}


def _by_key(name: str, url: str, variable: str) -> dict[str, object]:
    return {"name": name, "base_url": url, "wire_api": "responses", "env_key": variable}


def _writable(cwd: Path, worktree: Worktree | None, workspace: Workspace) -> dict[str, object]:
    """Return write access to the working folder, except for agents' homes and Coterie's files."""
    folder = workspace.folder.resolve()
    ours = next((above for above in folder.parents if above.name == ".coterie"), folder)
    read_only = [ours, folder, workspace.home.resolve()]
    if (cwd / ".coterie").exists():  # otherwise Codex would create an empty one
        read_only.append(cwd / ".coterie")
    writable = [_scratch(workspace), *(worktree.changed_by_commits if worktree else ())]
    held = protected_in_git_dir(cwd) if worktree else ()  # Codex protects any other `.git` itself
    return {
        ":root": "read",
        ":workspace_roots": {".": "write", ".agents": "read", ".codex": "read"},
        **dict.fromkeys(map(str, read_only), "read"),
        **dict.fromkeys(map(str, writable), "write"),
        **dict.fromkeys(map(str, held), "read"),
    }


def _seen(
    cwd: Path, home: Path, worktree: Worktree | None, programs: Iterable[Path]
) -> dict[str, object]:
    """Return what a read-only command may read: the working folder, and what runs programs."""
    helpers = homes.private_folder(home / _HELPERS)
    readable = [*programs, helpers, *((worktree.common,) if worktree else ())]
    return {
        ":minimal": "read",
        ":workspace_roots": {".": "read"},
        **dict.fromkeys(map(str, _beside(helpers.resolve(), cwd / ".coterie")), "deny"),
        **dict.fromkeys(map(str, readable), "read"),
    }


def _beside(path: Path, folder: Path) -> Iterator[Path]:
    """Yield all of a folder that is not on the way to a path: a denied folder hides its contents.

    Links are left out: the target of a link counts by itself, and Codex cannot deny a link.
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
    """Return the paths of Codex's own programs, which run inside its sandbox; empty if unknown."""
    program = shutil.which(command, path=search_path)
    if program is None:
        return []
    real = Path(program).resolve()
    package = next((above for above in real.parents if above.name == "codex"), None)
    if real.suffix != ".js" or package is None:
        return [real] if _is_binary(real) else []
    # The package for each platform is next to it, or below it.
    around = (package.parent, package / "node_modules" / "@openai")
    binaries = (binary for place in around for binary in place.glob(_BINARY))
    return [binary.resolve().parents[1] for binary in binaries]


def _is_binary(path: Path) -> bool:
    """Whether a file is the program itself, not a script that starts it."""
    with path.open("rb") as file:
        return file.read(len(_ELF)) == _ELF


def _scratch(workspace: Workspace) -> Path:
    """Return the folder for commands' temporary files, apart from Codex's own."""
    return workspace.tmp.resolve() / "commands"


def _around(cwd: Path, worktree: Worktree | None) -> list[Path]:
    """Return every folder under which Codex may look up whether this one is trusted."""
    return [cwd, *cwd.parents, *((worktree.common.parent,) if worktree else ())]


def toml(table: Table) -> str:
    """Format nested tables as TOML."""
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
    """Format one value, or one key, as TOML."""
    # JSON and TOML agree here, except that TOML requires DEL to be escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _link_login(link: Path, workspace: Workspace) -> list[str]:
    """Link the user's login into the home; return the files that hold it.

    Codex writes a renewed login into the file itself, so it goes through the link to the user's
    own.  If the user's home has no login, one made inside this home is kept.
    """
    if not homes.link_login(link, ".codex/auth.json", workspace):
        return []
    return [str(link), *([str(link.readlink())] if link.is_symlink() else [])]


def _write_documents(path: Path, cwd: Path, workspace: Workspace) -> None:
    parts = [workspace.team_instruction.strip()]
    if workspace.trusted:
        parts.append(homes.documents_of(cwd, _DOCUMENTS, first_per_folder=True))
    text = "\n\n--- project-doc ---\n\n".join(part for part in parts if part)
    if text:
        homes.write_private(path, f"{text}\n")
    else:
        homes.remove_private(path)


# -- what it leaves behind ---------------------------------------------------------------------

SYNTHETIC = (".agents", ".aws", ".codex", ".git")
"""Codex creates these, empty, in its working folder, to shield them from commands."""


@dataclass(frozen=True)
class Leftovers:
    """What was not in the working folder before and has to be removed.  All of it blocks.

    What was absent is stored in a file too, so that a start after a crash still knows it.
    """

    cwd: Path
    absent: frozenset[str]
    guard: DurableGitGuard
    """What approved commands may leave in git directories."""

    @classmethod
    def before(cls, home: CodexHome) -> Leftovers:
        """Record what the working folder lacks before anything is started there."""
        path = home.path / "absent.json"
        known = homes.read_json_object(path).get(str(home.cwd))
        _remove_empty(home.cwd, [name for name in SYNTHETIC if name in strings(known)])
        absent = frozenset(name for name in SYNTHETIC if not (home.cwd / name).exists())
        homes.write_private(path, json.dumps({str(home.cwd): sorted(absent)}))
        return cls(home.cwd, absent, DurableGitGuard(home.cwd, "own"))

    def remove(self) -> None:
        """Remove what was absent and is now there, if it is empty."""
        _remove_empty(self.cwd, self.absent)


def _remove_empty(cwd: Path, names: Iterable[str]) -> None:
    for name in names:
        try:
            (cwd / name).rmdir()
        except OSError:  # absent, in use, or not Codex's and so not empty
            continue
