"""Ranges of sequence numbers: how much one micro-batch takes, and how its tasks share it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise


def split(start: int, stop: int, *, parts: int, least: int) -> list[tuple[int, int]]:
    """``start <= n < stop`` cut into ranges in order: at most `parts`, of nearly equal length, none empty.

    There are fewer where they would be shorter than `least`: a task costs more than a few messages do.
    """
    count = stop - start
    if count <= 0:
        return []
    parts = max(1, min(parts, count // least))
    cuts = [start + count * part // parts for part in range(parts + 1)]
    return list(pairwise(cuts))


def bite(start: int, stop: int, *, most: int, most_bytes: int, mean_bytes: int) -> int:
    """Where a micro-batch from `start` ends: at `stop`, or sooner for its limits, but not before one message is in it.

    `most_bytes` holds as far as `mean_bytes` is the messages' mean: a rough bound, and no answer depends on it.
    """
    if stop <= start:
        return start
    most = min(most, max(1, most_bytes // max(1, mean_bytes)))
    return min(stop, start + most)


def split_by_weight(weights: Sequence[int], *, parts: int) -> list[tuple[int, int]]:
    """Positions of `weights` cut into ranges in order, at most `parts`, none empty, of nearly equal weight.

    No range exceeds its share of the whole by more than one weight.
    """
    total = sum(weights) + len(weights)
    cuts: list[tuple[int, int]] = []
    begin, done = 0, 0
    for position, weight in enumerate(weights):
        done += weight + 1
        if done * parts >= total * (len(cuts) + 1):
            cuts.append((begin, position + 1))
            begin = position + 1
    return cuts
