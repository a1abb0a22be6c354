"""Clients that were answered: when the server began, and when the client's span ended.

Each span is a line, whose first row sends its key. The rows of a line may lie in several segments.

HAZARD: an answer that contradicts the order of its processes is in doubt and left out of the history. In busy traces, which
ones are may depend on where the history is cut.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.order import NO_TIME
from ledto.events.schema import RECEIVE, SEND, SPAN
from ledto.history.deliver.rows import chain_of
from ledto.history.run import Run

Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """By answer that is assumed."""

    client: Longs
    """The row of the segment that ends the client's span."""
    server: Longs
    """The position of the end of the server's span."""
    began: Longs
    """When the server's span began, by the server's clock; `NO_TIME` where that is not known."""


def answered(run: Run, number: int) -> Answered:
    """The answers that the rows of a segment are assumed to have waited for."""
    rows, first = int(run.segments.rows[number]), int(run.segments.first_position[number])
    every, known = run.skeleton(number, 0, rows), run.known_skeleton(number, 0, rows)
    counts = np.diff(every.offsets)
    # The causes of a row that are only assumed are its last ones.
    place = np.arange(len(every.back)) - np.repeat(every.offsets[:-1], counts)
    assumed = place >= np.repeat(np.diff(known.offsets), counts)
    into = run.messages_into(number)
    client = np.concatenate((np.repeat(np.arange(rows), counts)[assumed], into.row[into.assumed]))
    server = np.concatenate((every.cause_rows()[assumed] + first, into.position[into.assumed]))
    if not len(client):
        return Answered(client, server, server)
    # Spans answer all who started them. Only of a client's call is it taken that it ended after its server began.
    positions, place = np.unique(server, return_inverse=True)
    served = _is(run.rows(positions, ("kind",))["kind"], SEND)[place]
    called = _is(run.events(number, ("kind",), 0, rows)["kind"], RECEIVE)[client]
    client, server = client[served & called], server[served & called]
    lines = run.rows(server, ("line",))["line"].combine_chunks()
    return Answered(client, server, _beginnings(run, number, _plain(lines)))


def _is(kinds: pa.ChunkedArray, kind: str) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = pc.fill_null(pc.equal(kinds.cast(pa.string()), kind), False).to_numpy()
    return found.astype(np.bool_)


def _beginnings(run: Run, number: int, lines: pa.Array) -> Longs:
    """By line: the time of the row that sends its key, in this segment or the nearest before it."""
    found = np.full(len(lines), NO_TIME, np.int64)
    waiting = np.flatnonzero(pc.is_valid(lines).to_numpy(zero_copy_only=False))
    for earlier in reversed(range(chain_of(run, number).start, number + 1)):
        if not len(waiting):
            break
        whole = run.events(earlier, ("line",), 0, int(run.segments.rows[earlier]))["line"].combine_chunks()
        encoded = _plain(whole).dictionary_encode()
        valid = np.flatnonzero(pc.is_valid(encoded.indices).to_numpy(zero_copy_only=False))
        codes, firsts = np.unique(encoded.indices.take(pa.array(valid)).to_numpy(), return_index=True)
        first_row = np.zeros(len(encoded.dictionary), np.int64)
        first_row[codes] = valid[firsts]
        asked = lines.take(pa.array(waiting))
        here = pc.fill_null(pc.index_in(asked, encoded.dictionary), -1).to_numpy(zero_copy_only=False)
        held = here >= 0
        rows = run.rows(first_row[here[held]] + int(run.segments.first_position[earlier]), ("sends", "time"))
        keys = pc.binary_join_element_wise(SPAN, asked.filter(pa.array(held)), "")
        starts = pc.fill_null(pc.equal(_plain(rows["sends"].combine_chunks()), keys), False)
        begins = np.zeros(len(waiting), np.bool_)
        begins[held] = starts.to_numpy(zero_copy_only=False)
        times = pc.fill_null(rows["time"].cast(pa.int64()), NO_TIME).to_numpy()
        found[waiting[begins]] = times[begins[held]]
        waiting = waiting[~begins]
    return found


def _plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Text that is not encoded by a dictionary, in one piece."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return whole.cast(pa.string())
