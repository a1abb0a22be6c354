"""Rows of a window in canonical order: process by process, each in its own order, every event once.

A process's own order is by the sequence numbers its source gave or, where it gave none, by wall time; rows that these
leave equal stand as they stood in their files. Copies of a report have equal numbers and times, so they meet here.
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
    """Columns of the rows as they came, texts as numbers that are equal iff the texts are; -1 is none."""

    process: NDArray[np.int32]
    key: Longs
    """Sequence number or wall time: what orders the rows of the row's process."""
    numbered: Flags
    """By process: its key is a sequence number, which names one event only."""
    source: Longs
    """The row's file, by rank of its name."""
    place: Longs
    """Place in the file."""


@dataclass(frozen=True, slots=True)
class Copies:
    """Rows that repeat an event that another row reports."""

    rows: Longs
    of: Longs
    """By copy: the row that stays."""
    agrees: Flags
    """By copy: whether it says the same."""


def canonical_order(raw: Raw, rank_ties: Callable[[Longs], Longs]) -> Longs:
    """The rows in canonical order, copies included.

    `rank_ties` ranks rows that share process and key; those of one rank stand as in their files.
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
    """Places of the order whose row shares process and key with a neighbour."""
    process, key = raw.process[order], raw.key[order]
    same = (process[1:] == process[:-1]) & (key[1:] == key[:-1])
    tied = np.zeros(len(order), np.bool_)
    tied[1:] |= same
    tied[:-1] |= same
    return np.flatnonzero(tied)


def find_copies(raw: Raw, rows: Longs, identity: Longs, content: Longs, arrival: Longs) -> Copies:
    """Copies among `rows`, which are all rows that tie with another.

    `identity` (a line a row): the event's own id and message keys; rows of an unnumbered process are copies only if one
    of these is known (not -1) and all are equal: two local events at one time may well both have happened. `content`:
    everything that two honest copies agree in. Of several copies the first to arrive stays, then the first in its file.
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
