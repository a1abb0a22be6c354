"""Define a source: it reads the bytes of a file into rows of `ledto.events.schema.REPORTS`.

A source reads one piece of one file at a time, on any machine, and does not know Spark. It gives one row for every record
of the piece, in file order. It never raises because of what the bytes say: a record that it cannot read becomes a row with
a ``reason``. `ledto.sources.check_source` checks all that a source promises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, runtime_checkable

import pyarrow as pa

from ledto.errors import LedtoError

Records = Literal["lines", "in lines", "anywhere"]


class SourceError(LedtoError):
    """Inputs cannot be read with these options. The message says what to do."""


class TornStream(Exception):
    """Compressed bytes end early or are damaged from here on. What was read before is good."""


class ByteStream(Protocol):
    """The part of a binary file object that a source uses."""

    def read(self, size: int, /) -> bytes:
        """Read at most `size` bytes; none at the end. May raise `TornStream`, after which a source reads no more."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


@dataclass(frozen=True, slots=True)
class FileSlice:
    """The part of a file that one call reads."""

    file: str
    """The file's name in the rows."""
    open_at: Callable[[int], ByteStream]
    """Opens the file at an offset of its decompressed bytes. A source may call it more than once."""
    start: int = 0
    stop: int | None = None
    """A splittable source reads the records that begin in ``start <= offset < stop``. None is the end of the file."""
    lines_before: int = 0
    """The number of line ends in the file before ``start``."""
    modified_ns: int | None = None
    """When the file was last written, if that is known: its lines are not later."""


@runtime_checkable
class Source(Protocol):
    """A reader of one format of text, with its options as attributes. Must pickle."""

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    """The ends of file names of this format, in lower case. Files with them are found in folders."""

    @property
    def splittable(self) -> bool:
        """Return whether a file may be read in several pieces."""
        ...

    @property
    def records(self) -> Records:
        """Return whether a record has one or more lines, a line may have several records, or lines mean nothing."""
        ...

    def read(self, piece: FileSlice) -> Iterator[pa.RecordBatch]:
        """Yield the piece's records, in order, as batches of `REPORTS`. Each call yields the same batches."""
        ...
