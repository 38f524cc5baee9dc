"""A minimal Coterie to be killed: starts an agent that leaves a daemon behind, and waits.

    owner.py KEEPER MARK =TOKEN

The token has a `=` before it, so that this process does not match a search for the token.
"""

from __future__ import annotations

import sys

import anyio

from coterie.process.child import start
from tests.unit.process.children import scripted


async def main(keeper: str, mark: str, token: str) -> None:
    token = token.removeprefix("=")
    child = await start(scripted("--persistent", "--deaf", mark=mark), keeper)  # type: ignore[arg-type]
    child.post(f"!tool {token}\n".encode())
    print((await child.receive()).decode().strip(), flush=True)
    child.post(f"!daemon {token}\n".encode())
    print((await child.receive()).decode().strip(), child.pid, flush=True)
    child.post(b"!hang\n")
    await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3])
