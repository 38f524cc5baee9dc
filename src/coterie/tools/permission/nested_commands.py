"""Commands inside commands: what `sudo`, `bash -c`, `xargs`, `find -exec` and the like would run.

For deny rules every nested command is followed, and one that cannot be followed makes the result
uncertain.  For allow rules only a few wrappers that change nothing are stripped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from coterie.tools.permission import shell_parser
from coterie.tools.permission.shell_lexer import Word, name_set
from coterie.tools.permission.shell_parser import CommandLine, SimpleCommand, parse

SHELLS = name_set("ash bash dash fish ksh mksh sh zsh")

WRAPPERS = name_set(
    "busybox bwrap caffeinate chroot chrt command doas env exec firejail flock ionice ltrace nice "
    "nohup nsenter parallel runuser script setsid ssh stdbuf strace su sudo systemd-run taskset "
    "time timeout toybox unbuffer unshare watch xargs"
)
"""Programs that run the command in their arguments."""

OPERANDS: Mapping[str, int] = dict.fromkeys(
    name_set("chroot docker flock kubectl podman ssh taskset"), 1
)
"""How many operands of its own a program takes before the command that it runs, if any."""

RUNNERS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(name_set("bunx npx pnpx uvx"), name_set("")),
    **dict.fromkeys(
        name_set(
            "bun bundle docker hatch kubectl mise nix npm pdm pipenv pixi pnpm podman poetry rye "
            "uv yarn"
        ),
        name_set("dlx exec run x"),
    ),
}
"""Programs that run what follows one of these words or, if there are none, their own name."""

INTERPRETERS = re.compile(
    r"(python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|luajit|tclsh|osascript|pwsh|Rscript|ghci"
    r"|julia|groovy|scala|elixir|guile|racket)[0-9.]*"
)
INLINE = re.compile(r"-[A-Za-z]*[ceEprn]|--(eval|print|exec|run)(=.*)?|-|eval")
"""Arguments that give an interpreter its program on the command line or on stdin."""

AWKS = name_set("awk gawk mawk nawk")
_SED_EXECUTE = re.compile(r"(^|[;{}/$0-9\s!])e(\s|$)")
_SED_SUBSTITUTE = re.compile(r"(?:^|(?<=[;{}/$0-9\s!]))s(?=(.))", re.DOTALL)
_SED_FLAGS = frozenset("gpiImM0123456789")

NONE = re.compile(r"(?!)")
SPACED = re.compile(r"[\s;&|$`(]")
COMMAND_ARGUMENTS: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(WRAPPERS, SPACED),
    **dict.fromkeys(SHELLS, re.compile("")),  # any
    # In a name such as `x[$(rm y)]` the shell runs what is in the brackets.
    **dict.fromkeys(
        name_set(
            "[ declare export getopts let local mapfile printf read readarray readonly test "
            "typeset unset wait"
        ),
        re.compile(r"\$\(|`"),
    ),
}
"""By program: matches the arguments that hold command lines."""

RUNS_VALUE = re.compile(
    r"--(pre|hostname-bin|pager|editor|rsh|[a-z-]*(program|command|exec|cmd|-pack))"
)
"""Options whose value is a command, in any program."""
FIND_EXEC_OPTIONS = name_set("-exec -execdir -ok -okdir")


MAX_COMMANDS = 200
"""A line with more nested commands than this is not expanded further."""

LONG = 2000
"""Longer sed scripts are assumed to run commands."""

_PLAIN_SHELLS = frozenset(
    f"{folder}{name}"
    for folder in ("", "/bin/", "/usr/bin/")
    for name in ("bash", "sh", "zsh", "dash")
)
_OWN_WORD = re.compile(r"-?[0-9.]+[smhd]?|[A-Za-z_]\w*=.*|--", re.DOTALL)
_DURATION = re.compile(r"[0-9]+(\.[0-9]+)?[smhd]?")


# -- for allow rules ---------------------------------------------------------------------------


def without_shell(line: CommandLine) -> CommandLine:
    """Return the script of `bash -lc '…'` if that is the whole line, else the line itself."""
    for _ in range(shell_parser.DEEPEST):
        script = _script(line)
        if script is None:
            break
        line = parse(script)
    return line


def _script(line: CommandLine) -> str | None:
    command = line.commands[0] if line.clear and len(line.commands) == 1 else None
    if command is None or not command.is_bare or len(command.words) != 3:
        return None
    shell, option, script = command.words
    wrapped = shell.text in _PLAIN_SHELLS and option.text in ("-c", "-lc") and not script.glob
    return script.text if wrapped else None


def without_wrappers(command: SimpleCommand) -> SimpleCommand:
    """Strip a leading `timeout 60`, `nice` or `time`: they do not change what a command does."""
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


# -- for deny rules ---------------------------------------------------------------------------


class ExpandedLine:
    """Every command that a line may run, including nested ones, as far as can be determined."""

    def __init__(self, line: CommandLine) -> None:
        self.commands: list[SimpleCommand] = []
        self.sure: bool = True
        """Whether there can be no other commands."""
        self.search_text: str = ""
        """The whole text, to be searched for names if `sure` is False."""
        self._follow(line, 0)

    def _follow(self, line: CommandLine, depth: int) -> None:
        self.search_text += f"{line.search_text}\n"
        self.sure = self.sure and line.understood and depth <= shell_parser.DEEPEST
        for command in line.commands:
            self.commands.append(command)
            self._run(command.words, depth)

    def _run(self, words: Sequence[Word], depth: int) -> None:
        if depth > shell_parser.DEEPEST:
            self.sure = False
            return
        if words and not self._is_known(words):
            self.sure = False
        for start in _inner(words):
            if self._is_full():
                return
            self.commands.append(SimpleCommand(tuple(words[start:])))
            self._run(words[start:], depth + 1)
        for script in _scripts(words):
            if self._is_full():
                return
            self._follow(parse(script), depth + 1)

    def _is_full(self) -> bool:
        full = len(self.commands) > MAX_COMMANDS
        self.sure = self.sure and not full
        return full

    def _is_known(self, words: Sequence[Word]) -> bool:
        first = words[0]
        if not first.known or first.glob or "{}" in first.text or _is_opaque(words):
            return False
        return not _executes(words) or all(word.known for word in words)


def program(words: Sequence[Word]) -> str:
    """The name of a command's program, without its folder."""
    return words[0].text.rpartition("/")[2] if words else ""


