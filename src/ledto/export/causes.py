"""Find the causes of exported events from their vector clocks, if other events are left out.

Messages to and from events that are left out are not exported, but paths over them must stay. So the causes of an event
are those that its clock names: the last exported event of each other process that happened before it, unless the event
before it in its own process knew of it. Two exported events are ordered exactly if a path over these causes and the order
within processes joins them.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import groupby

import numpy as np

from ledto.causality.skeleton import Ints, Longs
from ledto.export.selection import Selection
from ledto.history.run import Run
from ledto.questions.relation import positions_of

REMEMBERED_NUMBERS = 4_000_000
"""Numbers of vectors in memory at most, to see which causes others imply. Without the oldest, a cause may be named that
another one implies: that is redundant, but never wrong."""


class Linking:
    """A pass over the exported events, in order."""

    def __init__(self, run: Run, selection: Selection) -> None:
        self._run = run
        self._selection = selection
        self._last: dict[int, Ints] = {}
        """By process: the vector of its last exported event."""
        self._vectors: OrderedDict[tuple[int, int], Ints] = OrderedDict()
        self._numbers = 0

    def find_causes(self, code: Longs, own_column: Ints, vectors: Ints, entries: Longs) -> tuple[Longs, Longs]:
        """Return where the causes of each row start, and their positions. `entries` has the process of each vector entry."""
        grown = vectors > self._take_vectors_before(code, vectors)
        grown[np.arange(len(code)), own_column] = False
        rows, columns = np.nonzero(grown)
        self._remember(code, own_column, vectors)
        named: list[tuple[int, int, int]] = []
        for row, places in groupby(zip(rows.tolist(), columns.tolist(), strict=True), key=lambda place: place[0]):
            causes = [(column, int(entries[row, column]), int(vectors[row, column])) for _, column in places]
            named += [(row, process, number) for _, process, number in self._drop_implied(causes)]
        starts = np.searchsorted([row for row, _, _ in named], np.arange(len(code) + 1))
        return starts.astype(np.int64), self._find_positions(named)

    def _take_vectors_before(self, code: Longs, vectors: Ints) -> Ints:
        """Return the vector of the event before each row in its process; remember the last of each process."""
        before = np.zeros_like(vectors)
        order = np.argsort(code, kind="stable")
        follows = code[order[1:]] == code[order[:-1]]
        before[order[1:][follows]] = vectors[order[:-1][follows]]
        for process in np.unique(code).tolist():
            rows = np.flatnonzero(code == process)
            if (last := self._last.get(process)) is not None:
                before[rows[0]] = last
            self._last[process] = vectors[rows[-1]].copy()
        return before

    def _remember(self, code: Longs, own_column: Ints, vectors: Ints) -> None:
        for row, (process, column) in enumerate(zip(code.tolist(), own_column.tolist(), strict=True)):
            self._vectors[process, int(vectors[row, column])] = vectors[row]
            self._numbers += vectors.shape[1]
        while self._numbers > REMEMBERED_NUMBERS + vectors.size:
            self._numbers -= len(self._vectors.popitem(last=False)[1])

    def _drop_implied(self, causes: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
        """Leave out causes that another one knows. Each has its column in vectors, its process and its number there."""
        if len(causes) < 2:
            return causes
        vectors = [self._vectors.get((process, number)) for _, process, number in causes]
        return [
            (column, process, number)
            for column, process, number in causes
            if not any(
                vector is not None and other[1] != process and vector[column] >= number
                for other, vector in zip(causes, vectors, strict=True)
            )
        ]

    def _find_positions(self, named: list[tuple[int, int, int]]) -> Longs:
        if self._selection.positions is None:
            processes = np.array([process for _, process, _ in named], np.int64)
            numbers = np.array([number for _, _, number in named], np.int64)
            return positions_of(self._run, processes, numbers)
        indices = self._selection.indices
        return np.array([indices[process][1][number - 1] for _, process, number in named], np.int64)
