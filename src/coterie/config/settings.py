"""Settings of the user and of the project, and the limits of a session with tickets."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError, field_validator
from pydantic.alias_generators import to_camel

from coterie.config import files
from coterie.config.mistakes import (
    DURATION,
    did_you_mean,
    listing,
    mistakes_of,
    quoted,
    refusal,
    sentence,
    validated,
)
from coterie.config.project import (
    SETTINGS_FILE,
    Project,
    coterie_home,
    expanded,
    named_store,
)
from coterie.errors import ConfigError, NotFound, UsageError
from coterie.model.remote import BUNDLE, Travel
from coterie.model.team import CONTEXT_CHARACTERS, CONTEXT_MESSAGES, NAME_PATTERN
from coterie.model.ticket import Alerts, SchedulerConfig, TimeLimits

FILE_NAME = SETTINGS_FILE
Origin = Literal["default", "user", "project"]

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}


class Settings(BaseModel):
    """Settings of the user and of the project; the project's take precedence."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=True
    )

    keeper: Literal["auto", "bubblewrap", "subreaper"] = Field(
        default="auto",
        description="What ends an agent's whole process tree: bubblewrap, or our own program "
        "(subreaper). auto is our own; where the system allows it, an agent then sees only its own "
        "processes.",
    )
    context_message_count: Annotated[StrictInt, Field(ge=0, le=10_000)] = Field(
        default=CONTEXT_MESSAGES,
        description="How many past messages to repeat to an agent without a memory of its own.",
    )
    context_characters: Annotated[StrictInt, Field(ge=1, le=10_000_000)] = Field(
        default=CONTEXT_CHARACTERS, description="How many characters of them, at most."
    )
    quiet_after: Annotated[str, Field(pattern=DURATION)] = Field(
        default="2m", description="A member without activity for this long is shown as quiet."
    )
    default_team: Annotated[str, Field(pattern=NAME_PATTERN)] | None = Field(
        default=None, description="The team used when none is named."
    )
    notify: Annotated[str, Field(min_length=1, max_length=4096)] | None = Field(
        default=None,
        description="What to notify when a question waits or a task ends: a command that gets "
        "JSON on stdin, or a URL (http, https) that JSON is posted to. User setting only (--user).",
    )
    notify_after: Annotated[str, Field(pattern=DURATION)] = Field(
        default="1m",
        description="On a terminal, notify only if nothing was typed there for this long. "
        "User setting only (--user).",
    )
    store: Annotated[str, Field(min_length=1, max_length=4096)] | None = Field(
        default=None,
        description="The database that your machines share: postgresql://user@host/database, "
        "without a password. COTERIE_STORE takes precedence. User setting only (--user).",
    )
    machine: Annotated[str, Field(pattern=NAME_PATTERN)] | None = Field(
        default=None,
        description="The name of this machine in a store; by default its host name. "
        "User setting only (--user).",
    )
    takeover: Literal["auto", "ask"] = Field(
        default="auto",
        description="How the tasks of a machine that has been silent for too long are taken over: "
        "automatically, or only after you have confirmed in the inbox that it is dead. "
        "User setting only (--user).",
    )
    fence: Annotated[str, Field(min_length=1, max_length=4096)] | None = Field(
        default=None,
        description="A command that makes sure that a silent machine is dead before its tasks are "
        "taken over; {machine} in it becomes the machine's name. It must exit with 0. "
        "User setting only (--user).",
    )
    travel: Annotated[str, Field(max_length=4096)] = Field(
        default=BUNDLE,
        description="How branches get from machine to machine: bundle, in the store; or, for large "
        "ones, through a repository: git:origin, a remote of the clone, or git:URL. "
        "User setting only (--user).",
    )

    @field_validator("travel")
    @classmethod
    def _leads_somewhere(cls, travel: str) -> str:
        Travel.parsed(travel)
        return travel

    @field_validator("store")
    @classmethod
    def _holds_no_password(cls, store: str | None) -> str | None:
        if store is None:
            return None
        if not re.match("postgres(ql)?://", store):
            raise ValueError("it is not a URL: postgresql://user@host/database")
        if re.search("(?i)://[^/@]*:[^@]*@|password=", unquote(store)):
            raise ValueError("it contains a password, which belongs in ~/.pgpass")
        return store

    @field_validator("notify")
    @classmethod
    def _can_be_notified(cls, notify: str | None) -> str | None:
        if notify is not None and is_address(notify):
            if not _hostname(notify):
                raise ValueError("it is not a valid URL: http(s)://HOST/…, without spaces")
        elif notify is not None and not _words(notify):
            raise ValueError("it is neither a command nor an http(s) URL (is a quote left open?)")
        return notify

    @field_validator("fence")
    @classmethod
    def _can_be_run(cls, fence: str | None) -> str | None:
        if fence is not None and not _words(fence):
            raise ValueError("it is not a command (is a quote left open?)")
        return fence

    @property
    def notify_command(self) -> Sequence[str]:
        """The words of the command to notify; empty if it is an address, or not set."""
        return () if self.notify is None or is_address(self.notify) else _words(self.notify)

    def fence_command(self, machine: str) -> Sequence[str]:
        """The words of the command that ends a machine; empty if none is set."""
        words = () if self.fence is None else _words(self.fence)
        return [word.replace("{machine}", machine) for word in words]

    @property
    def quiet_after_ms(self) -> int:
        """`quiet_after` in milliseconds."""
        return milliseconds(self.quiet_after)


USERS_OWN = frozenset({"notify", "notifyAfter", "store", "machine", "takeover", "fence", "travel"})
"""Keys allowed only in the user's own file: a project's files must neither run nor send
anything."""


