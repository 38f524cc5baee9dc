"""What a sandboxed command might leave for the user's git, each with the command it affects."""

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
    """Run a script as a careless user would, and return its output."""
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


def create_repository(root: Path) -> None:
    """Create a repository with a submodule, a nested clone and a worktree."""
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
    """What a command leaves, and the user's command that fires it; `$M` is the mark."""

    name: str
    plant: str
    trigger: str = "git status"


_EVIL = "printf '#!/bin/sh\\ntouch %s\\n' $M >"
_MONITOR = "printf '[core]\\n\\tfsmonitor = \"touch %s; false\"\\n' $M >>"
_COMMIT = "git commit --allow-empty -qm x"
_UPDATE = "cd {}; git update-ref refs/x/y $(git hash-object -w -t blob --stdin < /dev/null)"


def _rebase(folder: str, place: str = ".git/rebase-merge") -> str:
    """A rebase started in a new repository, with a command as its next step."""
    return (
        f"git init -q -b main {folder}; cd {folder}; "
        "git -c user.name=a -c user.email=b@c commit -q --allow-empty -m x; "
        f"mkdir {place}; (cd {place}; git rev-parse HEAD | tee onto > orig-head; "
        "echo refs/heads/main > head-name; echo > interactive; echo 1 > msgnum; echo 1 > end; "
        'touch done message; echo "exec touch $M" > git-rebase-todo)'
    )


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
    Leftover("rebase-elsewhere", f"{_rebase('r1', 'todo')}; rm -rf .git/rebase-merge; "
             "ln -s ../todo .git/rebase-merge", "cd r1; git rebase --continue"),
    Leftover("rebase-linked", f"{_rebase('r2')}; mv .git/rebase-merge/git-rebase-todo todos; "
             "ln -s ../../todos .git/rebase-merge/git-rebase-todo", "cd r2; git rebase --continue"),
    Leftover(
        "rebase-long",
        f"{_rebase('r3')}; for i in {{1..9}}; do printf '# %0200000d\\n' 1; done "
        ">> .git/rebase-merge/git-rebase-todo",
        "cd r3; git rebase --continue",
    ),
    Leftover("log-linked", "ln -sfT $M .git/logs/HEAD", _COMMIT),
    Leftover("message-linked", "ln -sfT $M .git/COMMIT_EDITMSG", _COMMIT),
    Leftover("new-log-linked", "git init -q new3; mkdir -p new3/.git/logs; "
             "ln -sT $M new3/.git/logs/HEAD", f"cd new3; {_COMMIT}"),
    Leftover(
        "bare-apart",
        "git init -q --bare apart; rm -rf bare2; mkdir -p bare2 apart/hooks; mv apart/HEAD bare2; "
        f"echo ../apart > bare2/commondir; {_EVIL} apart/hooks/reference-transaction; "
        "chmod +x apart/hooks/*",
        _UPDATE.format("bare2"),
    ),
    Leftover(
        "bare-hooks",
        "git init -q --bare bare3; rm bare3/config; mkdir -p bare3/hooks; "
        f"{_EVIL} bare3/hooks/reference-transaction; chmod +x bare3/hooks/*",
        _UPDATE.format("bare3"),
    ),
    Leftover("hidden", f"mkdir -p x/.coterie; git init -q x/.coterie/y; {_MONITOR} "
             "x/.coterie/y/.git/config", "git -C x/.coterie/y status"),
    Leftover("inside-bare", f"git init -q --bare outer; git init -q outer/refs/in; {_MONITOR} "
             "outer/refs/in/.git/config", "git -C outer/refs/in status"),
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
"""Order matters: the last ones change what git itself sees."""


def script(marks: Path, one: Leftover) -> str:
    """The script that leaves one of them, in a subshell."""
    return f"(M={marks / one.name}; {one.plant}) < /dev/null"
