"""Put new reports into the tails of their computations, and close what they settle. Nothing is written here.

The result depends on all reports so far, their order and their arrivals, not on how many came at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.channel_tables import CHANNEL_COLUMNS, in_channels, without_channels
from ledto.history.gone import LATE, Gone, gone_from
from ledto.history.quarantine import Quarantined
from ledto.history.window.columns import out_of_range
from ledto.history.window.segment import refused_rows
from ledto.live.chain import FIRST, Chain, FindSends, PendingSegment
from ledto.live.channels import count_unsettled, name_messages
from ledto.live.closed_processes import history_name
from ledto.live.dates import DATED, with_dates
from ledto.live.limits import LiveLimits
from ledto.live.state import TAIL, ClosedPart, Tail
from ledto.live.terms import LiveTerms

Longs = NDArray[np.int64]

OnClosed = Callable[[str, int, PendingSegment], None]
"""Called with each closed segment: its computation, and the position in the chain where it begins."""

REPORTED = ("process", "seq", "receives", "receives_more", "line", "line_parent", "emitted")
"""The columns of a report that its delivery needs."""
GRID = 100_000_000
"""Cuts are at multiples of this many nanoseconds."""


@dataclass(frozen=True, slots=True, eq=False)
class Closing:
    """A closed segment, to be written for good."""

    computation: str
    part: PendingSegment
    reported: pa.Table
    """By event: what its report says, as `select_reported` gives it."""


@dataclass(frozen=True, slots=True, eq=False)
class Ingested:
    """What became of new reports."""

    closings: list[Closing]
    quarantined: list[pa.Table]
    """Tables of `layout.QUARANTINE`, without those of the closed segments."""
    ahead: int
    """How many reports came from clocks that are ahead."""
    gone: list[Gone]
    """Reports that their processes lack, without those of the closed segments."""


def ingest(
    rows: pa.Table,
    closed: ClosedPart,
    tail: Tail,
    now: int,
    terms: LiveTerms,
    limits: LiveLimits,
    find_sends: FindSends,
    on_closed: OnClosed,
) -> Ingested:
    """Bring `closed` and `tail` up to date with new reports, given in the order of their arrival.

    `now` is the stream's time, at least the last arrival. Rows have the columns of `TAIL` except the date.
    """
    bad, rows = _split(rows, pc.is_valid(rows["reason"]))
    quarantined = [refused_rows(bad)] if len(bad) else []
    rows = _drop_stray_channels(rows)
    dated = with_dates(rows, eps=terms.eps, delta=terms.delta).select(TAIL.names).cast(TAIL)
    ahead = int(pc.sum(pc.greater(dated["time"], dated[DATED])).as_py() or 0)
    good_rows, out_of_range = _drop_out_of_range(dated, "time", "seq")
    good_rows, beyond_limit = _drop_quarantined(good_rows, limits.refuse_computations(good_rows, closed, tail))
    quarantined += [*out_of_range, *beyond_limit]
    closings: list[Closing] = []
    late: list[pa.Table] = []
    fresh: dict[str, pa.Table] = {}
    for name in pc.unique(good_rows["computation"]).to_pylist():
        fresh[name], good_rows = _split(good_rows, pc.equal(good_rows["computation"], name))
    for computation in sorted({*fresh, *tail.by_computation}):
        pool = fresh.get(computation, TAIL.empty_table())
        waiting = tail.by_computation.get(computation, TAIL.empty_table())
        pool, refused = _admit(closed.chain(computation).chain, waiting, pool, limits)
        quarantined += refused
        its_closings, its_quarantined, its_late = _ingest_computation(
            computation, pool, closed, tail, now, terms, find_sends, on_closed
        )
        closings += its_closings
        quarantined += its_quarantined
        late += its_late
    gone = [report for table in (*quarantined, *late) for report in gone_from(table)]
    gone = [replace(report, process=history_name(report.process)) for report in gone]
    return Ingested(closings, quarantined, ahead, gone)


def select_reported(rows: pa.Table, part: PendingSegment) -> pa.Table:
    """Select, for each event of a segment, what its report says and whether it is in the log."""
    return rows.select(REPORTED).take(pa.array(part.rows))


def _split(rows: pa.Table, chosen: pa.ChunkedArray) -> tuple[pa.Table, pa.Table]:
    """Split rows into chosen and others; copies nothing if all are of one sort."""
    count = pc.sum(chosen).as_py() or 0
    if count in (0, len(rows)):
        return rows.slice(0, count), rows.slice(count)
    return rows.filter(chosen), rows.filter(pc.invert(chosen))


def _drop_stray_channels(rows: pa.Table) -> pa.Table:
    """Clear the channel of rows that are neither sends nor receives."""
    keys = rows["channel_key"]
    if keys.null_count == len(keys):
        return rows
    is_end = pa.array(in_channels(rows))
    bare = without_channels(rows)
    for name in CHANNEL_COLUMNS:
        column = pc.if_else(is_end, rows[name], bare[name])
        bare = bare.set_column(bare.column_names.index(name), bare.schema.field(name), column)
    return bare


def _ingest_computation(
    computation: str,
    pool: pa.Table,
    closed: ClosedPart,
    tail: Tail,
    now: int,
    terms: LiveTerms,
    find_sends: FindSends,
    on_closed: OnClosed,
) -> tuple[list[Closing], list[pa.Table], list[pa.Table]]:
    """Ingest rows of one computation; return what was closed, quarantined rows, and late rows as if quarantined."""
    chain = closed.chain(computation).chain
    closings: list[Closing] = []
    waiting = tail.by_computation.get(computation, TAIL.empty_table())
    quarantined: list[pa.Table] = []
    late: list[pa.Table] = []
    while True:
        pool, repeated, cut = _find_cut(chain, waiting, pool, terms)
        quarantined += repeated
        late += _late_rows(chain, pool)
        if cut is None or now < cut + terms.patience:
            break
        arrived = int(np.searchsorted(pool["arrival"].to_numpy(), cut + terms.patience))
        rows = pa.concat_tables([waiting, pool.slice(0, arrived)]).combine_chunks()
        pool, first = pool.slice(arrived), chain.end
        come_until = cut + terms.patience - terms.delta
        named = name_messages(chain.channels, chain.closed_processes, rows, come_until, terms, for_good=True)
        part, is_closed = chain.close(named.rows, find_sends, cut)
        on_closed(computation, first, part)
        closings.append(Closing(computation, part, select_reported(named.rows, part)))
        count_unsettled(chain.channels, rows.filter(pa.array(is_closed & ~named.settled)))
        waiting = named.store_names(rows).filter(pa.array(~is_closed))
    if not len(pool) and not closings:
        return closings, quarantined, late
    waiting = pa.concat_tables([waiting, pool])
    if len(waiting):
        tail.by_computation[computation] = waiting.combine_chunks()
    else:
        tail.by_computation.pop(computation, None)
    return closings, quarantined, late


def _late_rows(chain: Chain, rows: pa.Table) -> list[pa.Table]:
    """List the rows whose places are closed, in a table of `ledto.history.quarantine.PLACED` if there are any."""
    quarantined = Quarantined()
    repeated, _ = chain.closed_processes.find_repeated_and_too_late(rows)
    quarantined.quarantine(
        np.flatnonzero(chain.closed_processes.is_late(rows) & ~repeated), LATE, "it came after its place was closed"
    )
    return [quarantined.table(rows)] if quarantined.rows else []


def _find_cut(
    chain: Chain, waiting: pa.Table, pool: pa.Table, terms: LiveTerms
) -> tuple[pa.Table, list[pa.Table], int | None]:
    """Find where to cut the chain next; return the pool without repeated reports, these, and the cut if there is one.

    Looks only at as many rows of the pool as needed: rows dated before a cut arrive at most delta after it.
    """
    quarantined: list[pa.Table] = []
    looked = 0
    while True:
        more = max(looked, 2 * terms.close_rows)
        fresh, repeated = _drop_closed(chain, pool.slice(looked, more))
        quarantined += repeated
        if repeated:
            pool = pa.concat_tables([pool.slice(0, looked), fresh, pool.slice(looked + more)])
        looked += len(fresh)
        dates = np.concatenate((waiting[DATED].to_numpy(), pool.slice(0, looked)[DATED].to_numpy()))
        cut = next_cut(dates, chain.cut, rows=terms.close_rows, after=terms.close_after)
        if looked >= len(pool) or (cut is not None and pool["arrival"][looked - 1].as_py() >= cut + terms.delta):
            return pool, quarantined, cut


def _drop_closed(chain: Chain, rows: pa.Table) -> tuple[pa.Table, list[pa.Table]]:
    """Drop and quarantine rows that report closed events, and rows too late for any place."""
    repeated, too_late = chain.closed_processes.find_repeated_and_too_late(rows)
    quarantined = Quarantined()
    quarantined.duplicate(np.flatnonzero(repeated))
    quarantined.quarantine(
        np.flatnonzero(too_late), "too-late", "later events of its process are closed and leave no place for it"
    )
    return _drop_quarantined(rows, quarantined)


def _admit(chain: Chain, waiting: pa.Table, rows: pa.Table, limits: LiveLimits) -> tuple[pa.Table, list[pa.Table]]:
    """Drop and quarantine rows of too many processes, and rows that break their process's choice of having numbers."""
    known = chain.closed_processes.numbered.keys() | set(waiting["process"].unique().to_pylist())
    rows, too_many = _drop_quarantined(rows, limits.refuse_processes(rows, known))
    lacks_number, has_number = chain.closed_processes.find_misnumbered(waiting, rows)
    quarantined = Quarantined()
    quarantined.quarantine(np.flatnonzero(lacks_number), "no-seq", "earlier reports of its process have one")
    quarantined.quarantine(np.flatnonzero(has_number), "unexpected-seq", "earlier reports of its process have none")
    rows, more = _drop_quarantined(rows, quarantined)
    return rows, [*too_many, *more]


