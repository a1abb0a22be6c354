"""A cache of what was read from files, bounded in bytes, the least recently used going first."""

from __future__ import annotations

import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from threading import Lock, RLock
from typing import TypeVar, cast

import pyarrow as pa
import pyarrow.parquet as pq

from ledto.history import layout
from ledto.history.errors import HistoryReplaced
from ledto.history.manifest import Manifest, read_manifest
from ledto.history.sealed import SealedFile, damaged, missing
from ledto.history.store import Store

Value = TypeVar("Value")

OPEN_FILES_BYTES = 64 << 20
FOOTER_BYTES_A_COLUMN = 400
"""Memory that the description of one column of one row group takes, about."""


class RunFiles:
    """Reads files of one run, committed or not. Threads may share it."""

    def __init__(self, store: Store, run: Manifest | str, cache_bytes: int) -> None:
        """`run`: its manifest, or only its name before it is committed."""
        self.store = store
        self.name = run if isinstance(run, str) else run.run
        """The folder that the files are in."""
        self._manifest = None if isinstance(run, str) else run
        self._cache = Cache(cache_bytes)
        self._files = Cache(OPEN_FILES_BYTES)
        # Parquet readers do not promise that threads may share them.
        self._reading = RLock()

    @property
    def manifest(self) -> Manifest:
        """The manifest of a run that is committed."""
        if self._manifest is None:
            raise ValueError(f"run {self.name} is not committed, so that it has no manifest")
        return self._manifest

    def commit(self, manifest: Manifest) -> None:
        """Take the manifest with which the run was committed."""
        self._manifest = manifest

    def kept(self, key: tuple[str, int], find: Callable[[], Value], size_bytes: Callable[[Value], int]) -> Value:
        """What was found about a segment before; found now, and kept as what is read is, if it was not."""
        return self._cache.get(key, find, size_bytes)

    def table_file(self, name: str) -> str:
        """The file of one of the small tables: segments, processes or crossings."""
        return str(getattr(self.manifest.tables, name))

    def table(self, name: str) -> pq.ParquetFile:
        """Another Parquet file of the run."""
        return self._guarded(name, lambda: self._parquet(name))

    def file_batches(self, name: str, *, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """A Parquet file of the run, row group by row group."""
        yield from self.table(name).iter_batches(layout.EVENT_ROWS, columns=columns, use_threads=False)

    def place(self, name: str) -> str:
        """The path or URI of a file of the run."""
        return self.store.place(self._path(name))

    def _path(self, name: str) -> str:
        return f"{layout.run_folder(self.name)}/{name}"

    def _parquet(self, name: str) -> pq.ParquetFile:
        def read() -> pq.ParquetFile:
            return SealedFile(self.store, self._path(name)).parquet()

        def footer_bytes(file: pq.ParquetFile) -> int:
            return 4096 + FOOTER_BYTES_A_COLUMN * int(file.metadata.num_row_groups * file.metadata.num_columns)

        return self._files.get(name, read, footer_bytes)

    def _guarded(self, name: str, read: Callable[[], Value]) -> Value:
        try:
            with self._reading:
                return read()
        except FileNotFoundError:
            if self._manifest is not None and read_manifest(self.store).version != self._manifest.version:
                raise HistoryReplaced(
                    f"the history at {self.store} was replaced by a newer one while it was open: open it again"
                ) from None
            raise missing(self.place(name)) from None
        except (pa.ArrowException, zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError, OSError) as fault:
            raise damaged(self.place(name), f"it cannot be read ({fault})") from fault


class Cache:
    """Values by key. Threads may share it; two that miss the same key at once may both read it."""

    __slots__ = ("_entries", "_lock", "bytes", "limit_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.bytes = 0
        self._entries: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, read: Callable[[], Value], size: Callable[[Value], int]) -> Value:
        """The value under the key, read where it is not here. One larger than the limit is not kept."""
        with self._lock:
            if (held := self._entries.get(key)) is not None:
                self._entries.move_to_end(key)
                return cast(Value, held[0])
        value = read()
        needed = size(value)
        with self._lock:
            if key not in self._entries and needed <= self.limit_bytes:
                self._entries[key] = value, needed
                self.bytes += needed
                while self.bytes > self.limit_bytes:
                    _, (_, freed) = self._entries.popitem(last=False)
                    self.bytes -= freed
        return value

    def holds(self, key: Hashable) -> bool:
        """Whether the key's value is here now."""
        with self._lock:
            return key in self._entries
