"""What a tool takes: a model of it, its JSON Schema, and its mistakes in words a model can mend."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails


def _whole(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("half a character (a lone surrogate) is in it") from None
    return text


Text = Annotated[str, AfterValidator(_whole)]
"""A text that can be written."""


class Inputs(BaseModel):
    """The arguments of one tool, by their camelCase names."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, alias_generator=to_camel, extra="forbid"
    )

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: object) -> object:
        """Some models write `null` for what they leave out."""
        if not isinstance(given, Mapping):
            return given
        entries = cast("Mapping[str, object]", given)
        return {name: value for name, value in entries.items() if value is not None}


@cache
def schema(inputs: type[BaseModel]) -> Mapping[str, Any]:
    """The JSON Schema of a tool's arguments, without what only people would read."""
    made = inputs.model_json_schema(by_alias=True)
    made.pop("title", None)
    made.pop("description", None)
    fields = {name: _plain(field) for name, field in made.get("properties", {}).items()}
    return {**made, "properties": fields}


def _plain(field: dict[str, Any]) -> dict[str, Any]:
    """A field without its title; that it may also be null is said by its not being required."""
    kinds = [kind for kind in field.get("anyOf", []) if kind != {"type": "null"}]
    single: dict[str, Any] = kinds[0] if len(kinds) == 1 else {}
    dropped = {"title"} | ({"anyOf", "default"} if single else set[str]())
    return {**{name: fact for name, fact in field.items() if name not in dropped}, **single}


def mistakes(tool: str, inputs: type[BaseModel], error: ValidationError) -> str:
    """Each wrong field and what was expected, in a few lines."""
    lines = [f"- {_mistake(details)}" for details in error.errors(include_url=False)]
    return "\n".join([f"Wrong arguments for {tool}:", *lines, f"It takes {fields(inputs)}."])


def fields(inputs: type[BaseModel]) -> str:
    """The names of a tool's arguments, as one would write them down."""
    made = schema(inputs)
    needed = made.get("required", [])
    words = [
        f"{name} ({field.get('type', 'any')}{'' if name in needed else ', optional'})"
        for name, field in made["properties"].items()
    ]
    return ", ".join(words) or "no arguments"


def _mistake(details: ErrorDetails) -> str:
    name = ".".join(str(part) for part in details["loc"]) or "the arguments"
    if details["type"] == "missing":
        return f"{name} is missing"
    if details["type"] == "extra_forbidden":
        return f"{name} is not known"
    message = details["msg"].replace("Input should be", "should be")
    return f"{name}: {message.removeprefix('Value error, ')}"
