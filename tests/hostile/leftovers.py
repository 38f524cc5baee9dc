"""What a command in a sandbox would leave for the user's git: each with how that falls for it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_WHO = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in (("NAME", "You"), ("EMAIL", "you@example.com"))
}


def shell(root: Path, script: str, **env: str) -> str:
    """Run a script as the user would, who takes no care; what it printed."""
    ran = subprocess.run(
        ["bash", "-c", script],
        cwd=root,
        env={**os.environ, **_WHO, "GIT_EDITOR": "true", **env},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return ran.stdout + ran.stderr


def furnish(root: Path) -> None:
    """A repository with a submodule, a clone inside, and a worktree."""
    shell(
        root,
        """
        set -e; export GIT_ALLOW_PROTOCOL=file
        git init -q -b main . && echo 1 > f && git add f && git commit -qm first
        git init -q -b main ../source && git -C ../source commit -q --allow-empty -m source
        git -c protocol.file.allow=always submodule add -q ../source sub
        git init -q -b main vendor && git -C vendor commit -q --allow-empty -m vendor
        printf 'vendor\\nlinked\\n.coterie\\n' > .gitignore && git add . && git commit -qm second
        git config extensions.worktreeConfig true
        git worktree add -q linked -b side
        rm -rf .git/hooks .git/info .git/modules/sub/hooks
        """,
    )


@dataclass(frozen=True)
class Leftover:
    """What a command leaves, and the look of a user that fires it; `$M` is the mark."""

    name: str
    leave: str
    fire: str = "git status"


_EVIL = "printf '#!/bin/sh\\ntouch %s\\n' $M >"
_MONITOR = "printf '[core]\\n\\tfsmonitor = \"touch %s; false\"\\n' $M >>"
_COMMIT = "git commit --allow-empty -qm x"

LEFTOVERS: Sequence[Leftover] = (
    Leftover(
        "hook",
        f"mkdir -p .git/hooks; {_EVIL} .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
        _COMMIT,
    ),
    Leftover("setting", "git config core.fsmonitor \"touch $M; false\""),
    Leftover("setting-by-hand", f"{_MONITOR} .git/config"),
    Leftover("setting-renamed", f"cp .git/config c; {_MONITOR} c; mv -f c .git/config"),
    Leftover("hooks-path", f"mkdir -p h; {_EVIL} h/pre-commit; chmod +x h/pre-commit; "
             "git config core.hooksPath h", _COMMIT),
    Leftover("worktree-config", f"{_MONITOR} .git/config.worktree"),
    Leftover(
        "linked-hooks",
        f"mkdir -p h2; {_EVIL} h2/pre-commit; chmod +x h2/pre-commit; rm -rf .git/hooks; "
        "ln -s ../h2 .git/hooks",
        _COMMIT,
    ),
    Leftover(
        "attributes",
        "mkdir -p .git/info; echo '* filter=x' > .git/info/attributes; "
        "git config filter.x.clean \"touch $M; cat\"",
        "echo 2 >> f; git add f",
    ),
    Leftover(
        "worktrees", f"{_MONITOR} .git/worktrees/linked/config.worktree", "git -C linked status"
    ),
    Leftover("submodule", f"{_MONITOR} .git/modules/sub/config"),
    Leftover("pointer", f"cp -r .git/modules/sub mine.git; {_MONITOR} mine.git/config; "
             "git config --file mine.git/config core.worktree ../sub; "
             "echo 'gitdir: ../mine.git' > sub/.git", "git -C sub status"),
    Leftover("inner", f"{_MONITOR} vendor/.git/config", "git -C vendor status"),
    Leftover(
        "inner-replaced",
        f"mv vendor v2 && cp -r v2 vendor; rm -rf vendor/.git; git init -q vendor; "
        f"{_MONITOR} vendor/.git/config",
        "git -C vendor status",
    ),
    Leftover("new", f"git init -q new; {_MONITOR} new/.git/config", "git -C new status"),
    Leftover(
        "new-submodule",
        f"git init -q deep/er; git -C deep/er -c user.name=a -c user.email=b commit -q "
        f"--allow-empty -m x; git add deep/er; {_MONITOR} deep/er/.git/config",
    ),
    Leftover("new-hook", f"git init -q new2; cd new2/.git; mkdir -p hooks; "
             f"{_EVIL} hooks/pre-commit; chmod +x hooks/pre-commit", f"cd new2; {_COMMIT}"),
    Leftover("new-pointer", f"git init -q --bare b.git; git -C b.git config core.bare false; "
             f"{_MONITOR} b.git/config; mkdir gf; echo 'gitdir: ../b.git' > gf/.git",
             "git -C gf status"),
    Leftover(
        "bare",
        f"git init -q --bare bare; git -C bare config core.bare false; "
        f"git -C bare config core.worktree ..; {_MONITOR} bare/config",
        "git -C bare status",
    ),
    Leftover(
        "rebase",
        "mkdir .git/rebase-merge; cd .git/rebase-merge; git rev-parse HEAD | tee onto > orig-head; "
        "echo refs/heads/main > head-name; echo > interactive; echo 1 > msgnum; echo 1 > end; "
        "echo \"exec touch $M\" > git-rebase-todo; touch done message",
        "git rebase --continue",
    ),
    Leftover(
        "all-of-it",
        f"mv .git old && cp -r old .git; {_MONITOR} .git/config",
    ),
    Leftover(
        "common",
        f"mkdir evil; cp -r .git/objects .git/refs .git/HEAD evil; cp .git/config evil; "
        f"{_MONITOR} evil/config; echo ../evil > .git/commondir",
    ),
)  # fmt: skip
"""In this order: the last ones change what git itself sees."""


def script(marks: Path, one: Leftover) -> str:
    """The script of one of them, in a shell of its own."""
    return f"(M={marks / one.name}; {one.leave}) < /dev/null"