def _drop_out_of_range(rows: pa.Table, *columns: str) -> tuple[pa.Table, list[pa.Table]]:
    """Drop and quarantine rows whose time or number is absurd."""
    quarantined = Quarantined()
    in_range = np.ones(len(rows), np.bool_)
    for absurd, code, detail in out_of_range(rows, *columns):
        quarantined.quarantine(np.flatnonzero(absurd & in_range), code, detail)
        in_range &= ~absurd
    return _drop_quarantined(rows, quarantined)


def _drop_quarantined(rows: pa.Table, quarantined: Quarantined) -> tuple[pa.Table, list[pa.Table]]:
    """Drop the quarantined rows; return the others, and a list with a table of the dropped ones if there are any."""
    if not quarantined.rows:
        return rows, []
    kept = np.ones(len(rows), np.bool_)
    kept[quarantined.rows] = False
    return rows.filter(pa.array(kept)), [quarantined.table(rows.drop_columns([DATED, "uid", "emitted"]))]


def next_cut(dated: Longs, last: int, *, rows: int, after: int) -> int | None:
    """Find the date of the next cut, from all dates after the last one; None if there are none."""
    if not len(dated):
        return None
    cells, counts = np.unique(dated // GRID, return_counts=True)
    enough = np.flatnonzero(np.cumsum(counts) >= rows)
    first = int(cells[0])
    if last > FIRST:
        # Rows dated before the last cut that came after it must not move the next cut back.
        first = max(first, last // GRID)
    by_age = first + -(-after // GRID)
    by_rows = max(int(cells[enough[0]]), first) + 1 if len(enough) else by_age
    return min(by_age, by_rows) * GRID
