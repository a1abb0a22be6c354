"""Define what a source of a stream is and the rows it gives, and share ranges of sequence numbers among tasks.

`end_of_batch` says how much one micro-batch reads; `split_range` and `split_by_weight` cut that for its tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, Protocol, runtime_checkable

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ledto.errors import LedtoError

FRAMES: Final = pa.schema(
    [
        pa.field("partition", pa.string(), nullable=False),
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field("arrival", pa.int64(), nullable=False),
        pa.field("format", pa.string()),
        pa.field("origin", pa.string(), nullable=False),
        pa.field("payload", pa.binary()),
    ]
)
"""A row for each message, or piece of a file. `partition` and `sequence` together name a row; `sequence` orders the
rows of a partition.

`arrival` is in ns since 1970 by the origin's clock, and steps back if that clock does: a reader who needs it monotone
takes the running maximum in the order of `sequence`. `format` is `ROWS`, a name of `ledto.sources.SOURCES`, or null for
what is still to be recognised.
"""

FRAMES_DDL: Final = (
    "partition string not null, sequence long not null, arrival long not null, format string, origin string not null, "
    "payload binary"
)
"""The columns of `FRAMES` as Spark spells them."""

ROWS: Final = "rows"
"""The format of a payload by `ledto.events.payload`. An empty payload is a heartbeat, without a report."""


class StreamSourceError(LedtoError):
    """A source cannot be opened as asked, or its rows cannot be read any more; the message says what to do."""


@runtime_checkable
class StreamSource(Protocol):
    """Where a stream comes from. Making one opens nothing."""

    @property
    def name(self) -> str:
        """A short name without secrets, such as ``nats:ledto``."""
        ...

    @property
    def names_files(self) -> bool:
        """Whether payloads name pieces of files (`open_piece`) instead of holding reports."""
        ...

    def describe(self) -> str:
        """Say in one line for people what is read, and from where; without secrets."""
        ...

    def load(self, session: SparkSession) -> DataFrame:
        """Make the streaming DataFrame of `FRAMES`. Rows of one task ascend in `sequence`."""
        ...

    def trim(self, upto: int) -> None:
        """Tell the origin that rows of a lower `sequence` than `upto` will not be read again.

        HAZARD: Spark reads a micro-batch again unless its end is in the checkpoint's commit log, which is written after
        the batch's own work. While a batch runs, only what comes before its start is safe to trim.
        """
        ...


def whole_number(options: Mapping[str, Any], name: str, default: int, *, least: int = 1) -> int:
    """Read an option that is a number; raises `StreamSourceError` unless it is a whole number of at least `least`."""
    text = options.get(name)
    if text is None:
        return default
    try:
        value = int(text)
    except (TypeError, ValueError):
        raise StreamSourceError(f"the option {name} is {text!r}; give a whole number of at least {least}") from None
    if value < least:
        raise StreamSourceError(f"the option {name} is {value}; give a whole number of at least {least}")
    return value


def refuse_unknown(options: Mapping[str, Any], known: tuple[str, ...], *, what: str) -> None:
    """Raise `StreamSourceError` for an option that `what` does not have: a misspelt one would do nothing, unnoticed."""
    for name in options:
        if name not in known:
            raise StreamSourceError(f"{what} has no option {name!r}; it has {', '.join(known)}")


def split_range(start: int, stop: int, *, parts: int, least: int) -> list[tuple[int, int]]:
    """Cut ``start <= n < stop`` into ranges in order: at most `parts`, of nearly equal length, none empty.

    Makes fewer if they would be shorter than `least`: a task costs more than a few messages do.
    """
    count = stop - start
    if count <= 0:
        return []
    parts = max(1, min(parts, count // least))
    cuts = [start + count * part // parts for part in range(parts + 1)]
    return list(pairwise(cuts))


def end_of_batch(start: int, stop: int, *, most: int, most_bytes: int, mean_bytes: int) -> int:
    """Find where a micro-batch from `start` ends: at `stop`, or sooner because of its limits.

    It has one message at least. `most_bytes` is a rough limit, exact only if `mean_bytes` is the mean of these
    messages. No answer depends on it.
    """
    if stop <= start:
        return start
    most = min(most, max(1, most_bytes // max(1, mean_bytes)))
    return min(stop, start + most)


def split_by_weight(weights: Sequence[int], *, parts: int) -> list[tuple[int, int]]:
    """Cut the positions of `weights` into ranges in order: at most `parts`, none empty, of nearly equal weight.

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
