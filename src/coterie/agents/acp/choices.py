"""What of an agent's own choices is made for a member: its model, and a mode that only reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from coterie.agents.fields import mapping, mappings, text
from coterie.agents.wire import Object

_READING = re.compile(r"(?:.*[#/])?(plan|read-?only)", re.IGNORECASE)
"""How agents call the mode in which they change nothing; some give it as an address."""
_SHOWN = 12
"""So many models are named where the one that was asked for is not among them."""


class NoSuchModel(Exception):
    """The agent does not have the model that the member was given."""


@dataclass(frozen=True)
class Choice:
    """A request that makes a choice for one session."""

    method: str
    params: Object


@dataclass(frozen=True)
class _Offer:
    """One thing to choose: its value, its name, and how it is chosen."""

    value: str
    name: str
    choice: Choice


def model_named(model: str, new: Object) -> Choice:
    """The model that a member was given, among those of a new session."""
    offers = list(_offers(new, "model", "models", "availableModels", "modelId"))
    for offer in offers:
        if model in (offer.value, offer.name) or offer.value.endswith(f"/{model}"):
            return offer.choice
    if not offers:
        raise NoSuchModel(f'it has no way to be told of the model "{model}"')
    names = ", ".join(offer.value for offer in offers[:_SHOWN])
    raise NoSuchModel(f'it has no model "{model}"; it has {names}')


def mode_for_reading(new: Object) -> list[Choice]:
    """The mode of a new session in which nothing is changed; none where there is none."""
    offers = _offers(new, "mode", "modes", "availableModes", "id")
    found = (offer.choice for offer in offers if _READING.fullmatch(offer.value))
    return list(found)[:1]


def _offers(new: Object, category: str, old: str, listed: str, key: str) -> Iterator[_Offer]:
    """What there is to choose: by the options of a session, else by the older list."""
    option = next(
        (each for each in mappings(new.get("configOptions")) if each.get("category") == category),
        None,
    )
    if option is not None:
        for given in _flat(mappings(option.get("options"))):
            value = text(given.get("value"))
            params: Object = {"configId": option.get("id"), "value": value}
            choice = Choice("session/set_config_option", params)
            yield _Offer(value, text(given.get("name")), choice)
        return
    for given in mappings(mapping(new.get(old)).get(listed)):
        value = text(given.get(key))
        choice = Choice(f"session/set_{category}", {f"{category}Id": value})
        yield _Offer(value, text(given.get("name")), choice)


def _flat(options: list[Object]) -> Iterator[Object]:
    """Options, out of the groups they may stand in."""
    for option in options:
        yield from mappings(option.get("options")) or [option]
