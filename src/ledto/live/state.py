"""What a live history is between two micro-batches: the closed part, which changes rarely, and the tail."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from typing import TypeVar

import pyarrow as pa

from ledto.events.schema import REPORTS
from ledto.history import layout
from ledto.history.codec import NotDecoded, decode, encode
from ledto.history.deliver.files import SegmentOutcome
from ledto.history.errors import UnsupportedFormat
from ledto.history.sealed import damaged, read_sealed, write_sealed
from ledto.history.store import Store
from ledto.live.chain import Chain
from ledto.live.dates import DATED
from ledto.live.records import Record
from ledto.live.terms import LiveTerms

T = TypeVar("T")

STATE_FORMAT = 5
"""Of state files. Another number whenever a class that they hold changes. Format 1 was a pickle, which may run code when it
is read: none is ever opened."""
SUFFIX = "state"
_HEADER = re.compile(rb"ledto live state, format (\d{1,9}), written by (ledto [^\n]{1,100})\n")
_LONGEST_HEADER = 200


def write_state(store: Store, run: str, stem: str, value: object) -> str:
    """Write a value of a dataclass to a sealed file of a run; gives the file's name."""
    header = f"ledto live state, format {STATE_FORMAT}, written by {_this_version()}\n"
    return write_sealed(store, run, stem, SUFFIX, header.encode() + encode(value))


def read_state(store: Store, run: str, name: str, kind: type[T]) -> T:
    """The value that `write_state` wrote; raises `UnsupportedFormat` for another version's, and `DamagedHistory`."""
    path = f"{layout.run_folder(run)}/{name}"
    if not name.endswith(f".{SUFFIX}"):
        raise _refused(store, "1", "an early version of ledto")
    content = read_sealed(store, path)
    header = _HEADER.match(content[:_LONGEST_HEADER])
    if header is None:
        raise damaged(store.place(path), "it does not say which format it has")
    if int(header[1]) != STATE_FORMAT:
        raise _refused(store, header[1].decode(), header[2].decode(errors="replace"))
    try:
        return decode(content[header.end() :], kind)
    except NotDecoded as fault:
        raise damaged(store.place(path), f"it holds {fault}") from None


def _refused(store: Store, written: str, by: str) -> UnsupportedFormat:
    return UnsupportedFormat(
        f"the live history at {store} cannot go on: its state has format {written}, written by {by}, and {_this_version()} "
        f"goes on from format {STATE_FORMAT}. Nothing was changed, and it can be read as before. Go on with the version "
        "that wrote it, or follow into another folder"
    )


@cache
def _this_version() -> str:
    return f"ledto {version('ledto')}"


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
