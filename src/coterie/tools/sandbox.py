"""What holds a command within its confines: bubblewrap, else Landlock, else only a person's word.

Neither takes the network away: a project could not be built without it.  What keeps secrets from
leaving by it is that they are not there to be read.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio.to_thread

from coterie.process.programs import succeeds
from coterie.tools import landlock
from coterie.tools.confines import Confines

Kind = Literal["bubblewrap", "landlock", "none"]

BWRAP = "bwrap"
SHELL = "/bin/sh"
_NAMESPACES = ("--unshare-pid", "--unshare-ipc", "--cap-drop", "ALL")
# Without --die-with-parent: our keeper ends what is left, after it has counted it.
_FILES = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
_KERNEL = tuple(f"/proc/{name}" for name in ("acpi", "fs", "scsi", "sys", "sysrq-trigger"))
"""Where one who is root could change the machine even without a capability."""
_RUN = "/run"
_OF_RUN = tuple(
    f"{_RUN}/{name}"
    for name in ("NetworkManager", "current-system", "resolvconf", "systemd/resolve")
)
"""What names and programs are found by; the rest of /run is doors to services of the user's."""

_WORDS: Mapping[Kind, str] = {
    "bubblewrap": (
        "Held by bubblewrap: writes only in the work folder, its own home and /tmp; sees neither "
        "your home folder nor your other processes; the network is open."
    ),
    "landlock": (
        "Held by Landlock: writes only in the work folder (.coterie and .git in it included) and "
        "its own home and TMPDIR; cannot read your home folder; local services and the network "
        "are open."
    ),
    "none": "Nothing holds it here: it may do all that you may.",
}


@dataclass(frozen=True)
class Sandbox:
    """One way to hold a command."""

    kind: Kind
    problem: str = ""
    """Why there is no better one here."""

    @property
    def holds(self) -> bool:
        """Whether it keeps a command from anything."""
        return self.kind != "none"

    @property
    def description(self) -> str:
        """What it means for whoever has to allow the command."""
        return _WORDS[self.kind]

    def words(self, confines: Confines, cwd: Path) -> tuple[str, ...]:
        """What to put before a command so that it is held; blocks."""
        if self.kind == "bubblewrap":
            return tuple(_bubblewrap(confines, cwd))
        return tuple(_landlock(confines)) if self.kind == "landlock" else ()


async def best() -> Sandbox:
    """The best that works on this machine, each tried once and for real."""
    problems: list[str] = []
    for kind in ("bubblewrap", "landlock"):
        problem = await problem_of(kind)
        if problem is None:
            return Sandbox(kind, "; ".join(problems))
        problems.append(problem)
    return Sandbox("none", "; ".join(problems))


_problems: dict[Kind, str | None] = {}


async def problem_of(kind: Kind) -> str | None:
    """Why this kind cannot be used here; None when it can."""
    if kind not in _problems:
        _problems[kind] = await anyio.to_thread.run_sync(_try, kind)
    return _problems[kind]


_TRIAL = """
echo new > "$1/new" || exit 1
(echo new > "$2/new") 2> /dev/null && exit 1
cat "$3/secret" 2> /dev/null && exit 1
exit 0
"""


def _try(kind: Kind) -> str | None:
    if sys.platform != "linux":
        return f"{kind}: only on Linux"
    if kind == "bubblewrap" and shutil.which(BWRAP) is None:
        return f"{kind}: not installed"
    with tempfile.TemporaryDirectory() as name:
        inside, outside, hidden = (Path(name).resolve() / one for one in ("in", "out", "hidden"))
        for folder in (inside, outside, hidden):
            folder.mkdir()
        (hidden / "secret").write_text("secret")
        held = Sandbox(kind).words(Confines((inside,), (hidden,)), inside)
        trial = (SHELL, "-c", _TRIAL, "trial", str(inside), str(outside), str(hidden))
        works = succeeds([*held, *trial]) and (inside / "new").exists()
    return None if works else f"{kind}: does not work here"


# -- the two of them ---------------------------------------------------------------------------


def _bubblewrap(confines: Confines, cwd: Path) -> Iterator[str]:
    yield shutil.which(BWRAP) or BWRAP
    yield from (*_NAMESPACES, *_FILES, "--tmpfs", _RUN)
    for path in (*_KERNEL, *_OF_RUN):
        yield from ("--ro-bind-try", path, path)
    if confines.tmp is not None:
        yield from ("--bind", str(confines.tmp), "/tmp")  # noqa: S108 - it is another's in there
    # What contains another comes first, so that the inner one counts.
    for path, option in sorted(_mounts(confines).items(), key=lambda mount: len(mount[0].parts)):
        yield from (option, str(path)) if option == "--tmpfs" else (option, str(path), str(path))
    yield from ("--chdir", str(cwd), "--")


def _mounts(confines: Confines) -> dict[Path, str]:
    mounts = dict.fromkeys(confines.hidden, "--tmpfs")
    mounts |= dict.fromkeys(confines.read_only, "--ro-bind")
    return mounts | dict.fromkeys(confines.writable, "--bind")


def _landlock(confines: Confines) -> Iterator[str]:
    yield from (sys.executable, "-I", "-S", str(Path(landlock.__file__)))
    yield from (f"--write={path}" for path in confines.writable)
    yield from (f"--read={path}" for path in confines.read_only)
    yield from (f"--hide={path}" for path in ("/dev", *confines.hidden))
    yield "--"
