"""Commands inside commands: what `sudo`, `bash -c`, `xargs`, `find -exec` and their like would run.

For what is forbidden every way in is followed, and what cannot be followed is a doubt.  For what
is allowed only a few wrappers that add nothing are taken off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from coterie.tools.permission.shell import DEEPEST, OPAQUE, Command, Line, parse
from coterie.tools.permission.words import Word, names

SHELLS = names("ash bash dash fish ksh mksh sh zsh")

WRAPPERS = names(
    "busybox caffeinate chroot chrt command doas env exec flock ionice ltrace nice nohup nsenter "
    "parallel runuser script setsid ssh stdbuf strace su sudo systemd-run taskset time timeout "
    "toybox unbuffer unshare watch xargs bwrap firejail"
)
"""They run what their arguments say."""

_OPERANDS = {
    **dict.fromkeys(("chroot", "flock", "ssh", "taskset"), 1),
    **dict.fromkeys(("docker", "kubectl", "podman"), 1),
}
"""How many words of its own a program takes before the command that it runs."""

RUNNERS = {
    **dict.fromkeys(names("bunx npx pnpx uvx"), names("")),
    **dict.fromkeys(
        names(
            "bun bundle docker hatch kubectl mise nix npm pdm pipenv pixi pnpm podman poetry rye "
            "uv yarn"
        ),
        names("dlx exec run x"),
    ),
}
"""They run what comes after one of these words, or after their own name."""

INTERPRETERS = re.compile(
    r"(python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|luajit|tclsh|osascript|pwsh|Rscript|ghci"
    r"|julia|groovy|scala|elixir|guile|racket)[0-9.]*"
)
AWKS = frozenset({"awk", "gawk", "mawk", "nawk"})
_INLINE = re.compile(r"-[A-Za-z]*[ceEprn]|--(eval|print|exec|run)(=.*)?|-|eval")
_SED_RUNS = re.compile(
    r"(^|[;{}/$0-9\s!])e(\s|$)|(^|[;{}/$0-9\s!])s(.).*\4.*\4[gpiImM0-9]*e", re.DOTALL
)
_RUNS_VALUE = re.compile(
    r"--(pre|hostname-bin|pager|editor|rsh|[a-z-]*(program|command|exec|cmd|-pack))"
)
"""Options whose value is a program, in whichever program they are."""
_FINDS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_OWN_WORD = re.compile(r"-?[0-9.]+[smhd]?|[A-Za-z_]\w*=.*|--", re.DOTALL)
_PLAIN_SHELLS = frozenset(
    f"{folder}{name}"
    for folder in ("", "/bin/", "/usr/bin/")
    for name in ("bash", "sh", "zsh", "dash")
)
_DURATION = re.compile(r"[0-9]+(\.[0-9]+)?[smhd]?")


# -- for what is allowed -----------------------------------------------------------------------


def without_shell(line: Line) -> Line:
    """The script of `bash -lc '…'`, where that is all that the line is."""
    for _ in range(DEEPEST):
        script = _script(line)
        if script is None:
            break
        line = parse(script)
    return line


def _script(line: Line) -> str | None:
    if not line.clear or len(line.commands) != 1:
        return None
    command = line.commands[0]
    if not command.is_bare or len(command.words) != 3:
        return None
    shell, option, script = command.words
    wrapped = shell.text in _PLAIN_SHELLS and option.text in ("-c", "-lc") and not script.glob
    return script.text if wrapped else None


def without_wrappers(command: Command) -> Command:
    """A command without `timeout 60`, `nice` and `time` in front of it: they change nothing."""
    words = command.words
    while words:
        texts = [word.text for word in words[:2]]
        if texts[0] == "timeout" and len(texts) == 2 and _DURATION.fullmatch(texts[1]):
            words = words[2:]
        elif texts[0] in ("nice", "time"):
            words = words[1:]
        else:
            break
    return replace(command, words=words)


# -- for what is forbidden ---------------------------------------------------------------------


@dataclass(frozen=True)
class Unfolded:
    """Every command that a line may run, as far as can be told."""

    commands: tuple[Command, ...]
    sure: bool
    """Whether there can be no others."""
    said: str
    """All that was written, to look for a name in where it is not sure."""


def unfold(line: Line) -> Unfolded:
    """All commands of a line, and those that they run."""
    found = _Finding()
    found.follow(line, 0)
    return Unfolded(tuple(found.commands), found.sure, "\n".join(found.said))


class _Finding:
    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.said: list[str] = []
        self.sure = True

    def follow(self, line: Line, depth: int) -> None:
        self.said.append(line.said)
        self.sure = self.sure and line.understood and depth <= DEEPEST
        for command in line.commands:
            self.commands.append(command)
            self._run(command.words, depth)

    def _run(self, words: Sequence[Word], depth: int) -> None:
        if not words or depth > DEEPEST:
            return
        first = words[0]
        if not first.known or first.glob or "{}" in first.text or _is_opaque(words):
            self.sure = False
        for start in _inner(words):
            self.commands.append(Command(tuple(words[start:])))
            self._run(words[start:], depth + 1)
        for script in _scripts(words):
            self.follow(parse(script), depth + 1)
        if _executes(words) and not all(word.known for word in words):
            self.sure = False


def program(words: Sequence[Word]) -> str:
    """The name of a command's program, without its folder."""
    return words[0].text.rpartition("/")[2] if words else ""