def _executes(words: Sequence[Word]) -> bool:
    return any(program(words) in names for names in (WRAPPERS, SHELLS, shell_parser.OPAQUE))


def _scripts(words: Sequence[Word]) -> Iterator[str]:
    """Yield the arguments that are or contain a command line."""
    executes, before = _executes(words), ""
    telling = COMMAND_ARGUMENTS.get(program(words), SPACED if executes else NONE)
    for text in (word.text for word in words[1:]):
        option, _, value = text.partition("=")
        follows_option = RUNS_VALUE.fullmatch(before) or (executes and before == "-c")
        if follows_option or telling.search(text):
            yield text
        elif value and RUNS_VALUE.fullmatch(option):
            yield value
        before = text


def _is_opaque(words: Sequence[Word]) -> bool:
    """Whether a command runs code that is not a command line, or that is not in the line."""
    name, arguments = program(words), [word.text for word in words[1:]]
    if name in shell_parser.OPAQUE or name in AWKS or name == "parallel":
        return True
    if name == "sed":
        return sum(map(len, arguments)) > LONG or any(map(sed_runs_commands, arguments))
    if name in SHELLS:
        return not any(re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", text) for text in arguments)
    if name == "git":
        return any(text.startswith(("-c", "--exec-path", "--config-env")) for text in arguments)
    if INTERPRETERS.fullmatch(name):
        inline = any(INLINE.fullmatch(text) for text in arguments)
        return inline or all(text.startswith("-") for text in arguments)
    return False


def sed_runs_commands(script: str) -> bool:
    """Whether a sed script may run commands: it has the command `e`, or `s` with the flag `e`."""
    if _SED_EXECUTE.search(script):
        return True
    ends: dict[str, int] = {}  # by delimiter, the last one that such flags follow
    flags_follow = False
    for place in reversed(range(len(script))):
        char = script[place]
        if flags_follow:
            ends.setdefault(char, place)
        flags_follow = char == "e" or (flags_follow and char in _SED_FLAGS)
    starts: dict[str, int] = {}  # by delimiter, where the first pattern begins
    for command in _SED_SUBSTITUTE.finditer(script):
        starts.setdefault(command[1], command.end(1))
    return any(0 <= script.find(char, start) < ends.get(char, 0) for char, start in starts.items())


def _inner(words: Sequence[Word]) -> Iterator[int]:
    """Yield the indexes at which a nested command may begin."""
    name = program(words)
    if name in WRAPPERS:
        yield from _after_own_words(words, 1, OPERANDS.get(name, 0))
    elif name in shell_parser.KEYWORDS and len(words) > 1:
        yield 1  # after `time`, a keyword is still a keyword
    elif name == "find":
        yield from (
            place + 1 for place, word in enumerate(words[:-1]) if word.text in FIND_EXEC_OPTIONS
        )
    else:
        for place in _run_words(name, words):
            yield from _after_own_words(words, place + 1, OPERANDS.get(name, 0))


def _run_words(name: str, words: Sequence[Word]) -> Iterator[int]:
    """Yield the index of `exec` in `npm exec`, or of `npx` itself."""
    begins = RUNNERS.get(name)
    if begins is not None:
        for place, word in enumerate(words):
            if word.text in begins or (not begins and place == 0):
                yield place


def _after_own_words(words: Sequence[Word], start: int, operands: int) -> Iterator[int]:
    """Yield the indexes of non-options, up to the first that is no option value or operand."""
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
