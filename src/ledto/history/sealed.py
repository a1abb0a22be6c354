"""Files that show damage: a flipped byte, a cut or a swapped file is an error that names the file, never another answer.

A sealed file is summed up block by block, its sums stand at its end, and the sum of that end is in the file's name:

- ``events-00000-4f1c6b2a9d3e-7b3f00c2.parquet``: the sums are in the footer's metadata, so that it stays a Parquet file for
  everybody; the name holds the sum of the footer.
- ``boundary-00001-4f1c6b2a9d3e-19a4e3b7.npz``: the content, the sums of its blocks, its length and `MAGIC`; the name holds
  the sum of all that follows the content.

Names are told by tables and a manifest that are sealed themselves, so the manifest's own sum covers the whole history, and
a question checks only the blocks that it reads. Sums are CRC-32: for accidents, not against forgery.
"""

from __future__ import annotations

import base64
import io
import os
import re
import struct
import sys
from array import array
from collections.abc import Sequence
from errno import ENOENT
from typing import Any, Literal
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq

from ledto.history import layout
from ledto.history.errors import DamagedHistory
from ledto.history.store import Store

BLOCK_BYTES = 8_192
"""What one sum covers. A question reads some kilobytes of a column, and checks no more than the blocks around them."""
PAGE_BYTES = 1 << 20
"""About what a page of a column has before it is compressed."""
_ROWS_AT_ONCE = 1_024
METADATA = b"ledto.blocks"
MAGIC = b"ledto.01"
ENDING = struct.Struct("<Q8s")
"""The last bytes of a sealed file that is not Parquet: the content's length, and `MAGIC`."""
LIKELY_FOOTER_BYTES = 64 << 10
"""Read at once from the end of a Parquet file; most footers are smaller."""
ZSTD = {"compression": "zstd", "compression_level": 1}
"""The level at which writing is no slower than without compression, and 5% larger than at the default level."""
PARQUET = "parquet"
_SUM_IN_NAME = re.compile(r"-([0-9a-f]{8})\.[a-z]+")
_PIECE = 128 * BLOCK_BYTES


def write_sealed(store: Store, run: str, stem: str, suffix: str, content: bytes | memoryview) -> str:
    """Write a file of a run; gives its name, which is the stem, a sum and the suffix."""
    end = _little_endian(_sums_of(memoryview(content))) + ENDING.pack(len(content), MAGIC)
    name = f"{stem}-{crc32(end):08x}.{suffix}"
    with store.writing(f"{layout.run_folder(run)}/{name}") as file:
        file.write(content)
        file.write(end)
    return name


def write_sealed_table(store: Store, run: str, stem: str, table: pa.Table, **options: Any) -> str:
    """Write a Parquet file of a run; gives its name. `options` are those of `pyarrow.parquet.ParquetWriter`."""
    row_group_size = options.pop("row_group_size", None)
    # A table that was read from a sealed file brings that file's sums along.
    table = table.replace_schema_metadata(None)
    whole = io.BytesIO()
    writer = pq.ParquetWriter(whole, table.schema, **ZSTD, **options, write_batch_size=_rows_at_once(table))
    try:
        writer.write_table(table, row_group_size=row_group_size)
        summed = whole.tell()
        sums = _little_endian(_sums_of(whole.getbuffer()))
        writer.add_key_value_metadata({METADATA: base64.b64encode(sums)})
    finally:
        writer.close()
    content = whole.getbuffer()
    footer_bytes = int.from_bytes(content[-8:-4], "little") + 8
    if len(content) - footer_bytes != summed:
        raise ValueError(f"{stem}: {len(content) - footer_bytes - summed} bytes before the footer have no sum")
    name = f"{stem}-{crc32(content[-footer_bytes:]):08x}.{PARQUET}"
    store.write(f"{layout.run_folder(run)}/{name}", content)
    return name


