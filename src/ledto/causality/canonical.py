"""Put the rows of a window in canonical order, process by process, and find copies: rows that report the same event.

A process's rows are sorted by sequence number or, if its source gives none, by wall time. Rows that are equal in that stay
in the order of their files. Copies of a report have equal numbers and times, so they come to lie together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Raw:
    """Columns of the rows as they came. Texts are numbers that are equal iff the texts are; -1 for null."""

    process: NDArray[np.int32]
    key: Longs
    """The sequence number or wall time by which rows of one process are sorted."""
    numbered: Flags
    """By process: whether its keys are sequence numbers, so that each names one event."""
    source: Longs
    """The rank of the name of the row's file."""
    place: Longs
    """The row's place in the file."""


@dataclass(frozen=True, slots=True)
class Copies:
    """Rows that report an event which another row reports, too."""

    rows: Longs
    of: Longs
    """By copy: the row that stays."""
    agrees: Flags
    """By copy: whether its content is the same."""


def canonical_order(raw: Raw, rank_ties: Callable[[Longs], Longs]) -> Longs:
    """Sort the rows, copies included.

    `rank_ties` ranks rows of equal process and key; rows of equal rank stay in the order of their files.
    """
    by_key = np.argsort(raw.key, kind="stable")
    narrow = raw.process.astype(np.uint16) if len(raw.numbered) <= 1 << 16 else raw.process
    order: Longs = by_key[np.argsort(narrow[by_key], kind="stable")]
    tied = tied_places(raw, order)
    if len(tied):
        rows = order[tied]
        rank = rank_ties(rows)
        order[tied] = rows[np.lexsort((raw.place[rows], raw.source[rows], rank, raw.key[rows], raw.process[rows]))]
    return order


def tied_places(raw: Raw, order: Longs) -> Longs:
    """Find the places of the order whose row has the process and key of a neighbour."""
    process, key = raw.process[order], raw.key[order]
    same = (process[1:] == process[:-1]) & (key[1:] == key[:-1])
    tied = np.zeros(len(order), np.bool_)
    tied[1:] |= same
    tied[:-1] |= same
    return np.flatnonzero(tied)


def find_copies(raw: Raw, rows: Longs, identity: Longs, content: Longs, arrival: Longs) -> Copies:
    """Find the copies among `rows`: all rows that share process and key with another.

    `identity`, a matrix with a line per row: the event's id and message keys. Rows of a process without numbers are copies
    only if all of these are equal, and one is not -1: two local events at one time may both have happened. `content`: all
    that true copies agree in. Of several copies, the first to arrive stays; if equal, the first in its file.
    """
    process, key = raw.process[rows], raw.key[rows]
    numbered = raw.numbered[process]
    claims = np.where(numbered[:, None], -1, identity)
    by_claim = np.lexsort((raw.place[rows], raw.source[rows], arrival, *claims.T, key, process))
    nameable = numbered | (identity >= 0).any(axis=1)
    process, key, claims, content = process[by_claim], key[by_claim], claims[by_claim], content[by_claim]
    repeats = np.zeros(len(rows), np.bool_)
    repeats[1:] = (process[1:] == process[:-1]) & (key[1:] == key[:-1]) & (claims[1:] == claims[:-1]).all(axis=1)
    repeats &= nameable[by_claim]
    first = np.maximum.accumulate(np.where(repeats, 0, np.arange(len(rows))))
    agrees = (content == content[first]).all(axis=1)
    return Copies(rows[by_claim[repeats]], rows[by_claim[first[repeats]]], agrees[repeats])
