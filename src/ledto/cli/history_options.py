"""What all questions share: their options, the history they open, and how failures are told."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from ledto.cli.output import console, say
from ledto.cli.render import ShownTimes
from ledto.events.pandas import leave_pandas_out

if TYPE_CHECKING:
    from ledto.questions.history import History

HistoryOption = Annotated[str, typer.Option("--history", help="Folder or URI of the history.", metavar="DIR")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ComputationOption = Annotated[
    str | None, typer.Option("--computation", help="Which computation, where several have such an event.")
]
KOption = Annotated[int, typer.Option("-k", "--k", min=0, help="How many events to list.")]
TimesOption = Annotated[
    ShownTimes, typer.Option("--times", help="Times as the clocks had them, or moved as little as causality demands.")
]
EventArgument = Annotated[
    str, typer.Argument(help="An id of the source, PROCESS:SEQ, or @POSITION.", metavar="EVENT", show_default=False)
]
PossibleOption = Annotated[
    int, typer.Option("--possible", min=0, help="How many events to list that are only possible; 0 hides them.")
]
AnsweredOption = Annotated[
    bool,
    typer.Option(
        "--answered",
        help="Take for recorded that a span waited for those that it started, as a call for its server, where it could.",
    ),
]


@contextmanager
def asking(path: str) -> Iterator[History]:
    """The history; what is wrong with it or with the question is said on stderr, and a reader who has gone is let go."""
    import ledto

    with failures_told():
        yield ledto.open(path)


@contextmanager
def failures_told() -> Iterator[None]:
    """What is wrong with a history or with a question is said on stderr, and a reader who has gone is let go."""
    from ledto.history.errors import BadCondition, HistoryError, UnknownPolicy
    from ledto.history.store import NoSpace, StorageError, is_full

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
