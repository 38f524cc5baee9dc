"""`make chaos`: kill -9 at random instants of durable chats, and what came of it."""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from coterie.testing.chaos import Chaos, Tally


def main() -> int:
    """Kill as often as asked; exit 1 when anything was lost, doubled or left running."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keeper", default="auto", choices=["auto", "bubblewrap", "subreaper"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        chaos = Chaos(Path(folder), options.turns, keeper=options.keeper, seed=options.seed)
        tally = chaos.run(options.kills, lambda now: _tell(now, options.kills))
    sys.stdout.write(f"{asdict(tally)}\nrepeated executions: {tally.repeated}\n")
    clean = not (tally.wrong or tally.overlaps or tally.survivors)
    return 0 if clean and tally.repeated <= tally.kills else 1


def _tell(tally: Tally, kills: int) -> None:
    sys.stderr.write(f"\r{tally.kills} of {kills} kills, {tally.chats} chats ")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
