"""The last net: a micro-batch that cannot be committed is looked through for the reports that are to blame.

Whatever a report says, it must not stop the stream for everybody. So where a step fails, it is tried again, with fewer
reports each time and without committing anything, until the ones that make it fail are known. These are set aside with
the reason, and all others are committed with them, in one commit: whoever is killed in between begins again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ledto.history.errors import HistoryError
from ledto.live.writer import LiveWriter

Flags = NDArray[np.bool_]

log = logging.getLogger("ledto.history")

CODE = "unplaceable"
MOST_TRIALS = 200
"""After so many, what is left of the groups that are to blame goes as a whole. One report in a million takes 40."""


def blames_reports(fault: BaseException) -> bool:
    """Whether what a step raised may be because of what its reports say: not the disk, the memory or an interrupt."""
    return isinstance(fault, Exception) and not isinstance(fault, OSError | MemoryError | HistoryError)


def rescue(
    reopen: Callable[[], LiveWriter], rows: pa.Table, *, now: int, positions: Mapping[str, int], fault: Exception
) -> LiveWriter:
    """Commit these rows, which made a step fail, as far as they can be; gives the writer that did.

    `reopen` makes a writer that goes on from the last commit; the one that failed is closed. Raises what the step raises
    if no report is to blame, or if something else goes wrong meanwhile.
    """
    search = _CulpritSearch(reopen, rows, now, positions)
    blamed = search.none()
    if not search.succeeds(blamed):
        if not search.succeeds(~blamed):
            raise fault
        blamed = search.to_blame(~blamed, blamed)
    writer = reopen()
    try:
        search.step(writer, blamed, commit=True)
    except BaseException:
        writer.close()
        raise
    if search.fault is not None:
        log.error(
            "%d reports could not be placed and were set aside as %s: %s: %s",
            int(blamed.sum()),
            CODE,
            type(search.fault).__name__,
            search.fault,
        )
    else:
        log.warning("a step that failed succeeds now: %s: %s", type(fault).__name__, fault)
    return writer


class _CulpritSearch:
    """Looks for the reports to blame among those of the tail and the new ones, which are numbered in this order."""

    def __init__(
        self, reopen: Callable[[], LiveWriter], rows: pa.Table, now: int, positions: Mapping[str, int]
    ) -> None:
        self._reopen, self._rows, self._now, self._positions = reopen, rows, now, positions
        writer = reopen()
        self._waiting = writer.tail_rows
        writer.close()
        self._left = MOST_TRIALS
        self.fault: Exception | None = None
        """What was last raised because of reports."""

    def none(self) -> Flags:
        """No report."""
        return np.zeros(self._waiting + len(self._rows), np.bool_)

    def succeeds(self, left_out: Flags) -> bool:
        """Whether a step succeeds without these."""
        self._left -= 1
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
        """Take the rows, of which those left out are set aside."""
        reason = f"{CODE}: {type(self.fault).__name__}: {self.fault!s:.200}"
        writer.give_up(left_out[: self._waiting], reason)
        rows = _refused(self._rows, left_out[self._waiting :], reason)
        writer.step(rows, now=self._now, positions=self._positions, commit=commit)

    def to_blame(self, suspects: Flags, left_out: Flags) -> Flags:
        """Few of the suspects, without whom a step succeeds that leaves out others, too.

        Without all suspects it does succeed.
        """
        places = np.flatnonzero(suspects)
        if len(places) < 2 or self._left <= 0:
            return suspects
        halves = []
        for chosen in (places[: len(places) // 2], places[len(places) // 2 :]):
            half = self.none()
            half[chosen] = True
            halves.append(half)
        for half in halves:
            if self.succeeds(left_out | half):
                return self.to_blame(half, left_out)
        first = self.to_blame(halves[0], left_out | halves[1])
        return first | self.to_blame(halves[1], left_out | first)


def _refused(rows: pa.Table, left_out: Flags, reason: str) -> pa.Table:
    """The rows, of which those left out have a reason why."""
    if not left_out.any():
        return rows
    at = rows.column_names.index("reason")
    told = zip(left_out.tolist(), rows["reason"].to_pylist(), strict=True)
    reasons = [reason if out and given is None else given for out, given in told]
    return rows.set_column(at, "reason", pa.array(reasons, pa.string()))
