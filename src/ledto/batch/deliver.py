"""Deliver a whole run under several policies. A task for each segment reads, delivers, counts and writes.

The same task measures what the segment's messages show of the clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from ledto.batch.engine import Engine
from ledto.delivery.policies import Phi, read_policies
from ledto.errors import LedtoError
from ledto.history import layout
from ledto.history.clocks.measure import SegmentClocks, add_clocks, measure_segment, time_bins
from ledto.history.clocks.tables import between_clocks, store_clocks
from ledto.history.codec import decode, encode
from ledto.history.deliver.files import SegmentOutcome, TooManyTicks, agree_terms, deliver_and_write, summarize
from ledto.history.deliver.rows import Blocks, survey_segment
from ledto.history.deliver.segment import LIMIT_ROWS
from ledto.history.manifest import ClocksSummary, PolicySummary, WallClockSummary
from ledto.history.run import Run
from ledto.history.sealed import read_sealed, write_sealed
from ledto.history.store import Store
from ledto.history.tables import processes_from, segments_from
from ledto.skew.pairs import OccupiedBins, bins_for, joined_bins

CACHE_BYTES = 64 << 20
"""Memory of a task for what it reads from files."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """The parts of the manifest about deliveries and clocks."""

    policies: dict[str, PolicySummary]
    wall_clock: WallClockSummary
    clocks: ClocksSummary | None
    """None if they were not measured."""


class TermsRefused(LedtoError):
    """The policies cannot work with this elements, tick or delta on these data."""


def deliver(
    engine: Engine,
    store: Store,
    run: str,
    segments: pa.Table,
    processes: pa.Table,
    policies: Sequence[str],
    *,
    eps: int,
    phi: Phi | None = None,
    delta: int | None = None,
    elements: int | None = None,
    tick: int | None = None,
    limit_rows: int = LIMIT_ROWS,
    unit: str | None = None,
    measure_clocks: bool = True,
    as_known: bool = False,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Delivered:
    """Deliver the segments of a run, committed or not.

    `policies` are ``NAME`` or ``NAME:PHI``; `eps`, `delta` and `tick` are in the history's unit. Each run of a task writes
    files of other names; the result lists those that count. `ledto.history.deliver.segment` says what is exact, and
    `agree_terms` which defaults are used. `as_known`: stamps are what an observer could know at the time.

    Runs two jobs: the first surveys times, so that each task of the second knows which rows of its neighbours it needs.

    Raises `ValueError` for policies that do not exist, `TermsRefused` for settings that do not fit the data, and
    `ClockDrift` for an eps that is too small.
    """
    read_policies(policies, phi=phi)
    open_run = partial(_open, store, run, segments, processes)
    count = segments.num_rows
    numbers = range(count)

    bins = bins_for(len(pc.unique(processes["process"]))) if measure_clocks else 0

    def survey(number: int) -> tuple[Blocks, OccupiedBins | None]:
        opened = open_run()
        return survey_segment(opened, number), time_bins(opened, number, most=bins) if measure_clocks else None

    surveys = engine.run_tasks(
        [partial(survey, number) for number in numbers],
        "survey of times",
        on_progress=lambda done: on_progress(done, 2 * count),
    )
    blocks = Blocks.joined([part for part, _ in surveys])
    occupied = [part for _, part in surveys if part is not None]
    level = joined_bins(occupied, most=bins).level if measure_clocks else None
    try:
        terms = agree_terms(
            policies, blocks, eps=eps, delta=delta, tick=tick, phi=phi, elements=elements, as_known=as_known
        )
    except TooManyTicks:
        raise
    except ValueError as refused:
        raise TermsRefused(str(refused)) from None

    def work(number: int) -> tuple[SegmentOutcome, str | None]:
        attempt, opened = uuid4().hex[:12], open_run()
        outcome = deliver_and_write(opened, number, terms, blocks, attempt=attempt, limit_rows=limit_rows)
        if level is None:
            return outcome, None
        measured = measure_segment(opened, number, level=level)
        # With this prefix, `Draft.commit` removes the file if nobody else does.
        stem = layout.segment_stem("delivery-clocks", number, attempt)
        return outcome, write_sealed(store, run, stem, "measured", encode(measured))

    results = engine.run_tasks(
        [partial(work, number) for number in numbers],
        "delivery",
        on_progress=lambda done: on_progress(count + done, 2 * count),
    )
    policy_summaries, wall_clock = summarize([outcome for outcome, _ in results], terms)
    if level is None:
        return Delivered(policy_summaries, wall_clock, None)
    names = [f"{layout.run_folder(run)}/{name}" for _, name in results]
    measured = add_clocks(_read_measured(store, names), level=level)
    clocks = store_clocks(store, run, measured, unit=unit)
    wall_clock = replace(wall_clock, between_clocks=between_clocks(measured.pairs))
    for name in names:
        store.delete(name)
    return Delivered(policy_summaries, wall_clock, clocks)


def _read_measured(store: Store, names: Sequence[str]) -> Iterator[SegmentClocks]:
    """Read what tasks measured, one by one. All together may be too large for memory, and for a result of Spark's tasks."""
    for name in names:
        yield decode(read_sealed(store, name), SegmentClocks)


def _open(store: Store, run: str, segments: pa.Table, processes: pa.Table) -> Run:
    return Run(store, run, segments_from(segments), processes_from(processes), cache_bytes=CACHE_BYTES)