def is_address(notify: str) -> bool:
    """Whether the setting `notify` is an address to post to rather than a command."""
    return re.match(r"(?i)https?://", notify) is not None


def _hostname(address: str) -> str | None:
    try:
        parts = urlsplit(address)
        is_plain = re.fullmatch(r"[!-~]+", address) is not None
        return parts.hostname if is_plain and parts.port != 0 else None
    except ValueError:  # an invalid port, an unmatched bracket
        return None


def _words(command: str) -> Sequence[str]:
    """Split a command line like a shell; empty for a URL or where a quote is not closed."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", command) or "\0" in command:
        return ()
    try:
        program, *rest = shlex.split(command) or [""]
    except ValueError:
        return ()
    return [str(expanded(program)), *rest] if program else ()


def milliseconds(duration: str) -> int:
    """Convert a time such as `90s`, `5m` or `1h` to milliseconds."""
    match = re.fullmatch(r"([0-9]+)(ms|s|m|h)", duration)
    if match is None:
        raise UsageError(f"{quoted(duration)} is not a valid time.", "Write it like 90s, 5m or 1h.")
    return int(match.group(1)) * _UNITS[match.group(2)]


def _names() -> dict[str, str]:
    return {field.alias or name: name for name, field in Settings.model_fields.items()}


@dataclass(frozen=True)
class Setting:
    """One setting with its current value and where that comes from."""

    key: str
    value: object
    origin: Origin
    description: str


@dataclass(frozen=True)
class AllSettings:
    """The settings in effect, and where each comes from."""

    values: Settings
    origins: Mapping[str, Origin]

    def get(self, key: str) -> Setting:
        """One setting by its key."""
        name = _name_of(key)
        purpose = Settings.model_fields[name].description or ""
        return Setting(key, getattr(self.values, name), self.origins.get(key, "default"), purpose)

    def list(self) -> tuple[Setting, ...]:
        """Return every setting."""
        return tuple(self.get(key) for key in _names())


def user_settings_path(home: Path | None = None) -> Path:
    """Where the user's own settings are stored."""
    return (home or coterie_home()) / FILE_NAME


def load_settings(project: Path | None, home: Path | None = None) -> AllSettings:
    """The settings in effect in a project (its `.coterie` folder), or for the user alone."""
    values: dict[str, object] = {}
    origins: dict[str, Origin] = {}
    places: list[tuple[Origin, Path]] = [("user", user_settings_path(home))]
    if project is not None:
        places.append(("project", project / FILE_NAME))
    for origin, path in places:
        entries = _read(path, origin)
        values.update(entries)
        origins.update(dict.fromkeys(entries, origin))
    return AllSettings(Settings.model_validate(values), origins)


def store_url(given: str | None, home: Path | None = None) -> str | None:
    """The store to use: the given one, that of COTERIE_STORE, or that of the user's settings."""
    return given or named_store() or load_settings(None, home).values.store


def set_value(path: Path, key: str, text: str, origin: Origin = "project") -> object:
    """Set one value from typed text; returns it as it will be read."""
    name = _name_of(key)
    if origin == "project" and key in USERS_OWN:
        raise UsageError(f"{key} {_OWN}.", _own_way(key, text))
    is_number = isinstance(Settings.model_fields[name].default, int)
    typed: object = int(text) if is_number and re.fullmatch(r"[0-9]{1,9}", text) else text
    try:
        settings = Settings.model_validate({key: typed})
    except ValidationError as error:
        (mistake, *_) = mistakes_of(error, {key: typed}, lambda _: ())
        raise UsageError(sentence("", mistake).strip()) from None
    with files.locked(path):
        _write(path, {**_read(path, origin), key: typed})
    return getattr(settings, name)


def unset_value(path: Path, key: str, origin: Origin = "project") -> bool:
    """Remove a setting from this file; returns False if it was not set there."""
    _name_of(key)
    with files.locked(path):
        entries = _read(path, origin)
        if key not in entries:
            return False
        _write(path, {name: value for name, value in entries.items() if name != key})
    return True


def _name_of(key: str) -> str:
    name = _names().get(key)
    if name is None:
        guess = did_you_mean(key, _names())
        raise NotFound(f"No setting {quoted(key)}. There are: {listing(_names())}.{guess}")
    return name


_OWN = "is a user setting; a project cannot set it"


def _own_way(key: str, value: object) -> str:
    typed = "URL" if key == "store" else shlex.quote(str(value))  # it may hold a password
    return f"coterie config set {key} {typed} --user"


def _read(path: Path, origin: Origin) -> dict[str, object]:
    if not path.exists():
        return {}
    document = files.read_document(path)

    def checked(given: dict[str, object]) -> dict[str, object]:
        # Checked before the value: the mistake is that the key is there at all.
        if origin == "project" and (own := [key for key in given if key in USERS_OWN]):
            way = _own_way(own[0], "…")
            raise refusal(document, [files.Mistake((key,), _OWN, way) for key in own])
        Settings.model_validate(given, by_name=False)
        return given

    return validated(document, checked, lambda _: tuple(_names()))


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
    """The limits in effect in a project; raises ConfigError with every mistake."""
    path = project.folder / SCHEDULER_FILE
    if not path.exists():
        return SchedulerConfig()

    def strictly(given: dict[str, object]) -> SchedulerConfig:
        # As JSON, strictly: "3" is not a number, and true is not 1.
        return SchedulerConfig.model_validate_json(json.dumps(given), strict=True)

    return validated(files.read_document(path), strictly, _limit_keys)


def _limit_keys(place: files.Place) -> tuple[str, ...]:
    return tuple(_PARTS.get(place, SchedulerConfig).model_fields)