def _executes(words: Sequence[Word]) -> bool:
    name = program(words)
    return name in WRAPPERS or name in SHELLS or name in OPAQUE


def _scripts(words: Sequence[Word]) -> Iterator[str]:
    """Arguments that are command lines themselves."""
    shell, executes, before = program(words) in SHELLS, _executes(words), ""
    for text in (word.text for word in words[1:]):
        told = _RUNS_VALUE.fullmatch(before) or (executes and before == "-c")
        if told or shell or (executes and re.search(r"[\s;&|$`(]", text)):
            yield text
        name, _, value = text.partition("=")
        if value and _RUNS_VALUE.fullmatch(name):
            yield value
        before = text


def _is_opaque(words: Sequence[Word]) -> bool:
    """Whether a command runs text that is no command line, or that stands elsewhere."""
    name, arguments = program(words), [word.text for word in words[1:]]
    if name in OPAQUE or name in AWKS or name == "parallel":
        return True
    if name == "sed":
        return any(_SED_RUNS.search(text) for text in arguments)
    if name in SHELLS:
        return not any(re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", text) for text in arguments)
    if name == "git":
        return any(text.startswith(("-c", "--exec-path", "--config-env")) for text in arguments)
    if INTERPRETERS.fullmatch(name):
        inline = any(_INLINE.fullmatch(text) for text in arguments)
        return inline or all(text.startswith("-") for text in arguments)
    return False


def _inner(words: Sequence[Word]) -> Iterator[int]:
    """Where in the words a command of its own may begin."""
    name = program(words)
    if name in WRAPPERS:
        yield from _after_own_words(words, 1, _OPERANDS.get(name, 0))
    elif name in RUNNERS:
        begins = RUNNERS[name]
        for place, word in enumerate(words):
            if word.text in begins or (not begins and place == 0):
                yield from _after_own_words(words, place + 1, _OPERANDS.get(name, 0))
    elif name == "find":
        for place, word in enumerate(words[:-1]):
            if word.text in _FINDS:
                yield place + 1


def _after_own_words(words: Sequence[Word], start: int, operands: int) -> Iterator[int]:
    """The first word that is neither an option, nor perhaps the value of one, nor expected."""
    after_option = False
    for place in range(start, len(words)):
        text = words[place].text
        if text.startswith("-") or _OWN_WORD.fullmatch(text):
            after_option = text.startswith("-") and text != "--"
            continue
        yield place
        if after_option:
            after_option = False
        elif operands:
            operands -= 1
        else:
            return
