"""Raw logs of a simulated system with wrong clocks, of any size.

Processes act at random moments: local events, messages to one other process, now and then to several. Each event is
written down with the process's own clock, which deviates and drifts, and its report reaches the collector after a delay
of its own; rows are in the order of arrival. Delays have a long tail: about one in x**2 takes x times the usual.
Nothing in a row says what is true; the truth about a small log comes from `RawLog.truth`.

One literal row of `RawLog.table`::

    process="p3"  time=1700000000120417733  kind="receive"  message="p8-17"  name="request"

HAZARD: without the column ``seq``, only times show the order of a process's events. Times of one process differ from
event to event if `resolution_ns` is 1; with a coarser clock, use ``seq`` or `reports_in_order`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from ledto.events.columns import Ints
from ledto.simulation import raw_log_kernel as core
from ledto.simulation.raw_log_run import BATCH_ROWS, generate

KINDS = ("local", "send", "receive")
NAMES = ("read", "write", "compute", "flush", "request", "reply", "update", "notice")
"""The names of events: the first half of local events, the others of messages, at both ends."""

_DAY_NS = 86_400 * 10**9


class RawTruth(NamedTuple):
    """What really happened; events are numbered from 0 in the order of true time, which no process sees."""

    row_event: Ints
    """int64: the event that each row of the table reports. A duplicate's is the same; a lost one's is in no row."""
    process: Ints
    """int64, for each event: its process."""
    seq: Ints
    """int64, for each event: its number within its process, from 1."""
    edges: Ints
    """int64[m, 2]: cause and effect; causes are the event before it in its process and the send of its message.

    An event happened before another iff there is a path. A cause always has the smaller number.
    """


@dataclass(frozen=True, slots=True)
class RawLog:
    """A log that is generated as it is written; the same parameters give the same rows. `ValueError` says what is allowed.

    The parameters with a share (`local`, `multicast`, `lost`, `duplicated`) are probabilities from 0 to 1.
    """

    processes: int
    """How many processes, at least 2; their names are ``p0``, ``p1`` and so on."""
    events: int
    _: KW_ONLY
    seed: int = 1
    eps_ns: int = 10_000_000
    """Twice the most that a clock differs from true time, so an event's causal time exceeds its time by this at most."""
    drift_ppm: int = 50
    """How much clocks run too fast or too slow at most; at half of eps from true time they turn round."""
    resolution_ns: int = 1
    """Clocks' readings are multiples of this, counted from `start_ns`."""
    gap_ns: int = 1_000_000
    """Mean time between two actions of a process, over all processes."""
    unevenness: int = 4
    """How many times as often as the quietest processes the busiest ones act."""
    local: float = 0.5
    """Share of actions that are local events; the others are sends."""
    multicast: float = 0.02
    """Share of sends that go to up to `fanout` processes instead of one."""
    fanout: int = 4
    delay_ns: int = 1_000_000
    """Scale of messages' delays; the mean is about 1.5 times this."""
    report_delay_ns: int = 3_000_000
    """Scale of reports' delays; with 0, rows are in the order of true time."""
    reports_in_order: bool = False
    """Whether the reports of one process arrive in its order."""
    lost: float = 0.0
    """Share of reports that never arrive."""
    duplicated: float = 0.0
    """Share of reports that arrive twice."""
    with_seq: bool = False
    """Whether there is a column ``seq``: the event's number within its process, from 1, lost ones included."""
    with_arrival: bool = False
    """Whether there is a column ``arrival``: the time when the report arrived, by the collector's clock, which is
    true."""
    integer_messages: bool = False
    """Whether messages are named by an int64 instead of a string such as ``p3-17``."""
    start_ns: int = 1_700_000_000 * 10**9
    """True time at the start, since 1970."""

    def __post_init__(self) -> None:
        bounds = {
            "processes": (2, 1 << 15),
            "events": (0, 1 << 40),
            "seed": (0, (1 << 64) - 1),
            "eps_ns": (0, _DAY_NS),
            "drift_ppm": (0, 100_000),
            "resolution_ns": (1, _DAY_NS),
            "gap_ns": (self.processes, (1 << 31) - 1),
            "unevenness": (1, 1_000),
            "fanout": (1, 1_000),
            "delay_ns": (0, (1 << 31) - 1),
            "report_delay_ns": (0, (1 << 31) - 1),
            "start_ns": (0, 1 << 62),
        }
        for name, (least, most) in bounds.items():
            value = getattr(self, name)
            if not (isinstance(value, int) and least <= value <= most):
                raise ValueError(f"{name} must be an integer from {least} to {most}, not {value!r}")
        for name in ("local", "multicast", "lost", "duplicated"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a share from 0 to 1, not {getattr(self, name)!r}")
        if self.resolution_ns > 1 and self.eps_ns < 2 * self.resolution_ns:
            raise ValueError(
                f"clocks that show multiples of {self.resolution_ns} ns deviate by more than half of eps_ns"
            )
        if self.local == 1 and self.multicast > 0:
            raise ValueError("with local = 1 nothing is sent, so multicast must be 0")

    @property
    def schema(self) -> pa.Schema:
        """The columns of `table` and of the files."""
        message = pa.int64() if self.integer_messages else pa.string()
        columns = {"process": pa.string(), "time": pa.int64(), "kind": pa.string(), "message": message}
        columns["name"] = pa.string()
        columns |= {"seq": pa.int64()} if self.with_seq else {}
        columns |= {"arrival": pa.int64()} if self.with_arrival else {}
        return pa.schema(columns)

    def table(self) -> pa.Table:
        """Return the whole log in memory, in the order of arrival."""
        batches = [self._arrow(rows).cast(self.schema) for rows in self._batches()]
        return pa.concat_tables(batches).combine_chunks() if batches else self.schema.empty_table()

    def truth(self) -> RawTruth:
        """Return the truth about `table`; needs memory for several copies of the log."""
        batches = [rows.copy() for rows in generate(self)]
        rows = np.concatenate(batches) if batches else np.empty((0, core.OF_A_REPORT), np.int64)
        process, seq, before, cause = np.empty((4, self.events), np.int64)
        event = rows[:, core.R_EVENT]
        for by_event, column in ((process, core.R_PROCESS), (seq, core.R_SEQ), (before, core.R_BEFORE)):
            by_event[event] = rows[:, column]
        cause[event] = rows[:, core.R_CAUSE]
        numbers = np.arange(self.events)
        pairs = [np.stack([source, numbers], axis=1)[source != core.NO_EVENT] for source in (before, cause)]
        return RawTruth(event[rows[:, core.R_LOST] == 0].copy(), process, seq, np.concatenate(pairs))

    def write_parquet(
        self, directory: Path, *, rows_per_file: int = 2_000_000, progress: Callable[[int], None] | None = None
    ) -> list[Path]:
        """Write ``part-00000.parquet`` and so on, with row groups of at most a million rows; memory is bounded.

        Creates the directory if need be; it must not have Parquet files yet. After each row group, calls `progress`
        with the number of rows written so far.
        """
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.glob("*.parquet")):
            raise ValueError(f"{directory} holds Parquet files already: name an empty directory")
        paths: list[Path] = []
        written = in_file = 0
        writer: pyarrow.parquet.ParquetWriter | None = None
        try:
            for rows in self._batches(min(rows_per_file, BATCH_ROWS)):
                table = self._arrow(rows)
                if writer is not None and in_file + len(rows) > rows_per_file:
                    writer.close()
                    writer = None
                if writer is None:
                    paths.append(directory / f"part-{len(paths):05d}.parquet")
                    writer = _parquet_writer(paths[-1], table.schema)
                    in_file = 0
                writer.write_table(table, row_group_size=len(rows))
                in_file += len(rows)
                written += len(rows)
                if progress is not None:
                    progress(written)
        finally:
            if writer is not None:
                writer.close()
        return paths

    def write_json_lines(self, path: Path) -> None:
        """Write one JSON object on each line, without a ``message`` if there is none; for small logs."""
        with path.open("w", encoding="utf-8", newline="\n") as out:
            for rows in self._batches():
                for row in self._arrow(rows).cast(self.schema).to_pylist():
                    out.write(json.dumps({name: value for name, value in row.items() if value is not None}) + "\n")

    def _batches(self, size: int = BATCH_ROWS) -> Iterator[NDArray[np.int64]]:
        """Yield the rows that arrive, in tables that the next overwrites."""
        for rows in generate(self, size):
            yield rows if self.lost == 0 else rows[rows[:, core.R_LOST] == 0]

    def _arrow(self, rows: NDArray[np.int64]) -> pa.Table:
        columns = {
            "process": _named(rows[:, core.R_PROCESS].astype(np.int16), [f"p{p}" for p in range(self.processes)]),
            "time": pa.array(rows[:, core.R_TIME].copy()),
            "kind": _named(rows[:, core.R_KIND].astype(np.int8), KINDS),
            "message": self._messages(rows),
            "name": _named(rows[:, core.R_NAME].astype(np.int8), NAMES),
        }
        columns |= {"seq": pa.array(rows[:, core.R_SEQ].copy())} if self.with_seq else {}
        columns |= {"arrival": pa.array(rows[:, core.R_ARRIVAL].copy())} if self.with_arrival else {}
        return pa.table(columns)

    def _messages(self, rows: NDArray[np.int64]) -> pa.Array:
        sender = rows[:, core.R_FROM]
        if self.integer_messages:
            return pa.array((sender << 40) + rows[:, core.R_NUMBER], mask=sender == core.NO_SENDER)
        offsets, data = core.spell_messages(np.ascontiguousarray(rows))
        valid = np.packbits(sender != core.NO_SENDER, bitorder="little")
        buffers = [pa.py_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.string(), len(rows), buffers)


def _named(codes: NDArray[np.signedinteger], names: list[str] | tuple[str, ...]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(codes, pa.array(names, pa.string()))


def _parquet_writer(path: Path, schema: pa.Schema) -> pyarrow.parquet.ParquetWriter:
    """Make a writer that stores strings as plain strings, although they are handed over as codes."""
    named = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    return pyarrow.parquet.ParquetWriter(path, schema, compression="zstd", use_dictionary=named, store_schema=False)
