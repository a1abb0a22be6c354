"""Write and read files that show damage. A flipped byte, a cut or a swapped file raises an error that names the file.

A sealed file has a checksum for each block of its content. They are in the file's end, and the checksum of that end is in
the file's name:

- ``events-00000-4f1c6b2a9d3e-7b3f00c2.parquet``: the checksums are in the footer's metadata, so that any program can read
  the file as Parquet. The name has the checksum of the footer.
- ``boundary-00001-4f1c6b2a9d3e-19a4e3b7.npz``: the content, the checksums of its blocks, its length and `MAGIC`. The name
  has the checksum of all that follows the content.

The tables and the manifest that hold these names have checksums, too. So the manifest's checksum covers the whole history,
while a question checks only the blocks that it reads. Checksums are CRC-32: against accidents, not against forgery.
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
from errno import EACCES, EMFILE, ENFILE, ENOENT, EPERM
from typing import Any, Literal
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq

from ledto.history import layout
from ledto.history.errors import DamagedHistory
from ledto.history.store import StorageError, Store

BLOCK_BYTES = 8_192
"""Bytes that one checksum covers. A question reads some kilobytes of a column, and checks only the blocks around them."""
PAGE_BYTES = 1 << 20
"""About the size of a page of a column before compression."""
_ROWS_AT_ONCE = 1_024
METADATA = b"ledto.blocks"
MAGIC = b"ledto.01"
ENDING = struct.Struct("<Q8s")
"""The last bytes of a sealed file that is not Parquet: the length of the content, and `MAGIC`."""
LIKELY_FOOTER_BYTES = 64 << 10
"""Bytes that are read first from the end of a Parquet file. Most footers are smaller."""
ZSTD = {"compression": "zstd", "compression_level": 1}
"""At level 1 writing takes no longer than without compression, and files are 5% larger than at the default level."""
PARQUET = "parquet"
_SUM_IN_NAME = re.compile(r"-([0-9a-f]{8})\.[a-z]+")
_PIECE = 128 * BLOCK_BYTES


def write_sealed(store: Store, run: str, stem: str, suffix: str, content: bytes | memoryview) -> str:
    """Write a file of a run; give its name: the stem, a checksum and the suffix."""
    end = _little_endian(_sums_of(memoryview(content))) + ENDING.pack(len(content), MAGIC)
    name = f"{stem}-{crc32(end):08x}.{suffix}"
    with store.writing(f"{layout.run_folder(run)}/{name}") as file:
        file.write(content)
        file.write(end)
    return name


def write_sealed_table(store: Store, run: str, stem: str, table: pa.Table, **options: Any) -> str:
    """Write a Parquet file of a run; give its name.

    `options` are those of `pyarrow.parquet.ParquetWriter`, and ``row_group_size``.
    """
    row_group_size = options.pop("row_group_size", None)
    # A table that was read from a sealed file carries that file's checksums in its metadata.
    table = table.replace_schema_metadata(None)
    whole = io.BytesIO()
    writer = pq.ParquetWriter(whole, table.schema, **ZSTD, **options, write_batch_size=_rows_at_once(table))
    try:
        writer.write_table(table, row_group_size=row_group_size)
        summed_bytes = whole.tell()
        sums = _little_endian(_sums_of(whole.getbuffer()))
        writer.add_key_value_metadata({METADATA: base64.b64encode(sums)})
    finally:
        writer.close()
    content = whole.getbuffer()
    footer_bytes = int.from_bytes(content[-8:-4], "little") + 8
    if len(content) - footer_bytes != summed_bytes:
        raise ValueError(
            f"{stem}: {len(content) - footer_bytes - summed_bytes} bytes before the footer have no checksum"
        )
    name = f"{stem}-{crc32(content[-footer_bytes:]):08x}.{PARQUET}"
    store.write(f"{layout.run_folder(run)}/{name}", content)
    return name


def _rows_at_once(table: pa.Table) -> int:
    """Choose how many rows the writer adds before it checks whether a page is full.

    Pages must stay small although a row may have a megabyte: a reader decodes a whole page.
    """
    return int(max(1, min(_ROWS_AT_ONCE, PAGE_BYTES * len(table) // max(1, table.nbytes))))


class SealedFile:
    """A sealed file that can be read at any offset. Every read is checked, and raises `DamagedHistory` if that fails.

    Raises `FileNotFoundError`, with the full path, if there is no such file. Has the methods that `pyarrow.PythonFile`
    needs. Threads may share `read_at`, and nothing else.
    """

    def __init__(self, store: Store, path: str) -> None:
        self.place = store.place(path)
        self.metadata: pq.FileMetaData | None = None
        """The footer, if it is a Parquet file."""
        self._at = 0
        self._local = store.is_local
        sum_in_name = _SUM_IN_NAME.search(path)
        if sum_in_name is None or sum_in_name.end() != len(path):
            raise self._damaged("its name has no checksum")
        try:
            self._file = store.open(path)
        except FileNotFoundError:
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), self.place) from None
        self._total = self._file.size()
        is_parquet = path.endswith(f".{PARQUET}")
        self._end_bytes = self._parquet_end() if is_parquet else self._plain_end()
        self._summed = self._total - len(self._end_bytes)
        if self._summed < 0 or crc32(self._end_bytes) != int(sum_in_name[1], 16):
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
        encoded = (self.metadata.metadata or {}).get(METADATA, b"")
        return _from_little_endian(base64.b64decode(encoded))

    def _plain_sums(self) -> array[int]:
        return _from_little_endian(self._end_bytes[: -ENDING.size])

    def _damaged(self, what: str) -> DamagedHistory:
        return damaged(self.place, what)

    def _raw(self, start: int, stop: int) -> memoryview:
        """Read bytes without checking them."""
        try:
            data = memoryview(self._file.read_at(stop - start, start))
        except OSError as fault:
            raise self._damaged(f"it cannot be read, {fault}") from None
        if len(data) != stop - start:
            raise self._damaged("it was cut while it was open")
        return data

    def size(self) -> int:
        """Give the number of bytes that can be read: of Parquet the whole file, else the content."""
        return int(self._size)

    def read_at(self, count: int, start: int) -> memoryview:
        """Read up to `count` bytes from the offset `start` on; fewer at the end."""
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
            wrong = next(at for at, block_sum in enumerate(sums) if block_sum != self._sums[first + at])
            raise self._damaged(f"bytes {begin + wrong * BLOCK_BYTES:,} and following are not those that were written")
        if stop > self._summed:
            whole = bytes(blocks[start - begin :]) + self._end_bytes[: stop - self._summed]
            return memoryview(whole)
        return blocks[start - begin : stop - begin]

    def verify(self) -> None:
        """Read and check the whole file. Raises `DamagedHistory`."""
        for start in range(0, self._summed, _PIECE):
            self.read_at(min(_PIECE, self._summed - start), start)

    @property
    def closed(self) -> bool:
        """Whether the file was closed."""
        return bool(self._file.closed)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def tell(self) -> int:
        """Give the offset of the next `read`."""
        return self._at

    def seek(self, offset: int, origin: Literal[0, 1, 2] = 0) -> int:
        """Move the next `read` to an offset from the start (0), from where it is (1), or from the end (2)."""
        self._at = offset + (0, self._at, self._size)[origin]
        return self._at

    def read(self, count: int = -1) -> memoryview:
        """Read the next `count` bytes, or all that follow."""
        data = self.read_at(self._size if count < 0 else count, self._at)
        self._at += len(data)
        return data

    def parquet(self) -> pq.ParquetFile:
        """Open as Parquet; the reader checks what it reads."""
        return pq.ParquetFile(pa.PythonFile(self, mode="r"), metadata=self.metadata, pre_buffer=not self._local)


def damaged(place: str, what: str) -> DamagedHistory:
    """Make the error about a file that differs from what was written. `what` says how."""
    return DamagedHistory(
        f"{place} is damaged: {what}. Restore the file from a copy, or make the history again with ledto observe"
    )


def unreadable(place: str, fault: Exception) -> DamagedHistory | StorageError:
    """Make the error about a file that cannot be read. It is not damaged if the system did not let us open it."""
    code = fault.errno if isinstance(fault, OSError) else None
    if code in (EMFILE, ENFILE):
        return StorageError(f"{place} cannot be opened: too many files are open. Allow more of them: ulimit -n 4096")
    if code in (EACCES, EPERM):
        return StorageError(f"{place} cannot be read: {os.strerror(code)}. Run this as a user who may read the history")
    return damaged(place, f"it cannot be read ({fault})")


def missing(place: str) -> DamagedHistory:
    """Make the error about a file that does not exist."""
    return DamagedHistory(
        f"{place} is missing. Restore the file from a copy, or make the history again with ledto observe"
    )


def read_sealed(store: Store, path: str) -> memoryview:
    """Read and check the content of a file that `write_sealed` wrote."""
    file = SealedFile(store, path)
    try:
        return file.read()
    finally:
        file.close()


def read_sealed_table(store: Store, path: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Read and check all rows of a file that `write_sealed_table` wrote."""
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


def _from_little_endian(data: bytes) -> array[int]:
    sums = array("I")
    sums.frombytes(data)
    if sys.byteorder == "big":
        sums.byteswap()
    return sums