def _rows_at_once(table: pa.Table) -> int:
    """Choose after how many rows the writer looks whether a page is full.

    A reader decodes a whole page, and a row may have a megabyte.
    """
    return int(max(1, min(_ROWS_AT_ONCE, PAGE_BYTES * len(table) // max(1, table.nbytes))))


class SealedFile:
    """A sealed file to read at any place. What it gives was checked; `DamagedHistory` where that fails.

    `FileNotFoundError`, with the place as its file name, where there is none. Has the methods of a file that
    `pyarrow.PythonFile` needs. Threads may share `read_at`, and nothing else.
    """

    def __init__(self, store: Store, path: str) -> None:
        self.place = store.place(path)
        self.metadata: pq.FileMetaData | None = None
        """Of a Parquet file."""
        self._at = 0
        self._local = store.is_local
        found = _SUM_IN_NAME.search(path)
        if found is None or found.end() != len(path):
            raise self._damaged("its name has no checksum")
        try:
            self._file = store.open(path)
        except FileNotFoundError:
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), self.place) from None
        self._total = self._file.size()
        is_parquet = path.endswith(f".{PARQUET}")
        self._end_bytes = self._parquet_end() if is_parquet else self._plain_end()
        self._summed = self._total - len(self._end_bytes)
        if self._summed < 0 or crc32(self._end_bytes) != int(found[1], 16):
            raise self._damaged("its end is not the one that was written")
        self._sums = self._parquet_sums() if is_parquet else self._plain_sums()
        self._size = self._total if is_parquet else self._summed
        if len(self._sums) != -(-self._summed // BLOCK_BYTES):
            raise self._damaged("it has another length than when it was written")

    def _parquet_end(self) -> bytes:
        last = bytes(self._raw(max(0, self._total - LIKELY_FOOTER_BYTES), self._total))
        needed = int.from_bytes(last[-8:-4], "little") + 8
        if len(last) < 8 or needed > self._total:
            raise self._damaged("it is cut, or its end is not that of a Parquet file")
        return last[-needed:] if needed <= len(last) else bytes(self._raw(self._total - needed, self._total))

    def _plain_end(self) -> bytes:
        if self._total < ENDING.size:
            raise self._damaged("it is cut")
        length, magic = ENDING.unpack(self._raw(self._total - ENDING.size, self._total))
        expected = length + 4 * -(-length // BLOCK_BYTES) + ENDING.size
        if magic != MAGIC or expected != self._total:
            raise self._damaged("it is cut, or its end is not the one that was written")
        return bytes(self._raw(length, self._total))

    def _parquet_sums(self) -> array[int]:
        self.metadata = pq.read_metadata(pa.BufferReader(self._end_bytes))
        told = (self.metadata.metadata or {}).get(METADATA, b"")
        return _from_little_endian(base64.b64decode(told))

    def _plain_sums(self) -> array[int]:
        return _from_little_endian(self._end_bytes[: -ENDING.size])

    def _damaged(self, what: str) -> DamagedHistory:
        return damaged(self.place, what)

    def _raw(self, start: int, stop: int) -> memoryview:
        try:
            found = memoryview(self._file.read_at(stop - start, start))
        except OSError as fault:
            raise self._damaged(f"it cannot be read, {fault}") from None
        if len(found) != stop - start:
            raise self._damaged("it was cut while it was open")
        return found

    def size(self) -> int:
        """How many bytes can be read."""
        return int(self._size)

    def read_at(self, count: int, start: int) -> memoryview:
        """Up to so many bytes from a place on."""
        stop = min(start + count, self._size)
        if start >= stop:
            return memoryview(b"")
        if start >= self._summed:
            return memoryview(self._end_bytes)[start - self._summed : stop - self._summed]
        first, last = start // BLOCK_BYTES, -(-min(stop, self._summed) // BLOCK_BYTES)
        begin = first * BLOCK_BYTES
        blocks = self._raw(begin, min(last * BLOCK_BYTES, self._summed))
        sums = _sums_of(blocks)
        if sums != self._sums[first:last]:
            wrong = next(at for at, found in enumerate(sums) if found != self._sums[first + at])
            raise self._damaged(f"bytes {begin + wrong * BLOCK_BYTES:,} and following are not those that were written")
        if stop > self._summed:
            whole = bytes(blocks[start - begin :]) + self._end_bytes[: stop - self._summed]
            return memoryview(whole)
        return blocks[start - begin : stop - begin]

    def verify(self) -> None:
        """Read all of it."""
        for start in range(0, self._summed, _PIECE):
            self.read_at(min(_PIECE, self._summed - start), start)

    @property
    def closed(self) -> bool:
        """Whether the file was closed."""
        return bool(self._file.closed)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def tell(self) -> int:
        """Where the next `read` begins."""
        return self._at

    def seek(self, place: int, origin: Literal[0, 1, 2] = 0) -> int:
        """Let the next `read` begin elsewhere."""
        self._at = place + (0, self._at, self._size)[origin]
        return self._at

    def read(self, count: int = -1) -> memoryview:
        """The next so many bytes, or all that follow."""
        found = self.read_at(self._size if count < 0 else count, self._at)
        self._at += len(found)
        return found

    def parquet(self) -> pq.ParquetFile:
        """A reader of this Parquet file; it checks what it reads."""
        return pq.ParquetFile(pa.PythonFile(self, mode="r"), metadata=self.metadata, pre_buffer=not self._local)


def damaged(place: str, what: str) -> DamagedHistory:
    """The error about a file that is not as it was written."""
    return DamagedHistory(
        f"{place} is damaged: {what}. Restore the file from a copy, or make the history again with ledto observe"
    )


def missing(place: str) -> DamagedHistory:
    """The error about a file that is gone."""
    return DamagedHistory(
        f"{place} is missing. Restore the file from a copy, or make the history again with ledto observe"
    )


def read_sealed(store: Store, path: str) -> memoryview:
    """All of a file that `write_sealed` wrote, checked."""
    file = SealedFile(store, path)
    try:
        return file.read()
    finally:
        file.close()


def read_sealed_table(store: Store, path: str, columns: Sequence[str] | None = None) -> pa.Table:
    """All rows of a file that `write_sealed_table` wrote, checked."""
    file = SealedFile(store, path)
    try:
        return file.parquet().read(columns=columns, use_threads=False)
    finally:
        file.close()


def _sums_of(content: memoryview) -> array[int]:
    return array("I", [crc32(content[at : at + BLOCK_BYTES]) for at in range(0, len(content), BLOCK_BYTES)])


def _little_endian(sums: array[int]) -> bytes:
    if sys.byteorder == "big":
        sums = array("I", sums)
        sums.byteswap()
    return sums.tobytes()


def _from_little_endian(told: bytes) -> array[int]:
    sums = array("I")
    sums.frombytes(told)
    if sys.byteorder == "big":
        sums.byteswap()
    return sums
