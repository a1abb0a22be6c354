"""Hold a live history between two micro-batches: the closed part, which changes rarely, and the tail.

The closed part is stored in sealed files with a format number (`write_state`, `read_state`). The tail's rows are stored
by `ledto.live.files`.
"""

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
from ledto.live.terms import LiveTerms
from ledto.live.written_segments import WrittenSegment

T = TypeVar("T")

STATE_FORMAT = 7
"""The format of state files. Raise it whenever a class that they hold changes. Format 1 was a pickle, which could run
code when read, so no such file is opened."""
SUFFIX = "state"
_HEADER = re.compile(rb"ledto live state, format (\d{1,9}), written by (ledto [^\n]{1,100})\n")
_LONGEST_HEADER = 200
NOT_STORED = -1
"""The `uid` of a row that is in no file yet."""

TAIL = pa.schema(
    [
        *(column.with_nullable(True) for column in REPORTS),
        pa.field(DATED, pa.int64()),
        pa.field("uid", pa.int64()),
        pa.field("emitted", pa.bool_()),
    ]
)
"""The columns of the tail: a report, its date, `uid` (where the row is stored, or `NOT_STORED`), and `emitted` (whether
it is in the delivery log)."""


def write_state(store: Store, run: str, stem: str, value: object) -> str:
    """Write a dataclass value to a sealed file of a run; return its name. Durable after `Store.sync`."""
    header = f"ledto live state, format {STATE_FORMAT}, written by {_this_version()}\n"
    return write_sealed(store, run, stem, SUFFIX, header.encode() + encode(value))


def read_state(store: Store, run: str, name: str, kind: type[T]) -> T:
    """Read a value that `write_state` wrote.

    Raises `UnsupportedFormat` for a file of another version, and `DamagedHistory`.
    """
    path = f"{layout.run_folder(run)}/{name}"
    if not name.endswith(f".{SUFFIX}"):
        raise _unsupported(store, "1", "an early version of ledto")
    content = read_sealed(store, path)
    header = _HEADER.match(content[:_LONGEST_HEADER])
    if header is None:
        raise damaged(store.place(path), "it does not say which format it has")
    if int(header[1]) != STATE_FORMAT:
        raise _unsupported(store, header[1].decode(), header[2].decode(errors="replace"))
    try:
        return decode(content[header.end() :], kind)
    except NotDecoded as fault:
        raise damaged(store.place(path), f"its content is {fault}") from None


def _unsupported(store: Store, its_format: str, writer: str) -> UnsupportedFormat:
    return UnsupportedFormat(
        f"the live history at {store} cannot go on: its state has format {its_format}, written by {writer}, and "
        f"{_this_version()} goes on from format {STATE_FORMAT}. Nothing was changed, and it can be read as before. "
        "Go on with the version that wrote it, or follow into another folder"
    )


@cache
def _this_version() -> str:
    return f"ledto {version('ledto')}"


@dataclass(slots=True)
class ClosedChain:
    """A computation: its chain and its closed segments."""

    chain: Chain
    records: list[WrittenSegment] = field(default_factory=list)


@dataclass(slots=True)
class ClosedPart:
    """Everything that is closed. Stored when something is closed, not with every commit."""

    chains: dict[str, ClosedChain] = field(default_factory=dict)
    delivered: SegmentOutcome | None = None
    """The sum of outcomes over all closed segments."""
    attributes: dict[str, str] = field(default_factory=dict)
    """The attributes of closed segments, with their types."""

    def chain(self, computation: str) -> ClosedChain:
        """Get the chain of a computation; begin a new one if it has none."""
        if computation not in self.chains:
            self.chains[computation] = ClosedChain(Chain(computation))
        return self.chains[computation]

    def records(self) -> Iterator[WrittenSegment]:
        """Iterate over all closed segments."""
        for chain in self.chains.values():
            yield from chain.records


@dataclass(frozen=True, slots=True, eq=False)
class ClosedState:
    """The content of a state file of the closed part."""

    terms: LiveTerms
    closed: ClosedPart


@dataclass(slots=True)
class Tail:
    """The reports that are not closed."""

    by_computation: dict[str, pa.Table] = field(default_factory=dict)
    """By computation: rows with the columns of `TAIL`."""

    def rows(self) -> Iterator[pa.Table]:
        """Iterate over the tables, one for each computation."""
        yield from self.by_computation.values()
