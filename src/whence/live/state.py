"""What a live history is between two micro-batches: the closed part, which changes rarely, and the tail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from whence.events.schema import REPORTS
from whence.history.deliver.files import SegmentOutcome
from whence.live.chain import Chain
from whence.live.dates import DATED
from whence.live.records import Record
from whence.live.terms import LiveTerms

TAIL = pa.schema(
    [
        *(each.with_nullable(True) for each in REPORTS),
        pa.field(DATED, pa.int64()),
        pa.field("uid", pa.int64()),
        pa.field("emitted", pa.bool_()),
    ]
)
"""Rows of the tail: reports with their dates; `uid` tells where a row is stored, and `emitted` whether it is in the log."""


@dataclass(slots=True)
class ClosedChain:
    """A computation: its chain, and the segments that are closed."""

    chain: Chain
    records: list[Record] = field(default_factory=list)


@dataclass(slots=True)
class ClosedPart:
    """All that is closed. Stored when something is closed, not with every commit."""

    chains: dict[str, ClosedChain] = field(default_factory=dict)
    delivered: SegmentOutcome | None = None
    """The sum over all closed segments."""
    attributes: set[str] = field(default_factory=set)

    def chain(self, computation: str) -> ClosedChain:
        """The computation's, a new one where it has none."""
        if computation not in self.chains:
            self.chains[computation] = ClosedChain(Chain(computation))
        return self.chains[computation]

    def records(self) -> Iterator[Record]:
        """All closed segments."""
        for each in self.chains.values():
            yield from each.records


@dataclass(frozen=True, slots=True, eq=False)
class Begun:
    """What is stored when something is closed."""

    terms: LiveTerms
    closed: ClosedPart


@dataclass(slots=True)
class Tail:
    """Reports that are not closed."""

    plain: dict[str, pa.Table] = field(default_factory=dict)
    """By computation."""

    def rows(self) -> Iterator[pa.Table]:
        """All of them."""
        yield from self.plain.values()
