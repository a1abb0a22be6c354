"""Looks for the senders of messages among closed segments: for those that were received before and are received again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ledto.causality.boundary import Boundary
from ledto.causality.skeleton import Skeleton
from ledto.causality.sparse_vectors import Vectors
from ledto.causality.vector_clocks import clock_rows
from ledto.history.open_ends import is_within, rows_that_send
from ledto.history.run import Run
from ledto.live.chain import Chain, PendingSegment
from ledto.live.records import Record

LOOK_BACK = 8
"""Closed segments of a chain that are looked through, the newest first."""
REMEMBERED = 100_000
"""Keys that nobody sent, so that they are looked for once."""

Found = tuple[str, int, int, int, Vectors, bool]
"""A key, where it was sent: position, process, number and vector; and whether that starts a span which is no call."""
Segment = tuple[int, pa.ChunkedArray, pa.ChunkedArray, Skeleton, Boundary]
"""First position within the chain, what is sent, kinds of events, and what vectors come from."""


class Senders:
    """Finds sends in segments that are committed, and in those that were closed since."""

    def __init__(self) -> None:
        self._new: dict[str, list[tuple[int, PendingSegment]]] = {}
        self._absent: dict[tuple[str, str], int] = {}

    def closed(self, computation: str, first_position: int, part: PendingSegment) -> None:
        """A part was closed that is not committed yet."""
        self._new.setdefault(computation, []).append((first_position, part))

    def committed(self) -> None:
        """All closed parts are in the history."""
        self._new.clear()

    def find(self, chain: Chain, keys: set[str], committed: Iterable[Segment]) -> Iterator[Found]:
        """The sends of these keys; `committed` are segments of the chain, the newest first, taken only as needed."""
        wanted = {key for key in keys if self._absent.get((chain.computation, key)) != chain.end}
        new = (
            (first, part.events["sends"], part.events["kind"], part.skeleton, part.boundary)
            for first, part in reversed(self._new.get(chain.computation, []))
        )
        for _, (first, sends, kinds, skeleton, boundary) in zip(range(LOOK_BACK), _both(new, committed), strict=False):
            if not wanted:
                return
            rows = rows_that_send(sends, pa.array(sorted(wanted), pa.string()))
            if not len(rows):
                continue
            assert boundary is not None
            vectors = clock_rows(skeleton, boundary, rows)
            within = is_within(sends.take(pa.array(rows)), kinds.take(pa.array(rows))).to_pylist()
            for place, row in enumerate(rows.tolist()):
                key, code = sends[row].as_py(), int(skeleton.process[row])
                if key in wanted:
                    wanted.discard(key)
                    vector = vectors.take([place])
                    yield key, first + row, code, int(vector.count[vector.process == code][0]), vector, within[place]
        if len(self._absent) > REMEMBERED:
            self._absent.clear()
        self._absent.update({(chain.computation, key): chain.end for key in wanted})


def committed_segments(run: Run, records: Sequence[Record]) -> Iterator[Segment]:
    """Segments of one chain that a run has, the newest first, each read when it is asked for."""
    if not records:
        return
    first = _numbers(run)[records[0].files.events_file]
    starts = np.cumsum([0, *(each.rows for each in records)])
    for place in reversed(range(len(records))):
        number, rows = first + place, records[place].rows
        events = run.events(number, ["sends", "kind"], 0, rows)
        skeleton, boundary = run.skeleton(number, 0, rows), run.boundary(number)
        yield int(starts[place]), events["sends"], events["kind"], skeleton, boundary


def _numbers(run: Run) -> dict[str, int]:
    """By file of events: the number of its segment."""
    return {name: number for number, name in enumerate(run.segments.events_file)}


def first_arrivals(run: Run, records: Sequence[Record], keys: set[str]) -> dict[str, int]:
    """By key that the last of these closed segments send: when the first report of a send of it arrived."""
    numbers = _numbers(run)
    found: dict[str, int] = {}
    for record in records[-LOOK_BACK:]:
        events = run.events(numbers[record.files.events_file], ["sends", "arrival"], 0, record.rows)
        sent = events.take(pa.array(rows_that_send(events["sends"], pa.array(sorted(keys), pa.string()))))
        for key, arrived in zip(sent["sends"].to_pylist(), sent["arrival"].to_pylist(), strict=True):
            found[key] = min(arrived, found.get(key, arrived))
    return found


def _both(new: Iterable[Any], committed: Iterable[Segment]) -> Iterator[Any]:
    yield from new
    yield from committed
