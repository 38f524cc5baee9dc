"""Random hostile folders, and random command lines built mostly from read-only programs."""

from __future__ import annotations

import os
import random
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from coterie.model.flags import words

CANARY = "canary-7f3a91"
"""Contained in every file that nobody may read."""

_NAMES = (
    "a.txt",
    "b.py",
    ".env",
    "-exec",
    "-o",
    "--output=new",
    "-rf",
    "-f",
    "--files0-from=list",
    "a b",
    "'",
    "$(touch new)",
    "`touch new`",
    ";touch new",
    "*",
    "[^z]",
    "{a,b}",
    "~",
    "new\nline",
    "ü",
    "#",
    "-",
    "import",
    "list",
)
_EVIL = "#!/bin/sh\necho ran >> {spoor}\necho ran\n"
_CONFIG = """
[core]
\tfsmonitor = {evil}
\tpager = {evil}
\tsshCommand = {evil}
\teditor = {evil}
\thooksPath = {folder}
\tattributesFile = {folder}/attributes
[diff]
\texternal = {evil}
[diff "evil"]
\ttextconv = {evil}
\tcommand = {evil}
[filter "evil"]
\tclean = {evil}
\tsmudge = {evil}
\tprocess = {evil}
[gpg]
\tprogram = {evil}
[log]
\tshowSignature = true
[pager]
\tlog = {evil}
\tstatus = {evil}
[alias]
\tlook = !{evil}
[remote "origin"]
\turl = ext::{evil}
\tpromisor = true
\tuploadpack = {evil}
[extensions]
\tpartialClone = origin
[include]
\tpath = {outside}/config
"""


@dataclass(frozen=True)
class HostileFolder:
    """A project, and around it what a command in it must not touch."""

    top: Path

    @property
    def project(self) -> Path:
        return self.top / "project"

    @property
    def home(self) -> Path:
        return self.top / "home"

    @property
    def sibling(self) -> Path:
        return self.top / "sibling"

    @property
    def temporary(self) -> Path:
        return self.top / "temporary"

    def make(self, chance: random.Random) -> None:
        """Create its files."""
        self.project.mkdir(parents=True)
        for folder in (self.home, self.sibling, self.temporary):
            folder.mkdir()
            for name in (".netrc", "secret", "config", "a.txt"):
                (folder / name).write_text(f"{CANARY}\n")
        for below in (".", "src", "docs", ".coterie"):
            self._folder(self.project / below, chance)
        self._git(chance)

    def _folder(self, folder: Path, chance: random.Random) -> None:
        folder.mkdir(exist_ok=True)
        secret = CANARY if folder.name == ".coterie" else "text"
        some = chance.sample(_NAMES, chance.randint(6, len(_NAMES)))
        for name in dict.fromkeys(("a.txt", "b.py", "list", *some)):
            path = folder / name
            if name not in ("a.txt", "list") and chance.random() < 0.25:
                path.symlink_to(self._target(chance))
            else:
                path.write_text(f"{secret}\none\ntwo\n{self.sibling}/secret\n")
                path.chmod(chance.choice((0o644, 0o755)))

    def _target(self, chance: random.Random) -> Path:
        places = (self.sibling, self.home, self.temporary, self.project)
        return chance.choice(places) / chance.choice(("secret", "a.txt", ".netrc", "."))

    def _git(self, chance: random.Random) -> None:
        evil = self.project / "evil.sh"
        evil.write_text(_EVIL.format(spoor=self.sibling / "ran"))
        evil.chmod(0o755)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        git = ("git", "-c", "user.name=a", "-c", "user.email=b@c", "-C", str(self.project))
        for arguments in (("init", "-q"), ("add", "-A", "src"), ("commit", "-qm", "one")):
            subprocess.run([*git, *arguments], env=environment, check=False, capture_output=True)
        (self.project / ".gitattributes").write_text("* diff=evil filter=evil merge=evil\n")
        paths = {"evil": evil, "folder": self.project, "outside": self.sibling}
        with (self.project / ".git" / "config").open("a") as config:
            config.write(_CONFIG.format(**paths))
        for hook in ("post-index-change", "reference-transaction", "fsmonitor-watchman"):
            place = self.project / ".git" / "hooks" / hook
            place.parent.mkdir(exist_ok=True)
            place.write_text(evil.read_text())
            place.chmod(0o755)
        if chance.random() < 0.3:  # ordinary files that look like a repository
            for name in ("objects", "refs"):
                (self.project / "docs" / name).mkdir(exist_ok=True)
            (self.project / "docs" / "HEAD").write_text("ref: refs/heads/main\n")
            (self.project / "docs" / "config").write_text(_CONFIG.format(**paths))


