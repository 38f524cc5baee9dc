"""Settings of the user and of the project, and the limits of a session with tickets."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError
from pydantic.alias_generators import to_camel

from coterie.config import files
from coterie.config.mistakes import (
    DURATION,
    did_you_mean,
    found_by,
    listing,
    quoted,
    sentence,
    validated,
)
from coterie.config.project import Project, coterie_home
from coterie.errors import ConfigError, NotFound, UsageError
from coterie.model.team import CONTEXT_CHARACTERS, CONTEXT_MESSAGES, NAME_PATTERN
from coterie.model.ticket import Alerts, SchedulerConfig, TimeLimits

FILE_NAME = "settings.json"
Origin = Literal["default", "user", "project"]

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}


class Settings(BaseModel):
    """Settings of the user and of the project; the project's count for more."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=True
    )

    keeper: Literal["auto", "bubblewrap", "subreaper"] = Field(
        default="auto",
        description="What ends an agent's whole process tree: bubblewrap, or our own program "
        "(subreaper). auto is our own, and an agent sees no processes but its own where the "
        "system allows that.",
    )
    context_message_count: Annotated[StrictInt, Field(ge=0, le=10_000)] = Field(
        default=CONTEXT_MESSAGES,
        description="How many messages an agent without a memory of its own is told again.",
    )
    context_characters: Annotated[StrictInt, Field(ge=1, le=10_000_000)] = Field(
        default=CONTEXT_CHARACTERS, description="How many characters of them, at most."
    )
    quiet_after: Annotated[str, Field(pattern=DURATION)] = Field(
        default="2m", description="After this long without a sign a member is shown as quiet."
    )
    default_team: Annotated[str, Field(pattern=NAME_PATTERN)] | None = Field(
        default=None, description="The team that is meant when none is named."
    )

    @property
    def quiet_after_ms(self) -> int:
        """`quiet_after` in milliseconds."""
        return milliseconds(self.quiet_after)


def milliseconds(duration: str) -> int:
    """A time such as `90s`, `5m` or `1h`."""
    found = re.fullmatch(r"([0-9]+)(ms|s|m|h)", duration)
    if found is None:
        raise UsageError(f"{quoted(duration)} is no time.", "Write it like 90s, 5m or 1h.")
    return int(found.group(1)) * _UNITS[found.group(2)]


def _names() -> dict[str, str]:
    return {field.alias or name: name for name, field in Settings.model_fields.items()}


@dataclass(frozen=True)
class Setting:
    """One setting as it stands."""

    key: str
    value: object
    origin: Origin
    description: str


@dataclass(frozen=True)
class AllSettings:
    """What holds here, and who said so."""

    values: Settings
    origins: Mapping[str, Origin]

    def get(self, key: str) -> Setting:
        """One setting by its key."""
        name = _name_of(key)
        told = Settings.model_fields[name].description or ""
        return Setting(key, getattr(self.values, name), self.origins.get(key, "default"), told)

    def list(self) -> tuple[Setting, ...]:
        """Every setting there is."""
        return tuple(self.get(key) for key in _names())


def user_settings_path(home: Path | None = None) -> Path:
    """Where the user's own settings are kept."""
    return (home or coterie_home()) / FILE_NAME


def load_settings(project: Path | None, home: Path | None = None) -> AllSettings:
    """The settings that hold in a project (its `.coterie` folder), or for the user alone."""
    values: dict[str, object] = {}
    origins: dict[str, Origin] = {}
    places: list[tuple[Origin, Path]] = [("user", user_settings_path(home))]
    if project is not None:
        places.append(("project", project / FILE_NAME))
    for origin, path in places:
        found = _read(path)
        values.update(found)
        origins.update(dict.fromkeys(found, origin))
    return AllSettings(Settings.model_validate(values), origins)


def set_value(path: Path, key: str, text: str) -> object:
    """Set one value from what was typed; returns it as it will be read."""
    name = _name_of(key)
    is_number = isinstance(Settings.model_fields[name].default, int)
    typed: object = int(text) if is_number and re.fullmatch(r"[0-9]{1,9}", text) else text
    try:
        made = Settings.model_validate({key: typed})
    except ValidationError as error:
        (mistake, *_) = found_by(error, {key: typed}, lambda _: ())
        raise UsageError(sentence("", mistake).strip()) from None
    with files.locked(path):
        _write(path, {**_read(path), key: typed})
    return getattr(made, name)


def unset_value(path: Path, key: str) -> bool:
    """Go back to what holds without this file; False where it said nothing about it."""
    _name_of(key)
    with files.locked(path):
        found = _read(path)
        if key not in found:
            return False
        _write(path, {name: value for name, value in found.items() if name != key})
    return True


def _name_of(key: str) -> str:
    name = _names().get(key)
    if name is None:
        guess = did_you_mean(key, _names())
        raise NotFound(f"No setting {quoted(key)}. There are: {listing(_names())}.{guess}")
    return name


def _read(path: Path) -> dict[str, object]:
    if not path.exists():
        return {}

    def checked(given: dict[str, object]) -> dict[str, object]:
        Settings.model_validate(given, by_name=False)
        return given

    return validated(files.read_document(path), checked, lambda _: tuple(_names()))


def _write(path: Path, values: Mapping[str, object]) -> None:
    try:
        files.write_atomically(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")
    except UnicodeEncodeError:
        raise ConfigError("The value is not valid Unicode.") from None


SCHEDULER_FILE = "scheduler_config.json"
_PARTS: dict[files.Place, type[BaseModel]] = {
    (): SchedulerConfig,
    ("time_limits",): TimeLimits,
    ("alerts",): Alerts,
}


def load_scheduler(project: Project) -> SchedulerConfig:
    """The limits that hold in a project; a ConfigError names every mistake."""
    path = project.folder / SCHEDULER_FILE
    if not path.exists():
        return SchedulerConfig()

    def strictly(given: dict[str, object]) -> SchedulerConfig:
        # As JSON: "3" is no number, and true is not 1.
        return SchedulerConfig.model_validate_json(json.dumps(given), strict=True)

    return validated(files.read_document(path), strictly, _limit_keys)


def _limit_keys(place: files.Place) -> tuple[str, ...]:
    return tuple(_PARTS.get(place, SchedulerConfig).model_fields)
