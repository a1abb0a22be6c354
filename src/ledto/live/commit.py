"""Make what a commit writes besides events: tables over all segments, new deliveries, and the manifest's description.

A `Run` reads the segments before they are committed, so that new ones can be delivered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from functools import reduce
from operator import add
from typing import NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from ledto.batch.join import Unbalanced
from ledto.history import layout
from ledto.history.attribute_types import merge_types
from ledto.history.deliver.files import SegmentOutcome, deliver_on, summarize, write_deliveries
from ledto.history.deliver.rows import Blocks, survey_segment
from ledto.history.manifest import Description, Ledger, PolicySummary, StreamCounts, StreamDelays, WallClockSummary
from ledto.history.run import Run
from ledto.history.run_tables import Holes, Totals, processes_table, segments_table
from ledto.history.store import Store
from ledto.history.tables import processes_from, segments_from
from ledto.live.emit import UnloggedEvents
from ledto.live.quarantine import LiveQuarantine
from ledto.live.state import ClosedPart
from ledto.live.terms import LiveTerms
from ledto.live.written_segments import WrittenSegment, crossings_table, segment_rows

CACHE_BYTES = 64 << 20
"""How much a run caches while it is assembled."""


@dataclass(frozen=True, slots=True, eq=False)
class Assembled:
    """All segments, by number, and the tables that describe them."""

    records: list[WrittenSegment]
    tables: dict[str, pa.Table]
    run: Run
    """Reads the segments, which need not be committed yet."""


class _ChainTables(NamedTuple):
    """A computation with all of its segments, the tail's included."""

    computation: str
    names: list[str]
    """Of its processes, by code."""
    totals: Totals
    records: list[WrittenSegment]


def assemble(
    store: Store, run: str, closed: ClosedPart, tails: Mapping[str, WrittenSegment], holes: Mapping[str, Holes]
) -> Assembled:
    """Join closed segments and those of the tails, in order of computations. `tails` and `holes` are by computation."""
    chains: list[_ChainTables] = []
    for computation, closed_chain in sorted(closed.chains.items()):
        records, totals = closed_chain.records, closed_chain.chain.totals
        tail = tails.get(computation)
        if tail is not None and tail.rows:
            records, totals = [*records, tail], totals.plus(tail.counts, holes[computation])
        if records:
            chains.append(_ChainTables(computation, closed_chain.chain.names[: len(totals.events)], totals, records))
    tables = {
        "segments": segments_table(segment_rows([(len(chain.names), chain.records) for chain in chains])),
        "processes": processes_table(
            [([chain.computation] * len(chain.names), chain.names, chain.totals) for chain in chains]
        ),
        "crossings": crossings_table([chain.records for chain in chains]),
    }
    reader = Run(
        store,
        run,
        segments_from(tables["segments"]),
        processes_from(tables["processes"]),
        cache_bytes=CACHE_BYTES,
    )
    return Assembled([record for chain in chains for record in chain.records], tables, reader)


def deliver_new(
    assembled: Assembled, pieces: Sequence[UnloggedEvents], terms: LiveTerms, pool: Executor
) -> list[UnloggedEvents]:
    """Deliver the segments that have no outcome yet, write their deliveries, and return them."""
    run, records = assembled.run, assembled.records
    numbers = {id(record): number for number, record in enumerate(records)}
    new = [piece for piece in pieces if piece.record.outcome is None and piece.record.rows]
    for piece in new:
        piece.record.blocks = survey_segment(run, numbers[id(piece.record)])
    if not new:
        return new
    blocks = Blocks.joined([_renumber(run, number, record) for number, record in enumerate(records)])

    def deliver(piece: UnloggedEvents) -> None:
        number = numbers[id(piece.record)]
        delivered = deliver_on(terms.delivering, run, number, blocks)
        piece.deliveries = delivered.policies[terms.order_policy].table
        piece.record.outcome = write_deliveries(run, number, delivered, attempt=uuid4().hex[:12])

    list(pool.map(deliver, new))
    return new


