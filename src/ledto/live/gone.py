"""Mark closed segments where quarantined and late reports are missing.

The segments stay as they are. From the place of a missing report on, its process lacks it, and so does everything that
heard of the process since. The table of processes, which every commit writes anew, says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ledto.causality.order import NO_TIME
from ledto.history.gone import Gone, may_belong, rows_after
from ledto.history.run_tables import Holes
from ledto.live.chain import Chain
from ledto.live.commit import Assembled
from ledto.live.written_segments import WrittenSegment


def mark_missing_in_closed(chain: Chain, records: Sequence[WrittenSegment], read: Callable[[], Assembled]) -> None:
    """Mark the closed part of a chain where the chain's missing reports belong; keep those that belong later.

    `records` are the chain's closed segments, which are among those that `read` gives.
    """
    totals = chain.totals
    wanted: dict[int, list[Gone]] = {}
    for code, gone in chain.group_gone_by_code(chain.gone).items():
        if code < len(totals.events) and totals.events[code]:
            last = int(totals.last_seq[code]), int(totals.last_time[code])
            wanted[code] = [report for report in gone if may_belong(report, *last)]
    belongs_here = {id(report) for gone in wanted.values() for report in gone}
    chain.gone = [report for report in chain.gone if id(report) not in belongs_here]
    wanted = {code: gone for code, gone in wanted.items() if gone}
    first: int | None = None
    for at, record in enumerate(records):
        width, events = len(record.before), record.counts.events
        for code in [code for code in wanted if code < width and chain.holes.first_hole[code] <= record.before[code]]:
            # The process already has a hole before this segment, so another one changes nothing.
            del wanted[code]
        for code, gone in wanted.items():
            if first is None and code < len(events) and events[code]:
                last = int(record.counts.last_seq[code]), int(record.counts.last_time[code])
                first = at if any(may_belong(report, *last) for report in gone) else None
        if first is not None:
            break
    if first is not None and wanted:
        chain.set_holes(_with_more_holes(chain, records, first, wanted, read()))


def _with_more_holes(
    chain: Chain, records: Sequence[WrittenSegment], first: int, wanted: dict[int, list[Gone]], assembled: Assembled
) -> Holes:
    """Add holes before events that may come after these reports, and before what heard of them; return all holes."""
    run, numbers = assembled.run, {id(record): number for number, record in enumerate(assembled.records)}
    holes = chain.holes.widened(len(chain.totals.events))
    no_rows = np.empty(0, np.int64)
    spreads = False
    for record in records[first:]:
        if not spreads and not wanted:
            break
        number = numbers[id(record)]
        skeleton, boundary = run.skeleton(number, 0, record.rows), run.boundary(number)
        new_holes: dict[int, tuple[int, str]] = {}
        if wanted:
            events = run.events(number, ["seq", "time"], 0, record.rows)
            seq, time = events["seq"].fill_null(0).to_numpy(), events["time"].fill_null(NO_TIME).to_numpy()
            new_holes = rows_after(wanted, skeleton.process, seq, time)
            wanted = {code: gone for code, gone in wanted.items() if code not in new_holes}
        tainted = holes.first_tainted
        holes = holes.after(skeleton, boundary, np.full(len(tainted), -1), no_rows, new_holes)
        spreads |= bool((holes.first_tainted < tainted).any())
    return holes
