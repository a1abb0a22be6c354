"""How often an order of delivery contradicts happened-before, counted exactly.

An *inverted pair* is a cause delivered after its effect. From the pairs follow:

- `before_cause`: messages delivered before one of their causes, and `after_effect`: messages delivered after one of
  their effects;
- `average_pct`: half their sum, per message received, in percent. This is the reading of Approximate Causal Observer,
  section 6, that comes closest to its stated numbers;
- `pairs_pct`: inverted pairs per message received, in percent: the same section read literally;
- `messages_pct`: messages that belong to an inverted pair at all, in percent.

Messages that were not delivered count for nothing: they cannot be in the wrong place.

How it is counted: walking through the deliveries, the smallest number of each sender that is still to come is kept. A
delivery is before one of its causes iff its vector reaches one of these numbers, which is one comparison of two short
arrays. Only then are bits counted: one bit a message still to come, up to the vector's entry. Where so many are
inverted that this walk grows long, a Fenwick tree over the words of bits takes its place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whence.delivery.bits import bit, bits_set, lowest_bit
from whence.delivery.duplicates import seq_spans
from whence.events.columns import Ints, Truth
from whence.kernels import inlined, kernel, part

Longs = NDArray[np.int64]
Words = NDArray[np.uint64]

NONE_LEFT = np.iinfo(np.int32).max
"""In place of a sender's smallest number to come, when there is none: no vector reaches it."""
PATIENCE = 64
"""Words walked a message, on average, before the Fenwick tree is built."""


@dataclass(frozen=True, slots=True)
class Violations:
    """Counts over one order of delivery, or over one window of it; windows add up."""

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
    reach: int
    """The largest distance of an inverted pair in places of the order; 0 without one."""

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

    def __add__(self, other: Violations) -> Violations:
        return Violations(
            self.messages + other.messages,
            self.before_cause + other.before_cause,
            self.after_effect + other.after_effect,
            self.involved + other.involved,
            self.pairs + other.pairs,
            max(self.reach, other.reach),
        )


def count_violations(truth: Truth, order: Ints) -> Violations:
    """Count over deliveries of the truth's rows in this order; rows left out were not delivered.

    Raises `ValueError` when a message is delivered twice, or a row does not exist.
    """
    return count_window(truth, order, 0, len(order))


def in_fixed_types(truth: Truth) -> Truth:
    """The same truth in the types that the compiled loops take; not a copy where it has them already."""
    return Truth(
        np.ascontiguousarray(truth.process, np.int32),
        np.ascontiguousarray(truth.seq, np.int64),
        np.ascontiguousarray(truth.vector, np.int32),
    )


def count_window(truth: Truth, order: Ints, start: int, stop: int) -> Violations:
    """Count for the messages at places ``start <= place < stop`` of the order.

    Pairs belong to the place of the effect. Exact if the order given reaches as far before `start` and after `stop` as
    inverted pairs do (`Violations.reach` of the whole), so windows of a long order can be counted on their own.
    """
    truth = in_fixed_types(truth)
    processes = truth.vector.shape[1]
    rows = np.ascontiguousarray(order, np.int64)
    if len(rows) and not (rows.min() >= 0 and rows.max() < len(truth.process)):
        raise ValueError(f"the order names rows {rows.min()} to {rows.max()}; the truth has {len(truth.process)}")
    process, seq = truth.process[rows], truth.seq[rows]
    if len(rows) and not (process.min() >= 0 and process.max() < processes):
        raise ValueError(f"senders are 0 to {processes - 1}, the columns of vector; found {process.max()}")
    vector = truth.vector
    first, spans = seq_spans(process, seq, processes)
    if float(spans.astype(np.float64).sum()) > 64.0 * len(rows) + 4096 or (len(rows) and seq.max() >= NONE_LEFT):
        process, seq, rows, vector = _renumbered(process, seq, rows, vector)
        first, spans = seq_spans(process, seq, processes)
    words = np.zeros(processes + 1, np.int64)
    words[1:] = np.cumsum((spans + 63) >> 6)
    counts = sweep(process, seq, rows, vector, start, stop, first, spans, words)
    if counts[0] < 0:
        place = -1 - counts[0]
        raise ValueError(
            f"message {truth.seq[order[place]]} of process {truth.process[order[place]]} is in the order twice: "
            "count over deliveries without duplicates"
        )
    return Violations(stop - start, *(int(count) for count in counts))