def _renumber(run: Run, number: int, record: WrittenSegment) -> Blocks:
    """Give the blocks of a segment the number and positions that it has now."""
    assert record.blocks is not None
    count, first = len(record.blocks), int(run.segments.first_position[number])
    return replace_fields(
        record.blocks,
        segment=np.full(count, number),
        first_position=first + np.arange(count) * layout.EVENT_ROWS,
    )


def sum_outcomes(outcomes: Sequence[SegmentOutcome]) -> SegmentOutcome:
    """Add up the outcomes of segments; the sum names no files."""
    first = outcomes[0]
    return SegmentOutcome(
        0,
        dict.fromkeys(first.files, ""),
        {name: reduce(add, (outcome.contradictions[name] for outcome in outcomes)) for name in first.files},
        {name: sum(outcome.late[name] for outcome in outcomes) for name in first.files},
        {name: reduce(add, (outcome.waits[name] for outcome in outcomes)) for name in first.files},
        reduce(add, (outcome.wall_clock for outcome in outcomes)),
    )


def describe(
    records: Sequence[WrittenSegment],
    tails: Sequence[UnloggedEvents],
    closed: ClosedPart,
    quarantine: LiveQuarantine,
    terms: LiveTerms,
    channels: dict[str, int],
) -> Description:
    """Describe the history for its manifest.

    `records` are all segments by number, `tails` those that are not closed.
    """
    policies, wall_clock = _summarise_policies(records, tails, closed.delivered, terms)
    events = sum(record.rows for record in records)
    counted = quarantine.counted_with(tail.part.quarantined for tail in tails)
    return Description(
        unit="ns",
        eps=terms.eps,
        lag=max((record.lag for record in records), default=0),
        lag_event=None,
        inputs=(),
        ledger=Ledger(
            reports=events + counted.duplicate + counted.quarantined,
            delivered=events,
            duplicate=counted.duplicate,
            quarantined=counted.quarantined,
            reasons=dict(sorted(counted.reasons.items())),
            missing_causes=sum(record.missing for record in records),
        ),
        attributes=merge_types((closed.attributes, *(tail.record.attributes for tail in tails))),
        native_columns=(),
        has_ids=any(record.files.ids_file is not None for record in records),
        given_seq=False,
        quarantine_files=(),
        channels=channels,
        policies=policies,
        wall_clock=wall_clock,
    )


def count_reports(description: Description, policy: PolicySummary, *, logged: int, ahead: int) -> StreamCounts:
    """Count what became of the reports so far. `policy` is that of the log, which has `logged` deliveries."""
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


def summarise_delays(policy: PolicySummary) -> StreamDelays:
    """Summarise how long deliveries under a policy waited."""
    return StreamDelays(*(policy.delays.get(name) for name in StreamDelays.__struct_fields__))


def check_accounts(ledger: Ledger, reports: int) -> None:
    """Raise `Unbalanced` unless every report that came is accounted for once."""
    if ledger.reports != reports:
        raise Unbalanced(f"{reports} reports came in, and these are accounted for: {ledger}")


def _summarise_policies(
    records: Sequence[WrittenSegment], tails: Sequence[UnloggedEvents], closed: SegmentOutcome | None, terms: LiveTerms
) -> tuple[dict[str, PolicySummary], WallClockSummary]:
    """Sum up the outcomes of all policies; `closed` is the sum over closed segments."""
    outcomes = [tail.record.outcome for tail in tails if tail.record.outcome is not None]
    outcomes += [closed] if closed is not None else []
    policies, wall_clock = summarize([sum_outcomes(outcomes)] if outcomes else [], terms.delivering)
    for name, policy in policies.items():
        files = tuple(record.outcome.files[name] for record in records if record.outcome is not None)
        policies[name] = replace(policy, files=files)
    return policies, wall_clock
