"""Reports of processes that send messages to each other, as a stream brings them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ledto.events.schema import REPORTS

PROCESSES = 20
LATEST_NS = 200_000_000
"""Of what a report takes to arrive."""


def stream_reports(count: int, *, start_ns: int, rate: int, processes: int = PROCESSES, seed: int = 1) -> pa.Table:
    """Rows of `REPORTS` in order of arrival: events at an even rate, of which one in three sends a message.

    Most messages are received 10 to 180 events later, so causes of a row are in other messages of the broker, too. Reports
    take up to `LATEST_NS` to arrive.
    """
    draw = np.random.default_rng(seed)
    time = start_ns + np.arange(count, dtype=np.int64) * (1_000_000_000 // rate)
    process = draw.integers(0, processes, count)
    seq = np.empty(count, np.int64)
    for each in range(processes):
        mine = process == each
        seq[mine] = np.arange(1, int(mine.sum()) + 1)
    sender = np.arange(0, count, 3)
    receiver = sender + draw.integers(3, 60, len(sender)) * 3 + 1
    receiver, first = np.unique(receiver, return_index=True)
    sender = sender[first]
    inside = receiver < count
    sender, receiver = sender[inside], receiver[inside]
    key = np.full(count, -1, np.int64)
    sends, receives = key.copy(), key.copy()
    sends[sender] = receives[receiver] = np.arange(len(sender))
    kind = np.zeros(count, np.int64)
    kind[sender], kind[receiver] = 1, 2
    arrival = time + draw.integers(0, LATEST_NS, count)
    order = np.argsort(arrival, kind="stable")
    names = pa.array([f"service-{each}" for each in range(processes)])
    kinds = pa.array(["local", "send", "receive"])
    keys = pa.array([f"message-{each}" for each in range(len(sender))], pa.string())
    columns = {
        "computation": pa.repeat("", count),
        "process": names.take(pa.array(process[order])),
        "seq": pa.array(seq[order]),
        "time": pa.array(time[order]),
        "arrival": pa.array(arrival[order]),
        "kind": kinds.take(pa.array(kind[order])),
        "sends": _keyed(keys, sends[order]),
        "receives": _keyed(keys, receives[order]),
        "name": pa.repeat("step", count),
        "attributes": pa.repeat('{"order":7}', count),
        "file": pa.repeat("http:bench", count),
        "place": pa.array(np.arange(count) % 100),
    }
    filled = {each.name: columns.get(each.name, pa.nulls(count, each.type)) for each in REPORTS}
    return pa.table(filled, schema=REPORTS)


def _keyed(keys: pa.Array, number: np.ndarray) -> pa.Array:
    return keys.take(pa.array(number, mask=number < 0))
