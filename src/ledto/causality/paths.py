"""Find the path from one event to another with the fewest steps that are possible and not recorded."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ledto.causality.lines import NONE, referred_row, refers_to_list, row_reference
from ledto.causality.recorded_past import NO_REST, RecordedCauses
from ledto.causality.skeleton import Ints, Longs, Skeleton
from ledto.kernels import kernel

UNREACHED = int(np.iinfo(np.int32).max)
"""In place of a number of steps: no path leads here."""


class FewestGuesses:
    """A search forward from one event to another, over all events between them: part by part, oldest first, no gaps.

    For each event it keeps the fewest unrecorded steps of a path to it, and the event before it on such a path. Rows are
    counted from the first event. Each takes 24 bytes.
    """

    def __init__(self, processes: int, first_position: int, last_position: int) -> None:
        self._base = first_position
        rows = last_position - first_position + 1
        self._guesses: Ints = np.full(rows, UNREACHED, np.int32)
        self._before: Longs = np.full(rows, NONE, np.int64)
        # By list of a row: the fewest over all that it holds, and which row has that.
        self._list_guesses: Ints = np.full(rows, UNREACHED, np.int32)
        self._list_row: Longs = np.full(rows, NONE, np.int64)
        # By process: the fewest over all of its rows so far, and which row has that.
        self._least: Ints = np.full(processes, UNREACHED, np.int32)
        self._least_row: Longs = np.full(processes, NONE, np.int64)

    @property
    def first_position(self) -> int:
        """The position of the first event."""
        return self._base

    @property
    def guesses(self) -> Ints:
        """By row from the first event on: the fewest unrecorded steps; `UNREACHED` where no path leads."""
        return self._guesses

    def step(
        self,
        skeleton: Skeleton,
        recorded: RecordedCauses,
        first_position: int,
        codes: Longs,
        edges: tuple[Longs, Longs, NDArray[np.bool_]],
    ) -> None:
        """Go on over the next rows; `codes` are their processes.

        `edges` are causes before the segment: rows of the part, ascending; references, but to positions instead of rows;
        and whether each cause is recorded.
        """
        row, reference, is_recorded = edges
        _fewest(
            np.ascontiguousarray(codes, np.int64), skeleton.offsets, skeleton.back, recorded.offsets, recorded.back,
            recorded.rest, first_position - self._base, np.ascontiguousarray(row, np.int64),
            np.ascontiguousarray(reference, np.int64) - row_reference(self._base),
            np.ascontiguousarray(is_recorded, np.bool_),
            self._guesses, self._before, self._list_guesses, self._list_row, self._least, self._least_row,
        )  # fmt: skip

    def path(self) -> list[tuple[int, int, bool]] | None:
        """List the steps from the first event to the last: cause, effect, whether recorded. None if there is no path."""
        row = len(self._guesses) - 1
        if self._guesses[row] == UNREACHED:
            return None
        steps: list[tuple[int, int, bool]] = []
        while row > 0:
            cause = int(self._before[row])
            steps.append((self._base + cause, self._base + row, bool(self._guesses[cause] == self._guesses[row])))
            row = cause
        return steps[::-1]


@kernel(
    "void(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64, int64[::1], int64[::1], "
    "boolean[::1], int32[::1], int64[::1], int32[::1], int64[::1], int32[::1], int64[::1])"
)
def _fewest(
    codes: Longs,
    offsets: Longs,
    back: Longs,
    recorded_offsets: Longs,
    recorded_back: Longs,
    rest: Longs,
    first: int,
    edge_row: Longs,
    edge_reference: Longs,
    edge_recorded: NDArray[np.bool_],
    guesses: Ints,
    before: Longs,
    list_guesses: Ints,
    list_row: Longs,
    least: Ints,
    least_row: Longs,
) -> None:
    """Fill in the rows from ``first`` on. The skeleton has all possible causes of a row, and so the recorded ones, too."""
    edge = 0
    for row in range(len(codes)):
        at, own = first + row, codes[row]
        best, through = np.int32(UNREACHED), np.int64(NONE)
        if at == 0:
            best = np.int32(0)
        for entry in range(recorded_offsets[row], recorded_offsets[row + 1]):
            reference = row_reference(at) - recorded_back[entry]
            if reference < 0:
                continue
            cause = referred_row(reference)
            if refers_to_list(reference):
                if list_guesses[cause] < best:
                    best, through = list_guesses[cause], list_row[cause]
            elif guesses[cause] < best:
                best, through = guesses[cause], cause
        for entry in range(offsets[row], offsets[row + 1]):
            cause = at - back[entry]
            if cause >= 0 and guesses[cause] != UNREACHED and guesses[cause] + 1 < best:
                best, through = np.int32(guesses[cause] + 1), cause
        while edge < len(edge_row) and edge_row[edge] == row:
            reference = edge_reference[edge]
            if reference >= 0:
                cause = referred_row(reference)
                fewest = guesses[cause]
                if refers_to_list(reference):
                    cause, fewest = list_row[cause], list_guesses[cause]
                step = 0 if edge_recorded[edge] else 1
                if fewest != UNREACHED and fewest + step < best:
                    best, through = np.int32(fewest + step), cause
            edge += 1
        if least[own] != UNREACHED and least[own] + 1 < best:
            best, through = np.int32(least[own] + 1), least_row[own]
        guesses[at], before[at] = best, through
        list_guesses[at], list_row[at] = best, at
        reference = row_reference(at) - rest[row]
        if rest[row] > NO_REST and reference >= 0:
            cause = referred_row(reference)
            fewest = guesses[cause]
            if refers_to_list(reference):
                cause, fewest = list_row[cause], list_guesses[cause]
            if fewest < best:
                list_guesses[at], list_row[at] = fewest, cause
        if best != UNREACHED and best <= least[own]:
            least[own], least_row[own] = best, at
