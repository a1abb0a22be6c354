"""``ledto why`` and the other questions about events."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ledto.cli.history_options import (
    AnsweredOption,
    ComputationOption,
    EventArgument,
    HistoryOption,
    JsonOption,
    KOption,
    PossibleOption,
    TimesOption,
    asking,
    progress_until_start,
)
from ledto.cli.output import print_json, say
from ledto.cli.render import ShownTimes, print_events, print_missing, print_possible, print_rows
from ledto.cli.wording import (
    brief,
    completeness,
    concurrent_sentence,
    counted,
    known_by,
    message_words,
    relation_sentence,
)
from ledto.history.times import time_or_event

if TYPE_CHECKING:
    from ledto.questions.event import Event
    from ledto.questions.history import History

MOST_NAMES, SHOWN = 500, 5
"""Events whose names are looked at for one that is near, and names that are shown."""


def why(
    event: EventArgument,
    history: HistoryOption,
    k: KOption = 25,
    possible: PossibleOption = 10,
    where: Annotated[str | None, typer.Option(help="A condition in SQL over columns and attributes.")] = None,
    process: Annotated[
        list[str] | None, typer.Option(help="Only events of this process, or of all with this clock; may be repeated.")
    ] = None,
    name: Annotated[list[str] | None, typer.Option(help="Only events of this name; may be repeated.")] = None,
    answered: AnsweredOption = False,
    computation: ComputationOption = None,
    times: TimesOption = ShownTimes.WALL,
    as_json: JsonOption = False,
) -> None:
    """What led to an event: the last K events that are recorded to have led to it, oldest first, then the event.

    Apart from those: what could have led to it through a process that does several things at once, or by an answer that is
    only assumed; what is missing; and whether that is all.

    Example: ledto why shop:42 --history shop.history --where "status >= 500"
    """
    with asking(history) as asked, progress_until_start(asked, filtered=bool(where or process or name)) as tell:
        answer = asked.why(
            event,
            k=k,
            possible=possible,
            where=where,
            processes=process,
            names=name,
            answered=answered,
            computation=computation,
            on_progress=tell,
        )
        nothing = bool(where or process or name) and not answer.causes and not answer.possible
        if as_json:
            print_json(answer.to_json())
        if nothing:
            say(_nothing_met(asked, answer.event, name or ()), err=True)
            raise typer.Exit(1)
        if as_json:
            return
        print_events(answer.causes, asked.unit, shown=answer.event, times=times)
        if answer.more:
            say(f"and more before these: -k {4 * max(k, 1)} shows them")
        if answer.possible:
            print_possible(answer.possible, asked.unit, times=times)
            if answer.more_possible:
                say(f"and perhaps more: --possible {4 * possible} looks further back")
        print_missing(answer.missing)
        say(completeness(answer))


def _nothing_met(asked: History, event: Event, names: Sequence[str]) -> str:
    """That nothing is recorded or possible which meets the conditions, and names that are near to those given."""
    said = f"nothing that led to {event.id}, or could have, meets the conditions"
    if not names:
        return said
    near = asked.why(event, k=MOST_NAMES, possible=MOST_NAMES)
    known = sorted({each.name for each in (*near.causes, *(each.event for each in near.possible)) if each.name})
    if set(names) & set(known):
        return said
    alike = difflib.get_close_matches(names[0], known, SHOWN, 0.5) or known[:SHOWN]
    there = f"; there are such names as {', '.join(map(repr, alike))}" if alike else ""
    return f"{said}: none of the name {names[0]!r}{there}"


def impact(
    event: EventArgument,
    history: HistoryOption,
    k: KOption = 25,
    possible: PossibleOption = 10,
    computation: ComputationOption = None,
    times: TimesOption = ShownTimes.WALL,
    as_json: JsonOption = False,
) -> None:
    """What came of an event: the next K events that it is recorded to have led to, and those that it could have led to.

    How many there are in each process counts both.

    Example: ledto impact shop:42 --history shop.history -k 10
    """
    with asking(history) as asked:
        answer = asked.impact(event, k=k, possible=possible, computation=computation)
        if as_json:
            print_json(answer.to_json())
            return
        print_events((answer.event, *answer.effects), asked.unit, times=times)
        if answer.more:
            say(f"and more after these: -k {4 * max(k, 1)} shows them")
        if answer.possible:
            title = "also possible (it could have led to these, but nothing recorded says so):"
            print_events(answer.possible, asked.unit, title=title, times=times)
            if answer.more_possible:
                say(f"and more: --possible {4 * possible} shows them")
        which = ", recorded or possible," if asked.run.has_lines else ""
        print_rows(
            ["process", "effects"],
            [(each.process, f"{each.events:,}") for each in answer.processes[:50]],
            title=f"{counted(answer.total, 'effect')}{which} in {counted(len(answer.processes), 'process')}",
        )


def relation(
    first: EventArgument,
    second: EventArgument,
    history: HistoryOption,
    answered: AnsweredOption = False,
    computation: ComputationOption = None,
    as_json: JsonOption = False,
) -> None:
    """How one event stands to another: before, after, possible, concurrent, unknown or equal.

    Before and after: recorded causes lead from one to the other. Possible: only a shared process, or an answer that is
    assumed, does. Concurrent: neither can have led to the other. Unknown: reports are missing that might say more.

    Example: ledto relation shop:42 cart:17 --history shop.history
    """
    with asking(history) as asked:
        answer = asked.related(first, second, answered=answered, computation=computation)
        if as_json:
            print_json(answer.to_json())
            return
        say(relation_sentence(answer, asked.unit, answered=answered))


def explain(
    first: EventArgument,
    second: EventArgument,
    history: HistoryOption,
    answered: AnsweredOption = False,
    computation: ComputationOption = None,
    as_json: JsonOption = False,
) -> None:
    """How one event led, or could have led, to another: the steps between them, and whether each is recorded.

    Example: ledto explain cart:17 shop:42 --history shop.history
    """
    with asking(history) as asked:
        answer = asked.explain(first, second, answered=answered, computation=computation)
        if as_json:
            print_json(answer.to_json())
            return
        say(relation_sentence(answer, asked.unit, answered=answered))
        if answer.steps:
            print_rows(
                ["from", "to", "by", ""],
                [(brief(step.cause), brief(step.effect), *known_by(step, asked.unit)) for step in answer.steps],
            )


def concurrent(
    event: EventArgument,
    history: HistoryOption,
    k: KOption = 25,
    computation: ComputationOption = None,
    times: TimesOption = ShownTimes.WALL,
    as_json: JsonOption = False,
) -> None:
    """What is concurrent with an event: neither can have led to the other. How many events, and the K nearest.

    Example: ledto concurrent shop:42 --history shop.history
    """
    with asking(history) as asked:
        answer = asked.concurrent(event, k=k, computation=computation)
        if as_json:
            print_json(answer.to_json())
            return
        print_events(answer.events, asked.unit, shown=answer.event, times=times)
        say(concurrent_sentence(answer))


def cut(
    history: HistoryOption,
    time: Annotated[
        str | None,
        typer.Argument(help="An integer in the history's unit, a time in ISO 8601, or an event.", metavar="TIME"),
    ] = None,
    event: Annotated[str | None, typer.Option(help="An event, where its name could be taken for a time.")] = None,
    k: KOption = 25,
    computation: ComputationOption = None,
    times: TimesOption = ShownTimes.WALL,
    as_json: JsonOption = False,
) -> None:
    """A consistent state: the last event of each process up to a time or an event, and the messages under way.

    With each event it holds all that led to it, or could have.

    Example: ledto cut 2026-01-31T12:00:00Z --history shop.history
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
        are = "is" if answer.total == 1 else "are"
        title = f"{counted(answer.total, 'event')} {are} in the cut; the last of each process:"
        print_events(answer.last_events, asked.unit, title=title, times=times)
        print_rows(
            ["message", "from", "to"],
            [(message_words(each.key), brief(each.sent), brief(each.received)) for each in answer.in_flight],
            title=f"{counted(answer.in_flight_total, 'message')} under way:",
        )
