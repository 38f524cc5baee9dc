"""What a command line really does: bash runs it with programs that record their invocations.

PATH has a single folder.  Most programs in it are stubs; those that only read are the real
ones, so that anything they write or run shows.  A second set of stubs is in the work folder, for
a line that manages to change PATH.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

STUBS = ("okay", "half", "exact", "pre-a", "evil", "rm", "touch", "npm", "tee", "x", "a", "b")
REAL = """
    basename cat comm cut date dirname diff env find grep head id jq join ls nice nl nohup paste
    printenv readlink realpath rev rg sed seq sort stat tac tail timeout tr uname uniq wc xargs
    bash sh git tree file du df column cmp od cksum
"""

SECRET = "what lies outside"
KEPT = "what is kept from it"


@dataclass(frozen=True)
class CommandEffects:
    """The effects of a command line."""

    ran: tuple[tuple[str, ...], ...]
    """Every stub that ran, with its arguments, in order."""
    changed: frozenset[str]
    """Paths relative to the top that were created, removed or changed."""
    printed: str


@dataclass
class Playground:
    """A work folder, files outside it, and programs."""

    top: Path
    _before: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def root(self) -> Path:
        return self.top / "work"

    def __post_init__(self) -> None:
        self._programs()
        self._fill()

    def run(self, *lines: str, shell: str = "/bin/bash") -> CommandEffects:
        """Run each line in its own shell; restore the folders afterwards."""
        log = self.top / "log"
        log.write_bytes(b"")
        with ThreadPoolExecutor(4) as pool:
            printed = "\n".join(pool.map(lambda line: self._printed(line, shell), lines))
        after = self._state()
        changed = frozenset(
            path for path in {*after, *self._before} if after.get(path) != self._before.get(path)
        )
        if changed:
            self._fill()
        return CommandEffects(_ran(log.read_bytes()), changed, printed)

    def _printed(self, line: str, shell: str) -> str:
        try:
            ended = subprocess.run(
                [shell, "-c", line],
                cwd=self.root,
                env={"PATH": str(self.top / "bin"), "HOME": str(self.top / "home")},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=10,
                check=False,
            )
            printed = ended.stdout
        except subprocess.TimeoutExpired as late:
            printed = late.stdout or b""
        return printed.decode(errors="replace")

    def _programs(self) -> None:
        for name, folder in (("", "bin"), ("fake-", "fake")):
            (self.top / folder).mkdir()
            for program in STUBS:
                stub = self.top / folder / program
                text = f"#!/bin/sh\nprintf '%s\\000' '{name}{program}' \"$@\" '\001' "
                stub.write_text(f"{text}>> '{self.top}/log'\n")
                stub.chmod(0o755)
        for program in REAL.split():
            found = shutil.which(program)
            if found:
                (self.top / "bin" / program).symlink_to(found)

    def _fill(self) -> None:
        for folder in ("work", "outside", "home"):
            shutil.rmtree(self.top / folder, ignore_errors=True)
        for folder in ("work/src", "work/out", "work/.git", "outside/deep", "home"):
            (self.top / folder).mkdir(parents=True)
        for name in ("a.txt", "b.txt", "src/x.py", "src/y.py", "out/old", ".git/config"):
            (self.root / name).write_text(f"okay {name}\nevil b\n")
        (self.root / ".env").write_text(KEPT)
        for secret in ("outside/secret", "outside/deep/secret", "home/secret"):
            (self.top / secret).write_text(SECRET)
        (self.root / "link").symlink_to(self.top / "outside")
        (self.root / "out" / "up").symlink_to("../..")
        shutil.copytree(self.top / "fake", self.root / "fake")
        for program in ("okay", "exact"):
            shutil.copy(self.top / "fake" / program, self.root / program)
        self._before = self._state()

    def _state(self) -> dict[str, str]:
        state: dict[str, str] = {}
        for start in ("work", "outside", "home"):
            for folder, folders, files in os.walk(self.top / start):
                for name in (*folders, *files):
                    path = Path(folder, name)
                    state[str(path.relative_to(self.top))] = _content(path)
        return state


def _content(path: Path) -> str:
    if path.is_symlink():
        return f"-> {path.readlink()}"
    return path.read_text(errors="replace") if path.is_file() else "/"


def _ran(log: bytes) -> tuple[tuple[str, ...], ...]:
    entries = log.decode(errors="replace").split("\0\1\0")
    return tuple(tuple(entry.split("\0")) for entry in entries if entry)
