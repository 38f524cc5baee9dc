"""Examples of any stored type, made from its type hints: no field is forgotten, also a new one.

The first example has in every field something else than the default.  Each of the others differs
from it in one field: None where that may be, another choice, another member of a union.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, TypeAdapter, ValidationError

T = TypeVar("T")

_FORMS = ("{}-1", "2026-01-31T12:00:07.000Z", f"sha256:{'a' * 64}")
"""Texts to try, where a type takes only some."""


def examples(kind: type[T], /, **fixed: object) -> list[T]:
    """Examples of a dataclass or model, with some fields `fixed`; an invalid one raises."""
    choices = {
        name: [fixed[name]] if name in fixed else _choices(hint, name, default)
        for name, hint, default in _fields(kind)
    }
    first = {name: values[0] for name, values in choices.items()}
    made = [kind(**first)]
    for name, values in choices.items():
        for value in values[1:]:
            try:
                made.append(kind(**{**first, name: value}))
            except ValidationError:
                continue  # a rule about two fields together; each is in another example
    return made


def _fields(kind: type[object]) -> Iterator[tuple[str, Any, object]]:
    """Every field: its name, its type and its default."""
    if is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        yield from ((each.name, hints[each.name], each.default) for each in fields(kind))
        return
    for name, field in cast("type[BaseModel]", kind).model_fields.items():
        hint: Any = field.annotation
        if field.metadata:
            hint = Annotated[(hint, *field.metadata)]
        yield name, hint, field.get_default(call_default_factory=True)


def _choices(hint: Any, name: str, default: object) -> list[Any]:
    """Example values of a field, the default and None last."""
    return sorted(_values(hint, name), key=lambda value: value is None or value == default)


def _values(hint: Any, name: str, forms: int = 1) -> Iterator[Any]:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        yield from _valid(hint, _values(inner[0], name, len(_FORMS)))
    elif origin in (Union, UnionType):
        for each in inner:
            yield from _values(each, name, forms)
    elif origin is Literal:
        yield from inner
    elif origin is tuple:
        yield from ((value,) for value in _values(inner[0], name))
        yield ()
    elif origin is Mapping:
        yield from ({f"{name}-key": value} for value in _values(inner[1], name))
        yield {}
    else:
        yield from _simple(hint, name, forms)


def _simple(kind: Any, name: str, forms: int) -> Iterator[Any]:
    if kind is NoneType:
        yield None
    elif kind is str or kind is object:
        yield from (form.format(name) for form in _FORMS[:forms])
    elif kind is bool:
        yield from (True, False)
    elif kind in (int, float):
        # Another number for each field, so that two that change places are seen.
        yield from (kind(number) for number in (len(name), 1, 0)[:forms])
    else:
        yield from examples(kind)


def _valid(hint: Any, values: Iterator[Any]) -> Iterator[Any]:
    """Those that the type takes, as they come back."""
    adapter: TypeAdapter[Any] = TypeAdapter(hint)
    for value in values:
        try:
            yield adapter.validate_python(value)
        except ValidationError:
            continue
