"""``ledto why`` and the other questions about events: ask the history, and print the answer."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ledto.cli.history_options import (
    AnsweredOption,
    ComputationOption,
    EventArgument,
    HistoryArgument,
    JsonOption,
    KOption,
    LastOption,
    LocalOption,
    PossibleOption,
    TimesOption,
    choose_event,
    open_or_exit,
    show_search_progress,
)
from ledto.cli.output import print_json, say
from ledto.cli.render import ShownTimes, print_events, print_missing, print_possible, print_rows
from ledto.cli.words import (
    describe_completeness,
    describe_concurrent,
    describe_relation,
    format_count,
    shorten_key,
)
from ledto.history.times import time_or_event

if TYPE_CHECKING:
    from ledto.questions.event import Event
    from ledto.questions.history import History

MOST_NAMES = 500
"""The most events whose names are compared with one that was not found."""
SHOWN = 5
"""The most names that are suggested."""


def why(
    history: HistoryArgument,
    event: EventArgument,
    k: KOption = 25,
    possible: PossibleOption = 10,
    where: Annotated[
        str | None, typer.Option(help="A condition in SQL over columns and attributes.", metavar="SQL")
    ] = None,
    process: Annotated[
        list[str] | None,
        typer.Option(help="Only events of this process, or of all with this clock; may be repeated.", metavar="NAME"),
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option(help="Only events of this name; may be repeated.", metavar="NAME")
    ] = None,
    answered: AnsweredOption = False,
    last: LastOption = False,
    computation: ComputationOption = None,
    times: TimesOption = ShownTimes.WALL,
    local: LocalOption = False,
    as_json: JsonOption = False,
) -> None:
    """List what led to an event, oldest first.

    These are the last K events that are recorded to have led to it. Then come events that could have led
    to it, through a shared process or by an assumed answer; missing reports; and whether the answer is
    complete.

    Example: ledto why shop.history shop:42 --where "status >= 500"
    """
    from ledto.questions.trace_link import read_trace_link

    with (
        open_or_exit(history) as opened,
        show_search_progress(opened, filtered=bool(where or process or name)) as on_progress,
    ):
        trace_link = read_trace_link()
        answer = opened.why(
            choose_event(opened, event, last=last, computation=computation),
            k=k,
            possible=possible,
            where=where,
            processes=process,
            names=name,
            answered=answered,
            computation=computation,
            on_progress=on_progress,
        )
        is_empty = bool(where or process or name) and not answer.causes and not answer.possible
        if as_json:
            print_json(answer.to_json())
        if is_empty:
            say(_explain_empty(opened, answer.event, name or ()), err=True)
            print_missing(answer.missing, err=True)
            say(describe_completeness(answer), err=True)
            raise typer.Exit(1)
        if as_json:
            return
        print_events(answer.causes, opened.unit, shown=answer.event, times=times, local=local)
        if answer.more:
            say(f"and more before these: -k {4 * max(k, 1)} shows them")
        if answer.possible:
            print_possible(answer.possible, opened.unit, times=times, local=local)
            if answer.more_possible:
                say(f"and perhaps more: --possible {4 * possible} looks further back")
        print_missing(answer.missing)
        say(describe_completeness(answer))
        if trace_link is not None and (address := trace_link.fill(answer.event.line)) is not None:
            say(f"its trace: {address}")


def _explain_empty(history: History, event: Event, names: Sequence[str]) -> str:
    """Say that no cause meets the conditions, and suggest names that are like the first one given."""
    sentence = f"nothing that led to {event.id}, or could have, meets the conditions"
    if not names:
        return sentence
    near = history.why(event, k=MOST_NAMES, possible=MOST_NAMES)
    causes = (*near.causes, *(cause.event for cause in near.possible))
    known = sorted({cause.name for cause in causes if cause.name})
    if set(names) & set(known):
        return sentence
    alike = difflib.get_close_matches(names[0], known, SHOWN, 0.5) or known[:SHOWN]
    suggestion = f"; there are such names as {', '.join(map(repr, alike))}" if alike else ""
    return f"{sentence}: none of the name {names[0]!r}{suggestion}"


def impact(
    history: HistoryArgument,
    event: EventArgument,
    k: KOption = 25,
    possible: PossibleOption = 10,
    last: LastOption = False,
    computation: ComputationOption = None,
    times: TimesOption = ShownTimes.WALL,
    local: LocalOption = False,
    as_json: JsonOption = False,
) -> None:
    """List what an event led to.

    These are the next K events by what is recorded, and then events that it could have led to. The count
    of each process includes both.

    Example: ledto impact shop.history shop:42 -k 10
    """
    with open_or_exit(history) as opened:
        asked = choose_event(opened, event, last=last, computation=computation)
        answer = opened.impact(asked, k=k, possible=possible, computation=computation)
        if as_json:
            print_json(answer.to_json())
            return
        print_events((answer.event, *answer.effects), opened.unit, asked=answer.event, times=times, local=local)
        if answer.more:
            say(f"and more after these: -k {4 * max(k, 1)} shows them")
        if answer.possible:
            title = "also possible (it could have led to these, but nothing recorded says so):"
            print_events(answer.possible, opened.unit, title=title, times=times, local=local)
            if answer.more_possible:
                say(f"and more: --possible {4 * possible} shows them")
        which = ", recorded or possible," if opened.run.has_lines else ""
        print_rows(
            ["process", "effects"],
            [(process.process, f"{process.events:,}") for process in answer.processes[:50]],
            right=("effects",),
            title=f"{format_count(answer.total, 'effect')}{which} in {format_count(len(answer.processes), 'process')}",
        )


def relation(
    history: HistoryArgument,
    first: EventArgument,
    second: EventArgument,
    answered: AnsweredOption = False,
    last: LastOption = False,
    computation: ComputationOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say how two events are related.

    They are before, after, possible, concurrent, unknown or equal. Before and after: recorded causes lead
    from one to the other. Possible: only a shared process, or an assumed answer, leads there. Concurrent:
    neither can have led to the other. Unknown: missing reports might say more.

    Example: ledto relation shop.history shop:42 cart:17
    """
    with open_or_exit(history) as opened:
        pair = [choose_event(opened, event, last=last, computation=computation) for event in (first, second)]
        answer = opened.related(*pair, answered=answered, computation=computation)
        if as_json:
            print_json(answer.to_json())
            return
        say(describe_relation(answer, opened.unit, answered=answered))


