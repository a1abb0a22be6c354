"""Causes of events among a part of the events of a history, from their vector clocks.

Messages to and from events that are left out are left out as well, and what they passed on must not be. So the causes of
an event are those that its clock names: of each other process, the last exported event that happened before it, unless the
one before it in its own process knew of it. Every relation of the exported events is a path over these causes and the
order within processes, and nothing else is.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import groupby

import numpy as np

from whence.causality.skeleton import Ints, Longs
from whence.export.selection import Selection
from whence.history.questions.relating import positions_of
from whence.history.reading import Run

REMEMBERED_NUMBERS = 4_000_000
"""Of vectors that are remembered to see which causes others imply; the oldest go first, and then a cause may be named
that another implies: more than needed, never wrong."""


class Linking:
    """Goes over the exported events, in order."""

    def __init__(self, run: Run, selection: Selection) -> None:
        self._run = run
        self._selection = selection
        self._last: dict[int, Ints] = {}
        """By process: the vector of its last exported event."""
        self._vectors: OrderedDict[tuple[int, int], Ints] = OrderedDict()
        self._numbers = 0

    def causes(self, code: Longs, own_column: Ints, vectors: Ints, entries: Longs) -> tuple[Longs, Longs]:
        """By row: where its causes start; and their positions. `entries` has the process of each entry of the vectors."""
        grown = vectors > self._before(code, vectors)
        grown[np.arange(len(code)), own_column] = False
        rows, columns = np.nonzero(grown)
        self._remember(code, own_column, vectors)
        named: list[tuple[int, int, int]] = []
        for row, places in groupby(zip(rows.tolist(), columns.tolist(), strict=True), key=lambda place: place[0]):
            found = [(column, int(entries[row, column]), int(vectors[row, column])) for _, column in places]
            named += [(row, process, number) for _, process, number in self._not_implied(found)]
        starts = np.searchsorted([row for row, _, _ in named], np.arange(len(code) + 1))
        return starts.astype(np.int64), self._positions(named)

    def _before(self, code: Longs, vectors: Ints) -> Ints:
        """The vector of the event before each in its own process."""
        before = np.zeros_like(vectors)
        order = np.argsort(code, kind="stable")
        follows = code[order[1:]] == code[order[:-1]]
        before[order[1:][follows]] = vectors[order[:-1][follows]]
        for each in np.unique(code).tolist():
            mine = np.flatnonzero(code == each)
            if (last := self._last.get(each)) is not None:
                before[mine[0]] = last
            self._last[each] = vectors[mine[-1]].copy()
        return before

    def _remember(self, code: Longs, own_column: Ints, vectors: Ints) -> None:
        for row, (process, column) in enumerate(zip(code.tolist(), own_column.tolist(), strict=True)):
            self._vectors[process, int(vectors[row, column])] = vectors[row]
            self._numbers += vectors.shape[1]
        while self._numbers > REMEMBERED_NUMBERS + vectors.size:
            self._numbers -= len(self._vectors.popitem(last=False)[1])

    def _not_implied(self, causes: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
        if len(causes) < 2:
            return causes
        known = [self._vectors.get((process, number)) for _, process, number in causes]
        return [
            (column, process, number)
            for column, process, number in causes
            if not any(
                vector is not None and other[1] != process and vector[column] >= number
                for other, vector in zip(causes, known, strict=True)
            )
        ]

    def _positions(self, named: list[tuple[int, int, int]]) -> Longs:
        if self._selection.positions is None:
            process, number = (np.array([each[place] for each in named], np.int64) for place in (1, 2))
            return positions_of(self._run, process, number)
        places = self._selection.indices
        return np.array([places[process][1][number - 1] for _, process, number in named], np.int64)
