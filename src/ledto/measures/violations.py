"""Count exactly how often an order of delivery contradicts happened-before.

An *inverted pair* is a cause delivered after its effect. From the pairs follow:

- `before_cause`: messages delivered before one of their causes, and `after_effect`: messages delivered after one of
  their effects;
- `average_pct`: half their sum, per message received, in percent. This is the reading of Approximate Causal Observer,
  section 6, that comes closest to its stated numbers;
- `pairs_pct`: inverted pairs per message received, in percent: the same section read literally;
- `messages_pct`: messages that belong to an inverted pair at all, in percent.

Messages that were not delivered count for nothing: they cannot be in the wrong place.

How: walk through the deliveries, and keep the smallest number of each sender that is still to come. A delivery is
before one of its causes iff its vector reaches one of these numbers, which is one comparison of two short arrays. Only
then count bits: one for each message still to come, up to the vector's entry. If so many are inverted that these walks
grow long, a Fenwick tree over the words of bits replaces them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledto.delivery.duplicates import bit, bits_set, lowest_bit, seq_spans
from ledto.events.columns import Ints, TrueOrder
from ledto.kernels import inlined, kernel, part

Longs = NDArray[np.int64]
Words = NDArray[np.uint64]

NONE_LEFT = np.iinfo(np.int32).max
"""In place of a sender's smallest number to come, if none is to come: no vector reaches it."""
NO_REPEAT = -1
"""In place of the place of a message that comes again, if none does."""
BEFORE_CAUSE, AFTER_EFFECT, INVOLVED, PAIRS = range(4)
"""The counts of `sweep`."""
PATIENCE = 64
"""How many words are walked for each message, on average, before the Fenwick tree is built."""


@dataclass(frozen=True, slots=True)
class Violations:
    """Counts over one order of delivery."""

    messages: int
    """Messages delivered."""
    before_cause: int
    """Messages delivered before one of their causes."""
    after_effect: int
    """Messages delivered after one of their effects."""
    involved: int
    """Messages that are one or the other, or both."""
    pairs: int
    """Inverted pairs."""

    @property
    def average_pct(self) -> float:
        """Half of before_cause and after_effect, per message, in percent."""
        return 50 * (self.before_cause + self.after_effect) / self.messages if self.messages else 0.0

    @property
    def messages_pct(self) -> float:
        """Messages involved, in percent."""
        return 100 * self.involved / self.messages if self.messages else 0.0

    @property
    def pairs_pct(self) -> float:
        """Inverted pairs per message, in percent; can exceed 100."""
        return 100 * self.pairs / self.messages if self.messages else 0.0


def count_violations(truth: TrueOrder, order: Ints) -> Violations:
    """Count over deliveries of the truth's rows in this order; rows left out were not delivered.

    Raises `ValueError` if a message is delivered twice, or a row does not exist.
    """
    senders, seqs = np.ascontiguousarray(truth.process, np.int32), np.ascontiguousarray(truth.seq, np.int64)
    vector = np.ascontiguousarray(truth.vector, np.int32)
    processes = vector.shape[1]
    rows = np.ascontiguousarray(order, np.int64)
    if len(rows) and not (rows.min() >= 0 and rows.max() < len(senders)):
        raise ValueError(f"the order names rows {rows.min()} to {rows.max()}; the truth has {len(senders)}")
    process, seq = senders[rows], seqs[rows]
    if len(rows) and not (process.min() >= 0 and process.max() < processes):
        raise ValueError(f"senders are 0 to {processes - 1}, the columns of vector; found {process.max()}")
    first, spans = seq_spans(process, seq, processes)
    if float(spans.astype(np.float64).sum()) > 64.0 * len(rows) + 4096 or (len(rows) and seq.max() >= NONE_LEFT):
        process, seq, rows, vector = _renumber(process, seq, rows, vector)
        first, spans = seq_spans(process, seq, processes)
    words = np.zeros(processes + 1, np.int64)
    words[1:] = np.cumsum((spans + 63) >> 6)
    counts, repeat = sweep(process, seq, rows, vector, first, spans, words)
    if repeat != NO_REPEAT:
        raise ValueError(
            f"message {truth.seq[order[repeat]]} of process {truth.process[order[repeat]]} is in the order twice: "
            "count over deliveries without duplicates"
        )
    return Violations(len(rows), *(int(count) for count in counts))


def _renumber(
    process: NDArray[np.int32], seq: Longs, rows: Longs, vector: NDArray[np.int32]
) -> tuple[NDArray[np.int32], Longs, Longs, NDArray[np.int32]]:
    """Renumber messages without gaps, for senders whose numbers are far apart."""
    numbers = np.empty_like(seq)
    vectors = np.empty((len(rows), vector.shape[1]), np.int32)
    for sender in range(vector.shape[1]):
        of_sender = process == sender
        delivered = np.unique(seq[of_sender])
        numbers[of_sender] = np.searchsorted(delivered, seq[of_sender]) + 1
        vectors[:, sender] = np.searchsorted(delivered, vector[rows, sender], side="right")
    return process, numbers, np.arange(len(rows), dtype=np.int64), vectors


