"""Open ends of a segment: causes that it names and does not hold, and events in it that other segments may name.

What they lead to is found by one rule, for the epochs of a history made at once (`ledto.batch.join`) and for the
parts of a stream (`ledto.live.chain`). These differ in how they name an event, and in where they look for it: a
`Surroundings` knows both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.events.schema import ANSWER, SEND, SPAN, STAMPED

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
"""An effect's ``place`` (``-1 - process``: that process's next event after the segment), and its cause: the place ``cause``
in the segment, or if that is -1 what sends ``key``, or if that is null the last event of ``process`` before the segment.
``named`` tells that the event itself names the cause; else a row before it does that was set aside. ``home`` is the
process of an event that starts or ends a span; null for others."""
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
"""A ``key`` that others may receive, and the ``place`` of the event that sends it. For an event that was set aside, what
stands for it: another place, or the last event of ``process`` before the segment, or what sends the key ``alias``.
``within`` is the process of an event that starts or ends a span; null for others, and where a client or producer starts.
``twice`` tells that another event sent the key, too: nobody knows which of the two was received."""


class Surroundings(Protocol[Where_co]):
    """Where_co the events are that the open ends of one segment lead to."""

    def here(self, place: int) -> Where_co:
        """Name the event at a place of the segment."""
        ...

    def last_before(self, process: int) -> Sequence[Where_co]:
        """Find the last event of a process before the segment; none where it has none."""
        ...

    def senders(self, key: str) -> Sequence[Where_co] | None:
        """Find what sent a key before the segment; None if nothing did."""
        ...


def causes_of(receive: Mapping[str, Any], around: Surroundings[Where_co]) -> Sequence[Where_co] | None:
    """Find the causes of a row of `RECEIVES`; None if it names a key that nothing sent."""
    if receive["cause"] >= 0:
        return [around.here(receive["cause"])]
    if receive["key"] is None:
        return around.last_before(receive["process"])
    return around.senders(receive["key"])


def events_for(send: Mapping[str, Any], around: Surroundings[Where_co]) -> Sequence[Where_co]:
    """Find the events that a row of `SENDS` stands for."""
    if send["place"] is not None:
        return [around.here(send["place"])]
    if send["process"] is not None:
        return around.last_before(send["process"])
    return around.senders(send["alias"]) or ()


def lacks(receive: Mapping[str, Any]) -> bool:
    """Tell whether an event of the segment lacks this cause if nothing sent its key.

    What a stamp knows of may never have been logged, and an answer need not have been sent.
    """
    return bool(receive["named"]) and not receive["key"].startswith((STAMPED, ANSWER))


def is_within(sends: pa.ChunkedArray, kinds: pa.ChunkedArray) -> pa.ChunkedArray:
    """By event: whether it starts a span that is neither a client's nor a producer's."""
    calls = pc.equal(kinds.cast(pa.string()), SEND)
    return pc.fill_null(pc.and_(pc.starts_with(sends.cast(pa.string()), SPAN), pc.invert(calls)), False)


def called_at_unknown_time(receive: Mapping[str, Any], home: int | None, within: int | None) -> bool:
    """Tell of a row of `RECEIVES`, by its ``home`` and ``within`` of its cause, whether it is unknown when it was called."""
    is_call = bool(receive["named"]) and (receive["key"] or "").startswith(SPAN)
    return is_call and home is not None and within is not None and home != within


def is_assumed(receive: Mapping[str, Any]) -> bool:
    """Tell whether a row of `RECEIVES` names a cause that is only assumed."""
    return receive["key"] is not None and receive["key"].startswith(ANSWER)


CERTAIN, ANSWERED, TIED = 0, 1, 2
"""How sure a cause is: recorded; an answer that is assumed to have been waited for; or one that only the order of events at
one time, which nobody knows, or an event that was set aside, would make a cause."""


def doubt_of(receive: Mapping[str, Any]) -> int:
    """Tell how sure the causes of a row of `RECEIVES` are."""
    if not receive["named"]:
        return TIED
    return ANSWERED if is_assumed(receive) else CERTAIN


def rows_that_send(sends: pa.ChunkedArray, keys: pa.Array) -> NDArray[np.int64]:
    """Find the rows, ascending, that send one of the keys."""
    chosen = pc.fill_null(pc.is_in(sends, value_set=keys), False)
    rows: NDArray[np.int64] = pc.indices_nonzero(chosen).to_numpy().astype(np.int64)
    return rows
