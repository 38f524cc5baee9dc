"""The prompts of a pipeline's roles: the user's own in `.coterie/prompts`, otherwise ours.

A prompt says what a role is and what it looks at; the step that asks adds its input and how it must
answer.  All calls block.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from coterie.errors import ConfigError, NotFound
from coterie.model.pipeline_roles import PIPELINE_ROLES
from coterie.model.workspace import shown
from coterie.workspace.beneath import names_in, read_file, write_file

PROMPTS = "prompts"
_ENDING = ".system.md"
_SHIPPED = Path(__file__).parents[1] / PROMPTS
_LARGEST = 100_000
"""Bytes; more than any model can usefully be told about its role."""
_WAY_OUT = "Fix it, or delete it to use the built-in prompt."


class RolePrompt(NamedTuple):
    """A role's prompt and where it comes from."""

    role: str
    text: str
    origin: Literal["project", "shipped"]
    path: Path


def role_prompts(root: Path) -> Mapping[str, RolePrompt]:
    """Return the prompt of every role in a project.

    Raises ConfigError for a file that is invalid or not named after a role, and NotOurs for one
    that the user has not created here.
    """
    folder = root / ".coterie"
    own = {name: name.removesuffix(_ENDING) for name in names_in(folder, PROMPTS)}
    for name, role in own.items():
        if name.endswith(_ENDING) and role not in PIPELINE_ROLES:
            raise _no_role(folder / PROMPTS / name, role)
    return {role: _prompt(folder, role) for role in PIPELINE_ROLES}


def shipped_prompt(role: str) -> RolePrompt:
    """Return the prompt that comes with Coterie.  Raises NotFound for an unknown role."""
    if role not in PIPELINE_ROLES:
        guess = _guess(role)
        known = ", ".join(PIPELINE_ROLES)
        raise NotFound(f'There is no role "{role}".{guess} The roles are: {known}.')
    path = _SHIPPED / f"{role}{_ENDING}"
    return RolePrompt(role, path.read_text(encoding="utf-8"), "shipped", path)


def copy_prompts(root: Path, roles: tuple[str, ...] = ()) -> list[tuple[RolePrompt, bool]]:
    """Copy the prompts of these roles, or of all, into the project, for the user to edit.

    Existing ones are left alone; return each prompt with whether it was written.
    """
    folder = root / ".coterie"
    wanted = [shipped_prompt(role) for role in roles or tuple(PIPELINE_ROLES)]
    there = set(names_in(folder, PROMPTS))
    done: list[tuple[RolePrompt, bool]] = []
    for prompt in wanted:
        name = f"{prompt.role}{_ENDING}"
        fresh = name not in there
        if fresh:
            write_file(folder, (PROMPTS, name), prompt.text.encode())
        own = folder / PROMPTS / name
        done.append((prompt._replace(origin="project", path=own), fresh))
    return done


def _prompt(folder: Path, role: str) -> RolePrompt:
    path = folder / PROMPTS / f"{role}{_ENDING}"
    try:
        raw = read_file(folder, PROMPTS, path.name, limit=_LARGEST + 1)
    except FileNotFoundError:
        return shipped_prompt(role)
    except OSError as error:
        problem = f"{shown(path)} cannot be read: {error.strerror}."
        raise ConfigError(problem, _WAY_OUT, str(path)) from None
    return RolePrompt(role, _text(path, raw), "project", path)


def _text(path: Path, raw: bytes) -> str:
    if len(raw) > _LARGEST:
        problem = f"{shown(path)} is longer than {_LARGEST:,} bytes."
        raise ConfigError(problem, _WAY_OUT, str(path))
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        problem = f"{shown(path)}:{line} is not UTF-8 text."
        raise ConfigError(
            problem, "Save it as UTF-8, or delete it to use the built-in prompt.", f"{path}:{line}"
        ) from None
    if not text.strip():
        raise ConfigError(f"{shown(path)} is empty.", _WAY_OUT, str(path))
    return text


def _no_role(path: Path, role: str) -> ConfigError:
    known = ", ".join(PIPELINE_ROLES)
    problem = f"{shown(path)} is not named after a role.{_guess(role)}"
    return ConfigError(problem, f"Rename or delete it. The roles are: {known}.", str(path))


def _guess(role: str) -> str:
    near = difflib.get_close_matches(role, PIPELINE_ROLES, 1)
    return f" Did you mean {near[0]}?" if near else ""
