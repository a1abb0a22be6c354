"""``ledto export``: a history, or a part of it, as a file for another tool."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ledto.cli.history_options import HistoryOption, JsonOption, asking
from ledto.cli.output import console, data_to_stdout, not_written, print_json, say
from ledto.cli.wording import counted

if TYPE_CHECKING:
    from ledto.export import Exported

STDOUT = "-"


def export(
    history: HistoryOption,
    form: Annotated[str, typer.Option("--format", help="shiviz, govector, perfetto, otlp, csv, parquet or dot.")],
    to: Annotated[str, typer.Option(help="The file to write, replaced if it is there; - is stdout.")] = STDOUT,
    times: Annotated[
        str | None,
        typer.Option(help="wall or corrected; corrected unless told otherwise for perfetto and otlp, wall for others."),
    ] = None,
    computation: Annotated[
        str | None,
        typer.Option(help="Only this computation; with --around, the event's, where several have such a one."),
    ] = None,
    process: Annotated[list[str] | None, typer.Option(help="Only events of this process; may be repeated.")] = None,
    around: Annotated[
        str | None,
        typer.Option(help="Only an event (an id, PROCESS:SEQ or @POSITION) and what led to it.", metavar="EVENT"),
    ] = None,
    k: Annotated[int, typer.Option("-k", "--k", min=0, help="With --around: how many events before it.")] = 25,
    force_size: Annotated[bool, typer.Option("--force-size", help="Write a graph however large it is.")] = False,
    as_json: JsonOption = False,
) -> None:
    """A history as other tools read it, causes before effects; never all in memory.

    Events may be left out: how the others stand to each other stays as it is. A file is there when it is complete.

    Example: ledto export --history shop.history --format perfetto --to shop.json --around web:2
    """
    from ledto.export import FORMATS, ExportRefused, choose
    from ledto.export import export as write

    _check_options(form, to, times, list(FORMATS))
    with asking(history) as asked:
        try:
            chosen = choose(asked, computation=computation, processes=process, around=around, k=k)
            with _written(to) as sink, _progress(chosen.events(asked.run)) as tell:
                done = write(asked, form, sink, selection=chosen, times=times, any_size=force_size, on_progress=tell)
        except ExportRefused as refused:
            say(str(refused), err=True)
            raise typer.Exit(2) from None
    _say(done, to, as_json=as_json)


def _check_options(form: str, to: str, times: str | None, forms: list[str]) -> None:
    from ledto.export.formats import FORMATS
    from ledto.export.times import TIMES

    if form not in forms:
        raise typer.BadParameter(f"{', '.join(forms)}, not {form!r}", param_hint="--format")
    if times is not None and times not in TIMES:
        raise typer.BadParameter(f"{' or '.join(TIMES)}, not {times!r}", param_hint="--times")
    if to == STDOUT and FORMATS[form].binary and sys.stdout.isatty():
        raise typer.BadParameter(f"{form} is not for a terminal: name a file with --to", param_hint="--to")


def _say(done: Exported, to: str, *, as_json: bool) -> None:
    """What was written, on stdout unless that is where it was written to; what to tell the reader of it, on stderr."""
    to_stdout = to == STDOUT
    if as_json:
        summary = {**({} if to_stdout else {"file": to}), **done.to_json()}
        print_json(summary, err=to_stdout)
        return
    if not to_stdout:
        of_computations = f" in {done.computations:,} computations" if done.computations > 1 else ""
        say(f"{to}: {counted(done.events, 'event')} of {counted(done.processes, 'process')}{of_computations}")
    if done.regex is not None:
        say(f"expression for ShiViz, and for ledto observe --regex: {done.regex}", err=True)
    if done.delimiter is not None:
        say(f"delimiter of executions, for ledto observe --delimiter as well: {done.delimiter}", err=True)
    if done.arrows_left_out:
        arrows = "1 arrow is" if done.arrows_left_out == 1 else f"{done.arrows_left_out:,} arrows are"
        say(f"{arrows} left out: wall clocks put the effect before its cause. --times corrected draws all", err=True)


@contextmanager
def _written(to: str) -> Iterator[BinaryIO]:
    """What to write to; a file is complete under its name, or not there."""
    if to == STDOUT:
        yield data_to_stdout()  # type: ignore[misc]
        return
    place = Path(to)
    # What is no file, such as /dev/null or a pipe, cannot be replaced by one.
    special = place.exists() and not place.is_file()
    unfinished = place if special else place.with_name(f".{place.name}.{os.getpid()}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("wb") as file:
            yield file
        if not special:
            unfinished.replace(place)
    except OSError as failure:
        say(not_written(to, failure), err=True)
        raise typer.Exit(1) from None
    finally:
        if not special:
            _remove(unfinished)


def _remove(file: Path) -> None:
    try:
        file.unlink(missing_ok=True)
    except OSError:
        # It was never made: its folder is no folder.
        return


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, where that is a terminal."""
    shown = console(stderr=True)
    if not shown.is_terminal:
        yield lambda _: None
        return
    columns = (TextColumn("exporting"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=shown, transient=True) as progress:
        bar = progress.add_task("", total=total)
        yield lambda events: progress.update(bar, completed=events)
