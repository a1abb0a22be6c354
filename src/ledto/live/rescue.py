"""Save a micro-batch that cannot be committed: find the reports to blame, quarantine them, and commit the others.

No report may stop the stream for everybody, whatever it says. A step that failed is tried again with fewer reports,
without committing, until those that make it fail are known. They are quarantined in the one commit that takes the
others, so a kill in between loses nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ledto.history.errors import HistoryError
from ledto.history.store import StorageError
from ledto.live.writer import LiveWriter

Flags = NDArray[np.bool_]

log = logging.getLogger("ledto.history")

CODE = "unplaceable"
"""The reason's code."""
MOST_TRIALS = 200
"""After this many trials, the groups still suspected are quarantined whole. One report in a million takes 40 trials."""


def blames_reports(fault: BaseException) -> bool:
    """Tell whether a step may have failed because of its reports: not because of the disk, memory or an interrupt."""
    return isinstance(fault, Exception) and not isinstance(fault, OSError | MemoryError | HistoryError | StorageError)


def rescue(
    reopen: Callable[[], LiveWriter], rows: pa.Table, *, now: int, positions: Mapping[str, int], fault: Exception
) -> LiveWriter:
    """Commit as many as possible of the rows that made a step fail; return the writer that did.

    `reopen` makes a writer that goes on from the last commit; the one that failed must be closed. Raises `fault` if no
    report is to blame, and what the step raises if something else goes wrong meanwhile.
    """
    search = _CulpritSearch(reopen, rows, now, positions)
    blamed = search.none()
    if not search.succeeds(blamed):
        if not search.succeeds(~blamed):
            raise fault
        blamed = search.find_culprits(~blamed, blamed)
    writer = reopen()
    try:
        search.step(writer, blamed, commit=True)
    except BaseException:
        writer.close()
        raise
    if search.fault is not None:
        log.error(
            "%d reports could not be placed and were quarantined as %s: %s: %s",
            int(blamed.sum()),
            CODE,
            type(search.fault).__name__,
            search.fault,
        )
    else:
        log.warning("a step that failed succeeds now: %s: %s", type(fault).__name__, fault)
    return writer


class _CulpritSearch:
    """Searches for the reports to blame. Flags have the rows of the tail first, then the new ones."""

    def __init__(
        self, reopen: Callable[[], LiveWriter], rows: pa.Table, now: int, positions: Mapping[str, int]
    ) -> None:
        self._reopen, self._rows, self._now, self._positions = reopen, rows, now, positions
        writer = reopen()
        self._waiting = writer.tail_rows
        writer.close()
        self._trials_left = MOST_TRIALS
        self.fault: Exception | None = None
        """What was last raised because of reports."""

    def none(self) -> Flags:
        """Make flags that choose no report."""
        return np.zeros(self._waiting + len(self._rows), np.bool_)

    def succeeds(self, left_out: Flags) -> bool:
        """Try a step that quarantines these reports; tell whether it succeeds."""
        self._trials_left -= 1
        writer = self._reopen()
        try:
            self.step(writer, left_out, commit=False)
        except Exception as fault:
            if not blames_reports(fault):
                raise
            self.fault = fault
            return False
        finally:
            writer.close()
        return True

    def step(self, writer: LiveWriter, left_out: Flags, *, commit: bool) -> None:
        """Take the rows, and quarantine those left out."""
        reason = f"{CODE}: {type(self.fault).__name__}: {self.fault!s:.200}"
        writer.quarantine_tail(left_out[: self._waiting], reason)
        rows = _with_reason(self._rows, left_out[self._waiting :], reason)
        writer.step(rows, now=self._now, positions=self._positions, commit=commit)

    def find_culprits(self, suspects: Flags, left_out: Flags) -> Flags:
        """Find few of the suspects whose quarantine, with that of `left_out`, makes a step succeed.

        Quarantining all suspects must make it succeed.
        """
        places = np.flatnonzero(suspects)
        if len(places) < 2 or self._trials_left <= 0:
            return suspects
        halves = []
        for chosen in (places[: len(places) // 2], places[len(places) // 2 :]):
            half = self.none()
            half[chosen] = True
            halves.append(half)
        for half in halves:
            if self.succeeds(left_out | half):
                return self.find_culprits(half, left_out)
        first = self.find_culprits(halves[0], left_out | halves[1])
        return first | self.find_culprits(halves[1], left_out | first)


def _with_reason(rows: pa.Table, left_out: Flags, reason: str) -> pa.Table:
    """Give the rows left out a reason, so that they are quarantined."""
    if not left_out.any():
        return rows
    at = rows.column_names.index("reason")
    old = zip(left_out.tolist(), rows["reason"].to_pylist(), strict=True)
    reasons = [reason if is_left_out and old_reason is None else old_reason for is_left_out, old_reason in old]
    return rows.set_column(at, "reason", pa.array(reasons, pa.string()))
