"""``ledto observe --follow``: keep a live history of a source."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer

from ledto.cli.on_spark import start_session
from ledto.cli.output import end_at_interrupt, print_json, say
from ledto.cli.words import describe_provable, format_count
from ledto.durations import NANOSECONDS, read_duration, show_duration

if TYPE_CHECKING:
    from ledto.history.manifest import PolicySummary, Stream
    from ledto.history.store import Store
    from ledto.live import LiveTerms, LiveWriter

PRINT_EVERY_SECONDS = 10.0
"""Seconds between two lines of progress."""
BROKERS = ("nats", "tls", "kafka")
"""Schemes of sources that remember the order of what has come. For files, a journal remembers it."""


@dataclass(frozen=True, slots=True)
class TermsGiven:
    """The bounds and policies of the command line, in nanoseconds; None for options that were left out."""

    policies: list[str] | None
    eps: int | None
    delta: int | None

    def terms(self, history: str) -> LiveTerms | None:
        """Return the terms of a new stream; None if the folder has one, which keeps its terms.

        Raises `ValueError` for terms without a meaning, `OtherTerms` if the stream has others, and `HistoryError` if the
        folder has something else.
        """
        with end_at_interrupt():
            from ledto.history.draft import refuse_other_folders
            from ledto.history.errors import HistoryError, NoHistory
            from ledto.history.manifest import read_manifest
            from ledto.history.store import Store
            from ledto.live import LiveTerms

        options = {
            "policies": tuple(self.policies) if self.policies else None,
            "eps": self.eps,
            "delta": self.delta,
        }
        terms = LiveTerms(**{name: value for name, value in options.items() if value is not None})  # type: ignore[arg-type]
        store = Store(history)
        refuse_other_folders(store)
        try:
            manifest = read_manifest(store)
        except NoHistory:
            return terms
        if manifest.stream is None:
            raise HistoryError(f"{store} has a history that was made at once: name another folder for a live one")
        self._refuse_other_terms(store, terms, manifest.policies)
        return None

    def _refuse_other_terms(self, store: Store, terms: LiveTerms, begun: Mapping[str, PolicySummary]) -> None:
        """Raise `OtherTerms` if an option that was given differs from the terms that the stream began with."""
        from ledto.live import OtherTerms

        named = [option.name for option in terms.delivering.options]
        first = next(iter(begun.values()))
        # Only a history that was made at once may have no delta.
        eps, delta = first.eps, first.delta or 0
        pairs = ((self.eps, eps), (self.delta, delta))
        differs = any(given is not None and given != begun_with for given, begun_with in pairs)
        if differs or (self.policies is not None and named != [*begun]):
            raise OtherTerms(
                f"the stream at {store} began with {', '.join(begun)}, eps {show_duration(eps, 'ns')} and "
                f"delta {show_duration(delta, 'ns')}, and goes on with them: leave out what says otherwise, "
                "or name another folder"
            )


def follow_source(
    inputs: Sequence[str],
    to: str,
    *,
    settings: TermsGiven,
    format: str | None,
    options: Mapping[str, Any],
    source_options: Sequence[str],
    limits: Mapping[str, int],
    trigger: str,
    once: bool,
    master: str,
    memory: str,
    as_json: bool,
) -> None:
    """Follow one source until a signal stops it, or to its end with `once`."""
    if len(inputs) != 1:
        raise typer.BadParameter(f"--follow takes one source, not {len(inputs)}", param_hint="INPUT")
    try:
        seconds = read_duration(trigger, "s") if trigger.isdecimal() else read_duration(trigger, "ns") / 1e9
    except ValueError as refused:
        raise typer.BadParameter(str(refused), param_hint="--trigger") from None
    if "://" not in inputs[0] and not any(sign in inputs[0] for sign in "*?[") and not Path(inputs[0]).exists():
        raise typer.BadParameter(f"{inputs[0]!r:.200} does not exist: make the folder first", param_hint="INPUT")
    with end_at_interrupt():
        from ledto.errors import LedtoError
        from ledto.history.store import StorageError
        from ledto.live import LiveLimits
        from ledto.spark.stream import open_source
        from ledto.spark.stream.follow import follow, journal_of

    given_options: dict[str, Any] = {"format": format} if format is not None else {}
    for text in source_options:
        name, equals, value = text.partition("=")
        if not equals:
            raise typer.BadParameter(f"NAME=VALUE, not {text!r:.60}", param_hint="--option")
        given_options[name] = value
    stop = Event()
    printer = _ProgressPrinter(to, as_json)
    try:
        terms = agree_or_exit(settings, to)
        if inputs[0].partition("://")[0].lower() not in BROKERS and "journal" not in given_options:
            given_options["journal"] = str(_make_journal(journal_of(to), to))
        source = open_source(inputs[0], given_options)
        _refuse_other_source(to, inputs[0])
        say(f"Following {source.describe()}; the history is {to}", err=True)
        with ExitStack() as ending:
            # Before the stream begins, nothing is lost if the process ends at once.
            with end_at_interrupt():
                session = ending.enter_context(start_session(master, config={"spark.driver.memory": memory}))
            _stop_on_signals(stop)
            follow(
                session,
                source,
                to,
                terms=terms,
                limits=LiveLimits(**limits),
                options={name: value for name, value in options.items() if value is not None},
                trigger_seconds=float(seconds),
                once=once,
                stop=stop,
                on_commit=printer.print_sometimes,
            )
    except (LedtoError, StorageError, OSError) as failure:
        say(str(failure), err=True)
        raise typer.Exit(1) from None
    printer.print_last()


def agree_or_exit(settings: TermsGiven, history: str) -> LiveTerms | None:
    """Return `TermsGiven.terms`; raise `typer.BadParameter` for terms without a meaning."""
    from ledto.history.deliver.files import TooManyTicks

    try:
        return settings.terms(history)
    except TooManyTicks as refused:
        limit = f"at most {refused.limit // NANOSECONDS['s']}s"
        raise typer.BadParameter(limit, param_hint=f"--{refused.name}") from None
    except ValueError as refused:
        raise typer.BadParameter(str(refused), param_hint="--policy") from None


def _refuse_other_source(history: str, source: str) -> None:
    """Raise `OtherTerms` if the history's stream has read from another source."""
    from ledto.live import LiveHistory, OtherTerms
    from ledto.spark.stream.files.source import PARTITION

    state = LiveHistory(history).state()
    begun = [] if state is None else [*state.positions]
    scheme = source.partition("://")[0].lower()
    other = bool(begun) and (PARTITION in begun) == (scheme in BROKERS)
    if begun and scheme in ("nats", "tls"):
        other = begun != [source.rstrip("/").rpartition("/")[2]]
    if other:
        raise OtherTerms(f"the stream at {history} began with another source: name that, or another folder")