def _renumbered(
    process: NDArray[np.int32], seq: Longs, rows: Longs, vector: NDArray[np.int32]
) -> tuple[NDArray[np.int32], Longs, Longs, NDArray[np.int32]]:
    """The same messages with numbers that leave nothing out, for senders whose numbers are far apart."""
    numbers = np.empty_like(seq)
    vectors = np.empty((len(rows), vector.shape[1]), np.int32)
    for sender in range(vector.shape[1]):
        own = process == sender
        delivered = np.unique(seq[own])
        numbers[own] = np.searchsorted(delivered, seq[own]) + 1
        vectors[:, sender] = np.searchsorted(delivered, vector[rows, sender], side="right")
    return process, numbers, np.arange(len(rows), dtype=np.int64), vectors


@inlined
def _words_between(words: Words, start: int, stop: int, last: np.uint64) -> int:
    """Bits set in the words from `start` to before `stop`, and in `last`."""
    count = bits_set(last)
    for word in range(start, stop):
        count += bits_set(words[word])
    return count


@part
def _build_tree(words: Words, starts: Longs, tree: Longs) -> None:
    """A Fenwick tree over the bit counts of each sender's words; place i of a sender is entry i of its part."""
    for sender in range(len(starts) - 1):
        start, size = starts[sender], starts[sender + 1] - starts[sender]
        for place in range(size):
            tree[start + place] += bits_set(words[start + place])
            parent = place | (place + 1)
            if parent < size:
                tree[start + parent] += tree[start + place]


@inlined
def _tree_take(tree: Longs, start: int, size: int, place: int) -> None:
    while place < size:
        tree[start + place] -= 1
        place |= place + 1


@inlined
def _tree_count(tree: Longs, start: int, place: int) -> int:
    """Bits set in the sender's words before `place`."""
    count = 0
    while place > 0:
        count += tree[start + place - 1]
        place &= place - 1
    return count


@kernel(
    "int64[::1](int32[::1], int64[::1], int64[::1], int32[:, ::1], int64, int64, int64[::1], int64[::1], int64[::1])"
)
def sweep(
    process: NDArray[np.int32],
    seq: Longs,
    rows: Longs,
    vector: NDArray[np.int32],
    start: int,
    stop: int,
    first: Longs,
    spans: Longs,
    starts: Longs,
) -> Longs:
    """Counts in the order of `Violations`' fields after the first; ``[-1 - place]`` for a message that comes again.

    `process` and `seq` are in the order of delivery, `vector` by `rows`. A sender's messages are bits from
    ``64 * starts[sender]`` on, the first for its number ``first[sender]``.
    """
    senders = vector.shape[1]
    words = np.zeros(starts[-1], np.uint64)
    smallest = np.full(senders, NONE_LEFT, np.int32)
    for place in range(len(process)):
        sender = process[place]
        at = (starts[sender] << 6) + seq[place] - first[sender]
        if words[at >> 6] & bit(at):
            return np.array([-1 - place], np.int64)
        words[at >> 6] |= bit(at)
        smallest[sender] = min(np.int64(smallest[sender]), seq[place])
    # Numbers up to exposed[sender] were in the past of something delivered; exposed_at says since which place.
    exposed = np.full(senders, -1, np.int64)
    exposed_at = np.empty(starts[-1] << 6, np.int64)
    tree = np.zeros(0, np.int64)
    reached = np.zeros((senders + 7) >> 3 << 3, np.uint8)
    reached_by_eight = reached.view(np.uint64)
    walked = before_cause = after_effect = involved = pairs = reach = 0
    for place in range(stop):
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
                left = reached_by_eight[eight]
                while left != 0:
                    cause = (eight << 3) + (lowest_bit(left) >> 3)
                    left &= left - np.uint64(1)
                    known = min(np.int64(row[cause]), first[cause] + spans[cause] - 1)
                    base = (starts[cause] << 6) - first[cause]
                    if known > exposed[cause]:
                        for number in range(max(exposed[cause] + 1, smallest[cause]), known + 1):
                            exposed_at[base + number] = place
                        exposed[cause] = known
                    if place < start:
                        continue
                    last = (base + known) >> 6
                    cut = words[last] & (np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(63 - ((base + known) & 63)))
                    if len(tree):
                        pairs += _tree_count(tree, starts[cause], last - starts[cause]) + bits_set(cut)
                    else:
                        head = (base + smallest[cause]) >> 6
                        pairs += _words_between(words, head, last, cut)
                        walked += last - head
            if not len(tree) and walked > PATIENCE * (place + 1024):
                tree = np.zeros(starts[-1], np.int64)
                _build_tree(words, starts, tree)
        if place >= start:
            before_cause += before
            after_effect += after
            involved += before or after
            if after:
                reach = max(reach, place - exposed_at[at])
    return np.array([before_cause, after_effect, involved, pairs, reach], np.int64)
