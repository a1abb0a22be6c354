"""Resolve the open ends of a segment: causes that it names and does not hold, and its events that others may name.

The same rules hold for the epochs of a history made at once (`ledto.batch.join`) and for the parts of a stream
(`ledto.live.chain`). How an event is named and where it is looked for differs: a `Surroundings` does that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.events.keys import ANSWER, SPAN, STAMPED
from ledto.events.schema import SEND

Where_co = TypeVar("Where_co", covariant=True)

RECEIVES = pa.schema(
    [
        ("place", pa.int64()),
        ("key", pa.string()),
        ("process", pa.int32()),
        ("cause", pa.int64()),
        ("named", pa.bool_()),
        ("home", pa.int32()),
    ]
)
"""``17, "m-5", -1, -1, true, null``: an effect in the segment, and a cause of it.

``place`` is the effect's row; if it is negative, the effect is the next event of a process after the segment
(`process_of_next`). The cause is the row ``cause`` of the segment; if that is -1, the event that sends ``key``; if that is
null, the last event of ``process`` before the segment. ``named``: the event itself names the cause; otherwise a quarantined
row before it does. ``home`` is the process of an event that starts or ends a span; null for others."""
SENDS = pa.schema(
    [
        ("key", pa.string()),
        ("place", pa.int64()),
        ("process", pa.int32()),
        ("alias", pa.string()),
        ("within", pa.int32()),
        ("twice", pa.bool_()),
    ]
)
"""``"m-5", 17, null, null, null, false``: a ``key`` that other segments may receive, and the event that sends it.

That event is the row ``place``. If it was quarantined, another takes its place: another row, or the last event of
``process`` before the segment, or what sends the key ``alias``. ``within`` is the process of an event that starts or ends a
span; null for others, and for the start of a client's or producer's span. ``twice``: another event sent the key, too, and
nobody knows which of the two was received."""


CERTAIN, ANSWERED, TIED = 0, 1, 2
"""How sure a cause is. Certain: it is recorded. Answered: it is assumed that an answer was waited for. Tied: it is a cause
only in one of the possible orders of events at one time, or by way of a quarantined event."""


class Surroundings(Protocol[Where_co]):
    """Names events in and before one segment; `Where_co` is the type of such a name."""

    def here(self, place: int) -> Where_co:
        """Name the event at a place of the segment."""
        ...

    def last_before(self, process: int) -> Sequence[Where_co]:
        """Find the last event of a process before the segment; empty if it has none."""
        ...

    def senders(self, key: str) -> Sequence[Where_co] | None:
        """Find the events that sent a key before the segment; None if none did."""
        ...


def process_of_next(place: int) -> int:
    """Decode a negative ``place`` of `RECEIVES`: give the process whose next event after the segment is the effect."""
    return -1 - place


def causes_of(receive: Mapping[str, Any], around: Surroundings[Where_co]) -> Sequence[Where_co] | None:
    """Find the causes of a row of `RECEIVES`; None if it names a key that nothing sent."""
    if receive["cause"] >= 0:
        return [around.here(receive["cause"])]
    if receive["key"] is None:
        return around.last_before(receive["process"])
    return around.senders(receive["key"])


def events_for(send: Mapping[str, Any], around: Surroundings[Where_co]) -> Sequence[Where_co]:
    """Find the events that count as senders for a row of `SENDS`."""
    if send["place"] is not None:
        return [around.here(send["place"])]
    if send["process"] is not None:
        return around.last_before(send["process"])
    return around.senders(send["alias"]) or ()


def lacks(receive: Mapping[str, Any]) -> bool:
    """Tell whether a row of `RECEIVES` has a missing cause if nothing sent its key.

    Not so for stamps and answers: what a stamp counts may never have been logged, and an answer need not have been sent.
    """
    return bool(receive["named"]) and not receive["key"].startswith((STAMPED, ANSWER))


def is_within(sends: pa.ChunkedArray, kinds: pa.ChunkedArray) -> pa.ChunkedArray:
    """Tell for each event whether it starts a span that is neither a client's nor a producer's."""
    calls = pc.equal(kinds.cast(pa.string()), SEND)
    return pc.fill_null(pc.and_(pc.starts_with(sends.cast(pa.string()), SPAN), pc.invert(calls)), False)


def called_at_unknown_time(receive: Mapping[str, Any], home: int | None, within: int | None) -> bool:
    """Tell whether a row of `RECEIVES` is a call at an unknown time: a span started by a span of another process.

    `home` is the process of the effect, `within` that of the cause's span.
    """
    is_call = bool(receive["named"]) and (receive["key"] or "").startswith(SPAN)
    return is_call and home is not None and within is not None and home != within


def is_assumed(receive: Mapping[str, Any]) -> bool:
    """Tell whether a row of `RECEIVES` names a cause that is only assumed: an answer."""
    return receive["key"] is not None and receive["key"].startswith(ANSWER)


def doubt_of(receive: Mapping[str, Any]) -> int:
    """Tell how sure the causes of a row of `RECEIVES` are: `CERTAIN`, `ANSWERED` or `TIED`."""
    if not receive["named"]:
        return TIED
    return ANSWERED if is_assumed(receive) else CERTAIN


def rows_that_send(sends: pa.ChunkedArray, keys: pa.Array) -> NDArray[np.int64]:
    """Find the rows that send one of the keys; ascending."""
    chosen = pc.fill_null(pc.is_in(sends, value_set=keys), False)
    rows: NDArray[np.int64] = pc.indices_nonzero(chosen).to_numpy().astype(np.int64)
    return rows
