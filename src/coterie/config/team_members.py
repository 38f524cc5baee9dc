"""One member's entry: one name for each thing, absolute paths, defaults slipped under."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from coterie.config.document import Place
from coterie.config.files import read_text
from coterie.config.mistakes import Mistake
from coterie.config.team_rules import Surroundings
from coterie.errors import ConfigError
from coterie.model.paths import shown


@dataclass(frozen=True)
class Given:
    """A value under its long name, and where it stands."""

    value: object
    place: Place


Givens = Mapping[str, Given]


@dataclass(frozen=True)
class Written:
    """An entry under its long names, with what is wrong about the names."""

    givens: dict[str, Given]
    mistakes: list[Mistake]
    outside_prompts: list[str]
    """Prompt files that lie outside the team file's folder."""


_NAMES: Mapping[str, tuple[str, str]] = {
    # key: (the long name it stands for, which way of writing it is)
    "agent": ("agentConfigId", "short"),
    "agentConfigId": ("agentConfigId", "long"),
    "agentName": ("agentConfigId", "long"),
    "prompt": ("systemInstruction", "short"),
    "promptFile": ("systemInstruction", "short"),
    "systemInstruction": ("systemInstruction", "long"),
    "workDir": ("executionDir", "long"),
    "executionDir": ("executionDir", "long"),
}
"""A short name beside another of the same thing is an error; two long ones may say the same."""


def long_name(key: str) -> str:
    """The one name of what a key means."""
    return _NAMES.get(key, (key, "long"))[0]


_FOLDERS = frozenset({"executionDir", "homeDir", "workingDir"})
_OF_AN_AGENT = frozenset(
    {
        "additionalArgs",
        "agentConfigId",
        "budget",
        "capabilities",
        "env",
        "metadata",
        "model",
        "permissions",
        "supportsMultipleInstances",
        "systemInstruction",
        "work",
    }
)


def written_member(entry: Mapping[str, object], at: Place, around: Surroundings) -> Written:
    """An entry (of `members`, or `defaults`) under its long names."""
    givens: dict[str, Given] = {}
    mistakes: list[Mistake] = []
    outside: list[str] = []
    for key, value in entry.items():
        long, way = _NAMES.get(key, (key, "long"))
        place = (*at, key)
        try:
            meant = Given(_meant(key, long, value, around), place)
        except ConfigError as error:
            mistakes.append(Mistake(place, f"cannot be used: {error}"))
            continue
        if key == "promptFile" and not around.holds(str(value)):
            outside.append(str(around.absolute(str(value))))
        first = givens.setdefault(long, meant)
        if first is not meant:
            mistakes += _clash(first, meant, way)
    return Written(givens, mistakes, outside)


def _clash(first: Given, second: Given, way: str) -> Iterator[Mistake]:
    one = first.place[-1]
    short = way == "short" or _NAMES[str(one)][1] == "short"
    if short:
        yield Mistake(second.place, f'means the same as "{one}", which stands there too; keep one')
    elif first.value != second.value:
        yield Mistake(second.place, f'differs from "{one}", which means the same; keep one')


def _meant(key: str, long: str, value: object, around: Surroundings) -> object:
    if long in _FOLDERS:
        return str(around.absolute(str(value)))
    if key == "promptFile":
        return _prompt(around.absolute(str(value)))
    if key == "permissions" and isinstance(value, str):
        return {"mode": value}
    return value


def _prompt(path: Path) -> str:
    text = read_text(path)
    if "\0" in text:
        raise ConfigError(f"{shown(path)} holds null characters.", None, str(path))
    return text


def merged(defaults: Givens, own: Givens, team: Givens) -> Givens:
    """What a member has of its own, over what all have; variables are merged one by one.

    A mode that is not named is that of the defaults, else that of the team.
    """
    human = own["type"].value == "human" if "type" in own else False
    under = {key: given for key, given in defaults.items() if not (human and key in _OF_AN_AGENT)}
    made = {**under, **own}
    if "env" in under and "env" in own:
        both = {**_variables(under["env"]), **_variables(own["env"])}
        made["env"] = Given(both, own["env"].place)
    if "agentConfigId" in made:
        layers = (layer.get("permissions") for layer in (own, under, team))
        made |= _with_mode([layer for layer in layers if layer])
    return made


def _with_mode(layers: Sequence[Given]) -> Givens:
    for layer in layers:
        mode = _variables(layer).get("mode")
        if mode is not None:
            # Rules of the team hold for everybody, and stay with the team.
            rules = {} if layers[0].place == ("permissions",) else _variables(layers[0])
            return {"permissions": Given({**rules, "mode": mode}, layers[0].place)}
    return {}


def _variables(given: Given) -> dict[str, object]:
    return cast("dict[str, object]", given.value)
