"""Places of reports that came late or were set aside, among what is closed.

The closed segments stay as they are. From where such a report belongs on, its process and all that heard of it since are
told to lack it: in the table of processes, which is made anew with every commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ledto.causality.order import NO_TIME
from ledto.history.gone import Gone, may_belong, rows_after
from ledto.history.run_tables import Holes
from ledto.live.chain import Chain
from ledto.live.commit import Assembled
from ledto.live.records import Record


def place_among_closed(chain: Chain, records: Sequence[Record], read: Callable[[], Assembled]) -> None:
    """Find the places of the chain's reports that are gone, as far as these are closed. What belongs later stays with it.

    `records` are the chain's closed segments, among those that `read` gives.
    """
    totals = chain.totals
    wanted: dict[int, list[Gone]] = {}
    for code, gone in chain.gone_by_code(chain.gone).items():
        if code < len(totals.events) and totals.events[code]:
            last = int(totals.last_seq[code]), int(totals.last_time[code])
            wanted[code] = [each for each in gone if may_belong(each, *last)]
    over = {id(each) for gone in wanted.values() for each in gone}
    chain.gone = [each for each in chain.gone if id(each) not in over]
    wanted = {code: gone for code, gone in wanted.items() if gone}
    first: int | None = None
    for at, record in enumerate(records):
        known, events = len(record.before), record.counts.events
        for code in [code for code in wanted if code < known and chain.holes.first_hole[code] <= record.before[code]]:
            # It is known to lack something even before this segment.
            del wanted[code]
        for code, gone in wanted.items():
            if first is None and code < len(events) and events[code]:
                last = int(record.counts.last_seq[code]), int(record.counts.last_time[code])
                first = at if any(may_belong(each, *last) for each in gone) else None
        if first is not None:
            break
    if first is not None and wanted:
        chain.set_holes(_lowered(chain, records, first, wanted, read()))


def _lowered(
    chain: Chain, records: Sequence[Record], first: int, wanted: dict[int, list[Gone]], assembled: Assembled
) -> Holes:
    """The chain's holes, with those before events that may come after these reports, and what heard of them."""
    run, numbers = assembled.run, {id(record): number for number, record in enumerate(assembled.records)}
    holes = chain.holes.widened(len(chain.totals.events))
    nothing = np.empty(0, np.int64)
    spreads = False
    for record in records[first:]:
        if not spreads and not wanted:
            break
        number = numbers[id(record)]
        skeleton, boundary = run.skeleton(number, 0, record.rows), run.boundary(number)
        found: dict[int, tuple[int, str]] = {}
        if wanted:
            told = run.events(number, ["seq", "time"], 0, record.rows)
            seq, time = told["seq"].fill_null(0).to_numpy(), told["time"].fill_null(NO_TIME).to_numpy()
            found = rows_after(wanted, skeleton.process, seq, time)
            wanted = {code: gone for code, gone in wanted.items() if code not in found}
        tainted = holes.first_tainted
        holes = holes.after(skeleton, boundary, np.full(len(tainted), -1), nothing, found)
        spreads |= bool((holes.first_tainted < tainted).any())
    return holes
