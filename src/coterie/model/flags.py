"""Arguments that users may not set: calling modes, role prompts, approval of everything."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest


def split_words(
    words: Sequence[str], flags: Mapping[str, int]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split off these flags and their values: return the other words, and those dropped.

    `flags` maps each flag to its number of values; `--flag=value` is one word.
    """
    kept: list[str] = []
    dropped: list[str] = []
    rest = list(words)
    for word, flag, equals, _ in _taken_from(rest):
        if flag not in flags:
            kept.append(word)
            continue
        dropped.append(word)
        if flags[flag] and not equals and rest and not rest[0].startswith("-"):
            dropped.append(rest.pop(0))
    return tuple(kept), tuple(dropped)


def _taken_from(rest: list[str]) -> Iterator[tuple[str, str, str, str]]:
    """Take each word from the list, and split it at its `=`; the caller may take a flag's value."""
    while rest:
        word = rest.pop(0)
        yield word, *word.partition("=")


_AUTO_APPROVE = frozenset(
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
_AUTO_APPROVE_PREFIXES = ("--dangerously", "--allow-dangerously")
_SHORT_Y = re.compile(r"-[dhlsv]*y[dhlsv]*")
"""`-y` alone or combined with short flags that take no value."""


@dataclass(frozen=True)
class DroppedPrompt:
    """A role prompt removed from an agent's arguments."""

    agent: str
    flag: str
    text: str


def _key(setting: str) -> str:
    return setting.partition("=")[0].strip() if "=" in setting else ""


def words(line: str) -> tuple[str, ...]:
    """Split a line into words: long tables of words read better this way."""
    return tuple(line.split())


def flags_of(alone: str, with_value: str = "") -> Mapping[str, int]:
    """A flag table from two lines: flags without a value, and flags that take one."""
    return {**dict.fromkeys(words(alone), 0), **dict.fromkeys(words(with_value), 1)}


@dataclass(frozen=True)
class FlagFacts:
    """Arguments of a CLI that users may not set."""

    mode: Mapping[str, int] = field(default_factory=dict[str, int])
    """Words that select the calling mode, which is up to its adapter; with their number of
    values."""
    chosen: Mapping[str, int] = field(default_factory=dict[str, int])
    """Other flags that its adapter chooses; dropped without a notice."""
    prompt: frozenset[str] = frozenset()
    """Flags that take a role prompt."""
    setting: frozenset[str] = frozenset()
    """Flags that take `KEY=VALUE`."""
    prompt_keys: frozenset[str] = frozenset()
    """Keys of such settings that take a role prompt."""
    auto_approve_flags: Mapping[str, frozenset[str]] = field(
        default_factory=dict[str, frozenset[str]]
    )
    """Flags, with the values that would make it never ask for permission."""
    auto_approve_settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """The same for settings: keys, with such a value."""
    short_y_approves: bool = False
    """Whether `-y` approves everything; in other CLIs it means other things."""

    def without_prompts(
        self, agent: str, args: Sequence[str], named: object = None
    ) -> tuple[tuple[str, ...], tuple[DroppedPrompt, ...]]:
        """Split the role prompts off an agent's arguments; `named` is the prompt flag that its
        registry entry names, if any."""
        kept: list[str] = []
        dropped: list[DroppedPrompt] = []
        rest = list(args)
        for word, flag, equals, text in _taken_from(rest):
            if flag in self.prompt or flag == named:
                value = text if equals else rest.pop(0) if rest else ""
                dropped.append(DroppedPrompt(agent, flag, value))
            elif word in self.setting and rest and _key(rest[0]) in self.prompt_keys:
                dropped.append(DroppedPrompt(agent, word, rest.pop(0)))
            else:
                kept.append(word)
        return tuple(kept), tuple(dropped)

    def auto_approving(self, args: Sequence[str]) -> Iterator[str]:
        """The arguments that would make an agent never ask for permission."""
        for word, following in zip_longest(args, args[1:], fillvalue=""):
            flag, equals, value = word.partition("=")
            value = value if equals else following
            if flag in _AUTO_APPROVE or flag.startswith(_AUTO_APPROVE_PREFIXES):
                yield flag
            elif value in self.auto_approve_flags.get(flag, ()):
                yield f"{flag} {value}"
            elif word in self.setting and (setting := self._auto_approving_setting(following)):
                yield f"{word} {setting}"
            elif self.short_y_approves and _SHORT_Y.fullmatch(word):
                yield word

    def _auto_approving_setting(self, setting: str) -> str | None:
        key, _, value = setting.partition("=")
        meant = self.auto_approve_settings.get(key.strip())
        stated = meant and value.strip().lstrip("\"'").startswith(meant)
        return f"{key.strip()}={meant}" if stated else None

    def passed_on(self, words: Sequence[str]) -> tuple[str, ...]:
        """The arguments of a registry entry and a team file, without those the adapter chooses."""
        return split_words(words, {**self.mode, **self.chosen})[0]

    def joined(self, others: Iterable[FlagFacts]) -> FlagFacts:
        """Merge with other CLIs' facts: a flag means what it means in any of them."""
        every = (self, *others)
        values: dict[str, frozenset[str]] = {}
        for flag, meant in (pair for one in every for pair in one.auto_approve_flags.items()):
            values[flag] = values.get(flag, frozenset()) | meant
        return FlagFacts(
            mode=self.mode,
            prompt=frozenset[str]().union(*(one.prompt for one in every)),
            setting=frozenset[str]().union(*(one.setting for one in every)),
            prompt_keys=frozenset[str]().union(*(one.prompt_keys for one in every)),
            auto_approve_flags=values,
            auto_approve_settings={
                key: value for one in every for key, value in one.auto_approve_settings.items()
            },
            short_y_approves=self.short_y_approves,
        )
