"""Read files of a run, and cache what was read.

Files are checked while they are read, and errors name the file. The cache is bounded in bytes; when it is full, the least
recently used entries go first.
"""

from __future__ import annotations

import resource
import sys
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
from ledto.history.sealed import SealedFile, missing, unreadable
from ledto.history.store import Store
from ledto.history.word_index import WantedWord, groups_with

Value = TypeVar("Value")

OPEN_FILES_BYTES = 64 << 20
"""Memory for files that are kept open."""
SHARE_OF_OPEN_FILES = 8
"""The part of the files that this process may open, as 1 in so many, that is kept open for one run."""
FOOTER_BYTES_A_COLUMN = 400
"""About how much memory a footer takes for one column of one row group."""


class RunFiles:
    """The files of one run, committed or not. Threads may share it."""

    def __init__(self, store: Store, run: Manifest | str, cache_bytes: int) -> None:
        """`run` is the manifest; before the commit, only the run's name."""
        self.store = store
        self.name = run if isinstance(run, str) else run.run
        """The run's name, which is also that of its folder."""
        self._manifest = None if isinstance(run, str) else run
        self._cache = Cache(cache_bytes)
        self._files = Cache(OPEN_FILES_BYTES, most=most_open_files())
        # Parquet readers do not promise that threads may share them.
        self._reading = RLock()

    @property
    def manifest(self) -> Manifest:
        """The run's manifest. Raises `ValueError` if the run is not committed."""
        if self._manifest is None:
            raise ValueError(f"run {self.name} has no manifest: it is not committed")
        return self._manifest

    def commit(self, manifest: Manifest) -> None:
        """Note the manifest with which the run was committed."""
        self._manifest = manifest

    def cached(self, key: tuple[str, int], find: Callable[[], Value], size_bytes: Callable[[Value], int]) -> Value:
        """Give a derived value from the cache, or call `find` and cache its result with what is read from files."""
        return self._cache.get(key, find, size_bytes)

    def table_file(self, name: str) -> str:
        """Give the file of one of the small tables: segments, processes or crossings."""
        return str(getattr(self.manifest.tables, name))

    def table(self, name: str) -> pq.ParquetFile:
        """Open a Parquet file of the run by its name."""
        return self._guarded(name, lambda: self._parquet(name))

    def file_batches(self, name: str, *, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Read a Parquet file of the run in batches of up to `layout.EVENT_ROWS` rows."""
        yield from self.table(name).iter_batches(layout.EVENT_ROWS, columns=columns, use_threads=False)

    def groups_with(self, name: str, words: Sequence[WantedWord]) -> list[int]:
        """Look words up in an index of words: list the row groups that may have all of them (`groups_with`)."""

        def read() -> list[int]:
            # Not kept open: a search looks into the index of every segment.
            file = SealedFile(self.store, self._path(name))
            try:
                return list(groups_with(file, words))
            finally:
                file.close()

        return self._guarded(name, read)

    def column_bytes(self, name: str, group: int, column: str) -> int:
        """Read from a Parquet file's footer how many bytes a column has in a row group, before compression."""
        stored = self._stored_column(name, group, column)
        return 0 if stored is None else int(stored.total_uncompressed_size)

    def bounds_of(self, name: str, group: int, column: str) -> tuple[int, int] | None:
        """Read from a Parquet file's footer the smallest and the largest value of a row group; None if it has none."""
        stored = self._stored_column(name, group, column)
        statistics = None if stored is None else stored.statistics
        if statistics is None or not statistics.has_min_max:
            return None
        return int(statistics.min), int(statistics.max)

    def _stored_column(self, name: str, group: int, column: str) -> pq.ColumnChunkMetaData | None:
        metadata = self.table(name).metadata.row_group(group)
        columns = (metadata.column(place) for place in range(metadata.num_columns))
        return next((stored for stored in columns if stored.path_in_schema == column), None)

    def place(self, name: str) -> str:
        """Give the path or URI of a file of the run."""
        return self.store.place(self._path(name))

    def require_current(self) -> None:
        """Raise `HistoryReplaced` if a newer run was committed since this one was opened. For files that are gone."""
        if self._manifest is not None and read_manifest(self.store).version != self._manifest.version:
            raise HistoryReplaced(
                f"the history at {self.store} was replaced by a newer one while it was open: open it again"
            ) from None

    def _path(self, name: str) -> str:
        return f"{layout.run_folder(self.name)}/{name}"

    def _parquet(self, name: str) -> pq.ParquetFile:
        def read() -> pq.ParquetFile:
            return SealedFile(self.store, self._path(name)).parquet()

        def footer_bytes(file: pq.ParquetFile) -> int:
            return 4096 + FOOTER_BYTES_A_COLUMN * int(file.metadata.num_row_groups * file.metadata.num_columns)

        return self._files.get(name, read, footer_bytes)

    def _guarded(self, name: str, read: Callable[[], Value]) -> Value:
        """Read from a file. Raises `HistoryReplaced` or `DamagedHistory`, with the file's path."""
        try:
            with self._reading:
                return read()
        except FileNotFoundError:
            self.require_current()
            raise missing(self.place(name)) from None
        except (pa.ArrowException, zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError, OSError) as fault:
            raise unreadable(self.place(name), fault) from fault


def most_open_files() -> int:
    """Return how many files may be kept open for one run. A process may have opened several runs."""
    return max(8, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // SHARE_OF_OPEN_FILES)


class Cache:
    """A cache of values by key, bounded in bytes and, with `most`, in entries. Threads may share it; two that miss a key at
    once may both read it.
    """

    __slots__ = ("_entries", "_lock", "bytes", "limit_bytes", "most")

    def __init__(self, limit_bytes: int, *, most: int = sys.maxsize) -> None:
        self.limit_bytes = limit_bytes
        self.most = most
        self.bytes = 0
        self._entries: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, read: Callable[[], Value], size: Callable[[Value], int]) -> Value:
        """Give the value of a key; read it if it is not cached. A value larger than the limit is not cached."""
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
                while self.bytes > self.limit_bytes or len(self._entries) > self.most:
                    _, (_, freed) = self._entries.popitem(last=False)
                    self.bytes -= freed
        return value

    def holds(self, key: Hashable) -> bool:
        """Tell whether the value of a key is cached now."""
        with self._lock:
            return key in self._entries
