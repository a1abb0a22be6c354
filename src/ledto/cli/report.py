"""``ledto report``: write what led to an event as one HTML file with a space-time diagram."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ledto.cli.history_options import (
    ComputationOption,
    EventArgument,
    HistoryArgument,
    JsonOption,
    KOption,
    open_or_exit,
)
from ledto.cli.output import print_json, replace_file, say
from ledto.cli.words import format_count


def report(
    history: HistoryArgument,
    event: EventArgument,
    to: Annotated[Path, typer.Option(help="The file to write or replace.", metavar="FILE")],
    k: KOption = 25,
    where: Annotated[
        str | None, typer.Option(help="A condition in SQL over columns and attributes.", metavar="SQL")
    ] = None,
    beside: Annotated[
        int,
        typer.Option(
            min=0,
            help="How many events to show that are just before it by wall time, and are no causes.",
            metavar="N",
        ),
    ] = 3,
    computation: ComputationOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a page about an event and what led to it.

    It has the last K causes in causal order, drawn and listed, and what wall clocks hide. The page is one
    HTML file without scripts. It needs no network, so it can be mailed and archived.

    Example: ledto report shop.history shop:42 --to incident.html
    """
    from ledto.questions.trace_link import read_trace_link
    from ledto.web.gather import gather
    from ledto.web.report import write_page

    with open_or_exit(history) as opened:
        trace_link = read_trace_link()
        incident = gather(opened, event, last=k, where=where, beside=beside, computation=computation)
    with replace_file(to) as file:
        file.write(write_page(incident, trace_link).encode())
    after = incident.count_after_by_wall_clock()
    if as_json:
        from ledto.cli.documents import ReportedDocument

        document = ReportedDocument(
            file=str(to),
            event=incident.event.id,
            causes=len(incident.past),
            possible=len(incident.possible),
            missing=len(incident.missing),
            after_by_wall_clock=after,
        )
        print_json(document.to_json())
        return
    say(f"{to}: {format_count(len(incident.past), 'cause')}, {after} of them after the event by wall clock")
