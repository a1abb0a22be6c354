"""What a source is: bytes of a file in, rows of `whence.events.schema.REPORTS` out.

A source reads one piece of one file at a time, on whatever machine the piece is read, and knows nothing of Spark. It
gives one row for every record of the piece, in file order, and never raises because of what the bytes say: a record it
cannot read is a row with a ``reason``. What a source promises beyond that is checked by `whence.sources.check_source`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, runtime_checkable

import pyarrow as pa

from whence.clocks.errors import WhenceError

Records = Literal["lines", "in lines", "anywhere"]


class SourceError(WhenceError):
    """Inputs or options that cannot be read as asked; the message says what to do."""


class TornStream(Exception):
    """Compressed bytes end early or make no sense from here on; what was read before is good."""


class ByteStream(Protocol):
    """What a source reads from: a part of a binary file object."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, at most `size`, none at the end; may raise `TornStream`, which a source takes as the end."""
        ...

    def close(self) -> None:
        """Free what is held."""
        ...


@dataclass(frozen=True, slots=True)
class Piece:
    """The part of a file that one call reads."""

    file: str
    """The file's name in the rows."""
    open_at: Callable[[int], ByteStream]
    """Opens the file's (decompressed) bytes from an offset on. A source may call it more than once."""
    start: int = 0
    stop: int | None = None
    """A splittable source reads the records that begin in ``start <= offset < stop``; ``None`` is the end of file."""
    lines_before: int = 0
    """How many line ends the file has before ``start``."""


@runtime_checkable
class Source(Protocol):
    """One format of text, with its options as attributes. Must pickle."""

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    """File names that end so are of this format, in lower case; looked for in folders."""
    splittable: ClassVar[bool]
    """Whether a file may be read in several pieces."""
    records: ClassVar[Records]
    """How records lie in the text: one is one line or more, several may be in a line, or lines mean nothing."""

    def read(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        """The piece's records, in order, as batches of `REPORTS`; the same batches each time it is called."""
        ...
