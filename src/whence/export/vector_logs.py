"""Logs with vector clocks, for ShiViz and as GoVector writes them.

What ShiViz asks of a log, and what is kept here: a host is one word; a clock is a JSON object that counts its own host; the
events of a host count themselves 1, 2, 3 and so on; a clock names only events that are in the log; labels of executions
differ. Clocks count exported events only (`whence.export.stretches`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from whence.export import spelling
from whence.export.stretches import Stretch, Stretches
from whence.export.times import Showing


def write_shiviz(stretches: Stretches, sink: BinaryIO, showing: Showing) -> Iterator[int]:
    """Each event as its text, then host and clock. Gives the number of events after each piece."""
    return _write(stretches, sink, "{event}\n{host} {clock}\n")


def write_govector(stretches: Stretches, sink: BinaryIO, showing: Showing) -> Iterator[int]:
    """Each event as host and clock, then its text."""
    return _write(stretches, sink, "{host} {clock}\n{event}\n")


def _write(stretches: Stretches, sink: BinaryIO, layout: str) -> Iterator[int]:
    hosts = [spelling.host(name) for name in stretches.names]
    keys = members_of(hosts)
    several = stretches.exported_computations > 1
    current: str | None = None
    for stretch in stretches.each(vectors=True, grouped=True):
        lines: list[str] = []
        clocks = clock_texts(stretch, keys)
        for event, code, clock in zip(stretches.events(stretch), stretch.code.tolist(), clocks, strict=True):
            if several and event.computation != current:
                current = event.computation
                lines.append(f"=== {spelling.host(current)} ===\n")
            lines.append(layout.format(event=spelling.line(spelling.label(event)), host=hosts[code], clock=clock))
        sink.write("".join(lines).encode())
        yield len(stretch)


def clock_texts(stretch: Stretch, keys: pa.Array) -> list[str]:
    """The vectors as JSON objects of the entries that are not 0; `keys` are from `members_of`."""
    assert stretch.vectors is not None
    rows, columns = np.nonzero(stretch.vectors)
    counts = pa.array(stretch.vectors[rows, columns]).cast(pa.string())
    members = pc.binary_join_element_wise(keys.take(pa.array(stretch.entries[rows, columns])), counts, "")
    starts = np.searchsorted(rows, np.arange(len(stretch) + 1)).astype(np.int32)
    found: list[str] = pc.binary_join(pa.ListArray.from_arrays(pa.array(starts), members), ", ").to_pylist()
    return [f"{{{members}}}" for members in found]


def members_of(names: list[str]) -> pa.Array:
    """By process: the beginning of its member of an object, up to its value."""
    return pa.array([f"{json.dumps(name, ensure_ascii=False)}:" for name in names], pa.string())
