"""An agent that looks for other processes' keys in every way it knows; run by path, not imported.

Prints its reply as a result: a JSON object with the keys found, by the name of each way.
"""

import glob
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

KEY = re.compile(rb"canary-[a-z]+-[0-9a-f]{8}")
READ = r"cat /proc/[0-9]*/environ"


def shell(script: str, *before: str) -> bytes:
    """Return what a script prints."""
    ran = subprocess.run([*before, "sh", "-c", script], capture_output=True, check=False)
    return ran.stdout


def read(pattern: str) -> bytes:
    """Return everything that can be read from these files."""
    found = b""
    for path in glob.glob(pattern):  # noqa: PTH207 - passes over what is gone meanwhile
        try:
            found += Path(path).read_bytes()
        except OSError:
            continue
    return found


def memory() -> bytes:
    """Return the stacks of all processes, which contain their environments."""
    found = b""
    for maps in glob.glob("/proc/[0-9]*/maps"):  # noqa: PTH207
        try:
            for line in Path(maps).read_text().splitlines():
                if line.endswith("[stack]"):
                    begin, _, end = line.split()[0].partition("-")
                    with Path(maps).with_name("mem").open("rb") as mem:
                        mem.seek(int(begin, 16))
                        found += mem.read(int(end, 16) - int(begin, 16))
        except OSError:
            continue
    return found


def ancestors() -> bytes:
    """Return the environments of all ancestors of this process."""
    found, pid = b"", str(os.getppid())
    while pid not in ("", "0"):
        found += read(f"/proc/{pid}/environ")
        status = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        pid = status[1].decode() if len(status) > 1 else ""
    return found


def main() -> None:
    scratch = tempfile.mkdtemp()
    user = ("unshare", "--user", "--map-root-user", "--mount")
    mounts = user if os.geteuid() else ("unshare", "--mount")
    ways = {
        "environ": lambda: read("/proc/[0-9]*/environ"),
        "threads": lambda: read("/proc/[0-9]*/task/*/environ"),
        "memory": memory,
        "ancestors": ancestors,
        "ps": lambda: shell("ps axeww"),
        "roots of all": lambda: shell("cat /proc/*/root/proc/[0-9]*/environ"),
        "unmount": lambda: shell(f"{READ}; umount -l /proc; {READ}", *mounts),
        "unmount twice": lambda: shell(
            f"{READ}; umount -l /proc; umount -l /proc; {READ}", *mounts
        ),
        "unmount as another root": lambda: shell(
            f"{READ}; {' '.join(user)} sh -c 'umount -l /proc; {READ}'"
        ),
        "mount": lambda: shell(
            f"mount -t proc proc {scratch}; cat {scratch}/[0-9]*/environ", *mounts
        ),
        "what is below": lambda: shell(
            f"mount --bind / {scratch}; cat {scratch}/proc/[0-9]*/environ; {READ}", *mounts
        ),
        "namespaces of the first": lambda: shell(f"nsenter -t 1 -m -p sh -c '{READ}'; {READ}"),
        "mounts of the first": lambda: shell(f"nsenter -t 1 -m sh -c '{READ}'; {READ}"),
    }
    own = sys.argv[1].encode()
    found = {name: sorted(set(KEY.findall(way())) - {own}) for name, way in ways.items()}
    text = json.dumps({name: [key.decode() for key in keys] for name, keys in found.items()})
    sys.stdout.write(json.dumps({"type": "result", "text": text}) + "\n")


main()
