"""Reports go where they belong, and what is settled by them is closed. Nothing is written here.

The result is a function of all reports so far, their order and their arrivals: not of how many came at a time.
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
from ledto.live.channels import name_messages, pass_over
from ledto.live.closed_processes import own_name
from ledto.live.dates import DATED, with_dates
from ledto.live.limits import LiveLimits
from ledto.live.state import TAIL, ClosedPart, Tail
from ledto.live.terms import LiveTerms

Longs = NDArray[np.int64]

OnClosed = Callable[[str, int, PendingSegment], None]
"""Hears of a segment that was closed: its computation, and where in the chain it begins."""

REPORTED = ("process", "seq", "receives", "receives_more", "line", "line_parent", "emitted")
GRID = 100_000_000
"""Cuts lie at multiples of this many nanoseconds."""


@dataclass(frozen=True, slots=True, eq=False)
class Closing:
    """A segment to be written for good."""

    computation: str
    part: PendingSegment
    reported: pa.Table
    """By event: what its report said (`reported`)."""


@dataclass(frozen=True, slots=True, eq=False)
class Ingested:
    """What became of new reports."""

    closings: list[Closing]
    aside: list[pa.Table]
    """Tables of `layout.ASIDE`, besides those of the closings' parts."""
    ahead: int
    """Reports from clocks that are ahead."""
    gone: list[Gone]
    """Reports that their processes lack, besides those of the closings' parts."""


def take(
    rows: pa.Table,
    closed: ClosedPart,
    tail: Tail,
    now: int,
    terms: LiveTerms,
    limits: LiveLimits,
    find_sends: FindSends,
    on_closed: OnClosed,
) -> Ingested:
    """Bring `closed` and `tail` up to date with new reports, which come in the order of their arrival.

    `now` is the time on the stream's clock, at least the last arrival. Rows have the columns of `TAIL` except the date.
    """
    bad, rows = _split(rows, pc.is_valid(rows["reason"]))
    aside = [refused_rows(bad)] if len(bad) else []
    rows = _with_channels_of_ends(rows)
    good = with_dates(rows, eps=terms.eps, delta=terms.delta).select(TAIL.names).cast(TAIL)
    ahead = int(pc.sum(pc.greater(good["time"], good[DATED])).as_py() or 0)
    plain, absurd = _within_range(good, "time", "seq")
    plain, more = _without(plain, limits.refuse_computations(plain, closed, tail))
    aside += [*absurd, *more]
    closings: list[Closing] = []
    late: list[pa.Table] = []
    fresh: dict[str, pa.Table] = {}
    for name in pc.unique(plain["computation"]).to_pylist():
        fresh[name], plain = _split(plain, pc.equal(plain["computation"], name))
    for computation in sorted({*fresh, *tail.plain}):
        pool = fresh.get(computation, TAIL.empty_table())
        waiting = tail.plain.get(computation, TAIL.empty_table())
        pool, refused = _admitted(closed.chain(computation).chain, waiting, pool, limits)
        aside += refused
        found, set_aside, late_here = _take_plain(computation, pool, closed, tail, now, terms, find_sends, on_closed)
        closings += found
        aside += set_aside
        late += late_here
    gone = [replace(each, process=own_name(each.process)) for table in (*aside, *late) for each in gone_from(table)]
    return Ingested(closings, aside, ahead, gone)


def reported(rows: pa.Table, part: PendingSegment) -> pa.Table:
    """By event of a part: what the row it came from says, and whether that row is in the log."""
    return rows.select(REPORTED).take(pa.array(part.rows))


def _split(rows: pa.Table, chosen: pa.ChunkedArray) -> tuple[pa.Table, pa.Table]:
    """The rows that are chosen, and the others; copies nothing where they are all of a kind."""
    count = pc.sum(chosen).as_py() or 0
    if count in (0, len(rows)):
        return rows.slice(0, count), rows.slice(count)
    return rows.filter(chosen), rows.filter(pc.invert(chosen))


def _with_channels_of_ends(rows: pa.Table) -> pa.Table:
    """The rows, of which only sends and receives have a channel."""
    keys = rows["channel_key"]
    if keys.null_count == len(keys):
        return rows
    is_end = pa.array(in_channels(rows))
    bare = without_channels(rows)
    for name in CHANNEL_COLUMNS:
        column = pc.if_else(is_end, rows[name], bare[name])
        bare = bare.set_column(bare.column_names.index(name), bare.schema.field(name), column)
    return bare


