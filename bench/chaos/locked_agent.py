"""An agent that proves it runs alone: a separate program, run by path, for the chaos test.

    locked_agent.py FOLDER [MILLISECONDS]

It works for this long while it holds a lock, and so does a grandchild in a session of its own, so
that the lock is held as long as any of its processes lives.  An agent that finds the lock taken
writes `overlap`.  Every execution leaves a line in `executions`, at its beginning and at its end.
"""

import fcntl
import json
import os
import signal
import sys
import time


def note(folder: str, word: str) -> None:
    """Write one line atomically."""
    line = f"{word} {time.monotonic():.3f}\n".encode()
    fd = os.open(f"{folder}/executions", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, line)
    os.close(fd)


def grandchild() -> int:
    """Start a process in a session of its own that outlives us unless somebody kills it."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for number in (0, 1, 2):
            os.close(number)
        time.sleep(300)
        os._exit(0)
    return pid


def main(folder: str, milliseconds: float) -> None:
    """Take a turn."""
    prompt = sys.stdin.read()
    lock = os.open(f"{folder}/lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note(folder, "overlap")
    note(folder, "begin")
    below = grandchild()
    time.sleep(milliseconds / 1000)
    os.kill(below, signal.SIGKILL)
    os.waitpid(below, 0)
    note(folder, "end")
    fcntl.flock(lock, fcntl.LOCK_UN)
    newest = prompt.rpartition("[MESSAGE]\n")[2].strip()
    count = int(newest.rpartition(" ")[2]) + 1
    print(json.dumps({"type": "result", "result": f"turn {count}"}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 50)
