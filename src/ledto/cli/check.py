"""``ledto check`` and the other questions about a history as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ledto.cli.grid import Grid
from ledto.cli.history_options import HistoryArgument, JsonOption, LocalOption, exit_on_failure, open_or_exit
from ledto.cli.output import print_json, say
from ledto.cli.render import print_orders, print_rows
from ledto.cli.words import describe_channels, describe_ledger, describe_provable, format_count
from ledto.durations import show_duration
from ledto.history.times import ShortTimes

if TYPE_CHECKING:
    from ledto.questions.check import Process

MOST_LISTED = 200
"""The most processes of several computations that are listed one by one."""
LACKING, SILENT = "-", "?"
DOUBTS = {LACKING: "numbers are missing", SILENT: "reports no message, so nothing of it is provable"}
"""Marks beside a process, and what they mean."""
MOST_SHOWN = 1_000
"""The most rows of a table for people."""


def processes(
    history: HistoryArgument,
    computation: Annotated[str | None, typer.Option(help="Only those of this computation.", metavar="NAME")] = None,
    local: LocalOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the processes of a history.

    For many computations, list what all of them have together.

    Example: ledto processes shop.history
    """
    with open_or_exit(history) as opened:
        chosen = [each for each in opened.processes() if computation is None or each.computation == computation]
        if not chosen:
            say(f"no computation is called {computation!r:.80}", err=True)
            raise typer.Exit(1)
        if as_json:
            print_json([process.to_json() for process in chosen])
            return
        several = len({process.computation for process in chosen}) > 1
        if several and len(chosen) > MOST_LISTED:
            _print_by_clock(chosen, opened.unit, local=local)
            return
        _print_each(chosen, opened.unit, several=several, local=local)


def _print_each(processes: Sequence[Process], unit: str, *, several: bool, local: bool) -> None:
    """Print one row for each process, with marks for what is in doubt."""
    doubts = [_find_doubts(process) for process in processes]
    short = ShortTimes((time for each in processes for time in (each.first_time, each.last_time)), unit, local=local)
    marked, numbers = any(doubts), ("events", "messages", "provable")
    names = [*([""] if marked else []), *(["computation"] if several else []), "process", *numbers, "first", "last"]
    grid = Grid(names, ("computation", "process"), numbers)
    if short.heading:
        grid.add_line(short.heading)
    for process, doubt in zip(processes, doubts, strict=True):
        tainted = process.first_tainted
        grid.add(
            [
                *([doubt] if marked else []),
                *([process.computation] if several else []),
                process.process,
                f"{process.events:,}",
                f"{process.messages:,}",
                "all" if tainted is None else f"{tainted - 1:,}",
                short.show(process.first_time),
                short.show(process.last_time),
            ]
        )
    grid.print()
    say("provable: so many of its first events have no report missing in their past")
    if used := [f"{mark} {meaning}" for mark, meaning in DOUBTS.items() if mark in "".join(doubts)]:
        say("; ".join(used))


def _find_doubts(process: Process) -> str:
    """Return the marks of what is in doubt of a process."""
    is_silent = process.messages == 0 and process.first_hole == 1
    return ("" if process.dense_seq else LACKING) + (SILENT if is_silent else "")


def _print_by_clock(processes: Sequence[Process], unit: str, *, local: bool) -> None:
    """Print processes of all computations together, by the clock that they share or, without one, by name."""
    by_name: dict[str, list[Process]] = {}
    for process in processes:
        by_name.setdefault(process.clock_name or process.process, []).append(process)
    rows: list[tuple[str, str, str, int | None, int | None]] = []
    for name, group in sorted(by_name.items()):
        first = min((each.first_time for each in group if each.first_time is not None), default=None)
        last = max((each.last_time for each in group if each.last_time is not None), default=None)
        computations = len({each.computation for each in group})
        rows.append((name, f"{computations:,}", f"{sum(each.events for each in group):,}", first, last))
    short = ShortTimes((time for row in rows for time in row[3:]), unit, local=local)
    numbers = ("computations", "events")
    grid = Grid(["process", *numbers, "first", "last"], ("process",), numbers)
    if short.heading:
        grid.add_line(short.heading)
    for *texts, first, last in rows[:MOST_SHOWN]:
        grid.add([*texts, short.show(first), short.show(last)])
    grid.print()
    if len(rows) > MOST_SHOWN:
        say(f"and {len(rows) - MOST_SHOWN:,} more: --json lists all")