def _make_journal(journal: Path, to: str) -> Path:
    if "://" in to and not to.startswith("file://"):
        hint = "a local file that lasts as long as the history, where that is not on this machine"
        raise typer.BadParameter(f"give journal=FILE: {hint}", param_hint="--option")
    journal.parent.mkdir(parents=True, exist_ok=True)
    return journal


def _stop_on_signals(stop: Event) -> None:
    """Stop after the current micro-batch at the first signal, and at once at the second. Neither loses anything."""

    def stop_soon(number: int, frame: FrameType | None) -> None:
        stop.set()
        for handled in (signal.SIGINT, signal.SIGTERM):
            signal.signal(handled, signal.SIG_DFL)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop_soon)


class _ProgressPrinter:
    """Prints from time to time how far the stream is, and how much of its history is provable."""

    def __init__(self, history: str, as_json: bool) -> None:
        self._history, self._as_json, self._printed_at = history, as_json, 0.0
        self._state: Stream | None = None
        self._shown: Stream | None = None

    def print_sometimes(self, writer: LiveWriter) -> None:
        """Take the state after a commit; print it as JSON, or as text if the last line is old enough."""
        from ledto.history.manifest import to_json

        self._state = writer.state
        if self._as_json:
            print_json(None if self._state is None else to_json(self._state), indent=None)
        elif time.monotonic() - self._printed_at >= PRINT_EVERY_SECONDS:
            self._printed_at = time.monotonic()
            self.print_last()

    def print_last(self) -> None:
        """Print the state, unless it was printed."""
        if self._as_json or (self._state is not None and self._state is self._shown):
            return
        if self._state is None:
            say("Nothing new has come", err=True)
            return
        self._shown = self._state
        counts = self._state.counts
        waits = self._state.delay_ns.p99
        say(
            f"{format_count(counts.reports, 'report')}, {counts.delivered:,} delivered, {counts.waiting:,} waiting, "
            f"{counts.late:,} late, {counts.duplicate:,} duplicate, {counts.quarantined:,} quarantined"
            + (f"; 99% waited at most {show_duration(waits, 'ns')}" if waits is not None else ""),
            err=True,
        )
        from ledto.live import LiveHistory

        for line in describe_provable(LiveHistory(self._history).current().provable()):
            say(line, err=True)