def _take_plain(
    computation: str,
    pool: pa.Table,
    closed: ClosedPart,
    tail: Tail,
    now: int,
    terms: LiveTerms,
    find_sends: FindSends,
    on_closed: OnClosed,
) -> tuple[list[Closing], list[pa.Table], list[pa.Table]]:
    """Gives what is closed, what is set aside, and what came late, as if that were set aside."""
    chain = closed.chain(computation).chain
    closings: list[Closing] = []
    waiting = tail.plain.get(computation, TAIL.empty_table())
    aside: list[pa.Table] = []
    late: list[pa.Table] = []
    while True:
        pool, again, cut = _next(chain, waiting, pool, terms)
        aside += again
        late += _late(chain, pool)
        if cut is None or now < cut + terms.patience:
            break
        there = int(np.searchsorted(pool["arrival"].to_numpy(), cut + terms.patience))
        rows = pa.concat_tables([waiting, pool.slice(0, there)]).combine_chunks()
        pool, first = pool.slice(there), chain.end
        come = cut + terms.patience - terms.delta
        named = name_messages(chain.channels, chain.lines, rows, come, terms, for_good=True)
        part, over = chain.close(named.rows, find_sends, cut)
        on_closed(computation, first, part)
        closings.append(Closing(computation, part, reported(named.rows, part)))
        pass_over(chain.channels, rows.filter(pa.array(over & ~named.settled)))
        waiting = named.kept(rows).filter(pa.array(~over))
    if not len(pool) and not closings:
        return closings, aside, late
    waiting = pa.concat_tables([waiting, pool])
    if len(waiting):
        tail.plain[computation] = waiting.combine_chunks()
    else:
        tail.plain.pop(computation, None)
    return closings, aside, late


def _late(chain: Chain, rows: pa.Table) -> list[pa.Table]:
    """The rows that cannot take their places any more, in a table of `ledto.history.quarantine.PLACED`."""
    aside = Quarantined()
    again, _ = chain.lines.sort_out(rows)
    aside.quarantine(np.flatnonzero(chain.lines.late(rows) & ~again), LATE, "it came after the close of its place")
    return [aside.table(rows)] if aside.rows else []


def _next(
    chain: Chain, waiting: pa.Table, pool: pa.Table, terms: LiveTerms
) -> tuple[pa.Table, list[pa.Table], int | None]:
    """Where the chain is to be cut next; and the pool, from which second reports of closed events are taken.

    Looks at as many rows of the pool as tell where that is: those dated before a cut arrive at most delta after it.
    """
    aside: list[pa.Table] = []
    looked = 0
    while True:
        more = max(looked, 2 * terms.close_rows)
        fresh, again = _without_closed(chain, pool.slice(looked, more))
        aside += again
        if again:
            pool = pa.concat_tables([pool.slice(0, looked), fresh, pool.slice(looked + more)])
        looked += len(fresh)
        dates = np.concatenate((waiting[DATED].to_numpy(), pool.slice(0, looked)[DATED].to_numpy()))
        cut = next_cut(dates, chain.cut, rows=terms.close_rows, after=terms.close_after)
        if looked >= len(pool) or (cut is not None and pool["arrival"][looked - 1].as_py() >= cut + terms.delta):
            return pool, aside, cut


def _without_closed(chain: Chain, rows: pa.Table) -> tuple[pa.Table, list[pa.Table]]:
    """The rows without those that report what is closed, which are set aside."""
    again, unknown = chain.lines.sort_out(rows)
    aside = Quarantined()
    aside.duplicate(np.flatnonzero(again))
    aside.quarantine(np.flatnonzero(unknown), "too-late", "what was closed after it leaves no place for it")
    return _without(rows, aside)


def _admitted(chain: Chain, waiting: pa.Table, rows: pa.Table, limits: LiveLimits) -> tuple[pa.Table, list[pa.Table]]:
    """The rows without those of too many processes, and those that have a number otherwise than their process has."""
    known = chain.lines.numbered.keys() | set(waiting["process"].unique().to_pylist())
    rows, told = _without(rows, limits.refuse_processes(rows, known))
    without, with_one = chain.lines.strangers(waiting, rows)
    aside = Quarantined()
    aside.quarantine(np.flatnonzero(without), "no-seq", "earlier reports of its process have one")
    aside.quarantine(np.flatnonzero(with_one), "unexpected-seq", "earlier reports of its process have none")
    rows, more = _without(rows, aside)
    return rows, [*told, *more]


def _within_range(rows: pa.Table, *columns: str) -> tuple[pa.Table, list[pa.Table]]:
    """The rows without those whose time or number cannot be meant."""
    aside = Quarantined()
    good = np.ones(len(rows), np.bool_)
    for absurd, code, detail in out_of_range(rows, *columns):
        aside.quarantine(np.flatnonzero(absurd & good), code, detail)
        good &= ~absurd
    return _without(rows, aside)


def _without(rows: pa.Table, aside: Quarantined) -> tuple[pa.Table, list[pa.Table]]:
    """The rows without those that are set aside, and a table of these, if there are any."""
    if not aside.rows:
        return rows, []
    left = np.ones(len(rows), np.bool_)
    left[aside.rows] = False
    return rows.filter(pa.array(left)), [aside.table(rows.drop_columns([DATED, "uid", "emitted"]))]


def next_cut(dated: Longs, last: int, *, rows: int, after: int) -> int | None:
    """The date at which a chain is to be cut next, given all dates after the last cut; None while there are too few."""
    if not len(dated):
        return None
    cells, counts = np.unique(dated // GRID, return_counts=True)
    enough = np.flatnonzero(np.cumsum(counts) >= rows)
    first = int(cells[0])
    if last > FIRST:
        # Rows that are dated before the last cut and stand after it do not move the next one back.
        first = max(first, last // GRID)
    by_age = first + -(-after // GRID)
    by_rows = max(int(cells[enough[0]]), first) + 1 if len(enough) else by_age
    return min(by_age, by_rows) * GRID