def explain(
    history: HistoryArgument,
    first: EventArgument,
    second: EventArgument,
    answered: AnsweredOption = False,
    last: LastOption = False,
    computation: ComputationOption = None,
    times: TimesOption = ShownTimes.WALL,
    local: LocalOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the steps by which one event led to another.

    Or could have led: steps that are not recorded are marked.

    Example: ledto explain shop.history cart:17 shop:42
    """
    with open_or_exit(history) as opened:
        pair = [choose_event(opened, event, last=last, computation=computation) for event in (first, second)]
        answer = opened.explain(*pair, answered=answered, computation=computation)
        if as_json:
            print_json(answer.to_json())
            return
        say(describe_relation(answer, opened.unit, answered=answered))
        if answer.steps:
            events = [answer.steps[0].cause, *(step.effect for step in answer.steps)]
            print_events(events, opened.unit, times=times, local=local, steps=[None, *answer.steps])


def concurrent(
    history: HistoryArgument,
    event: EventArgument,
    k: KOption = 25,
    last: LastOption = False,
    computation: ComputationOption = None,
    times: TimesOption = ShownTimes.WALL,
    local: LocalOption = False,
    as_json: JsonOption = False,
) -> None:
    """Count and list the events that are concurrent with an event.

    Neither can have led to the other. The K nearest are listed.

    Example: ledto concurrent shop.history shop:42
    """
    with open_or_exit(history) as opened:
        asked = choose_event(opened, event, last=last, computation=computation)
        answer = opened.concurrent(asked, k=k, computation=computation)
        if as_json:
            print_json(answer.to_json())
            return
        print_events(answer.events, opened.unit, shown=answer.event, times=times, local=local)
        say(describe_concurrent(answer))


def cut(
    history: HistoryArgument,
    time: Annotated[
        str | None,
        typer.Argument(help="An integer in the history's unit, a time in ISO 8601, or an event.", metavar="TIME"),
    ] = None,
    event: Annotated[
        str | None, typer.Option(help="An event, if its name could be read as a time.", metavar="EVENT")
    ] = None,
    k: KOption = 25,
    computation: ComputationOption = None,
    times: TimesOption = ShownTimes.WALL,
    local: LocalOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show the state of all processes at a time or an event.

    It is the last event of each process, and the messages under way. The state is consistent: it has, with
    each event, all that led to it or could have.

    Example: ledto cut shop.history 2026-01-31T12:00:00Z
    """
    if (time is None) == (event is None):
        raise typer.BadParameter("give a TIME or an --event, one of them", param_hint="TIME")
    with open_or_exit(history) as opened:
        try:
            moment, event_name = (None, event) if time is None else time_or_event(time, opened.unit)
        except ValueError as refused:
            raise typer.BadParameter(f"{refused}; an event of that name takes --event", param_hint="TIME") from None
        answer = opened.cut(event_name, time=moment, k=k, computation=computation)
        if as_json:
            print_json(answer.to_json())
            return
        are = "is" if answer.total == 1 else "are"
        last = "; the last of each process:" if answer.total else ""
        title = f"{format_count(answer.total, 'event')} {are} in the cut{last}"
        print_events(answer.last_events, opened.unit, title=title, times=times, local=local)
        if not answer.in_flight_total:
            say("no message is under way")
            return
        print_rows(
            ["message", "from", "sent by", "to", "received by"],
            [
                (
                    shorten_key(message.key),
                    message.sent.id,
                    message.sent.name,
                    message.received.id,
                    message.received.name,
                )
                for message in answer.in_flight
            ],
            shrink=("message", "sent by", "received by"),
            title=f"{format_count(answer.in_flight_total, 'message')} under way:",
        )
