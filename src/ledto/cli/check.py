"""``ledto check`` and the other questions about a history as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from ledto.cli.history_options import HistoryOption, JsonOption, asking, failures_told
from ledto.cli.output import print_json, say
from ledto.cli.render import digits_of, format_time, print_rows, print_table
from ledto.cli.tables import channel_lines, ledger_lines, orders_table
from ledto.cli.wording import counted, provable_lines

if TYPE_CHECKING:
    from ledto.questions.history import Process


from typing import Any

from ledto.durations import show_duration


def print_between_clocks(found: dict[str, Any] | None, unit: str) -> None:
    """A manifest's entry ``between_clocks``; nothing where there is none."""
    if found is None:
        return
    early = found["before_cause"]
    if not found["messages"]:
        say("no message has times of two clocks at its ends, so that wall clocks put none before its cause")
        return
    by = f", by up to {show_duration(found['earlier_by'], unit)}" if early else ""
    say(
        f"{counted(found['messages'], 'message')} between clocks: {early:,} received before they were sent{by}; "
        f"{found['ties']:,} at the same time"
    )
    own = found["within_one_clock"]
    if own["before_cause"]:
        say(
            f"{own['before_cause']:,} of {own['messages']:,} within one clock go back, by up to "
            f"{show_duration(own['earlier_by'], unit)}: that clock was set back"
        )
    if early:
        print_rows(
            ["from", "to", "messages", "before", "by up to", "ties"],
            [
                (
                    each["sender"],
                    each["receiver"],
                    f"{each['messages']:,}",
                    f"{each['before_cause']:,}",
                    show_duration(each["earlier_by"], unit),
                    f"{each['ties']:,}",
                )
                for each in found["pairs"]
            ],
        )
        if more := found["pairs_before_cause"] - len(found["pairs"]):
            say(f"and between {more:,} more pairs of clocks")


MOST_LISTED, MOST_SHOWN = 200, 1_000
"""Processes up to which each one of several computations is listed; and rows of a table for people."""


def processes(
    history: HistoryOption,
    computation: Annotated[str | None, typer.Option(help="Only those of this computation.")] = None,
    as_json: JsonOption = False,
) -> None:
    """The processes of a history; where there are many computations, such as traces, what all of them have together.

    Example: ledto processes --history shop.history
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
            [*(["computation"] if several else []), "process", "events", "messages", "first", "last", ""],
            [
                (
                    *([each.computation] if several else []),
                    each.process,
                    f"{each.events:,}",
                    f"{each.messages:,}",
                    format_time(each.first_time, asked.unit, digits=digits),
                    format_time(each.last_time, asked.unit, digits=digits),
                    _doubts(each),
                )
                for each in found
            ],
        )


def _doubts(process: Process) -> str:
    """What is not provable of a process, and why."""
    if process.messages == 0 and process.first_hole == 1:
        return "tells of no message: nothing is provable"
    said = [] if process.dense_seq else ["numbers are missing"]
    if process.first_tainted is not None:
        provable = process.first_tainted - 1
        said.append(f"provable up to event {provable:,}" if provable else "nothing is provable")
    return ", ".join(said)


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
    """What the run found: how much is provable, reports accounted for, messages that wall clocks put before their cause.

    And what is wrong in wall-clock order, and in that of each policy of delivery.

    Example: ledto check --history shop.history --json
    """
    if files:
        _check_files(history, as_json=as_json)
        return
    with asking(history) as asked:
        answer = asked.check()
        if as_json:
            print_json(answer.to_json())
            return
        for line in [*provable_lines(answer.provable), *ledger_lines(answer.ledger), *channel_lines(answer.channels)]:
            say(line)
        print_between_clocks(answer.wall_clock.get("between_clocks"), asked.unit)
        print_table(orders_table(answer.wall_clock, answer.policies, asked.unit))


def _check_files(history: str, *, as_json: bool) -> None:
    from ledto.history.damage import check_files
    from ledto.history.store import Store

    with failures_told():
        found = check_files(Store(history))
        if as_json:
            print_json(found.to_json())
        elif not found.damaged:
            say(f"{counted(found.files, 'file')}, {found.bytes:,} bytes: all are as they were written")
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

    Example: ledto quarantine --history shop.history -k 1000 --json
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
