"""``ledto find``: find the event to ask about, by text, errors, processes, times and conditions."""

from __future__ import annotations

import shlex
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from ledto.cli.history_options import (
    ComputationOption,
    HistoryArgument,
    JsonOption,
    LocalOption,
    TimesOption,
    open_or_exit,
    show_search_progress,
)
from ledto.cli.output import print_json, say
from ledto.cli.render import ShownTimes, print_events

if TYPE_CHECKING:
    from ledto.history.run import Run
    from ledto.questions.event import Event
    from ledto.questions.history import History


def find(
    history: HistoryArgument,
    text: Annotated[
        str | None,
        typer.Argument(
            help="Words that follow each other in the name or an attribute; case does not matter.",
            metavar="TEXT",
            show_default=False,
        ),
    ] = None,
    also: Annotated[
        list[str] | None, typer.Option(help="Another text that the event has as well; may be repeated.", metavar="TEXT")
    ] = None,
    errors: Annotated[bool, typer.Option("--errors", help="Only events that report a failure.")] = False,
    process: Annotated[
        list[str] | None,
        typer.Option(help="Only events of this process, or of all with this clock; may be repeated.", metavar="NAME"),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Only from this wall time on: ISO 8601, or an integer.", metavar="TIME")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Only up to this wall time.", metavar="TIME")] = None,
    where: Annotated[
        str | None, typer.Option(help="A condition in SQL over columns and attributes.", metavar="SQL")
    ] = None,
    last: Annotated[int, typer.Option(min=1, help="How many events to list, the newest.", metavar="N")] = 20,
    first: Annotated[
        int | None, typer.Option(min=1, help="List so many of the oldest instead.", metavar="N", show_default=False)
    ] = None,
    computation: ComputationOption = None,
    times: TimesOption = ShownTimes.WALL,
    local: LocalOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the newest events with a text, the newest last.

    A text is whole words: "order failed" is found in "ORDER FAILED: 48208" and "order.failed". For parts of
    words, give a condition, such as --where "name LIKE '%fail%'"; it is looked for event by event. Ctrl-C
    ends the search and prints what was found so far.

    Example: ledto find shop.history "order failed" --errors
    """
    texts = [*([text] if text is not None else []), *(also or [])]
    with (
        open_or_exit(history) as opened,
        show_search_progress(opened, filtered=True) as show,
        _stop_at_interrupt() as is_stopped,
    ):

        def on_progress(passed: int) -> bool:
            if show is not None:
                show(len(opened) - passed)
            return not is_stopped()

        try:
            answer = opened.find(
                texts,
                where=where,
                last=last,
                first=first,
                errors=errors,
                processes=process,
                since=since,
                until=until,
                computation=computation,
                on_progress=on_progress,
            )
        except ValueError as refused:
            raise typer.BadParameter(str(refused), param_hint="--since, --until") from None
        if as_json:
            print_json(answer.to_json())
        if not answer.events:
            is_filtered = bool(errors or process or since or until or where or computation is not None)
            ended = "interrupted: nothing was found so far" if answer.interrupted else None
            say(ended or _explain_nothing(opened, texts, filtered=is_filtered), err=True)
            raise typer.Exit(1)
        if as_json:
            return
        print_events(answer.events, opened.unit, times=times, local=local)
        if answer.interrupted:
            say("interrupted: there may be more", err=True)
        elif answer.more and first is not None:
            say(f"and more after these: --first {4 * first} shows them")
        elif answer.more:
            say(f"and more before these: --last {4 * last} shows them")
        say(f"Ask: {why_command(opened.run, history, answer.events[-1])}")


def _explain_nothing(history: History, texts: list[str], *, filtered: bool) -> str:
    """Say that nothing was found, and name events that are called similarly. `filtered`: there are other conditions."""
    from ledto.questions.find import similar_names

    parts = [f"has the text {text!r}" for text in texts] + ["meets the conditions"] * filtered
    names = similar_names(history.run, texts[0]) if texts else []
    alike = f"; there are such names as {', '.join(map(repr, names))}" if names else ""
    return f"no event {' and '.join(parts) or 'is there'}{alike}"


@contextmanager
def _stop_at_interrupt() -> Iterator[Callable[[], bool]]:
    """Let the first Ctrl-C only be noted, and yield what tells whether it came; the second one interrupts as always.

    Changes nothing outside the main thread, which alone may set handlers.
    """
    stopped = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopped.is_set
        return

    def note(*_: object) -> None:
        stopped.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield stopped.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def why_command(run: Run, history: str, event: Event) -> str:
    """Write the command that asks what led to an event. Name it by its position if others have its id, too."""
    from ledto.history.errors import HistoryError
    from ledto.questions.locate import locate

    try:
        is_own = locate(run, event.id) == event.position
    except HistoryError:
        is_own = False
    return f"ledto why {shlex.quote(history)} {shlex.quote(event.id) if is_own else f'@{event.position}'}"


def say_what_to_ask(run: Run, history: str) -> None:
    """Print the commands that ask about the last errors, or else about the last event."""
    from ledto.questions.find import worth_asking

    for event in worth_asking(run):
        comment = ", ".join(filter(None, (event.name, "error" if event.error else "")))
        say(f"  {why_command(run, history, event)}" + (f"  # {comment}" if comment else ""))
