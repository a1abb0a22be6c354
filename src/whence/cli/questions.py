"""``whence why`` and the other questions about a history."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from whence.cli import output
from whence.cli.orders_table import channel_lines, ledger_lines, orders_table
from whence.cli.output import console, say
from whence.cli.rendering import (
    Times,
    digits_of,
    format_time,
    named_cause,
    print_events,
    print_missing,
    print_rows,
    print_table,
)
from whence.cli.wall_clocks import print_between_clocks
from whence.events.keys import SPAN
from whence.events.without_pandas import leave_pandas_out
from whence.history.times import time_or_event

if TYPE_CHECKING:
    from whence.history.questions.event import Event
    from whence.history.questions.history import History, Process
    from whence.history.questions.paths import Step

print_json = output.print_json
HistoryOption = Annotated[str, typer.Option("--history", help="Folder or URI of the history.", metavar="DIR")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ComputationOption = Annotated[
    str | None, typer.Option("--computation", help="Which computation, where several have such an event.")
]
KOption = Annotated[int, typer.Option("-k", "--k", min=0, help="How many events to list.")]
TimesOption = Annotated[
    Times, typer.Option("--times", help="Times as the clocks had them, or moved as little as causality demands.")
]
MOST_LISTED, MOST_SHOWN = 200, 1_000
"""Processes up to which each one of several computations is listed; and rows of a table for people."""
EventArgument = Annotated[
    str, typer.Argument(help="An id of the source, PROCESS:SEQ, or @POSITION.", metavar="EVENT", show_default=False)
]


def why(
    event: EventArgument,
    history: HistoryOption,
    k: KOption = 25,
    where: Annotated[str | None, typer.Option(help="A condition in SQL over columns and attributes.")] = None,
    process: Annotated[
        list[str] | None, typer.Option(help="Only events of this process, or of all with this clock; may be repeated.")
    ] = None,
    name: Annotated[list[str] | None, typer.Option(help="Only events of this name; may be repeated.")] = None,
    computation: ComputationOption = None,
    times: TimesOption = Times.WALL,
    as_json: JsonOption = False,
) -> None:
    """What led to an event: the last K events that happened before it, oldest first, then the event.

    Example: whence why shop:42 --history shop.history --where "status >= 500"
    """
    with asking(history) as asked, progress_until_start(asked, filtered=bool(where or process or name)) as tell:
        answer = asked.why(
            event, k=k, where=where, processes=process, names=name, computation=computation, on_progress=tell
        )
        if as_json:
            print_json(answer.to_json())
            return
        print_events(answer.events, asked.unit, shown=answer.event, times=times)
        print_missing(answer.missing)
        if answer.more:
            say(f"and more before these: -k {4 * max(k, 1)} shows them")


def impact(
    event: EventArgument,
    history: HistoryOption,
    k: KOption = 25,
    computation: ComputationOption = None,
    times: TimesOption = Times.WALL,
    as_json: JsonOption = False,
) -> None:
    """What came of an event: how many events of each process, and the next K.

    Example: whence impact shop:42 --history shop.history -k 10
    """
    with asking(history) as asked:
        answer = asked.impact(event, k=k, computation=computation)
        if as_json:
            print_json(answer.to_json())
            return
        print_events((answer.event, *answer.events), asked.unit, times=times)
        print_rows(
            ["process", "effects"],
            [(each.process, f"{each.events:,}") for each in answer.processes[:50]],
            title=f"{answer.total:,} effects in {len(answer.processes)} processes",
        )


def relation(
    first: EventArgument,
    second: EventArgument,
    history: HistoryOption,
    computation: ComputationOption = None,
    as_json: JsonOption = False,
) -> None:
    """How one event stands to another: before, after, equal or concurrent.

    Example: whence relation shop:42 cart:17 --history shop.history
    """
    with asking(history) as asked:
        answer = asked.related(first, second, computation=computation)
        if as_json:
            print_json(answer.to_json())
            return
        say(_sentence(answer.first, answer.second, answer.relation.value))


def explain(
    first: EventArgument,
    second: EventArgument,
    history: HistoryOption,
    computation: ComputationOption = None,
    as_json: JsonOption = False,
) -> None:
    """How one event led to another: the messages and process steps between them.

    Example: whence explain cart:17 shop:42 --history shop.history
    """
    with asking(history) as asked:
        answer = asked.explain(first, second, computation=computation)
        if as_json:
            print_json(answer.to_json())
            return
        say(_sentence(answer.first, answer.second, answer.relation.value))
        if answer.steps:
            print_rows(
                ["from", "to", "by"],
                [
                    (
                        _brief(step.cause),
                        _brief(step.effect),
                        _by(step),
                    )
                    for step in answer.steps
                ],
            )


def _by(step: Step) -> str:
    message = step.message
    if message is None:
        return "process" if step.recorded else "process, possibly"
    if not step.recorded:
        return "answer, assumed"
    if message.startswith(SPAN):
        return named_cause(message)
    return f"message {message}" if message else "start or end of a span"


def concurrent(
    event: EventArgument,
    history: HistoryOption,
    k: KOption = 25,
    computation: ComputationOption = None,
    times: TimesOption = Times.WALL,
    as_json: JsonOption = False,
) -> None:
    """What may have happened at the same time as an event: how many events, and the K nearest.

    Example: whence concurrent shop:42 --history shop.history
    """
    with asking(history) as asked:
        answer = asked.concurrent(event, k=k, computation=computation)
        if as_json:
            print_json(answer.to_json())
            return
        print_events(answer.events, asked.unit, shown=answer.event, times=times)
        say(f"{answer.total:,} events are concurrent with {answer.event.id}")


def cut(
    history: HistoryOption,
    time: Annotated[
        str | None,
        typer.Argument(help="An integer in the history's unit, a time in ISO 8601, or an event.", metavar="TIME"),
    ] = None,
    event: Annotated[str | None, typer.Option(help="An event, where its name could be taken for a time.")] = None,
    k: KOption = 25,
    computation: ComputationOption = None,
    times: TimesOption = Times.WALL,
    as_json: JsonOption = False,
) -> None:
    """A consistent state: the last event of each process up to a time or an event, and the messages under way.

    Example: whence cut 2026-01-31T12:00:00Z --history shop.history
    """
    if (time is None) == (event is None):
        raise typer.BadParameter("give a TIME or an --event, one of them", param_hint="TIME")
    with asking(history) as asked:
        try:
            moment, named = (None, event) if time is None else time_or_event(time, asked.unit)
        except ValueError as neither:
            raise typer.BadParameter(f"{neither}; an event of that name takes --event", param_hint="TIME") from None
        answer = asked.cut(named, time=moment, k=k, computation=computation)
        if as_json:
            print_json(answer.to_json())
            return
        title = f"{answer.total:,} events are in the cut; the last of each process:"
        print_events(answer.last, asked.unit, title=title, times=times)
        print_rows(
            ["message", "from", "to"],
            [(each.key, _brief(each.sent), _brief(each.received)) for each in answer.in_flight],
            title=f"{answer.in_flight_total:,} {'message' if answer.in_flight_total == 1 else 'messages'} under way:",
        )


def processes(
    history: HistoryOption,
    computation: Annotated[str | None, typer.Option(help="Only those of this computation.")] = None,
    as_json: JsonOption = False,
) -> None:
    """The processes of a history; where there are many computations, such as traces, what all of them have together.

    Example: whence processes --history shop.history
    """
    with asking(history) as asked:
        found = [each for each in asked.processes() if computation is None or each.computation == computation]
        if not found:
            say(f"no computation is called {computation!r:.80}", err=True)
            raise typer.Exit(1)
        if as_json:
            print_json([each.to_json() for each in found])
            return
        if len({each.computation for each in found}) > 1 and len(found) > MOST_LISTED:
            _print_gathered(found, asked.unit)
            return
        digits = digits_of((time for each in found for time in (each.first_time, each.last_time)), asked.unit)
        several = len({each.computation for each in found}) > 1
        print_rows(
            [*(["computation"] if several else []), "process", "events", "first", "last", ""],
            [
                (
                    *([each.computation] if several else []),
                    each.process,
                    f"{each.events:,}",
                    format_time(each.first_time, asked.unit, digits=digits),
                    format_time(each.last_time, asked.unit, digits=digits),
                    "" if each.dense_seq else "numbers are missing",
                )
                for each in found
            ],
        )


def _print_gathered(found: Sequence[Process], unit: str) -> None:
    """Processes of all computations by the clock they share or, without one, by name."""
    by_name: dict[str, list[Process]] = {}
    for each in found:
        by_name.setdefault(each.clock_name or each.process, []).append(each)
    rows = []
    for name, mine in sorted(by_name.items()):
        first = min((each.first_time for each in mine if each.first_time is not None), default=None)
        last = max((each.last_time for each in mine if each.last_time is not None), default=None)
        computations = len({each.computation for each in mine})
        times = (format_time(time, unit, digits=3) for time in (first, last))
        rows.append((name, f"{computations:,}", f"{sum(each.events for each in mine):,}", *times))
    print_rows(["process", "computations", "events", "first", "last"], rows[:MOST_SHOWN])
    if len(rows) > MOST_SHOWN:
        say(f"and {len(rows) - MOST_SHOWN:,} more: --json lists all")


def check(
    history: HistoryOption,
    files: Annotated[
        bool,
        typer.Option("--files", help="Instead: read every file, and name those that are not as they were written."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """What the run found: reports accounted for, messages that wall clocks put before their cause, and wrong orders.

    These are wall-clock order and that of each policy of delivery.

    Example: whence check --history shop.history --json
    """
    if files:
        _check_files(history, as_json=as_json)
        return
    with asking(history) as asked:
        answer = asked.check()
        if as_json:
            print_json(answer.to_json())
            return
        for line in [*ledger_lines(answer.ledger), *channel_lines(answer.channels)]:
            say(line)
        print_between_clocks(answer.wall_clock.get("between_clocks"), asked.unit)
        print_table(orders_table(answer.wall_clock, answer.policies, asked.unit))


def _check_files(history: str, *, as_json: bool) -> None:
    from whence.history.damage import check_files
    from whence.history.storage import Store

    with failures_told():
        found = check_files(Store(history))
        if as_json:
            print_json(found.to_json())
        elif not found.damaged:
            say(f"{found.files:,} files, {found.bytes:,} bytes: all are as they were written")
        for sentence in found.damaged if not as_json else ():
            say(sentence)
    if found.damaged:
        raise typer.Exit(1)


def quarantine(
    history: HistoryOption,
    k: Annotated[int, typer.Option("-k", "--k", min=0, help="How many reports to list.")] = 25,
    outcome: Annotated[str, typer.Option(help="quarantined, duplicate or all.")] = "quarantined",
    as_json: JsonOption = False,
) -> None:
    """Reports that were set aside when the history was made, with the reasons.

    Example: whence quarantine --history shop.history -k 1000 --json
    """
    if outcome not in ("quarantined", "duplicate", "all"):
        raise typer.BadParameter(f"quarantined, duplicate or all, not {outcome!r}", param_hint="--outcome")
    with asking(history) as asked:
        found = list(islice(asked.quarantine(outcome=None if outcome == "all" else outcome), k))
        if as_json:
            print_json([each.to_json() for each in found])
            return
        print_rows(
            ["reason", "where", "text"],
            [(each.reason, f"{each.file}:{each.place}", (each.text or "")[:80]) for each in found],
        )
        say(ledger_lines(asked.check().ledger)[0])


@contextmanager
def asking(path: str) -> Iterator[History]:
    """The history; what is wrong with it or with the question is said on stderr, and a reader who has gone is let go."""
    import whence

    with failures_told():
        yield whence.open(path)


@contextmanager
def failures_told() -> Iterator[None]:
    """What is wrong with a history or with a question is said on stderr, and a reader who has gone is let go."""
    from whence.history.errors import BadCondition, HistoryError, UnknownPolicy
    from whence.history.storage import NoSpace, StorageError, is_full

    leave_pandas_out()
    try:
        yield
        sys.stdout.flush()
    except (BadCondition, UnknownPolicy) as refused:
        say(refused, err=True)
        raise typer.Exit(2) from None
    except (HistoryError, StorageError) as failure:
        say(failure, err=True)
        raise typer.Exit(1) from None
    except BrokenPipeError:
        _let_go_of_stdout()
        raise typer.Exit(0) from None
    except OSError as failure:
        if not is_full(failure):
            raise
        _let_go_of_stdout()
        say(NoSpace("the disk that the output goes to"), err=True)
        raise typer.Exit(1) from None


def _let_go_of_stdout() -> None:
    """Drop what is still to be written: nobody can take it, and the interpreter would complain at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def progress_until_start(asked: History, *, filtered: bool) -> Iterator[Callable[[int], None] | None]:
    """A bar on stderr for a sweep that may go back to the start of the history."""
    shown = console(stderr=True) if filtered else None
    if shown is None or not shown.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("looking back"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=shown, transient=True) as progress:
        bar = progress.add_task("", total=len(asked))
        yield lambda position: progress.update(bar, completed=len(asked) - position)


def _brief(event: Event) -> str:
    return f"{event.id} {event.name}" if event.name else event.id


def _sentence(first: Event, second: Event, relation: str) -> str:
    one, other = _brief(first), _brief(second)
    earlier, later = (one, other) if first.position < second.position else (other, one)
    return {
        "before": f"before: {one} happened before {other}",
        "after": f"after: {one} happened after {other}",
        "equal": f"equal: both are {one}",
        "concurrent": f"concurrent: neither of {one} and {other} could have caused the other",
        "possible": f"possible: {earlier} may have led to {later}, and nothing recorded says that it did",
        "unknown": f"unknown: reports are missing that could lead from one of {one} and {other} to the other",
    }[relation]
