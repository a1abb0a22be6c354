"""Find the senders of messages in closed segments, for messages that were received before and are received again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain as chain_iterables
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ledto.causality.boundary import Boundary
from ledto.causality.skeleton import Skeleton
from ledto.causality.vector_clocks import clock_rows
from ledto.history.open_ends import is_within, rows_that_send
from ledto.history.run import Run
from ledto.live.chain import Chain, FoundSend, PendingSegment
from ledto.live.written_segments import WrittenSegment

LOOK_BACK = 8
"""How many closed segments of a chain are searched, the newest first."""
REMEMBERED = 100_000
"""Most keys without a sender that are remembered, so that each is searched once."""


class SearchableSegment(NamedTuple):
    """What a search for sends needs of a closed segment."""

    first_position: int
    """In the chain."""
    sends: pa.ChunkedArray
    kinds: pa.ChunkedArray
    skeleton: Skeleton
    boundary: Boundary | None


class Senders:
    """Finds sends in committed segments, and in those closed since the last commit."""

    def __init__(self) -> None:
        self._new: dict[str, list[tuple[int, PendingSegment]]] = {}
        self._absent: dict[tuple[str, str], int] = {}

    def add_closed(self, computation: str, first_position: int, part: PendingSegment) -> None:
        """Add a closed segment that is not committed yet."""
        self._new.setdefault(computation, []).append((first_position, part))

    def forget_closed(self) -> None:
        """Forget the added segments: they are committed now."""
        self._new.clear()

    def find(self, chain: Chain, keys: set[str], committed: Iterable[SearchableSegment]) -> Iterator[FoundSend]:
        """Find the sends of these keys. `committed` are segments of the chain, newest first, read only as needed."""
        wanted = {key for key in keys if self._absent.get((chain.computation, key)) != chain.end}
        new = (
            SearchableSegment(first, part.events["sends"], part.events["kind"], part.skeleton, part.boundary)
            for first, part in reversed(self._new.get(chain.computation, []))
        )
        for first, sends, kinds, skeleton, boundary in islice(chain_iterables(new, committed), LOOK_BACK):
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
                    event_number = int(vector.count[vector.process == code][0])
                    yield FoundSend(key, first + row, code, event_number, vector, within[place])
        if len(self._absent) > REMEMBERED:
            self._absent.clear()
        self._absent.update({(chain.computation, key): chain.end for key in wanted})


def committed_segments(run: Run, records: Sequence[WrittenSegment]) -> Iterator[SearchableSegment]:
    """Yield the segments of one chain that a run has, the newest first; each is read when it is needed."""
    if not records:
        return
    first = _numbers(run)[records[0].files.events_file]
    starts = np.cumsum([0, *(record.rows for record in records)])
    for place in reversed(range(len(records))):
        number, rows = first + place, records[place].rows
        events = run.events(number, ["sends", "kind"], 0, rows)
        skeleton, boundary = run.skeleton(number, 0, rows), run.boundary(number)
        yield SearchableSegment(int(starts[place]), events["sends"], events["kind"], skeleton, boundary)


def _numbers(run: Run) -> dict[str, int]:
    """Map each file of events to the number of its segment."""
    return {name: number for number, name in enumerate(run.segments.events_file)}


def first_arrivals(run: Run, records: Sequence[WrittenSegment], keys: set[str]) -> dict[str, int]:
    """Find, by key that the last of these segments send, when the first report of a send arrived."""
    numbers = _numbers(run)
    first: dict[str, int] = {}
    for record in records[-LOOK_BACK:]:
        events = run.events(numbers[record.files.events_file], ["sends", "arrival"], 0, record.rows)
        sent = events.take(pa.array(rows_that_send(events["sends"], pa.array(sorted(keys), pa.string()))))
        for key, arrived in zip(sent["sends"].to_pylist(), sent["arrival"].to_pylist(), strict=True):
            first[key] = min(arrived, first.get(key, arrived))
    return first
