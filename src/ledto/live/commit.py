"""All segments of a live history together: their tables, and the deliveries of those that are new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from functools import reduce
from operator import add
from uuid import uuid4

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from ledto.batch.join import Unbalanced
from ledto.history import layout
from ledto.history.deliver.files import SegmentOutcome, deliver_on, summary, write_deliveries
from ledto.history.deliver.rows import Blocks, survey_segment
from ledto.history.manifest import Description, Ledger, PolicySummary, StreamCounts, StreamDelays, WallClockSummary
from ledto.history.run import Run
from ledto.history.run_tables import Holes, Totals, processes_table, segments_table
from ledto.history.store import Store
from ledto.history.tables import processes_from, segments_from
from ledto.live.emit import UnloggedEvents
from ledto.live.quarantine import SetAside
from ledto.live.records import Record, crossings_table, segment_rows
from ledto.live.state import ClosedPart
from ledto.live.terms import LiveTerms


def summed(outcomes: Sequence[SegmentOutcome]) -> SegmentOutcome:
    """What several segments come to together; without files."""
    first = outcomes[0]
    return SegmentOutcome(
        0,
        dict.fromkeys(first.files, ""),
        {name: reduce(add, (each.contradictions[name] for each in outcomes)) for name in first.files},
        {name: sum(each.late[name] for each in outcomes) for name in first.files},
        {name: reduce(add, (each.waits[name] for each in outcomes)) for name in first.files},
        reduce(add, (each.wall_clock for each in outcomes)),
    )


def described(
    records: Sequence[Record],
    tails: Sequence[UnloggedEvents],
    closed: ClosedPart,
    aside: SetAside,
    terms: LiveTerms,
    channels: dict[str, int],
) -> Description:
    """Describe the history. `records` are all segments by number, `tails` those not closed, `channels` what is counted."""
    policies, wall_clock = _delivered(records, tails, closed.delivered, terms)
    events = sum(each.rows for each in records)
    counted = aside.counted_with(each.part.aside for each in tails)
    return Description(
        unit="ns",
        eps=terms.eps,
        lag=max((each.lag for each in records), default=0),
        lag_event=None,
        inputs=(),
        ledger=Ledger(
            reports=events + counted.duplicate + counted.quarantined,
            delivered=events,
            duplicate=counted.duplicate,
            quarantined=counted.quarantined,
            reasons=dict(sorted(counted.reasons.items())),
            missing_causes=sum(each.missing for each in records),
        ),
        attributes=tuple(sorted(closed.attributes | {name for each in tails for name in each.record.attributes})),
        native_columns=(),
        has_ids=any(each.files.ids_file is not None for each in records),
        given_seq=False,
        aside_files=(),
        channels=channels,
        policies=policies,
        wall_clock=wall_clock,
    )


def counted(description: Description, policy: PolicySummary, *, logged: int, ahead: int) -> StreamCounts:
    """Count what became of the reports so far, `logged` of which are in the log, whose policy this is."""
    ledger = description.ledger
    return StreamCounts(
        reports=ledger.reports,
        duplicate=ledger.duplicate,
        quarantined=ledger.quarantined,
        late=policy.late,
        messages=policy.violations.get("messages", 0),
        violations=policy.violations.get("messages_inverted", 0),
        delivered=logged,
        waiting=ledger.delivered - logged,
        ahead=ahead,
    )


def delays(policy: PolicySummary) -> StreamDelays:
    """Tell how long deliveries under this policy waited."""
    return StreamDelays(*(policy.delays.get(name) for name in StreamDelays.__struct_fields__))


def check_accounts(ledger: Ledger, reports: int) -> None:
    """Raise `Unbalanced` unless every report that came is accounted for once."""
    if ledger.reports != reports:
        raise Unbalanced(f"{reports} reports came in, and these are accounted for: {ledger}")


def _delivered(
    records: Sequence[Record], tails: Sequence[UnloggedEvents], closed: SegmentOutcome | None, terms: LiveTerms
) -> tuple[dict[str, PolicySummary], WallClockSummary]:
    """Sum up what policies came to; `closed` is the sum over all segments that are."""
    outcomes = [each.record.outcome for each in tails if each.record.outcome is not None]
    outcomes += [closed] if closed is not None else []
    policies, wall_clock = summary([summed(outcomes)] if outcomes else [], terms.delivering)
    for name, policy in policies.items():
        files = tuple(each.outcome.files[name] for each in records if each.outcome is not None)
        policies[name] = replace(policy, files=files)
    return policies, wall_clock


CACHE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Assembled:
    """The segments, by number, and the tables that describe them."""

    records: list[Record]
    tables: dict[str, pa.Table]
    run: Run
    """Reads them, though they are not committed yet."""


def assemble(
    store: Store, run: str, closed: ClosedPart, tails: Mapping[str, Record], holes: Mapping[str, Holes]
) -> Assembled:
    """The closed segments and those of the tails, by computation."""
    chains: list[tuple[str, list[str], Totals, list[Record]]] = []
    for computation, mine in sorted(closed.chains.items()):
        records, totals = mine.records, mine.chain.totals
        tail = tails.get(computation)
        if tail is not None and tail.rows:
            records, totals = [*records, tail], totals.plus(tail.counts, holes[computation])
        if records:
            chains.append((computation, mine.chain.names[: len(totals.events)], totals, records))
    tables = {
        "segments": segments_table(segment_rows([(len(names), records) for _, names, _, records in chains])),
        "processes": processes_table(
            [([computation] * len(names), names, totals) for computation, names, totals, _ in chains]
        ),
        "crossings": crossings_table([chain[3] for chain in chains]),
    }
    reader = Run(
        store,
        run,
        segments_from(tables["segments"]),
        processes_from(tables["processes"]),
        cache_bytes=CACHE_BYTES,
    )
    return Assembled([each for chain in chains for each in chain[3]], tables, reader)


def deliver_new(
    assembled: Assembled, pieces: Sequence[UnloggedEvents], terms: LiveTerms, pool: Executor
) -> list[UnloggedEvents]:
    """Deliver the pieces that are not delivered yet, and write that; gives them."""
    run, records = assembled.run, assembled.records
    numbers = {id(record): number for number, record in enumerate(records)}
    new = [piece for piece in pieces if piece.record.outcome is None and piece.record.rows]
    for piece in new:
        piece.record.blocks = survey_segment(run, numbers[id(piece.record)])
    if not new:
        return new
    blocks = Blocks.joined([_placed(run, number, record) for number, record in enumerate(records)])

    def deliver(piece: UnloggedEvents) -> None:
        number = numbers[id(piece.record)]
        found = deliver_on(terms.delivering, run, number, blocks)
        piece.deliveries = found.policies[terms.order_policy].table
        piece.record.outcome = write_deliveries(run, number, found, attempt=uuid4().hex[:12])

    list(pool.map(deliver, new))
    return new


def _placed(run: Run, number: int, record: Record) -> Blocks:
    """The blocks of a segment where it stands now."""
    assert record.blocks is not None
    count, first = len(record.blocks), int(run.segments.first_position[number])
    return replace_fields(
        record.blocks,
        segment=np.full(count, number),
        first_position=first + np.arange(count) * layout.EVENT_ROWS,
    )
