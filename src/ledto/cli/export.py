"""``ledto export``: write a history, or a part of it, as a file for another tool."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ledto.cli.history_options import HistoryArgument, JsonOption, open_or_exit
from ledto.cli.output import console, open_stdout_for_data, print_json, replace_file, say
from ledto.cli.words import format_count

if TYPE_CHECKING:
    from ledto.export import Exported

STDOUT = "-"


def export(
    history: HistoryArgument,
    form: Annotated[
        str, typer.Option("--format", help="shiviz, govector, perfetto, otlp, csv, parquet or dot.", metavar="NAME")
    ],
    to: Annotated[str, typer.Option(help="The file to write or replace; - is stdout.", metavar="FILE")] = STDOUT,
    times: Annotated[
        str | None,
        typer.Option(
            help="wall or corrected.", show_default="corrected for perfetto and otlp, else wall", metavar="NAME"
        ),
    ] = None,
    computation: Annotated[
        str | None,
        typer.Option(
            help="Only this computation; with --around, that of the event, if several have one of that name.",
            metavar="NAME",
        ),
    ] = None,
    process: Annotated[
        list[str] | None, typer.Option(help="Only events of this process; may be repeated.", metavar="NAME")
    ] = None,
    around: Annotated[
        str | None,
        typer.Option(help="Only an event (an id, PROCESS:SEQ or @POSITION) and what led to it.", metavar="EVENT"),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option(
            "-k", "--k", min=0, help="With --around: how many events before it.", show_default="25", metavar="N"
        ),
    ] = None,
    force_size: Annotated[bool, typer.Option("--force-size", help="Write a graph however large it is.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a history as a file for other tools.

    Causes come before effects. If events are left out, the others stay related as they are. The file appears when it is
    complete. Never holds all in memory.

    Example: ledto export shop.history --format perfetto --to shop.json --around web:2
    """
    from ledto.export import FORMATS, ExportRefused, choose
    from ledto.export import export as write
    from ledto.questions.history import DEFAULT_K

    _check_options(form, to, times, list(FORMATS))
    if k is not None and around is None:
        raise typer.BadParameter("it needs --around: say which event to write and what led to it", param_hint="-k")
    with open_or_exit(history) as opened:
        try:
            chosen = choose(
                opened, computation=computation, processes=process, around=around, k=DEFAULT_K if k is None else k
            )
            with _open_target(to) as sink, _progress(chosen.events(opened.run)) as on_progress:
                done = write(
                    opened, form, sink, selection=chosen, times=times, any_size=force_size, on_progress=on_progress
                )
        except ExportRefused as refused:
            say(str(refused), err=True)
            raise typer.Exit(2) from None
    _print_summary(done, to, as_json=as_json)


def _check_options(form: str, to: str, times: str | None, forms: list[str]) -> None:
    from ledto.export.formats import FORMATS
    from ledto.export.times import TIMES

    if form not in forms:
        raise typer.BadParameter(f"{', '.join(forms)}, not {form!r}", param_hint="--format")
    if times is not None and times not in TIMES:
        raise typer.BadParameter(f"{' or '.join(TIMES)}, not {times!r}", param_hint="--times")
    if to == STDOUT and FORMATS[form].binary and sys.stdout.isatty():
        raise typer.BadParameter(f"{form} is not for a terminal: name a file with --to", param_hint="--to")


def _print_summary(done: Exported, to: str, *, as_json: bool) -> None:
    """Print what was written, on stderr if stdout has the file; print what its reader needs, on stderr."""
    to_stdout = to == STDOUT
    if as_json:
        summary = {**({} if to_stdout else {"file": to}), **done.to_json()}
        print_json(summary, err=to_stdout)
        return
    if not to_stdout:
        of_computations = f" in {done.computations:,} computations" if done.computations > 1 else ""
        say(f"{to}: {format_count(done.events, 'event')} of {format_count(done.processes, 'process')}{of_computations}")
    if done.regex is not None:
        say(f"expression for ShiViz, and for ledto observe --regex: {done.regex}", err=True)
    if done.delimiter is not None:
        say(f"delimiter of executions, for ledto observe --delimiter as well: {done.delimiter}", err=True)
    if done.arrows_left_out:
        arrows = "1 arrow is" if done.arrows_left_out == 1 else f"{done.arrows_left_out:,} arrows are"
        say(f"{arrows} left out: wall clocks put the effect before its cause. --times corrected draws all", err=True)


@contextmanager
def _open_target(to: str) -> Iterator[BinaryIO]:
    """Open the file to write, or stdout."""
    if to == STDOUT:
        yield open_stdout_for_data()  # type: ignore[misc]
        return
    with replace_file(Path(to)) as file:
        yield file


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar, if stderr is a terminal; yield what to call with the number of events written."""
    stderr = console(stderr=True)
    if not stderr.is_terminal:
        yield lambda _: None
        return
    columns = (TextColumn("exporting"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stderr, transient=True) as progress:
        bar = progress.add_task("", total=total)
        yield lambda events: progress.update(bar, completed=events)
