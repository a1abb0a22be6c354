"""What commands that run on Spark share: the master's spelling, a session with its failures told, and progress."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer

from whence.cli.output import say_lines

MASTER = re.compile(
    r"yarn|(spark|k8s)://.+|local(\[([1-9]\d*|\*)(\s*,\s*\d+)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
)
"""What Spark takes for a master. Checked here because Spark answers anything else with trace-backs, Java's first."""


def check_master(master: str) -> None:
    """Refuse what Spark would not take."""
    if MASTER.fullmatch(master) is None:
        allowed = "local, local[N], local[*], spark://HOST:PORT, k8s://HOST:PORT or yarn"
        raise typer.BadParameter(f"Spark's master is {allowed}, not {master!r:.60}", param_hint="--master")


@contextmanager
def session_on(master: str, *, config: Mapping[str, str | int | bool] | None = None) -> Iterator[Any]:
    """A Spark session on the master; one that cannot be had ends the command with the reason."""
    from whence.spark.sweep import SparkNotStarted, borrowed_session

    try:
        with borrowed_session(master=master, config=config) as session:
            yield session
    except SparkNotStarted as failure:
        say_lines(f"Spark did not start on {master}: {failure}", err=True)
        raise typer.Exit(1) from None
