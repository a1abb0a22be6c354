"""Find the deliveries that meet a subscription's condition, in bounded time.

A condition comes from a subscriber and may take long, on purpose or not. Each one has its own DuckDB connection, is
tested on a few rows at a time, and is abandoned when its time is over. Others never wait for it.
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

from ledto.history.errors import BadCondition
from ledto.live.delivery_log import DELIVERED
from ledto.questions.syntax import closed_connection
from ledto.questions.where import Condition

EVALUATION_S: Final = 5.0
"""The longest time for one condition on one page of the log. Ordinary conditions take a hundredth of that."""
PIECE_ROWS: Final = 2_048
"""The most rows that are tested at once. DuckDB can be interrupted only after so many rows, however long their texts are."""
PIECE_BYTES: Final = 64 << 10
"""The most text that is tested at once, unless one row has more."""


class ConditionTooSlow(BadCondition):
    """A condition takes longer than it may."""


class Matcher:
    """Finds the rows of the delivery log that meet a condition. May be used from several threads.

    Each row is tested alone, so the result does not depend on how the log is cut. A row on which the condition fails does
    not meet it, so no event can stop a subscription.
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
        # A bad constant, such as a regular expression, shows only when the condition runs.
        self._condition.test(DELIVERED.empty_table().select(self._condition.columns))

    def unknown(self, attributes: Collection[str]) -> tuple[str, ...]:
        """List the names in the condition that are neither columns nor among these attributes."""
        return self._condition.unknown(attributes)

    def select(self, rows: pa.Table) -> list[dict[str, Any]]:
        """Return the rows that meet the condition, in order. Raises `ConditionTooSlow`."""
        if self._computation is not None:
            rows = rows.filter(pc.equal(rows["computation"], self._computation))
        if not len(rows):
            return []
        with self._lock:
            mask = self._test(rows.select(self._condition.columns))
        matching: list[dict[str, Any]] = rows.filter(pa.array(mask)).to_pylist()
        return matching

    def _test(self, rows: pa.Table) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return for each row whether it meets the condition."""
        end_s = time.monotonic() + self._evaluation_s
        timer = Timer(self._evaluation_s, self._connection.interrupt)
        timer.daemon = True
        timer.start()
        masks = []
        try:
            for piece in cut_into_pieces(rows):
                masks.append(self._condition.test(piece))
                if time.monotonic() > end_s:
                    raise self._too_slow()
        except BadCondition:
            # A lenient condition never fails because of a row: it was interrupted, or there is too little memory.
            raise self._too_slow() from None
        finally:
            timer.cancel()
        return np.concatenate(masks)

    def _too_slow(self) -> ConditionTooSlow:
        return ConditionTooSlow(
            f"the condition takes more than {self._evaluation_s:g} s for a page of the log: make it simpler"
        )


def cut_into_pieces(rows: pa.Table) -> Iterator[pa.Table]:
    """Cut rows into pieces of up to `PIECE_ROWS` rows and `PIECE_BYTES` of text; each has at least one row."""
    texts = [rows[name] for name in rows.column_names if kinds.is_string(rows.schema.field(name).type)]
    sizes = np.zeros(len(rows), np.int64)
    for column in texts:
        sizes += pc.fill_null(pc.binary_length(column), 0).to_numpy().astype(np.int64)
    total = np.cumsum(sizes)
    start = 0
    while start < len(rows):
        before = int(total[start - 1]) if start else 0
        stop = int(np.searchsorted(total, before + PIECE_BYTES, side="right"))
        stop = min(max(stop, start + 1), start + PIECE_ROWS)
        yield rows.slice(start, stop - start)
        start = stop


class Matchers:
    """Makes matchers that share one DuckDB, and so its threads. May be used from several threads."""

    def __init__(self, *, evaluation_s: float = EVALUATION_S) -> None:
        self._connection = closed_connection()
        self._evaluation_s = evaluation_s
        self._lock = Lock()

    def make(self, where: str, *, computation: str | None = None) -> Matcher:
        """Make a matcher for a condition. Raises `BadCondition`."""
        with self._lock:
            cursor = self._connection.cursor()
        return Matcher(where, computation, cursor, evaluation_s=self._evaluation_s)