def check(
    history: HistoryArgument,
    files: Annotated[
        bool,
        typer.Option("--files", help="Instead, read every file, and name those that are damaged."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Print what was counted when the history was made.

    These are provable events, all reports, messages received before they were sent, and violations of
    causal order by the wall clock and under each policy of delivery.

    Example: ledto check shop.history --json
    """
    if files:
        _check_files(history, as_json=as_json)
        return
    with open_or_exit(history) as opened:
        answer = opened.check()
        if as_json:
            print_json(answer.to_json())
            return
        for line in [
            *describe_provable(answer.provable),
            *describe_ledger(answer.ledger),
            *describe_channels(answer.channels),
        ]:
            say(line)
        print_between_clocks(answer.wall_clock.get("between_clocks"), opened.unit)
        print_orders(answer.wall_clock, answer.policies, opened.unit)


def _check_files(history: str, *, as_json: bool) -> None:
    from ledto.history.damage import check_files
    from ledto.history.store import Store

    with exit_on_failure():
        checked = check_files(Store(history))
        if as_json:
            print_json(checked.to_json())
        elif not checked.damaged:
            say(f"{format_count(checked.files, 'file')}, {checked.bytes:,} bytes: all are as they were written")
        for sentence in checked.damaged if not as_json else ():
            say(sentence)
    if checked.damaged:
        raise typer.Exit(1)


def quarantine(
    history: HistoryArgument,
    k: Annotated[int, typer.Option("-k", "--k", min=0, help="How many reports to list.", metavar="N")] = 25,
    outcome: Annotated[str, typer.Option(help="quarantined, duplicate or all.", metavar="NAME")] = "quarantined",
    as_json: JsonOption = False,
) -> None:
    """List reports that are quarantined, with the reasons.

    Example: ledto quarantine shop.history -k 1000 --json
    """
    if outcome not in ("quarantined", "duplicate", "all"):
        raise typer.BadParameter(f"quarantined, duplicate or all, not {outcome!r}", param_hint="--outcome")
    with open_or_exit(history) as opened:
        reports = list(islice(opened.quarantine(outcome=None if outcome == "all" else outcome), k))
        if as_json:
            print_json([report.to_json() for report in reports])
            return
        if reports:
            print_rows(
                ["reason", "text", "where"],
                [(report.reason, report.text, f"{report.file}:{report.place}") for report in reports],
                shrink=("reason", "text"),
            )
        say(describe_ledger(opened.check().ledger)[0])


def print_between_clocks(between: dict[str, Any] | None, unit: str) -> None:
    """Print a manifest's entry ``between_clocks``: messages that wall clocks put before their cause. None prints nothing."""
    if between is None:
        return
    early = between["before_cause"]
    if not between["messages"]:
        say("no message has times of two clocks, so none is received before it was sent")
        return
    by = f", by up to {show_duration(between['earlier_by'], unit)}" if early else ""
    say(
        f"{format_count(between['messages'], 'message')} between clocks: {early:,} received before they were sent{by}; "
        f"{between['ties']:,} at the same time"
    )
    within = between["within_one_clock"]
    if within["before_cause"]:
        say(
            f"{within['before_cause']:,} of {within['messages']:,} within one clock go back, by up to "
            f"{show_duration(within['earlier_by'], unit)}: that clock was set back"
        )
    if early:
        print_rows(
            ["from", "to", "messages", "before", "by up to", "ties"],
            [
                (
                    pair["sender"],
                    pair["receiver"],
                    f"{pair['messages']:,}",
                    f"{pair['before_cause']:,}",
                    show_duration(pair["earlier_by"], unit),
                    f"{pair['ties']:,}",
                )
                for pair in between["pairs"]
            ],
            shrink=("from", "to"),
            right=("messages", "before", "by up to", "ties"),
        )
        if more := between["pairs_before_cause"] - len(between["pairs"]):
            say(f"and between {format_count(more, 'more pair')} of clocks")
