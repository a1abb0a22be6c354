"""Answer queries in SQL: a DuckDB database with the views of one run, and the rows that a query gives."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from threading import Lock
from typing import Any

import duckdb
import pyarrow as pa

from ledto.history.errors import BadQuery, DamagedHistory
from ledto.history.run import Run
from ledto.questions.answer import Answer, count
from ledto.questions.prepare import hint_for, prepare
from ledto.questions.sql import views_in, views_of

MOST_NAMED = 8
"""How many columns a summary names."""


class QueryResult(Answer):
    """The answer of `History.sql`: all rows, as an Arrow table in memory. Iterating gives a dict for each row."""

    __slots__ = ("_table",)

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        names: list[str] = self._table.column_names
        return names

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self._table.to_batches():
            yield from batch.to_pylist()

    def to_json(self) -> list[dict[str, Any]]:
        """List the JSON objects that `--json` prints: what JSON lacks is text, or None (`json_value`)."""
        # Arrow has no integers of more than 64 bits: larger ones are decimals without a fraction.
        whole = {field.name for field in self._table.schema if pa.types.is_decimal(field.type) and not field.type.scale}
        return [
            {
                name: int(value) if name in whole and value is not None else json_value(value)
                for name, value in row.items()
            }
            for row in self
        ]

    def to_arrow(self) -> pa.Table:
        """Give the table. Sums are 64-bit integers where they fit."""
        return self._table

    def summary(self) -> str:
        named = ", ".join(self.columns[:MOST_NAMED]) + (", ..." if len(self.columns) > MOST_NAMED else "")
        return f"{count(len(self), 'row')}: {named}"


class SqlDatabase:
    """A database in memory with the views of one run. Threads may share it."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._connection = duckdb.connect()
        self._made: set[str] = set()
        self._making = Lock()

    def ask(self, query: str) -> QueryResult:
        """Run a query, read as `ledto sql` reads it; raise `BadQuery` with DuckDB's words if it is refused."""
        try:
            with self._connection.cursor() as cursor:
                prepared = prepare(query, self._run, cursor)
            if not duckdb.extract_statements(prepared):
                raise BadQuery("the query is empty: write one, such as SELECT * FROM events")
            self._make_views(prepared)
            with self._connection.cursor() as cursor:
                relation = cursor.sql(prepared)
                return QueryResult(pa.table({}) if relation is None else _table_of(relation))
        except (duckdb.IOException, DamagedHistory):
            self._run.require_current()
            raise
        except duckdb.Error as refused:
            hint = hint_for(refused, self._run)
            raise BadQuery(f"{refused}\n{hint}" if hint else str(refused)) from None

    def _make_views(self, query: str) -> None:
        """Make the views that a query names, and that are not there yet. Verifies the files behind them."""
        with self._making:
            wanted = [name for name in views_in(query) if name not in self._made]
            if wanted:
                self._connection.execute(views_of(self._run, only=wanted))
                self._made.update(wanted)


def _table_of(relation: duckdb.DuckDBPyRelation) -> pa.Table:
    """Read all rows. Sums of integers have 128 bits, which Arrow has as decimals: make integers of those that fit."""
    table = relation.to_arrow_table()
    table = table.rename_columns(different_names(table.column_names))
    for place, kind in enumerate(relation.types):
        if str(kind) == "HUGEINT":
            try:
                column = table.column(place).cast(pa.int64())
            except pa.ArrowInvalid:
                continue
            table = table.set_column(place, table.column_names[place], column)
    return table


def different_names(columns: list[str]) -> list[str]:
    """Number columns of the same name, as in ``count``, ``count_2``: JSON and polars have each name only once."""
    names: list[str] = []
    for column in columns:
        name, number = column, 1
        while name in names or (number > 1 and name in columns):
            number += 1
            name = f"{column}_{number}"
        names.append(name)
    return names


def json_value(value: object) -> object:
    """Replace what JSON lacks: NaN and infinities by None, bytes by their text in base64, all other values by their text."""
    match value:
        case float() if not math.isfinite(value):
            return None
        case bytes():
            return base64.b64encode(value).decode()
        case dict():
            return {str(key): json_value(part) for key, part in value.items()}
        case list() | tuple():
            return [json_value(part) for part in value]
        case None | bool() | int() | float() | str():
            return value
    return str(value)
