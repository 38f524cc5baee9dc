"""Programs that run other programs: which they are, and where in their words the others stand."""

from __future__ import annotations

import re
from collections.abc import Mapping

from coterie.tools.permission.words import names

SHELLS = names("ash bash dash fish ksh mksh sh zsh")

WRAPPERS = names(
    "busybox bwrap caffeinate chroot chrt command doas env exec firejail flock ionice ltrace nice "
    "nohup nsenter parallel runuser script setsid ssh stdbuf strace su sudo systemd-run taskset "
    "time timeout toybox unbuffer unshare watch xargs"
)
"""They run what their arguments say."""

OPERANDS: Mapping[str, int] = dict.fromkeys(
    names("chroot docker flock kubectl podman ssh taskset"), 1
)
"""How many words of its own a program takes before the command that it runs, if any."""

RUNNERS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(names("bunx npx pnpx uvx"), names("")),
    **dict.fromkeys(
        names(
            "bun bundle docker hatch kubectl mise nix npm pdm pipenv pixi pnpm podman poetry rye "
            "uv yarn"
        ),
        names("dlx exec run x"),
    ),
}
"""They run what comes after one of these words; where there are none, after their own name."""

INTERPRETERS = re.compile(
    r"(python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|luajit|tclsh|osascript|pwsh|Rscript|ghci"
    r"|julia|groovy|scala|elixir|guile|racket)[0-9.]*"
)
INLINE = re.compile(r"-[A-Za-z]*[ceEprn]|--(eval|print|exec|run)(=.*)?|-|eval")
"""With these an interpreter is given its program on the command line, or on its input."""

AWKS = names("awk gawk mawk nawk")
SED_RUNS = re.compile(
    r"(^|[;{}/$0-9\s!])e(\s|$)|(^|[;{}/$0-9\s!])s(.).*\4.*\4[gpiImM0-9]*e", re.DOTALL
)
"""The scripts of sed that run commands."""

ANY = re.compile("")
NONE = re.compile(r"(?!)")
SPACED = re.compile(r"[\s;&|$`(]")
TELLING: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(WRAPPERS, SPACED),
    **dict.fromkeys(SHELLS, ANY),
    # In a name such as `x[$(rm y)]` the shell runs what is in the brackets.
    **dict.fromkeys(
        names(
            "[ declare export getopts let local mapfile printf read readarray readonly test "
            "typeset unset wait"
        ),
        re.compile(r"\$\(|`"),
    ),
}
"""By program: which of its arguments hold command lines."""

RUNS_VALUE = re.compile(
    r"--(pre|hostname-bin|pager|editor|rsh|[a-z-]*(program|command|exec|cmd|-pack))"
)
"""Options whose value is a command, in whichever program they are."""
FINDS = names("-exec -execdir -ok -okdir")
