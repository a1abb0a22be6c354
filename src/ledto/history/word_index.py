"""Find the row groups of a segment that may have a word in a name or an attribute. Each closed segment has one such file.

A segment's row groups form up to 64 *blocks*. The file says for each word in which blocks it occurs, and which blocks
have events that report a failure:

- a header (`_HEADER`);
- *common* words: their hashes, ascending, 4 bytes each; then for each of them its blocks, as a bit mask of 8 bytes;
- *rare* words: where each bucket begins, 4 bytes each; then an entry of 2 bytes for each word and block, sorted by hash.
  The upper bits of a hash choose a bucket of 16 to 32 entries. An entry has some more bits of it, and the block's number.

The index never leaves out a block that has the word. It may give one that does not: for a word that is not there, about
one of forty segments gives a block (docs/decisions/0031-finding-events.md). So read the rows, and compare.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ledto.history import layout
from ledto.history.ids import Index
from ledto.history.words import UNICODE, Hashes, hash_pairs, hash_words, hashes_in

SMALLEST_INDEXED = 128
"""Segments with fewer events have no index: reading them takes no longer."""
MOST_BLOCKS = 64
COMMON_BLOCKS = 6
"""A word in this many blocks is common: its mask takes no more than its entries would."""
BUCKET_ENTRIES = 32
"""About how many entries a bucket has."""
ENTRY_BITS = 16
_HEADER = struct.Struct("<8s3BBBBHIII")
"""`_MAGIC`; the version of Unicode; how many bits of a hash choose the bucket, how many are in an entry, and how many say
the block; row groups of a block; row groups of the segment, common words, and entries."""
_MAGIC = b"words.01"
ERROR_MARK = int(hash_words(["\0error"])[0])
"""What is in the index instead of a word for events that report a failure. No word has a NUL."""


@dataclass(frozen=True, slots=True)
class WantedWord:
    """A word or a pair of words that an event must have, or the mark of failures."""

    hash: int
    beyond_ascii: bool
    """Whether it has letters beyond ASCII, of which another version of Unicode may think otherwise."""

    @classmethod
    def of(cls, *words: str) -> WantedWord:
        """Make one of a word as `ledto.history.words.split_words` gives it, or of two that `pairs_of` gives."""
        hashes = hash_words(words) if len(words) == 1 else hash_pairs([(words[0], words[1])])
        return cls(int(hashes[0]), not "".join(words).isascii())


FAILURE = WantedWord(ERROR_MARK, False)


def searched_columns(names: Sequence[str]) -> list[str]:
    """Select the columns of events that have words: the name, the attributes, and the source's own columns."""
    own = [name for name in names if name not in layout.EVENTS.names and name not in layout.INTERNAL]
    return ["name", "attributes", *own]


def column_texts(name: str, column: pa.Array) -> tuple[pa.Array, bool]:
    """Give the texts of a column, each at least once, and whether they are JSON."""
    if pa.types.is_dictionary(column.type):
        used = pc.unique(column.indices.drop_null())
        column = column.dictionary.take(used)
    if name == "attributes":
        return column, True
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return column, False
    from ledto.sources.parquet.json_text import json_text  # Only Parquet files have columns of their own.

    return json_text(pc.unique(column) if pa.types.is_primitive(column.type) else column), True


