"""The arguments that a registry entry and a team file give, without what an adapter chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def without(words: Sequence[str], chosen: Mapping[str, int]) -> tuple[str, ...]:
    """The words but for those that are chosen elsewhere, and the words that belong to each.

    `chosen` says of each how many those are; `--flag=value` is one word.
    """
    kept: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        flag, equals, _ = word.partition("=")
        if flag not in chosen:
            kept.append(word)
        elif chosen[flag] and not equals:
            del rest[: chosen[flag]]
    return tuple(kept)
