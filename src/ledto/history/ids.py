"""Find an event by its source's own id, in a sorted index of hashes; each segment has one such file.

The file holds a 64-bit number for each id, ascending: the upper half is the id's hash, the lower half its row. Hashes are
spread evenly, so a look-up estimates the place and reads a few kilobytes, however large the file is.

HAZARD: two ids may have the same hash. Compare the ids of the rows that a look-up gives.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ledto.kernels import kernel

Words = NDArray[np.uint64]

ENTRY_BYTES = 8
LARGEST_HASH = 1 << 32
DEVIATIONS = 8.0
"""How far from its expected place a hash is looked for, in standard deviations."""


class Index(Protocol):
    """A file that can be read at any offset."""

    def size(self) -> int:
        """Give the length in bytes."""

    def read_at(self, count: int, start: int) -> memoryview:
        """Read `count` bytes from the offset `start` on."""


@kernel("uint64[::1](Array(uint8, 1, 'C', True), Array(int64, 1, 'C', True))")
def _hashes(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> Words:
    """Hash each text to 32 bits: FNV-1a, its bits mixed by the finaliser of MurmurHash3, the upper half of that."""
    hashes = np.empty(len(offsets) - 1, np.uint64)
    for text in range(len(hashes)):
        value = np.uint64(0xCBF29CE484222325)
        for at in range(offsets[text], offsets[text + 1]):
            value = (value ^ np.uint64(data[at])) * np.uint64(0x100000001B3)
        value = (value ^ (value >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
        value = (value ^ (value >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
        hashes[text] = (value ^ (value >> np.uint64(33))) >> np.uint64(32)
    return hashes


def index_of_ids(ids: pa.ChunkedArray) -> Words:
    """Build the index of a column of ids: an entry for each that is not null, ascending."""
    plain = ids.cast(ids.type.value_type) if pa.types.is_dictionary(ids.type) else ids
    whole = plain.cast(pa.large_string()).combine_chunks()
    if len(whole) >= LARGEST_HASH:
        raise ValueError(f"a segment holds fewer than 2**32 events, not {len(whole)}")
    _, offsets, data = whole.buffers()
    if data is None or len(whole) == 0:
        return np.empty(0, np.uint64)
    starts = np.frombuffer(offsets, np.int64, len(whole) + 1, whole.offset * 8)
    entries = _hashes(np.frombuffer(data, np.uint8), starts) << np.uint64(32) | np.arange(len(whole), dtype=np.uint64)
    if whole.null_count:
        entries = entries[whole.is_valid().to_numpy(zero_copy_only=False)]
    entries.sort()
    return entries


def candidate_rows(index: Index, wanted: str) -> list[int]:
    """Find the rows that may have this id, ascending; most often none or one."""
    text = wanted.encode()
    low = int(_hashes(np.frombuffer(text, np.uint8), np.array([0, len(text)]))[0]) << 32
    high = low + LARGEST_HASH
    total = index.size() // ENTRY_BYTES
    expected = total * low / (1 << 64)
    reach = 16 + int(DEVIATIONS * math.sqrt(total))
    first, last = max(0, int(expected) - reach), min(total, int(expected) + reach)
    while True:
        window = np.frombuffer(index.read_at((last - first) * ENTRY_BYTES, first * ENTRY_BYTES), "<u8")
        before, after = first > 0 and int(window[0]) >= low, last < total and int(window[-1]) < high
        if not (before or after):
            start, stop = (
                np.searchsorted(window, np.array([low, high], np.uint64))
                if high < 1 << 64
                else (
                    np.searchsorted(window, np.uint64(low)),
                    len(window),
                )
            )
            return [int(entry) & (LARGEST_HASH - 1) for entry in window[start:stop]]
        reach *= 2
        first, last = max(0, first - before * reach), min(total, last + after * reach)