def index_of_words(events: pa.Table) -> bytes:
    """Build the index of a segment's events, which have the columns of `layout.EVENTS` and those of the source."""
    groups = -(-len(events) // layout.EVENT_ROWS)
    groups_a_block = -(-groups // MOST_BLOCKS)
    rows_a_block = groups_a_block * layout.EVENT_ROWS
    by_block = [
        _block_hashes(events.slice(start, rows_a_block)).astype(np.uint64)
        for start in range(0, len(events), rows_a_block)
    ]
    # One number for each word and block, sorted: the hash, then the block.
    keys = np.concatenate([hashes << np.uint64(6) | np.uint64(block) for block, hashes in enumerate(by_block)])
    keys.sort()
    hashes, blocks = (keys >> np.uint64(6)).astype(np.uint32), (keys & np.uint64(63)).astype(np.uint16)
    first = np.flatnonzero(np.diff(hashes, prepend=hashes[:1] ^ np.uint32(1)))
    counts = np.diff(first, append=len(hashes))
    is_common = np.repeat(counts >= COMMON_BLOCKS, counts)
    common = first[counts >= COMMON_BLOCKS]
    bits = np.where(is_common, np.uint64(1) << blocks.astype(np.uint64), np.uint64(0))
    masks = np.bitwise_or.reduceat(bits, first)[counts >= COMMON_BLOCKS] if len(first) else np.empty(0, np.uint64)
    rare, rare_blocks = hashes[~is_common], blocks[~is_common]
    block_bits = (len(by_block) - 1).bit_length()
    bucket_bits = max(0, (len(rare) // BUCKET_ENTRIES).bit_length())
    hash_bits = min(ENTRY_BITS - block_bits, 32 - bucket_bits)
    parts = (rare >> np.uint32(32 - bucket_bits - hash_bits)) & np.uint32((1 << hash_bits) - 1)
    buckets = rare >> np.uint32(32 - bucket_bits) if bucket_bits else np.zeros(len(rare), np.uint32)
    header = _HEADER.pack(
        _MAGIC, *UNICODE, bucket_bits, hash_bits, block_bits, groups_a_block, groups, len(common), len(rare)
    )
    arrays = (
        hashes[common].astype("<u4"),
        masks.astype("<u8"),
        np.searchsorted(buckets, np.arange((1 << bucket_bits) + 1)).astype("<u4"),
        (parts << np.uint32(block_bits) | rare_blocks).astype("<u2"),
    )
    return b"".join([header, *(array.tobytes() for array in arrays)])


def _block_hashes(events: pa.Table) -> Hashes:
    """Hash the words of some rows, each once, and the mark of failures if there are any."""
    found = [np.array([ERROR_MARK] if pc.any(events["error"]).as_py() else [], np.uint32)]
    for name in searched_columns(events.column_names):
        for chunk in events[name].chunks:
            texts, is_json = column_texts(name, chunk)
            found.append(hashes_in(texts, is_json=is_json))
    return np.unique(np.concatenate(found))


def groups_with(index: Index, words: Sequence[WantedWord]) -> Iterator[int]:
    """Yield the row groups that may have all these words, ascending. All that have them are among these."""
    (magic, *unicode, bucket_bits, hash_bits, block_bits, groups_a_block, groups, commons, entries) = _HEADER.unpack(
        index.read_at(_HEADER.size, 0)
    )
    if magic != _MAGIC:
        raise ValueError("it is no index of words")
    hashes_at = _HEADER.size
    masks_at = hashes_at + 4 * commons
    buckets_at = masks_at + 8 * commons
    entries_at = buckets_at + 4 * ((1 << bucket_bits) + 1)
    mask = (1 << MOST_BLOCKS) - 1
    known = np.frombuffer(index.read_at(4 * commons, hashes_at), "<u4")
    for word in words:
        # Who wrote the index may have known fewer letters, and have split such a word.
        if word.beyond_ascii and tuple(unicode) != UNICODE:
            continue
        place = int(np.searchsorted(known, np.uint32(word.hash)))
        if place < commons and int(known[place]) == word.hash:
            mask &= int.from_bytes(index.read_at(8, masks_at + 8 * place), "little")
            continue
        bucket = word.hash >> (32 - bucket_bits)
        begin, end = np.frombuffer(index.read_at(8, buckets_at + 4 * bucket), "<u4").tolist()
        if not 0 <= begin <= end <= entries:
            raise ValueError("its buckets contradict its length")
        found = np.frombuffer(index.read_at(2 * (end - begin), entries_at + 2 * begin), "<u2")
        part = (word.hash >> (32 - bucket_bits - hash_bits)) & ((1 << hash_bits) - 1)
        blocks = found[found >> block_bits == part] & ((1 << block_bits) - 1)
        mask &= sum(1 << block for block in set(blocks.tolist()))
        if not mask:
            return
    for block in range(-(-groups // groups_a_block)):
        if mask >> block & 1:
            yield from range(block * groups_a_block, min((block + 1) * groups_a_block, groups))
