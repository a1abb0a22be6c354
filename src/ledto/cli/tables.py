"""``ledto order`` and ``ledto sql``: whole tables out of a history."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ledto.cli.history_options import HistoryOption, JsonOption, asking
from ledto.cli.output import data_to_stdout, json_text, not_written, print_json, say, say_lines
from ledto.cli.render import print_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from ledto.questions.history import History


from typing import TYPE_CHECKING

from ledto.cli.wording import counted
from ledto.durations import show_duration

if TYPE_CHECKING:
    from rich.table import Table


def ledger_lines(ledger: dict[str, Any]) -> list[str]:
    """What became of the reports, and why those that were quarantined were."""
    counts = {name: ledger.get(name, 0) for name in ("reports", "delivered", "duplicate", "quarantined")}
    _, *outcomes = (f"{count:,} {name}" for name, count in counts.items())
    lines = [f"{counted(counts['reports'], 'report')} in = {' + '.join(outcomes)}"]
    lines += [f"  {count:,} {code}" for code, count in ledger.get("reasons", {}).items()]
    if missing := ledger.get("missing_causes"):
        name = "event names" if missing == 1 else "events name"
        lines.append(f"  {missing:,} delivered {name} a cause that nobody reported")
    return lines


def channel_lines(channels: dict[str, int]) -> list[str]:
    """How sends and receives without names of messages were matched; nothing where there are none."""
    if not any(channels.values()):
        return []
    counts = {
        name.replace("_", " "): channels.get(name, 0) for name in ("matched", "unmatched_receives", "unmatched_sends")
    }
    shown = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    doubts = {
        name.partition("_")[2]: count for name, count in channels.items() if name.startswith("ambiguous_") and count
    }
    why = f" ({', '.join(f'{count:,} {name}' for name, count in doubts.items())})" if doubts else ""
    left_out = channels.get("left_out", 0)
    unknown = f", of which {left_out:,} follow no send, for it would be a guess" if left_out else ""
    return [f"channels: {shown}; {channels.get('ambiguous', 0):,} ambiguous{why}{unknown}"]


def orders_table(wall_clock: dict[str, Any], policies: dict[str, Any], unit: str) -> Table:
    """Plain wall-clock order and each policy of delivery, from a manifest's entries of these names."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(
        title="Wrong in each order, and how long it waits",
        title_justify="left",
        caption="messages received before they were sent; events before one of their causes; pairs of cause and effect",
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("order", no_wrap=True)
    for name in ("messages", "events", "pairs", "p50", "p99", "longest", "late"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row("wall clock", *_counts(wall_clock.get("violations", {})), "", "", "", "")
    for name, found in policies.items():
        waits = [_wait(found.get("delays", {}), which, unit) for which in ("p50", "p99", "max")]
        table.add_row(name, *_counts(found.get("violations", {})), *waits, f"{found.get('late', 0):,}")
    return table


def _counts(violations: dict[str, Any]) -> tuple[str, ...]:
    if violations.get("events") == 0:
        return ("no times",) * 3
    return tuple(_number(violations.get(name)) for name in ("messages_inverted", "before_cause", "pairs"))


def _number(value: int | None) -> str:
    return "not known" if value is None else f"{value:,}"


def _wait(delays: dict[str, Any], which: str, unit: str) -> str:
    value = delays.get(which)
    return "" if value is None else show_duration(int(value), unit)


FORMATS = ("jsonl", "csv", "parquet")
MOST_SHOWN = 1_000
"""Rows that a table for people has; JSON has all."""


def order(
    history: HistoryOption,
    policy: Annotated[str | None, typer.Option(help="In the order of this policy's deliveries.")] = None,
    form: Annotated[str, typer.Option("--format", help="jsonl, csv or parquet.")] = "jsonl",
    to: Annotated[Path | None, typer.Option(help="A file; stdout without it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format jsonl.")] = False,
) -> None:
    """All events in an order in which causes come before effects, or as a policy delivers them; never all in memory.

    Example: ledto order --history shop.history --format csv | head
    """
    if form not in FORMATS:
        raise typer.BadParameter(f"{', '.join(FORMATS)}, not {form!r}", param_hint="--format")
    if as_json and form != "jsonl":
        raise typer.BadParameter(f"--json is --format jsonl, not {form}", param_hint="--json")
    if form == "parquet" and to is None:
        raise typer.BadParameter("Parquet is written to a file: name it with --to", param_hint="--format")
    with asking(history) as asked:
        if to is None:
            _write(asked, policy, form, data_to_stdout())
            return
        # Complete under its name, or not there.
        unfinished = to.with_name(f".{to.name}.{os.getpid()}")
        try:
            with unfinished.open("wb") as file:
                _write(asked, policy, form, file)
            unfinished.replace(to)
        except OSError as failure:
            say(not_written(to, failure), err=True)
            raise typer.Exit(1) from None
        finally:
            unfinished.unlink(missing_ok=True)


def _write(asked: History, policy: str | None, form: str, file: Any) -> None:
    if form == "jsonl":
        for line in _lines(asked, policy):
            file.write(line)
        return
    import pyarrow as pa
    from pyarrow import csv, parquet

    tables = asked.order_tables(policy=policy)
    first = next(tables, None)
    if first is None:
        first = asked.run.event_schema().empty_table()
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


def _lines(asked: History, policy: str | None) -> Iterator[bytes]:
    from ledto.questions.order import order_documents

    for document in order_documents(asked.run, policy=policy):
        yield json_text(document).encode() + b"\n"


def _plain(table: pa.Table, *, as_text: bool) -> pa.Table:
    """Without dictionaries, with every id, and for CSV without lists and structures, which become JSON."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if {"id", "process", "seq"} <= {*table.column_names}:
        process, seq = table["process"].cast(pa.string()), table["seq"].cast(pa.string())
        ids = pc.coalesce(table["id"], pc.binary_join_element_wise(process, seq, ":"))
        table = table.set_column(table.column_names.index("id"), "id", ids)
    columns: list[pa.ChunkedArray] = []
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if as_text and pa.types.is_nested(column.type):
            column = pa.chunked_array(
                [[None if value is None else json.dumps(value, default=str) for value in column.to_pylist()]],
                pa.string(),
            )
        columns.append(column)
    return pa.table(columns, names=table.column_names)


def sql(
    history: HistoryOption,
    query: Annotated[str | None, typer.Argument(help="A query; without it the views are printed.")] = None,
    dialect: Annotated[str, typer.Option(help="Of the views: duckdb or spark.")] = "duckdb",
    as_json: JsonOption = False,
) -> None:
    """Query a history with DuckDB, or print the views to query it with elsewhere.

    The views are events, causes, deliveries, quarantine and processes; attributes are columns of events.
    Example: ledto sql "SELECT process, count(*) FROM events GROUP BY process" --history shop.history
    """
    import duckdb

    from ledto.history.store import NoSpace
    from ledto.questions.sql import DIALECTS, connect, views, views_in

    if dialect not in DIALECTS:
        raise typer.BadParameter(f"{' or '.join(DIALECTS)}, not {dialect!r}", param_hint="--dialect")
    if query is not None and dialect != "duckdb":
        raise typer.BadParameter("queries run on DuckDB: print the views and run them in Spark", param_hint="--dialect")
    with asking(history):
        if query is None:
            data_to_stdout().write(f"{views(history, dialect=dialect)}\n".encode())
            return
        try:
            with connect(history, only=views_in(query)) as connection:
                found = connection.execute(query)
                columns = [column[0] for column in found.description or ()]
                rows = found.fetchall() if as_json else found.fetchmany(MOST_SHOWN + 1)
        except duckdb.Error as refused:
            if "No space left on device" in str(refused):
                raise NoSpace(f"the disk of DuckDB's temporary files, {Path('.tmp').resolve()}") from None
            say_lines(refused, err=True)
            raise typer.Exit(2) from None
        if as_json:
            records = [dict(zip(columns, row, strict=True)) for row in rows]
            print_json(records, default=str)
            return
        print_rows(columns, rows[:MOST_SHOWN])
        if len(rows) > MOST_SHOWN:
            say(f"and more: these are the first {MOST_SHOWN:,}; --json gives all")
