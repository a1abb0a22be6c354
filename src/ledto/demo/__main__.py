"""Run ``python -m ledto.demo``."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from ledto.demo.play import play
from ledto.demo.stage import perform

SECONDS = 600


def main() -> None:
    """Play the demo with the options of the command line, and exit."""
    parser = argparse.ArgumentParser(
        prog="python -m ledto.demo", description="An invented shop, the failure in its logs, and what led to it."
    )
    parser.add_argument("--to", type=Path, default=Path("out/demo"), help="folder for logs, history and report")
    parser.add_argument("--seconds", type=int, default=SECONDS, help=f"how long the shop is open; {SECONDS} by default")
    parser.add_argument("--seed", type=int, default=7, help="another number makes other logs")
    options = parser.parse_args()
    if options.seconds < 10:
        parser.error(f"--seconds is 10 or more, not {options.seconds}")
    perform(partial(play, to=options.to, seconds=options.seconds, seed=options.seed))


if __name__ == "__main__":
    main()
