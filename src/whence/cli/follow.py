"""``whence observe --follow``: a live history of what comes."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer

from whence.cli.durations import read_duration, show_duration
from whence.cli.on_spark import session_on

if TYPE_CHECKING:
    from whence.history.live import LiveTerms, LiveWriter

TOLD_EVERY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class TermsGiven:
    """What the command line says of bounds and policies; None where it says nothing. Lengths are nanoseconds."""

    policies: list[str] | None
    phi: str | None
    eps: int | None
    delta: int | None
    elements: int | None
    tick: int | None

    def terms(self, history: str) -> LiveTerms | None:
        """None where a stream that has begun is to go on as it began."""
        from whence.history.live import LiveHistory, LiveTerms

        given = {
            "policies": tuple(self.policies) if self.policies else None,
            "phi": self.phi,
            "eps": self.eps,
            "delta": self.delta,
            "elements": self.elements,
            "tick": self.tick,
        }
        given = {name: value for name, value in given.items() if value is not None}
        if not given and LiveHistory(history).state() is not None:
            return None
        return LiveTerms(**given)  # type: ignore[arg-type]


def follow_source(
    inputs: Sequence[str],
    to: str,
    *,
    settings: TermsGiven,
    format: str | None,
    options: Mapping[str, Any],
    source_options: Sequence[str],
    trigger: str,
    once: bool,
    master: str,
    memory: str,
    as_json: bool,
) -> None:
    """Follow one source until it is told to stop."""
    if len(inputs) != 1:
        raise typer.BadParameter(f"--follow takes one source, not {len(inputs)}", param_hint="INPUT")
    try:
        seconds = read_duration(trigger, "s") if trigger.isdecimal() else read_duration(trigger, "ns") / 1e9
    except ValueError as refused:
        raise typer.BadParameter(str(refused), param_hint="--trigger") from None
    from whence.clocks.errors import WhenceError
    from whence.history.storage import StorageError
    from whence.spark.stream.following import follow, journal_of
    from whence.spark.stream.sources import open_source

    given: dict[str, Any] = {"format": format} if format is not None else {}
    for text in source_options:
        name, equals, value = text.partition("=")
        if not equals:
            raise typer.BadParameter(f"NAME=VALUE, not {text!r:.60}", param_hint="--option")
        given[name] = value
    if "://" not in inputs[0] or inputs[0].startswith("file:"):
        journal = journal_of(to)
        journal.parent.mkdir(parents=True, exist_ok=True)
        given.setdefault("journal", str(journal))
    stop = Event()
    _stop_on_signals(stop)
    try:
        terms = settings.terms(to)
    except ValueError as refused:
        raise typer.BadParameter(str(refused)) from None
    teller = _Teller(as_json)
    try:
        source = open_source(inputs[0], given)
        typer.echo(f"Following {source.describe()}; the history is {to}", err=True)
        with session_on(master, config={"spark.driver.memory": memory}) as session:
            follow(
                session,
                source,
                to,
                terms=terms,
                options={name: value for name, value in options.items() if value is not None},
                trigger_seconds=float(seconds),
                once=once,
                stop=stop,
                on_commit=teller.tell,
            )
    except (WhenceError, StorageError, OSError) as failure:
        typer.echo(str(failure), err=True)
        raise typer.Exit(1) from None
    teller.last()


def _stop_on_signals(stop: Event) -> None:
    def asked(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, asked)


class _Teller:
    """Says now and then how far the stream is."""

    def __init__(self, as_json: bool) -> None:
        self._as_json, self._told = as_json, 0.0
        self._state: dict[str, Any] | None = None

    def tell(self, writer: LiveWriter) -> None:
        self._state = writer.state
        if self._as_json:
            typer.echo(json.dumps(self._state))
        elif time.monotonic() - self._told >= TOLD_EVERY_SECONDS:
            self._told = time.monotonic()
            self.last()

    def last(self) -> None:
        if self._state is None or self._as_json:
            return
        counts = self._state["counts"]
        waits = self._state["delay_ns"]["p99"]
        typer.echo(
            f"{counts['reports']:,} reports, {counts['delivered']:,} delivered, {counts['waiting']:,} waiting, "
            f"{counts['late']:,} late, {counts['duplicate']:,} duplicate, {counts['quarantined']:,} set aside"
            + (f"; 99% waited at most {show_duration(waits, 'ns')}" if waits is not None else ""),
            err=True,
        )
