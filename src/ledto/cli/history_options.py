"""The options that questions share, and how a question opens its history and ends when it fails."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from ledto.cli.main import HISTORY_VARIABLE
from ledto.cli.output import console, discard_stdout, say
from ledto.cli.render import ShownTimes
from ledto.events.pandas import leave_pandas_out

if TYPE_CHECKING:
    from ledto.questions.event import Event
    from ledto.questions.history import History

HistoryArgument = Annotated[
    str,
    typer.Argument(
        help="Folder or URI of the history.",
        metavar="HISTORY",
        envvar=HISTORY_VARIABLE,
        show_envvar=True,
        show_default=False,
    ),
]
"""The first argument of every command that reads a history. `ledto.cli.main` lets it be left out if the variable is set."""
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ComputationOption = Annotated[
    str | None,
    typer.Option("--computation", help="Which computation, where several have such an event.", metavar="NAME"),
]
KOption = Annotated[int, typer.Option("-k", "--k", min=0, help="How many events to list.", metavar="N")]
TimesOption = Annotated[
    ShownTimes,
    typer.Option(
        "--times",
        help="Times of the clocks, or moved so that no effect comes before its cause.",
        metavar="wall|corrected",
    ),
]
LocalOption = Annotated[
    bool, typer.Option("--local/--utc", help="Times of this machine's zone, or UTC.", show_default="utc")
]
EventArgument = Annotated[
    str,
    typer.Argument(
        help="An id of the source, PROCESS:SEQ, @POSITION, or a text as for ledto find.",
        metavar="EVENT",
        show_default=False,
    ),
]
LastOption = Annotated[bool, typer.Option("--last", help="Take the newest event, if several have the text.")]
PossibleOption = Annotated[
    int, typer.Option("--possible", min=0, help="How many possible events to list; 0 hides them.", metavar="N")
]
AnsweredOption = Annotated[
    bool,
    typer.Option(
        "--answered",
        help="Count it as recorded that a span waited for the spans it started, where their times allow it.",
    ),
]


@contextmanager
def open_or_exit(path: str) -> Iterator[History]:
    """Open the history for a question; end the command as `exit_on_failure` does."""
    import ledto

    with exit_on_failure():
        yield ledto.open(path)


def choose_event(history: History, event: str, *, last: bool, computation: str | None) -> str | Event:
    """Read the newest event with a text, if that is asked for; else leave it to the question to find the event."""
    return history.event(event, computation=computation, newest=True) if last else event


@contextmanager
def exit_on_failure() -> Iterator[None]:
    """End the command if the history or the question is at fault, with a sentence on stderr.

    The exit code is 2 for a bad condition or policy, or a text that several events have, 1 for a history, and 0 if the
    reader of stdout has gone. A full disk is the business of `exit_when_stdout_is_full`.
    """
    from ledto.history.errors import BadCondition, HistoryError, UnknownPolicy
    from ledto.history.store import StorageError
    from ledto.questions.find import SeveralEvents

    leave_pandas_out()
    try:
        yield
        sys.stdout.flush()
    except (BadCondition, UnknownPolicy, SeveralEvents) as refused:
        say(refused, err=True)
        raise typer.Exit(2) from None
    except (HistoryError, StorageError) as failure:
        say(failure, err=True)
        raise typer.Exit(1) from None
    except BrokenPipeError:
        discard_stdout()
        raise typer.Exit(0) from None


@contextmanager
def show_search_progress(history: History, *, filtered: bool) -> Iterator[Callable[[int], None] | None]:
    """Show a bar on stderr for a filtered search, which may go back to the start; yield what to call with each position.

    Yields None, and shows nothing, without a filter or a terminal.
    """
    stderr = console(stderr=True) if filtered else None
    if stderr is None or not stderr.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("looking back"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr, transient=True) as progress:
        bar = progress.add_task("", total=len(history))
        yield lambda position: progress.update(bar, completed=len(history) - position)
