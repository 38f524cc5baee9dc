"""An agent that shows when it was alive: a separate program, run by path.

    ticking_agent.py FOLDER SECONDS

It works for this long, or until FOLDER/finish exists, and ignores requests to end.  So does a
daemon that it leaves behind, in a session of its own and with an empty environment.  Both write a
line to FOLDER/ticks/TASK every few milliseconds: the token of the run, and the time.
"""

import json
import os
import signal
import sys
import time

EVERY = 0.02


def main(folder: str, seconds: float) -> None:
    """Take a turn."""
    sys.stdin.read()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    mark = os.environ["COTERIE_MARK"]
    task, token = mark.split(".")[:2]
    ticks = os.open(f"{folder}/ticks/{task}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    is_daemon = os.fork() == 0
    if is_daemon:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.set_inheritable(ticks, True)
        words = [sys.executable, "-I", "-S", "-c", DAEMON, str(ticks), token]
        os.execve(sys.executable, words, {})
    end = time.monotonic() + seconds
    while time.monotonic() < end and not os.path.exists(f"{folder}/finish"):  # noqa: PTH110
        os.write(ticks, f"{token} {time.clock_gettime_ns(time.CLOCK_BOOTTIME)}\n".encode())
        time.sleep(EVERY)
    print(json.dumps({"type": "result", "text": f"done by {token}"}), flush=True)


DAEMON = f"""
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
while True:
    at = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    os.write(int(sys.argv[1]), f"{{sys.argv[2]}} {{at}}\\n".encode())
    time.sleep({EVERY})
"""


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
