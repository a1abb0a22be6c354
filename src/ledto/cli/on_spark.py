"""What commands that run on Spark share: the master's spelling, a session with its failures told, and progress."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import typer

from ledto.cli.output import say_lines

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
    from ledto.spark.sweep import borrowed_session

    with _told(master, borrowed_session(master=master, config=config)) as session:
        yield session


@contextmanager
def context_on(
    master: str, *, config: Mapping[str, str | int | bool] | None = None, brief: bool = False
) -> Iterator[Any]:
    """A Spark context on the master, which runs tasks and starts sooner than a session; `brief` for a few seconds' work.

    The first command on this machine's cores leaves a process behind it that lets later ones start sooner
    (`ledto.spark.session.class_archive`).
    """
    from ledto.spark.session.class_archive import make_in_background
    from ledto.spark.session.session import local_archive
    from ledto.spark.sweep import borrowed_context

    with _told(master, borrowed_context(master=master, config=config, brief=brief)) as context:
        yield context
    archive = local_archive() if master.startswith("local") else None
    if archive is not None:
        make_in_background(archive)


@contextmanager
def _told(master: str, borrowed: AbstractContextManager[Any]) -> Iterator[Any]:
    from ledto.spark.sweep import SparkNotStarted

    try:
        with borrowed as lent:
            yield lent
    except SparkNotStarted as failure:
        say_lines(f"Spark did not start on {master}: {failure}", err=True)
        raise typer.Exit(1) from None
