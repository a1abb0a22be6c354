"""Keep the deliveries of a stream in order, each with a number: the log that subscribers follow.

Every commit adds a file. Files of one size are merged once there are many, so their number grows with the logarithm of
the deliveries. The oldest files are dropped when there are more deliveries than are kept; their events stay in the
history.
"""

from __future__ import annotations

from uuid import uuid4

import pyarrow as pa

from ledto.errors import LedtoError
from ledto.history import layout
from ledto.history.manifest import LogFile, LogFiles, Manifest
from ledto.history.sealed import read_sealed_table, unreadable, write_sealed_table
from ledto.history.store import Store

MERGED_AT = 32
"""This many files of one size are merged into one of the next size."""
KEPT_DELIVERIES = 5_000_000
"""The log keeps at least this many deliveries."""

_DICTIONARIES = ["computation", "process", "name", "kind", "file"]

DELIVERED = pa.schema(
    [
        pa.field("number", pa.int64(), nullable=False),
        pa.field("computation", pa.string(), nullable=False),
        pa.field("process", pa.string(), nullable=False),
        pa.field("seq", pa.int64()),
        pa.field("id", pa.string()),
        pa.field("name", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("time", pa.int64()),
        pa.field("arrival", pa.int64()),
        pa.field("at", pa.int64()),
        pa.field("waited", pa.int64()),
        pa.field("late", pa.bool_()),
        pa.field("attributes", pa.string()),
        pa.field("error", pa.bool_()),
        pa.field("missing", pa.list_(pa.string())),
        pa.field("file", pa.string()),
        pa.field("place", pa.int64()),
    ]
)
"""A delivery: ``17, "", "shop", 4, null, "order placed", "send", 1700000000000000000, ..., 2100000000, false, "{...}",
null, ...``. Numbers run from 1 without gaps, in the order of delivery. Process and seq are as reported. An event is
late if its report came after it was due. `missing` lists messages that it received and whose sends were not reported by
then."""


class LogTrimmed(LedtoError):
    """The requested deliveries are no longer in the log."""

    def __init__(self, first: int) -> None:
        self.first = first
        super().__init__(f"the log begins with delivery {first}: earlier ones are only in the history, ask it instead")


class DeliveryLog(LogFiles, frozen=True):
    """The files of a log, oldest first."""

    files: tuple[LogFile, ...] = ()
    last: int = 0

    @classmethod
    def of(cls, manifest: Manifest) -> DeliveryLog:
        """Get the log that a manifest names; an empty one if the history is not live."""
        return cls() if manifest.stream is None else cls(manifest.stream.log.files, manifest.stream.log.last)

    def append(self, store: Store, run: str, rows: pa.Table, *, keep: int = KEPT_DELIVERIES) -> DeliveryLog:
        """Write deliveries, which have numbers; return the log with them.

        Files that are no longer part of it are not deleted.
        """
        if not len(rows):
            return self
        first, last = self.last + 1, self.last + len(rows)
        files = [*self.files, _write(store, run, rows, first, last, 0)]
        while len(files) >= MERGED_AT and len({file.size for file in files[-MERGED_AT:]}) == 1:
            merged = files[-MERGED_AT:]
            whole = pa.concat_tables(_read(store, run, file.file) for file in merged)
            files[-MERGED_AT:] = [_write(store, run, whole, merged[0].first, merged[-1].last, merged[0].size + 1)]
        while files[0].last <= last - keep:
            files.pop(0)
        return DeliveryLog(tuple(files), last)

    def after(self, store: Store, run: str, number: int, limit: int) -> pa.Table:
        """Read up to `limit` deliveries after a number.

        Raises `LogTrimmed`, `DamagedHistory`, and `FileNotFoundError` if a newer version replaced the files.
        """
        if number >= self.last:
            return DELIVERED.empty_table()
        first = self.files[0].first if self.files else self.last + 1
        if number + 1 < first:
            raise LogTrimmed(first)
        tables, count = [], 0
        for file in self.files:
            if file.last <= number or count >= limit:
                continue
            table = _read(store, run, file.file)
            table = table.slice(max(0, number + 1 - file.first), limit - count)
            tables.append(table)
            count += len(table)
        return pa.concat_tables(tables)


def _write(store: Store, run: str, rows: pa.Table, first: int, last: int, size: int) -> LogFile:
    stem = f"log-{first:012d}-{last:012d}-{uuid4().hex[:8]}"
    name = write_sealed_table(store, run, stem, rows, use_dictionary=_DICTIONARIES, write_statistics=False)
    return LogFile(name, first, last, size)


def _read(store: Store, run: str, name: str) -> pa.Table:
    path = f"{layout.run_folder(run)}/{name}"
    try:
        return read_sealed_table(store, path)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as fault:
        raise unreadable(store.place(path), fault) from fault
