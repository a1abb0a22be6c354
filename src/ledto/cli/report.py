"""``ledto report``: what led to an event, as one HTML file with a space-time diagram."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from ledto.cli.history_options import ComputationOption, EventArgument, HistoryOption, KOption, asking
from ledto.cli.output import not_written, say


def report(
    event: EventArgument,
    history: HistoryOption,
    to: Annotated[Path, typer.Option(help="The file to write; replaced if it is there.")],
    k: KOption = 25,
    where: Annotated[str | None, typer.Option(help="A condition in SQL over columns and attributes.")] = None,
    beside: Annotated[
        int, typer.Option(min=0, help="Events to show that stand right before it by wall time, and are no causes.")
    ] = 3,
    computation: ComputationOption = None,
) -> None:
    """A page about an event: its last K causes in causal order, drawn and listed, and what the wall clocks hide.

    One HTML file that needs no network and runs no scripts, to be mailed and archived.

    Example: ledto report shop:42 --history shop.history --to incident.html
    """
    from ledto.history.store import is_full
    from ledto.web.gather import gather
    from ledto.web.report import write_page

    with asking(history) as asked:
        incident = gather(asked, event, last=k, where=where, beside=beside, computation=computation)
    # Complete under its name, or not there; what is no file, such as a pipe, cannot be replaced by one.
    special = to.exists() and not to.is_file()
    unfinished = to if special else to.with_name(f".{to.name}.{os.getpid()}")
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(write_page(incident), encoding="utf-8")
        if not special:
            unfinished.replace(to)
    except OSError as refused:
        if not special:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
        if is_full(refused):
            say(not_written(to, refused), err=True)
            raise typer.Exit(1) from None
        raise typer.BadParameter(f"cannot write {to}: {refused.strerror or refused}", param_hint="--to") from None
    after = incident.count_after_by_wall_clock()
    say(f"{to}: {len(incident.past)} causes, {after} of them after the event by wall clock")
