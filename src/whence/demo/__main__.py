"""``python -m whence.demo``."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from whence.demo.play import play
from whence.demo.stage import performed

SECONDS = 600


def main() -> None:
    """Play the demo into the folder that the command line names."""
    parser = argparse.ArgumentParser(
        prog="python -m whence.demo", description="An invented shop, the failure in its logs, and what led to it."
    )
    parser.add_argument("--to", type=Path, default=Path("out/demo"), help="folder for logs, history and report")
    parser.add_argument("--seconds", type=int, default=SECONDS, help=f"how long the shop is open; {SECONDS} by default")
    parser.add_argument("--seed", type=int, default=7, help="another number makes another day")
    chosen = parser.parse_args()
    if chosen.seconds < 10:
        parser.error(f"--seconds is 10 or more, not {chosen.seconds}")
    performed(partial(play, to=chosen.to, seconds=chosen.seconds, seed=chosen.seed))


if __name__ == "__main__":
    main()