_PROGRAMS = words(
    "cat head tail wc nl ls stat grep rg find sort uniq cut tr paste comm cmp diff file du sed awk "
    "jq tree md5sum sha256sum cksum od rev tac column fold join env date test printf echo basename "
    "realpath readlink xargs git tee cp touch sh curl python3"
)
_TYPICAL = (
    *words("cat head tail wc nl ls stat grep grep find cut uniq sort rg diff"),
    *("sed -n 1,5p", "git status", "git log -p", "git diff", "md5sum", "du -s", "echo", "pwd"),
)
_LONG = words(
    "--output=new --files0-from=list --compress-program=./evil.sh --pre=./evil.sh --follow "
    "--recursive --dereference-recursive --file=list --from-file=list --check --in-place "
    "--color=always --lines=3 --include=*.py --exec=./evil.sh --textconv --ext-diff --no-index "
    "--outp=new --fil=list --hidden --all --reverse --unique --null --version --pager"
)
_FIND = words(
    "-name|*.txt -type|f -maxdepth|2 -exec|./evil.sh|; -delete -fprint|new -print -not -newer|list "
    "-path|* -ls -empty -okdir|./evil.sh|; -follow -L -files0-from|list"
)
_GIT = (
    *words("status log diff show branch tag stash ls-files look describe shortlog fetch ls-remote"),
    *("log -p", "diff --ext-diff", "show --textconv HEAD", "blame src/a.txt", "grep one"),
    *("grep -Oevil.sh one", "branch new", "stash list", "cat-file -p HEAD", "config -l"),
    *("log --show-signature", "diff --no-index a.txt .env", "rev-parse HEAD", "archive HEAD"),
    *("--no-pager log --stat", "-c core.pager=./evil.sh log", "log --output=new", "remote -v"),
    *("submodule status", "worktree list", "reflog", "rev-list --all", "show-ref"),
)
_UNUSUAL = (
    "/etc/passwd",
    "-",
    "/proc/self/environ",
    ".coterie/a.txt",
    "src/../../home/a.txt",
    "{a,b}*",
)
_JOINTS = (" | ", " && ", "; ", " || ", "\n")


@dataclass(frozen=True)
class LineMaker:
    """Makes command lines for one folder."""

    folder: HostileFolder
    chance: random.Random

    def line(self) -> str:
        """Return a command line; half of them are of the kind that agents write all day."""
        if self.chance.random() < 0.5:
            return self.chance.choice((" | ", " && ", "; ")).join(
                self._typical_line() for _ in range(self.chance.choice((1, 1, 2)))
            )
        return self._unusual_line()

    def _typical_line(self) -> str:
        program = self.chance.choice(_TYPICAL)
        if program == "find":
            return f"find {self._inside()} -name {shlex.quote(self.chance.choice(_NAMES))}"
        options = self.chance.choice(("", "", "-n", "-c 3", "-rn", "-la", "-i", "-nC2", "-u", "-5"))
        parts = [program, options, "one" if program in ("grep", "rg") else "", self._inside()]
        return " ".join(filter(None, parts))

    def _inside(self) -> str:
        name = self.chance.choice((*_NAMES, "src", "docs", "."))
        below = self.chance.choice(("", "", "src/", "docs/", "./"))
        return self.chance.choice(("", "*.txt", "src/*", *[shlex.quote(f"{below}{name}")] * 6))

    def _unusual_line(self) -> str:
        parts = [self._command() for _ in range(self.chance.choice((1, 1, 1, 2, 3)))]
        line = parts[0]
        for part in parts[1:]:
            line += self.chance.choice(_JOINTS) + part
        if self.chance.random() < 0.08:
            line = f"cd {self._word()} && {line}"
        if self.chance.random() < 0.08:
            line += f" {self.chance.choice(('>', '2>', '<', '>>'))} {self._target()}"
        return line

    def _command(self) -> str:
        program = self.chance.choice(_PROGRAMS)
        if program == "git":
            return f"git {self.chance.choice(_GIT)}"
        parts = [program, *(self._option(program) for _ in range(self.chance.choice((0, 0, 1, 2))))]
        if program in ("grep", "rg", "sed", "awk", "jq", "tr"):
            parts.append(self.chance.choice(("one", "'o.*'", "-n 1,3p", "1,3p", ".", "'{print}'")))
        parts += [self._word() for _ in range(self.chance.choice((0, 1, 1, 2, 3)))]
        return " ".join(parts)

    def _option(self, program: str) -> str:
        roll = self.chance.random()
        if program == "find" and roll < 0.8:
            return " ".join(map(shlex.quote, self.chance.choice(_FIND).split("|")))
        if roll < 0.6:
            letters = "abcdefhilnopqrstuvwxzABCEFLRPT0123"
            cluster = "".join(self.chance.sample(letters, self.chance.randint(1, 3)))
            return f"-{cluster}{self.chance.choice(('', '', '', '5', 'list', self._plain()))}"
        if roll < 0.8:
            return self.chance.choice(_LONG)
        return self.chance.choice(("-n 3", "-c 5", "-e one", "-k 1", "-d ,", "-f 1", "-m 2", "--"))

    def _plain(self) -> str:
        places = (self.folder.sibling, self.folder.home, self.folder.temporary)
        return str(self.chance.choice(places) / self.chance.choice(("secret", ".netrc", "a.txt")))

    def _word(self) -> str:
        roll = self.chance.random()
        if roll < 0.35:
            return shlex.quote(self.chance.choice(_NAMES))
        if roll < 0.5:
            return self.chance.choice(("src", "docs", ".", "src/a.txt", "a.txt", "b.py", "list"))
        if roll < 0.75:
            return self.chance.choice(
                ("*", "*.txt", ".*", "[^z]*", "[!z]exec", "src/*", "?*", "[a-b]*", "*/*", ".[a-z]*")
            )
        if roll < 0.85:
            return self._plain()
        return self.chance.choice(
            ("../sibling/secret", "~/.netrc", "$HOME/.netrc", "$(cat list)", "./evil.sh", *_UNUSUAL)
        )

    def _target(self) -> str:
        return self.chance.choice(("/dev/null", "new", "a.txt", self._plain(), "&1"))
