"""``ledto reproduce``: run the evaluations of the papers again, on Spark."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ledto.cli.on_spark import check_master, start_context
from ledto.cli.output import INTERRUPTED, console, explain_write_failure, print_json, quiet_interrupts, say
from ledto.cli.words import format_count

if TYPE_CHECKING:
    from ledto.papers.cell import Task

QUICK_SEEDS, QUICK_MESSAGES = 2, 1_000
SEEDS, MESSAGES = 10, 20_000


def reproduce(
    paper: Annotated[str, typer.Argument(help="observer, hcg, rpc, autonomous, or all.", metavar="PAPER")],
    to: Annotated[
        Path, typer.Option(help="Folder for the figures and REPORT.md; made if it is missing.", metavar="DIR")
    ],
    seeds: Annotated[
        int | None, typer.Option(help="Runs of each cell.", show_default=f"{SEEDS}; quick: {QUICK_SEEDS}", metavar="N")
    ] = None,
    messages: Annotated[
        int | None,
        typer.Option(help="Messages of each run.", show_default=f"{MESSAGES}; quick: {QUICK_MESSAGES}", metavar="N"),
    ] = None,
    master: Annotated[
        str, typer.Option(help="Spark's master; local[*] takes this machine's cores.", metavar="URL")
    ] = "local[*]",
    only: Annotated[
        list[str] | None, typer.Option(help="One figure of the paper, such as fig4; may be repeated.", metavar="NAME")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Seconds instead of minutes; rough numbers.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run a paper's evaluation again. Write a CSV, an SVG and a PNG for each figure, and what was met and missed."""
    from ledto.papers.report import Effort
    from ledto.papers.reproduce import PAPERS, UnusableFolder, reproduce

    if paper != "all" and paper not in PAPERS:
        raise typer.BadParameter(f"there are {', '.join(PAPERS)} and all, not {paper!r}", param_hint="PAPER")
    papers = list(PAPERS) if paper == "all" else [paper]
    figures = dict.fromkeys(figure for name in papers for figure in PAPERS[name])
    if unknown := [name for name in only or () if name not in figures]:
        raise typer.BadParameter(f"{paper} has {', '.join(figures)}, not {unknown[0]!r}", param_hint="--only")
    if paper == "all" and only:
        raise typer.BadParameter("figures of different papers share names: name the paper", param_hint="--only")
    effort = Effort(
        seeds=seeds if seeds is not None else QUICK_SEEDS if quick else SEEDS,
        messages=messages if messages is not None else QUICK_MESSAGES if quick else MESSAGES,
        quick=quick,
    )
    for name, value, least in (("--seeds", effort.seeds, 1), ("--messages", effort.messages, 2)):
        if not least <= value < 1 << 31:
            raise typer.BadParameter(f"from {least} to 2**31 - 1, not {value}", param_hint=name)
    check_master(master)
    started = time.monotonic()
    stderr = console(stderr=True)
    try:
        with quiet_interrupts():
            chapters = reproduce(
                papers,
                to,
                effort,
                only=frozenset(only or ()),
                run_tasks=lambda tasks: _run_on_spark(tasks, master, stderr),
            )
    except UnusableFolder as refused:
        raise typer.BadParameter(str(refused), param_hint="--to") from None
    except KeyboardInterrupt:
        say(f"Interrupted: nothing was written to {to}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except OSError as failure:
        say(explain_write_failure(to, failure), err=True)
        raise typer.Exit(1) from None
    from ledto.cli.documents import ReproducedChapter, ReproducedDocument

    found = {
        name: ReproducedChapter(
            title=chapter.title,
            met=sum(finding.verdict.met for finding in chapter.findings),
            statements=len(chapter.findings),
        )
        for name, chapter in chapters.items()
    }
    seconds = time.monotonic() - started
    if as_json:
        document = ReproducedDocument(report=str(to / "REPORT.md"), seconds=round(seconds, 3), papers=found)
        print_json(document.to_json())
        return
    for chapter in found.values():
        say(f"{chapter.title}: {chapter.met} of {format_count(chapter.statements, 'statement')} met")
    say(f"{to / 'REPORT.md'}")
    say(f"{seconds:.0f} seconds", err=True)


def _run_on_spark(tasks: Sequence[Task], master: str, stderr: Console) -> Sequence[Any]:
    if not tasks:
        return []
    from ledto.spark.sweep import sweep

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr, disable=not stderr.is_terminal) as progress:
        bar = progress.add_task("Starting Spark", total=len(tasks))
        with start_context(master) as context:
            progress.update(bar, description="Sweep")
            return sweep(context, tasks, on_progress=lambda done: progress.update(bar, completed=done))
