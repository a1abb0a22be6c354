"""Histories of very many processes: files grow with the events, not with the square of the processes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ledto.causality.skeleton import Skeleton
from ledto.causality.vector_clocks import Scan
from ledto.history import layout
from ledto.history.store import Store
from ledto.history.write import write_boundary, write_segment


def test_a_name_for_each_event_is_written_once(tmp_path: Path) -> None:
    """A log with a process for each request would take gigabytes: each row group would repeat the names of all."""
    count = 5 * layout.EVENT_ROWS
    names = [f"request-{number:07d}" for number in range(count)]
    same = pa.array([""] * count, pa.string()).dictionary_encode()
    columns = {field.name: pa.nulls(count, field.type) for field in layout.EVENTS}
    columns |= {"computation": same, "kind": same, "process": pa.array(names).dictionary_encode()}
    skeleton = Skeleton(np.arange(count), np.zeros(count + 1, np.int64), [])
    files = write_segment(Store(tmp_path), "run", 0, pa.table(columns), skeleton, attempt="one")
    path = tmp_path / layout.run_folder("run") / files.events_file
    with pq.ParquetFile(path) as file:
        assert file.read()["process"].to_pylist() == names
        groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
        at = layout.EVENTS.names.index("process")
        assert sum(group.column(at).total_uncompressed_size for group in groups) < 2 * sum(map(len, names))


def test_boundaries_of_clients_that_come_and_go_take_a_few_bytes_a_process(tmp_path: Path) -> None:
    """What 20,000 clients of one server knew of each other took 400 million numbers where each segment begins."""
    segments, clients = 5, 4_000
    scan = Scan(1 + segments * clients)
    store = Store(tmp_path)
    (tmp_path / layout.run_folder("run")).mkdir(parents=True)
    total = 0
    for number in range(segments):
        # Each client asks, process 0 hears and answers, and the client hears: it then knows of all clients before it.
        mine = 1 + number * clients + np.arange(clients)
        process = np.stack((mine, np.zeros_like(mine), mine), axis=1).ravel()
        offsets = np.cumsum(np.append(0, np.tile([0, 1, 1], clients)))
        skeleton = Skeleton(process, offsets, np.ones(2 * clients, np.int64))
        boundary = scan.segment(skeleton, number * len(process), [], [], [], mine)
        assert len(boundary.known.process) == number * clients + (number > 0)
        name = write_boundary(store, "run", number, boundary, attempt="one")
        total += (tmp_path / layout.run_folder("run") / name).stat().st_size
    assert total < 4 * segments * segments * clients
