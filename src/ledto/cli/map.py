"""``ledto map``: look at the first lines of a log, and draft a mapping for it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ledto.cli.history_options import JsonOption
from ledto.cli.output import escape_controls, print_json, replace_file, say, say_lines
from ledto.cli.words import format_count
from ledto.history.times import format_time

if TYPE_CHECKING:
    from ledto.sources.mapping.drafts import DraftedMapping

SHOWN_COLUMNS = ("process", "line", "kind", "sends", "receives", "name", "reason")
"""Columns of rows that are shown beside the time, if some row has them."""
MOST_SHOWN = 40
"""The most characters of a value in the table."""


def map(
    files: Annotated[
        list[str],
        typer.Argument(help="Files, folders or patterns. Of several formats, that of most files.", metavar="FILE"),
    ],
    to: Annotated[
        Path | None, typer.Option("--to", help="Write the mapping to this file.", metavar="FILE", show_default=False)
    ] = None,
    rows: Annotated[int, typer.Option(min=0, max=1_000, help="How many rows to show as they would come out.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Draft a mapping for a log in nobody's format, with a reason for each line, and show what comes out.

    Looks at the first thousands of lines only. The rows stand behind the mapping, as comments.

    Example: ledto map app.log --to app.toml
    """
    from ledto.sources.contract import SourceError
    from ledto.sources.mapping.drafts import UnfitDraft, draft_mapping

    try:
        drafted = draft_mapping(files, rows=rows)
    except UnfitDraft as unfit:
        say(unfit, err=True)
        raise typer.Exit(1) from None
    except SourceError as refused:
        say(refused, err=True)
        raise typer.Exit(2) from None
    toml = drafted.draft.to_toml()
    if to is not None:
        with replace_file(to) as file:
            file.write(toml.encode())
    if as_json:
        from ledto.cli.documents import MappedDocument

        document = MappedDocument(
            files=list(drafted.files),
            format=drafted.format,
            records=drafted.records,
            unread=drafted.unread,
            missing=list(drafted.draft.missing),
            mapping=toml,
            rows=list(drafted.rows),
            left_out=list(drafted.left_out),
        )
        print_json(document.to_json())
    else:
        show_draft(drafted, to)
    if drafted.draft.missing:
        raise typer.Exit(1)


def show_draft(drafted: DraftedMapping, place: Path | None = None, *, err: bool = False) -> None:
    """Print the mapping with its rows as comments, so that the output is a mapping, too; then, on stderr, what to do next.

    `place` is the file that has the mapping already.
    """
    toml = "" if place is not None else drafted.draft.to_toml()
    lines = [escape_controls(line) for line in (*toml.splitlines(), *_table(drafted))]
    if lines:
        say_lines("\n".join(lines), err=err)
    unread = f", {format_count(drafted.unread, 'record')} of them unreadable" if drafted.unread else ""
    say(f"drafted from {format_count(drafted.records, 'record')} in the format {drafted.format}{unread}", err=True)
    for sentence in drafted.left_out:
        say(f"left out: {sentence}", err=True)
    for sentence in drafted.draft.missing:
        say(f"missing: {sentence}", err=True)
    if not drafted.draft.missing:
        inputs = shlex.join(drafted.files[:3]) + (" ..." if len(drafted.files) > 3 else "")
        saved = shlex.quote(str(place or "mapping.toml"))
        first = "" if place is not None else f"save it as {saved}, "
        say(f"if that is right: {first}ledto observe {inputs} --mapping {saved} --to HISTORY", err=True)
    say("docs/sources/mapping.md says all that a mapping can say", err=True)


def show_draft_for(file: str) -> None:
    """Print, on stderr, the draft of a mapping for a file of an unknown format; nothing if none can be made."""
    from ledto.sources.contract import SourceError
    from ledto.sources.mapping.drafts import draft_mapping

    try:
        drafted = draft_mapping([file])
    except SourceError:
        return
    show_draft(drafted, err=True)


def _table(drafted: DraftedMapping) -> list[str]:
    """Lay out the rows as comments of the mapping."""
    if not drafted.rows:
        return []
    columns = [name for name in SHOWN_COLUMNS if any(name in row for row in drafted.rows)]
    cells = [["time", *columns]]
    cells += [[_show_time(row), *(_shorten(str(row.get(name, ""))) for name in columns)] for row in drafted.rows]
    widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
    shown = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return ["", "# The first rows, as they would come out:", *(f"#   {line}" for line in shown)]


def _shorten(text: str) -> str:
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 1] + "…"


def _show_time(row: dict[str, Any]) -> str:
    return format_time(row.get("time"), "ns")
