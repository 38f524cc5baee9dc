"""`python -m coterie.rehearsal`: a server to try CLIs against by hand.

Prints its URL as one JSON line, then one line for every request, and serves until its standard
input is closed or it gets SIGTERM or SIGINT.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import anyio

from coterie.errors import CoterieError
from coterie.rehearsal.lenient_json import Json, compact
from coterie.rehearsal.model_api import Responder
from coterie.rehearsal.script import ScriptedResponder, read_script
from coterie.rehearsal.server import RehearsalServer
from coterie.rehearsal.simulation import Simulation


def main() -> int:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(prog="python -m coterie.rehearsal", description=__doc__)
    parser.add_argument("--script", type=Path, help="a JSON file of rules and replies")
    parser.add_argument("--port", type=int, default=0, help="default: one that is free")
    given = parser.parse_args()
    responder: Responder = Simulation()
    try:
        if given.script:
            responder = ScriptedResponder(read_script(given.script), responder)
        anyio.run(_serve, responder, given.port)
    except CoterieError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except OSError as error:
        sys.stderr.write(f"Cannot listen on port {given.port}: {error}\n")
        return 1
    return 0


async def _serve(responder: Responder, port: int) -> None:
    async with RehearsalServer(responder, port=port) as server, anyio.create_task_group() as group:
        _say({"url": server.url})
        group.start_soon(_until_input_ends, group.cancel_scope)
        group.start_soon(_until_signalled, group.cancel_scope)
        group.start_soon(_report, server)


async def _report(server: RehearsalServer) -> None:
    number = 0
    while True:
        number += 1
        _say((await server.request(number)).report())


async def _until_input_ends(scope: anyio.CancelScope) -> None:
    # Not in a thread, which could not be cancelled when a signal comes first.
    descriptor = sys.stdin.fileno()
    with suppress(PermissionError):  # a file, such as /dev/null, is always at its end for us
        await anyio.wait_readable(descriptor)
        while os.read(descriptor, 4096):
            await anyio.wait_readable(descriptor)
    scope.cancel()


async def _until_signalled(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            scope.cancel()
            return


def _say(line: Json) -> None:
    sys.stdout.write(compact(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
