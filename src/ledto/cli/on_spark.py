"""Start Spark for a command, and end the command with the reason if Spark does not start."""

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
"""The masters that Spark accepts. Checked here, because Spark answers others with trace-backs of Java."""


def check_master(master: str) -> None:
    """Raise `typer.BadParameter` for a master that Spark would not accept."""
    if MASTER.fullmatch(master) is None:
        allowed = "local, local[N], local[*], spark://HOST:PORT, k8s://HOST:PORT or yarn"
        raise typer.BadParameter(f"Spark's master is {allowed}, not {master!r:.60}", param_hint="--master")


@contextmanager
def start_session(master: str, *, config: Mapping[str, str | int | bool] | None = None) -> Iterator[Any]:
    """Start a Spark session on the master; exit with 1 if it does not start. It ends with the block."""
    from ledto.spark.sweep import borrowed_session

    with _exit_unless_started(master, borrowed_session(master=master, config=config)) as session:
        yield session


@contextmanager
def start_context(
    master: str, *, config: Mapping[str, str | int | bool] | None = None, brief: bool = False
) -> Iterator[Any]:
    """Start a Spark context, which starts sooner than a session and runs tasks only; exit with 1 if it does not start.

    `brief` is for a few seconds of work. The first command on this machine's cores leaves a process behind, so that
    later ones start sooner (`ledto.spark.session.class_archive`).
    """
    from ledto.spark.session.class_archive import make_in_background
    from ledto.spark.session.session import local_archive
    from ledto.spark.sweep import borrowed_context

    with _exit_unless_started(master, borrowed_context(master=master, config=config, brief=brief)) as context:
        yield context
    archive = local_archive() if master.startswith("local") else None
    if archive is not None:
        make_in_background(archive)


@contextmanager
def _exit_unless_started(master: str, borrowed: AbstractContextManager[Any]) -> Iterator[Any]:
    from ledto.spark.sweep import SparkNotStarted

    try:
        with borrowed as started:
            yield started
    except SparkNotStarted as failure:
        say_lines(f"Spark did not start on {master}: {failure}", err=True)
        raise typer.Exit(1) from None