@inlined
def _words_between(words: Words, start: int, stop: int, last: np.uint64) -> int:
    """Count the bits set in the words from `start` to before `stop`, and in `last`."""
    count = bits_set(last)
    for word in range(start, stop):
        count += bits_set(words[word])
    return count


@part
def _build_tree(words: Words, starts: Longs, tree: Longs) -> None:
    """Build a Fenwick tree over the bit counts of each sender's words; place i of a sender is entry i of its part."""
    for sender in range(len(starts) - 1):
        start, size = starts[sender], starts[sender + 1] - starts[sender]
        for place in range(size):
            tree[start + place] += bits_set(words[start + place])
            parent = place | (place + 1)
            if parent < size:
                tree[start + parent] += tree[start + place]


@inlined
def _tree_take(tree: Longs, start: int, size: int, place: int) -> None:
    """Count one bit less in the sender's word at `place`."""
    while place < size:
        tree[start + place] -= 1
        place |= place + 1


@inlined
def _tree_count(tree: Longs, start: int, place: int) -> int:
    """Count the bits set in the sender's words before `place`."""
    count = 0
    while place > 0:
        count += tree[start + place - 1]
        place &= place - 1
    return count


@kernel(
    "Tuple((int64[::1], int64))(int32[::1], int64[::1], int64[::1], int32[:, ::1], int64[::1], int64[::1], int64[::1])"
)
def sweep(
    process: NDArray[np.int32],
    seq: Longs,
    rows: Longs,
    vector: NDArray[np.int32],
    first: Longs,
    spans: Longs,
    starts: Longs,
) -> tuple[Longs, int]:
    """Count for an order of delivery; return the counts and the place of the first message that comes again, or `NO_REPEAT`.

    `process` and `seq` are in the order of delivery, `vector` by `rows`. A sender's messages are bits from ``64 *
    starts[sender]`` on, the first for its number ``first[sender]``.
    """
    senders = vector.shape[1]
    counts = np.zeros(PAIRS + 1, np.int64)
    words = np.zeros(starts[-1], np.uint64)
    smallest = np.full(senders, NONE_LEFT, np.int32)
    for place in range(len(process)):
        sender = process[place]
        at = (starts[sender] << 6) + seq[place] - first[sender]
        if words[at >> 6] & bit(at):
            return counts, place
        words[at >> 6] |= bit(at)
        smallest[sender] = min(np.int64(smallest[sender]), seq[place])
    # Numbers up to exposed[sender] are in the past of a delivered message; -1: none are.
    exposed = np.full(senders, -1, np.int64)
    tree = np.zeros(0, np.int64)
    reached = np.zeros((senders + 7) >> 3 << 3, np.uint8)
    reached_by_eight = reached.view(np.uint64)
    walked = 0
    for place in range(len(process)):
        sender, number = process[place], seq[place]
        at = (starts[sender] << 6) + number - first[sender]
        word = at >> 6
        words[word] &= ~bit(at)
        if len(tree):
            _tree_take(tree, starts[sender], starts[sender + 1] - starts[sender], word - starts[sender])
        if number == smallest[sender]:
            while word < starts[sender + 1] and words[word] == 0:
                word += 1
            if word < starts[sender + 1]:
                smallest[sender] = first[sender] + ((word - starts[sender]) << 6) + lowest_bit(words[word])
            else:
                smallest[sender] = NONE_LEFT
        after = number <= exposed[sender]
        row = vector[rows[place]]
        before = False
        for cause in range(senders):
            before |= row[cause] >= smallest[cause]
        if before:
            for cause in range(senders):
                reached[cause] = row[cause] >= smallest[cause]
            for eight in range(len(reached_by_eight)):
                bytes_set = reached_by_eight[eight]
                while bytes_set != 0:
                    cause = (eight << 3) + (lowest_bit(bytes_set) >> 3)
                    bytes_set &= bytes_set - np.uint64(1)
                    known = min(np.int64(row[cause]), first[cause] + spans[cause] - 1)
                    base = (starts[cause] << 6) - first[cause]
                    exposed[cause] = max(exposed[cause], known)
                    last = (base + known) >> 6
                    cut = words[last] & (np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(63 - ((base + known) & 63)))
                    if len(tree):
                        counts[PAIRS] += _tree_count(tree, starts[cause], last - starts[cause]) + bits_set(cut)
                    else:
                        head = (base + smallest[cause]) >> 6
                        counts[PAIRS] += _words_between(words, head, last, cut)
                        walked += last - head
            if not len(tree) and walked > PATIENCE * (place + 1024):
                tree = np.zeros(starts[-1], np.int64)
                _build_tree(words, starts, tree)
        counts[BEFORE_CAUSE] += before
        counts[AFTER_EFFECT] += after
        counts[INVOLVED] += before or after
    return counts, NO_REPEAT
