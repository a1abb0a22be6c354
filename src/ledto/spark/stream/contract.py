"""Ranges of sequence numbers: how much one micro-batch takes, and how its tasks share it."""

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
"""One row a message, or a file's piece. `sequence` orders the rows of a `partition`, and the two together name a row.

`arrival` is in ns since 1970, as the origin's clock had it: it steps back where that clock did, and a reader who needs
it monotone takes the running maximum in order of `sequence`. `format` is `ROWS`, a name of `ledto.sources.SOURCES`, or
null for what is still to be recognised.
"""

FRAMES_DDL: Final = (
    "partition string not null, sequence long not null, arrival long not null, format string, origin string not null, "
    "payload binary"
)
"""The columns of `FRAMES` as Spark spells them."""

ROWS: Final = "rows"
"""The format of a payload by `ledto.events.payload`; an empty one is a heartbeat, and holds no report."""


class StreamSourceError(LedtoError):
    """A source that cannot be opened as asked, or whose rows cannot be read any more; the message says what to do."""


@runtime_checkable
class StreamSource(Protocol):
    """Where a stream comes from. Making one opens nothing."""

    @property
    def name(self) -> str:
        """Short and without secrets, such as ``nats:ledto``."""
        ...

    @property
    def names_files(self) -> bool:
        """Whether payloads name pieces of files (`opened_piece`), instead of holding reports."""
        ...

    def describe(self) -> str:
        """One line for people: what is read, from where; without secrets."""
        ...

    def load(self, session: SparkSession) -> DataFrame:
        """The streaming DataFrame of `FRAMES`. Rows of one task ascend in `sequence`."""
        ...

    def trim(self, upto: int) -> None:
        """Tell the origin that rows of a lower `sequence` than `upto` will not be asked for again.

        HAZARD: Spark reads a micro-batch again unless its end is in the checkpoint's commit log, which is written after
        the batch's own work. What is safe to trim while a batch runs is what comes before that batch's start.
        """
        ...


def whole_number(options: Mapping[str, Any], name: str, default: int, *, least: int = 1) -> int:
    """The value of an option that counts; raises `StreamSourceError` for what is not a number of at least `least`."""
    given = options.get(name)
    if given is None:
        return default
    try:
        value = int(given)
    except (TypeError, ValueError):
        raise StreamSourceError(f"the option {name} is {given!r}; give a whole number of at least {least}") from None
    if value < least:
        raise StreamSourceError(f"the option {name} is {value}; give a whole number of at least {least}")
    return value


def refuse_unknown(options: Mapping[str, Any], known: tuple[str, ...], *, what: str) -> None:
    """Raise `StreamSourceError` for an option that `what` does not have: a misspelt one would have no effect, unseen."""
    for name in options:
        if name not in known:
            raise StreamSourceError(f"{what} has no option {name!r}; it has {', '.join(known)}")


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
