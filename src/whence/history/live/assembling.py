"""All segments of a live history together: their tables, and the deliveries of those that are new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from uuid import uuid4

import numpy as np
import pyarrow as pa

from whence.history import layout
from whence.history.deliveries import deliver_on, write_deliveries
from whence.history.live.emitting import Piece
from whence.history.live.records import Record, crossings_table, segment_rows
from whence.history.live.state import Closed
from whence.history.live.terms import LiveTerms
from whence.history.reading import Run
from whence.history.run_tables import Holes, Totals, processes_table, segments_table
from whence.history.spans import Blocks, survey_segment
from whence.history.storage import Store
from whence.history.tables import processes_from, segments_from

CACHE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Assembled:
    """The segments, by number, and the tables that describe them."""

    records: list[Record]
    tables: dict[str, pa.Table]
    run: Run
    """Reads them, though they are not committed yet."""


def assemble(
    store: Store, run: str, closed: Closed, tails: Mapping[str, Record], holes: Mapping[str, Holes]
) -> Assembled:
    """The closed segments and those of the tails, by computation."""
    chains: list[tuple[str, list[str], Totals, list[Record]]] = []
    for computation, mine in sorted(closed.chains.items()):
        records, totals = mine.records, mine.chain.totals
        tail = tails.get(computation)
        if tail is not None and tail.rows:
            records, totals = [*records, tail], totals.plus(tail.counts, holes[computation])
        if records:
            chains.append((computation, mine.chain.names[: len(totals.events)], totals, records))
    tables = {
        "segments": segments_table(segment_rows([(len(names), records) for _, names, _, records in chains])),
        "processes": processes_table(
            [([computation] * len(names), names, totals) for computation, names, totals, _ in chains]
        ),
        "crossings": crossings_table([chain[3] for chain in chains]),
    }
    reader = Run(
        store,
        run,
        segments_from(tables["segments"]),
        processes_from(tables["processes"]),
        cache_bytes=CACHE_BYTES,
    )
    return Assembled([each for chain in chains for each in chain[3]], tables, reader)


def deliver_new(assembled: Assembled, pieces: Sequence[Piece], terms: LiveTerms, pool: Executor) -> list[Piece]:
    """Deliver the pieces that are not delivered yet, and write that; gives them."""
    run, records = assembled.run, assembled.records
    numbers = {id(record): number for number, record in enumerate(records)}
    new = [piece for piece in pieces if piece.record.outcome is None and piece.record.rows]
    for piece in new:
        piece.record.blocks = survey_segment(run, numbers[id(piece.record)])
    if not new:
        return new
    blocks = Blocks.joined([_placed(run, number, record) for number, record in enumerate(records)])

    def deliver(piece: Piece) -> None:
        number = numbers[id(piece.record)]
        found = deliver_on(terms.delivering, run, number, blocks)
        piece.deliveries = found.policies[terms.order_policy].table
        piece.record.outcome = write_deliveries(run, number, found, attempt=uuid4().hex[:12])

    list(pool.map(deliver, new))
    return new


def _placed(run: Run, number: int, record: Record) -> Blocks:
    """The blocks of a segment where it stands now."""
    assert record.blocks is not None
    count, first = len(record.blocks), int(run.segments.first_position[number])
    return replace(
        record.blocks,
        segment=np.full(count, number),
        first_position=first + np.arange(count) * layout.EVENT_ROWS,
    )
