"""``ledto order`` and ``ledto sql``: write whole tables of a history."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ledto.cli.history_options import HistoryArgument, JsonOption, open_or_exit
from ledto.cli.output import json_text, open_stdout_for_data, print_json, replace_file, say, say_lines
from ledto.cli.render import print_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from ledto.questions.history import History

FORMATS = ("jsonl", "csv", "parquet")
MOST_SHOWN = 1_000
"""The most rows of a table for people; JSON has all."""


def order(
    history: HistoryArgument,
    policy: Annotated[str | None, typer.Option(help="List them as this policy delivers them.", metavar="NAME")] = None,
    form: Annotated[str, typer.Option("--format", help="jsonl, csv or parquet.", metavar="NAME")] = "jsonl",
    to: Annotated[Path | None, typer.Option(help="The file to write.", show_default="stdout", metavar="FILE")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format jsonl.")] = False,
) -> None:
    """List all events, causes before effects.

    With --policy, list them as that policy delivers them. Never holds all in memory.

    Example: ledto order shop.history --format csv | head
    """
    if form not in FORMATS:
        raise typer.BadParameter(f"{', '.join(FORMATS)}, not {form!r}", param_hint="--format")
    if as_json and form != "jsonl":
        raise typer.BadParameter(f"--json is --format jsonl, not {form}", param_hint="--json")
    if form == "parquet" and to is None:
        raise typer.BadParameter("Parquet is written to a file: name it with --to", param_hint="--format")
    with open_or_exit(history) as opened:
        if to is None:
            _write(opened, policy, form, open_stdout_for_data())
            return
        with replace_file(to) as file:
            _write(opened, policy, form, file)


def _write(history: History, policy: str | None, form: str, file: Any) -> None:
    if form == "jsonl":
        for line in _lines(history, policy):
            file.write(line)
        return
    import pyarrow as pa
    from pyarrow import csv, parquet

    tables = history.order_tables(policy=policy)
    first = next(tables, None)
    if first is None:
        first = history.run.event_schema().empty_table()
    first = _plain(first, as_text=form == "csv")
    sink = pa.PythonFile(file, mode="w")
    if form == "csv":
        writer = csv.CSVWriter(sink, first.schema)
    else:
        writer = parquet.ParquetWriter(sink, first.schema, compression="zstd")
    with writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(_plain(table, as_text=form == "csv").cast(first.schema))


def _lines(history: History, policy: str | None) -> Iterator[bytes]:
    from ledto.questions.order import order_documents

    for document in order_documents(history.run, policy=policy):
        yield json_text(document).encode() + b"\n"


def _plain(table: pa.Table, *, as_text: bool) -> pa.Table:
    """Decode dictionaries and complete ids. With `as_text`, encode lists and structures as JSON, for CSV."""
    import pyarrow as pa

    from ledto.questions.order import plain_table

    table = plain_table(table)
    columns: list[pa.ChunkedArray] = []
    for column in table.columns:
        if as_text and pa.types.is_nested(column.type):
            column = pa.chunked_array(
                [[None if value is None else json.dumps(value, default=str) for value in column.to_pylist()]],
                pa.string(),
            )
        columns.append(column)
    return pa.table(columns, names=table.column_names)


def sql(
    history: HistoryArgument,
    query: Annotated[
        str | None, typer.Argument(help="A query; without one, the views are printed.", metavar="QUERY")
    ] = None,
    dialect: Annotated[str, typer.Option(help="Dialect of the views: duckdb or spark.", metavar="NAME")] = "duckdb",
    as_json: JsonOption = False,
) -> None:
    """Query a history with DuckDB.

    The views are events, causes, deliveries, quarantine and processes; attributes are columns of events.
    Without a query, the statements that make the views are printed, to query the history elsewhere.

    Example: ledto sql shop.history "SELECT process, count(*) FROM events GROUP BY process"
    """
    import duckdb

    from ledto.history.store import NoSpace
    from ledto.questions.prepare import hint_for, prepare
    from ledto.questions.query import different_names, json_value
    from ledto.questions.sql import DIALECTS, views, views_in

    if dialect not in DIALECTS:
        raise typer.BadParameter(f"{' or '.join(DIALECTS)}, not {dialect!r}", param_hint="--dialect")
    if query is not None and dialect != "duckdb":
        raise typer.BadParameter("queries run on DuckDB: print the views and run them in Spark", param_hint="--dialect")
    with open_or_exit(history) as opened:
        if query is None:
            open_stdout_for_data().write(f"{views(history, dialect=dialect)}\n".encode())
            return
        try:
            with duckdb.connect() as connection:
                prepared = prepare(query, opened.run, connection)
                if not duckdb.extract_statements(prepared):
                    raise typer.BadParameter(
                        "the query is empty: write one, such as 'SELECT * FROM events', or leave it out to see the views",
                        param_hint="QUERY",
                    )
                connection.execute(views(history, only=views_in(prepared)))
                result = connection.execute(prepared)
                columns = [column[0] for column in result.description or ()]
                rows = result.fetchall() if as_json else result.fetchmany(MOST_SHOWN + 1)
        except duckdb.Error as refused:
            if "No space left on device" in str(refused):
                raise NoSpace(f"the disk of DuckDB's temporary files, {Path('.tmp').resolve()}") from None
            say_lines(refused, err=True)
            if hint := hint_for(refused, opened.run):
                say(hint, err=True)
            raise typer.Exit(2) from None
        if as_json:
            keys = different_names(columns)
            print_json([json_value(dict(zip(keys, row, strict=True))) for row in rows])
            return
        print_rows(columns, rows[:MOST_SHOWN])
        if len(rows) > MOST_SHOWN:
            say(f"and more: these are the first {MOST_SHOWN:,}; --json gives all")
