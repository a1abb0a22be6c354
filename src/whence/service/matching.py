"""Which deliveries a subscription is about, found in bounded time.

A condition comes from a subscriber and may take long, on purpose or not. Each one has a DuckDB connection of its own, is
tested on a few rows at a time, and is given up when it has used up its time: the others never wait for it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from threading import Lock, Timer
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from whence.history.errors import BadCondition
from whence.history.live.log import DELIVERED
from whence.history.questions.conditions import Condition, closed_connection

EVALUATION_S: Final = 5.0
"""For one condition on one step through the log; ordinary ones take a hundredth of that."""
PIECE_ROWS: Final = 2_048
PIECE_BYTES: Final = 64 << 10
"""DuckDB looks up from its work once for so many rows at the earliest, however long their texts are."""


class ConditionTooSlow(BadCondition):
    """A condition that takes more time than it is given."""


class Matcher:
    """Finds the rows of the log of deliveries that meet a condition, row by row: however the log is cut, the same ones.

    A row on which the condition fails does not meet it, so that no event can stop a subscription. Threads may share it.
    """

    def __init__(
        self,
        where: str,
        computation: str | None,
        connection: duckdb.DuckDBPyConnection,
        *,
        evaluation_s: float = EVALUATION_S,
    ) -> None:
        self._computation = computation
        self._evaluation_s = evaluation_s
        self._connection = connection
        self._lock = Lock()
        self._condition = Condition(where, DELIVERED, None, connection=connection, lenient=True)
        # What is wrong with a constant, such as a regular expression, shows only when it runs.
        self._condition.test(DELIVERED.empty_table().select(self._condition.columns))

    def unknown(self, attributes: Collection[str]) -> tuple[str, ...]:
        """The names in the condition that are neither columns nor attributes among these."""
        return self._condition.unknown(attributes)

    def matching(self, rows: pa.Table) -> list[dict[str, Any]]:
        """The rows that meet it, in order. Raises `ConditionTooSlow`."""
        if self._computation is not None:
            rows = rows.filter(pc.equal(rows["computation"], self._computation))
        if not len(rows):
            return []
        with self._lock:
            met = self._tested(rows.select(self._condition.columns))
        found: list[dict[str, Any]] = rows.filter(pa.array(met)).to_pylist()
        return found

    def _tested(self, rows: pa.Table) -> np.ndarray[Any, np.dtype[np.bool_]]:
        end_s = time.monotonic() + self._evaluation_s
        interrupting = Timer(self._evaluation_s, self._connection.interrupt)
        interrupting.daemon = True
        interrupting.start()
        found = []
        try:
            for piece in pieces_of(rows):
                found.append(self._condition.test(piece))
                if time.monotonic() > end_s:
                    raise self._too_slow()
        except BadCondition:
            # A lenient condition does not fail on what a row says: it was interrupted, or there is no memory for it.
            raise self._too_slow() from None
        finally:
            interrupting.cancel()
        return np.concatenate(found)

    def _too_slow(self) -> ConditionTooSlow:
        return ConditionTooSlow(
            f"the condition takes more than {self._evaluation_s:g} s for a step through the log: make it simpler"
        )


def pieces_of(rows: pa.Table) -> Iterator[pa.Table]:
    """The rows in pieces of `PIECE_ROWS` or of about `PIECE_BYTES` of text, whichever is less; at least a row each."""
    texts = [rows[name] for name in rows.column_names if kinds.is_string(rows.schema.field(name).type)]
    sizes = np.zeros(len(rows), np.int64)
    for column in texts:
        sizes += pc.fill_null(pc.binary_length(column), 0).to_numpy().astype(np.int64)
    upto = np.cumsum(sizes)
    start = 0
    while start < len(rows):
        before = int(upto[start - 1]) if start else 0
        stop = int(np.searchsorted(upto, before + PIECE_BYTES, side="right"))
        stop = min(max(stop, start + 1), start + PIECE_ROWS)
        yield rows.slice(start, stop - start)
        start = stop


class Matchers:
    """Makes matchers of one DuckDB, whose threads they would otherwise multiply. Threads may share it."""

    def __init__(self, *, evaluation_s: float = EVALUATION_S) -> None:
        self._connection = closed_connection()
        self._evaluation_s = evaluation_s
        self._lock = Lock()

    def matcher(self, where: str, *, computation: str | None = None) -> Matcher:
        """For this condition. Raises `BadCondition`."""
        with self._lock:
            own = self._connection.cursor()
        return Matcher(where, computation, own, evaluation_s=self._evaluation_s)
