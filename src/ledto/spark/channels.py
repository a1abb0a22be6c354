"""Give sends and receives that only share a channel the names of messages, matched by `ledto.causality.channels`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Observation, Window
from pyspark.sql import functions as F  # noqa: N812  (Spark's own name for it)
from pyspark.sql.types import LongType, ShortType, StructField, StructType

from ledto.causality.channel_tables import OUTCOMES, match_table, without_channels
from ledto.causality.channels import Unreported
from ledto.events.schema import RECEIVE, SEND

AT_ONCE_ROWS: Final = 65_536
"""Channels are matched in groups of about this many rows; a longer one is matched alone."""

_OUTCOME = "channel_outcome"
_UNREPORTED_BEFORE, _UNREPORTED_IN_ALL = "channel_unreported_before", "channel_unreported_in_all"
_NOT_IN_A_CHANNEL = -1


@dataclass(frozen=True, slots=True)
class ChannelCounts:
    """Counts of the outcomes of sends and receives in channels; known once the frame was written or collected."""

    _observation: Observation

    def get(self) -> dict[str, int]:
        """Get rows by outcome (`ledto.causality.channel_tables.OUTCOMES`). Waits for the first action on the frame.

        Counts tasks whose results the action keeps, so a task that is tried again counts once, provided that no further
        shuffle is between the frame and the action.
        """
        counts = self._observation.get
        return {name: int(counts.get(name) or 0) for name in OUTCOMES}


def match_channels(frame: DataFrame) -> tuple[DataFrame, ChannelCounts]:
    """Resolve every channel into message keys; reads the frame once, in two shuffles.

    A send in a channel gets `sends`; a receive gets `receives` and `receives_more`. If its sender is unknown, or would
    be a guess, it gets a key that begins with `SPAN`, so that it stays and its cause is known to be missing. Rows
    without a channel and quarantined rows stay as they are, but no row keeps a channel. The same rows give the same
    keys however they are spread. One task matches a channel (of one computation, in one direction) and holds all its
    rows: about 600 bytes for each besides the row itself. One task for each process finds its missing numbers; it sorts
    the process's rows, on disk if need be.
    """
    in_channel = F.col("reason").isNull() & F.col("channel_key").isNotNull() & F.col("kind").isin(SEND, RECEIVE)
    spread = F.when(in_channel, F.xxhash64("computation", "channel_key")).otherwise(F.xxhash64("file", "place"))
    outcome = F.when(in_channel, F.lit(0)).otherwise(_NOT_IN_A_CHANNEL).cast("short")
    gathered = _with_unreported(frame).withColumn(_OUTCOME, outcome)
    gathered = gathered.repartition(spread).sortWithinPartitions(
        _OUTCOME, *(F.when(in_channel, F.col(name)) for name in ("computation", "channel_key"))
    )
    unreported = [StructField(name, LongType()) for name in (_UNREPORTED_BEFORE, _UNREPORTED_IN_ALL)]
    schema = StructType([*frame.schema.fields, *unreported, StructField(_OUTCOME, ShortType())])
    observation = Observation()
    matched = gathered.mapInArrow(_match_sorted, schema).observe(observation, *_count_outcomes())
    return matched.drop(_OUTCOME, _UNREPORTED_BEFORE, _UNREPORTED_IN_ALL), ChannelCounts(observation)


def _with_unreported(frame: DataFrame) -> DataFrame:
    """Add how many numbers of a row's process nobody reported, before the row and in all."""
    numbered = F.coalesce(F.col("reason").isNull() & (F.col("seq") >= 1), F.lit(False))
    # Rows without numbers are not gathered by process.
    spread = F.when(~numbered, F.xxhash64("file", "place"))
    process = Window.partitionBy(
        numbered, *(F.when(numbered, F.col(name)) for name in ("computation", "process")), spread
    )
    before = F.when(numbered, F.col("seq") - F.dense_rank().over(process.orderBy("seq")))
    counted = frame.withColumn(_UNREPORTED_BEFORE, before)
    return counted.withColumn(_UNREPORTED_IN_ALL, F.max(_UNREPORTED_BEFORE).over(process))


def _count_outcomes() -> Iterator[Column]:
    """Count rows by outcome."""
    for name, bits in OUTCOMES.items():
        has_one = (F.col(_OUTCOME) >= 0) & (F.col(_OUTCOME).bitwiseAND(F.lit(bits)) != 0)
        yield F.count_if(has_one).alias(name)


def _match_sorted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows without a channel as they come, and match the others.

    Those are sorted by channel; a few whole channels are matched at a time.
    """
    held: list[pa.Table] = []
    held_rows = 0
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        others = int(pc.sum(pc.equal(rows[_OUTCOME], _NOT_IN_A_CHANNEL)).as_py() or 0)
        if others:
            yield from without_channels(rows.slice(0, others)).to_batches()
        if others == rows.num_rows:
            continue
        held.append(rows.slice(others))
        held_rows += rows.num_rows - others
        if held_rows >= AT_ONCE_ROWS and (open_rows := _last_channel_rows(held)) < held_rows:
            together = pa.concat_tables(held)
            yield from _match_whole(together.slice(0, held_rows - open_rows))
            held, held_rows = [together.slice(held_rows - open_rows)], open_rows
    if held:
        yield from _match_whole(pa.concat_tables(held))


def _last_channel_rows(held: list[pa.Table]) -> int:
    """Count the rows at the end that are of the last channel, which may go on."""
    last = {name: held[-1][name][-1] for name in ("computation", "channel_key")}
    count = 0
    for rows in reversed(held):
        same = pc.and_(*(pc.equal(rows[name], value) for name, value in last.items()))
        count += int(pc.sum(same).as_py() or 0)
        if not same[0].as_py():
            break
    return count


def _match_whole(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """Match whole channels; yield the rows with their outcomes."""
    before, in_all = (rows[name].fill_null(0).to_numpy() for name in (_UNREPORTED_BEFORE, _UNREPORTED_IN_ALL))
    named, outcomes = match_table(rows, Unreported(before, in_all))
    at = named.schema.get_field_index(_OUTCOME)
    counted = named.set_column(at, named.schema.field(at), pa.array(outcomes))
    yield from counted.to_batches(max_chunksize=AT_ONCE_ROWS)
