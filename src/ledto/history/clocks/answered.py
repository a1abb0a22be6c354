"""Find the clients that were answered: when their server began, and when the client's span ended.

Each span is a line, whose first row sends the key of the span. The rows of a line may be in several segments.

HAZARD: an answer that contradicts the order of its processes is left out of the history. In busy traces, it may depend on
where the history is cut which answers these are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.order import NO_TIME
from ledto.events.keys import SPAN
from ledto.events.schema import RECEIVE, SEND
from ledto.history.deliver.rows import chain_of
from ledto.history.run import Run

Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """Answers that clients are assumed to have waited for. All fields are by answer."""

    client: Longs
    """The row of the segment that ends the client's span."""
    server: Longs
    """The position of the end of the server's span."""
    began: Longs
    """When the server's span began, by the server's clock; `NO_TIME` if that is not known."""


def find_answered(run: Run, number: int) -> Answered:
    """Find the answers that rows of a segment are assumed to have waited for."""
    rows, first = int(run.segments.rows[number]), int(run.segments.first_position[number])
    skeleton, without_assumed = run.skeleton(number, 0, rows), run.known_skeleton(number, 0, rows)
    counts = np.diff(skeleton.offsets)
    # The last causes of a row are those that are only assumed.
    place = np.arange(len(skeleton.back)) - np.repeat(skeleton.offsets[:-1], counts)
    assumed = place >= np.repeat(np.diff(without_assumed.offsets), counts)
    into = run.messages_into(number)
    client = np.concatenate((np.repeat(np.arange(rows), counts)[assumed], into.row[into.assumed]))
    server = np.concatenate((skeleton.cause_rows()[assumed] + first, into.position[into.assumed]))
    if not len(client):
        return Answered(client, server, server)
    # Spans answer everyone who started them. Only a client's call surely ended after its server began.
    positions, place = np.unique(server, return_inverse=True)
    is_server = _have_kind(run.rows(positions, ("kind",))["kind"], SEND)[place]
    is_client = _have_kind(run.events(number, ("kind",), 0, rows)["kind"], RECEIVE)[client]
    client, server = client[is_server & is_client], server[is_server & is_client]
    lines = run.rows(server, ("line",))["line"].combine_chunks()
    return Answered(client, server, _find_starts(run, number, _plain_text(lines)))


def _have_kind(kinds: pa.ChunkedArray, kind: str) -> NDArray[np.bool_]:
    flags: NDArray[np.bool_] = pc.fill_null(pc.equal(kinds.cast(pa.string()), kind), False).to_numpy()
    return flags.astype(np.bool_)


def _find_starts(run: Run, number: int, lines: pa.Array) -> Longs:
    """Find for each line the time of the row that sends its key, in this segment or one before it; else `NO_TIME`."""
    began = np.full(len(lines), NO_TIME, np.int64)
    waiting = np.flatnonzero(pc.is_valid(lines).to_numpy(zero_copy_only=False))
    for earlier in reversed(range(chain_of(run, number).start, number + 1)):
        if not len(waiting):
            break
        whole = run.events(earlier, ("line",), 0, int(run.segments.rows[earlier]))["line"].combine_chunks()
        encoded = _plain_text(whole).dictionary_encode()
        valid = np.flatnonzero(pc.is_valid(encoded.indices).to_numpy(zero_copy_only=False))
        codes, firsts = np.unique(encoded.indices.take(pa.array(valid)).to_numpy(), return_index=True)
        first_row = np.zeros(len(encoded.dictionary), np.int64)
        first_row[codes] = valid[firsts]
        wanted = lines.take(pa.array(waiting))
        code = pc.fill_null(pc.index_in(wanted, encoded.dictionary), -1).to_numpy(zero_copy_only=False)
        present = code >= 0
        rows = run.rows(first_row[code[present]] + int(run.segments.first_position[earlier]), ("sends", "time"))
        keys = pc.binary_join_element_wise(SPAN, wanted.filter(pa.array(present)), "")
        sends_key = pc.fill_null(pc.equal(_plain_text(rows["sends"].combine_chunks()), keys), False)
        starts = np.zeros(len(waiting), np.bool_)
        starts[present] = sends_key.to_numpy(zero_copy_only=False)
        times = pc.fill_null(rows["time"].cast(pa.int64()), NO_TIME).to_numpy()
        began[waiting[starts]] = times[starts[present]]
        waiting = waiting[~starts]
    return began


def _plain_text(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Convert text to one array without a dictionary."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return whole.cast(pa.string())
