"""Write logs with vector clocks, in the formats of ShiViz and GoVector.

Logs meet all that ShiViz asks for: a host is one word; a clock is a JSON object with a count of its own host; the events
of a host have the counts 1, 2, 3 and so on; a clock counts only events that are in the log; labels of executions differ.
Clocks count only exported events (`ledto.export.events`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ledto.export.events import Stretch, Stretches
from ledto.export.names import escape_host, escape_line, label
from ledto.export.times import Showing


def write_shiviz(stretches: Stretches, sink: BinaryIO, showing: Showing) -> Iterator[int]:
    """Write the text of each event, then its host and clock; yield the number of events of each stretch."""
    return _write(stretches, sink, "{event}\n{host} {clock}\n")


def write_govector(stretches: Stretches, sink: BinaryIO, showing: Showing) -> Iterator[int]:
    """Write the host and clock of each event, then its text; yield the number of events of each stretch."""
    return _write(stretches, sink, "{host} {clock}\n{event}\n")


def _write(stretches: Stretches, sink: BinaryIO, layout: str) -> Iterator[int]:
    hosts = [escape_host(name) for name in stretches.names]
    keys = write_member_starts(hosts)
    several = stretches.exported_computations > 1
    current: str | None = None
    for stretch in stretches.iterate(vectors=True, grouped=True):
        lines: list[str] = []
        clocks = write_clocks(stretch, keys)
        for event, code, clock in zip(stretches.events(stretch), stretch.code.tolist(), clocks, strict=True):
            if several and event.computation != current:
                current = event.computation
                lines.append(f"=== {escape_host(current)} ===\n")
            lines.append(layout.format(event=escape_line(label(event)), host=hosts[code], clock=clock))
        sink.write("".join(lines).encode())
        yield len(stretch)


def write_clocks(stretch: Stretch, keys: pa.Array) -> list[str]:
    """Write the vectors as JSON objects, without entries that are 0. `keys` are from `write_member_starts`."""
    assert stretch.vectors is not None
    rows, columns = np.nonzero(stretch.vectors)
    counts = pa.array(stretch.vectors[rows, columns]).cast(pa.string())
    members = pc.binary_join_element_wise(keys.take(pa.array(stretch.entries[rows, columns])), counts, "")
    starts = np.searchsorted(rows, np.arange(len(stretch) + 1)).astype(np.int32)
    joined: list[str] = pc.binary_join(pa.ListArray.from_arrays(pa.array(starts), members), ", ").to_pylist()
    return [f"{{{text}}}" for text in joined]


def write_member_starts(names: list[str]) -> pa.Array:
    """Write the beginning of each process's member of a JSON object, up to its value."""
    return pa.array([f"{json.dumps(name, ensure_ascii=False)}:" for name in names], pa.string())
