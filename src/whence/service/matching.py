"""Which deliveries a subscription is about."""

from __future__ import annotations

from threading import Lock
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from whence.history.live.log import DELIVERED
from whence.history.questions.conditions import Condition, closed_connection


class Matcher:
    """Finds the rows of the log of deliveries that meet a condition, row by row: however the log is cut, the same ones.

    A row on which the condition fails does not meet it, so that no event can stop a subscription.
    """

    def __init__(self, where: str, computation: str | None, connection: duckdb.DuckDBPyConnection, lock: Lock) -> None:
        self._computation = computation
        self._lock = lock
        with lock:
            self._condition = Condition(where, DELIVERED, None, connection=connection, lenient=True)
            # What is wrong with a constant, such as a regular expression, shows only when it runs.
            self._condition.test(DELIVERED.empty_table().select(self._condition.columns))

    def matching(self, rows: pa.Table) -> list[dict[str, Any]]:
        """The rows that meet it, in order."""
        if self._computation is not None:
            rows = rows.filter(pc.equal(rows["computation"], self._computation))
        if not len(rows):
            return []
        with self._lock:
            met = self._condition.test(rows.select(self._condition.columns))
        found: list[dict[str, Any]] = rows.filter(pa.array(met)).to_pylist()
        return found


class Matchers:
    """Makes matchers that share one DuckDB, whose threads they would otherwise multiply. Threads may share it."""

    def __init__(self) -> None:
        self._connection = closed_connection()
        self._lock = Lock()

    def matcher(self, where: str, *, computation: str | None = None) -> Matcher:
        """For this condition. Raises `BadCondition`."""
        return Matcher(where, computation, self._connection, self._lock)
