"""Arguments that are not the user's to give: calling modes, roles' prompts, yes to everything."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest


def split_words(
    words: Sequence[str], flags: Mapping[str, int]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words without these flags and their values, and what was left out.

    `flags` says how many values each takes; `--flag=value` is one word.
    """
    kept: list[str] = []
    dropped: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        flag, equals, _ = word.partition("=")
        if flag not in flags:
            kept.append(word)
            continue
        dropped.append(word)
        if flags[flag] and not equals and rest and not rest[0].startswith("-"):
            dropped.append(rest.pop(0))
    return tuple(kept), tuple(dropped)


_YES = frozenset(
    {
        "--allow-all",
        "--allow-all-tools",
        "--auto-approve",
        "--full-auto",
        "--trust-all-tools",
        "--yes-always",
        "--yes-to-all",
        "--yolo",
    }
)
_YES_PREFIXES = ("--dangerously", "--allow-dangerously")
_SHORT_YES = re.compile(r"-[dhlsv]*y[dhlsv]*")
"""`-y` alone or among flags that take nothing."""


@dataclass(frozen=True)
class DroppedPrompt:
    """A role's prompt that stood in an agent's arguments."""

    agent: str
    flag: str
    text: str


def _key(setting: str) -> str:
    return setting.partition("=")[0].strip() if "=" in setting else ""


def words(line: str) -> tuple[str, ...]:
    """The words of a line: long tables of them read better so."""
    return tuple(line.split())


def flags_of(alone: str, with_value: str = "") -> Mapping[str, int]:
    """Flags, in a line: those that stand alone, and those that take a value."""
    return {**dict.fromkeys(words(alone), 0), **dict.fromkeys(words(with_value), 1)}


@dataclass(frozen=True)
class FlagFacts:
    """Arguments of a CLI that are not the user's to give."""

    mode: Mapping[str, int] = field(default_factory=dict[str, int])
    """Words that choose how it is called, which its adapter does; how many values each takes."""
    chosen: Mapping[str, int] = field(default_factory=dict[str, int])
    """What else its adapter chooses; dropped without a notice."""
    prompt: frozenset[str] = frozenset()
    """Flags that take a role's prompt."""
    setting: frozenset[str] = frozenset()
    """Flags that take `KEY=VALUE`."""
    prompt_keys: frozenset[str] = frozenset()
    """Keys of such settings that take a role's prompt."""
    yes: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """Flags with the values by which it would never ask for a permission."""
    yes_keys: Mapping[str, str] = field(default_factory=dict[str, str])
    """The same for settings."""
    short_yes: bool = False
    """Whether `-y` means yes to everything; elsewhere it means other things."""

    def without_prompts(
        self, agent: str, args: Sequence[str], named: object = None
    ) -> tuple[tuple[str, ...], tuple[DroppedPrompt, ...]]:
        """An agent's arguments without roles' prompts, and those; `named` is the flag that its
        entry itself names, if any."""
        kept: list[str] = []
        dropped: list[DroppedPrompt] = []
        rest = list(args)
        while rest:
            word = rest.pop(0)
            flag, equals, text = word.partition("=")
            if flag in self.prompt or flag == named:
                if not equals:
                    text = rest.pop(0) if rest else ""
                dropped.append(DroppedPrompt(agent, flag, text))
            elif word in self.setting and rest and _key(rest[0]) in self.prompt_keys:
                dropped.append(DroppedPrompt(agent, word, rest.pop(0)))
            else:
                kept.append(word)
        return tuple(kept), tuple(dropped)

    def yes_to_all(self, args: Sequence[str]) -> Iterator[str]:
        """The arguments that would have an agent never ask."""
        for word, following in zip_longest(args, args[1:], fillvalue=""):
            flag, equals, value = word.partition("=")
            value = value if equals else following
            if flag in _YES or flag.startswith(_YES_PREFIXES):
                yield flag
            elif value in self.yes.get(flag, ()):
                yield f"{flag} {value}"
            elif word in self.setting and (setting := self._yes_setting(following)):
                yield f"{word} {setting}"
            elif self.short_yes and _SHORT_YES.fullmatch(word):
                yield word

    def _yes_setting(self, setting: str) -> str | None:
        key, _, value = setting.partition("=")
        meant = self.yes_keys.get(key.strip())
        stated = meant and value.strip().lstrip("\"'").startswith(meant)
        return f"{key.strip()}={meant}" if stated else None

    def passed_on(self, words: Sequence[str]) -> tuple[str, ...]:
        """The arguments of a registry entry and a team file, without what the adapter chooses."""
        return split_words(words, {**self.mode, **self.chosen})[0]

    def joined(self, others: Iterable[FlagFacts]) -> FlagFacts:
        """These, and what every other CLI's flags mean where they mean it in any of them."""
        every = (self, *others)
        values: dict[str, frozenset[str]] = {}
        for flag, meant in (pair for one in every for pair in one.yes.items()):
            values[flag] = values.get(flag, frozenset()) | meant
        return FlagFacts(
            mode=self.mode,
            prompt=frozenset[str]().union(*(one.prompt for one in every)),
            setting=frozenset[str]().union(*(one.setting for one in every)),
            prompt_keys=frozenset[str]().union(*(one.prompt_keys for one in every)),
            yes=values,
            yes_keys={key: value for one in every for key, value in one.yes_keys.items()},
            short_yes=self.short_yes,
        )
