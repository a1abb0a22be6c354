"""Delivery of a whole run under several policies: one task a segment, which reads, delivers, counts and writes.

The same tasks measure what the segment's messages show of the clocks.
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
from ledto.history.clocks.measure import SegmentClocks, added, measure_segment, time_bins
from ledto.history.clocks.tables import between_clocks, store_clocks
from ledto.history.codec import decode, encode
from ledto.history.deliver.files import SegmentOutcome, agree_terms, deliver_and_write, summary
from ledto.history.deliver.rows import Blocks, survey_segment
from ledto.history.deliver.segment import LIMIT_ROWS
from ledto.history.manifest import ClocksSummary, PolicySummary, WallClockSummary
from ledto.history.run import Run
from ledto.history.sealed import read_sealed, write_sealed
from ledto.history.store import Store
from ledto.history.tables import processes_from, segments_from
from ledto.skew.pairs import OccupiedBins, bins_for, joined_bins

CACHE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Delivered:
    """What the manifest says of deliveries and clocks."""

    policies: dict[str, PolicySummary]
    wall_clock: WallClockSummary
    clocks: ClocksSummary | None
    """None where they were not measured."""


class TermsRefused(LedtoError):
    """Policies cannot work with these terms: elements, tick or delta do not fit the data."""


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

    `policies` are ``NAME`` or ``NAME:PHI``; `eps`, `delta` and `tick` are in the history's unit. Files are written under
    names of their own each time a task runs; those that count are listed in the result.
    `ledto.history.deliver.segment` says what is exact and when, `agree_terms` what is assumed where nothing is given.
    Without `measure_clocks`, nothing is said of the clocks; with `as_known`, stamps are what an observer could know at
    the time.

    Two jobs: times are surveyed first, so that each task knows which rows of its neighbours it needs.
    """
    read_policies(policies, phi=phi)
    opened = partial(_open, store, run, segments, processes)
    count = segments.num_rows
    numbers = range(count)

    bins = bins_for(len(pc.unique(processes["process"]))) if measure_clocks else 0

    def survey(number: int) -> tuple[Blocks, OccupiedBins | None]:
        part = opened()
        return survey_segment(part, number), time_bins(part, number, most=bins) if measure_clocks else None

    found = engine.run_tasks(
        [partial(survey, number) for number in numbers],
        "survey of times",
        on_progress=lambda done: on_progress(done, 2 * count),
    )
    blocks = Blocks.joined([each for each, _ in found])
    level = joined_bins([each for _, each in found if each is not None], most=bins).level if measure_clocks else None
    try:
        terms = agree_terms(
            policies, blocks, eps=eps, delta=delta, tick=tick, phi=phi, elements=elements, as_known=as_known
        )
    except ValueError as refused:
        raise TermsRefused(str(refused)) from None

    def work(number: int) -> tuple[SegmentOutcome, str | None]:
        attempt, part = uuid4().hex[:12], opened()
        outcome = deliver_and_write(part, number, terms, blocks, attempt=attempt, limit_rows=limit_rows)
        if level is None:
            return outcome, None
        measured = measure_segment(part, number, level=level)
        # A draft removes such files with other files of delivery that nothing names.
        stem = layout.segment_stem("delivery-clocks", number, attempt)
        return outcome, write_sealed(store, run, stem, "measured", encode(measured))

    done = engine.run_tasks(
        [partial(work, number) for number in numbers],
        "delivery",
        on_progress=lambda done: on_progress(count + done, 2 * count),
    )
    policies_told, wall_clock = summary([outcome for outcome, _ in done], terms)
    if level is None:
        return Delivered(policies_told, wall_clock, None)
    names = [f"{layout.run_folder(run)}/{name}" for _, name in done]
    measured = added(_measured(store, names), level=level)
    clocks = store_clocks(store, run, measured, unit=unit)
    wall_clock = replace(wall_clock, between_clocks=between_clocks(measured.pairs))
    for name in names:
        store.delete(name)
    return Delivered(policies_told, wall_clock, clocks)


def _measured(store: Store, names: Sequence[str]) -> Iterator[SegmentClocks]:
    """What tasks left: it may be too much for memory, and for what Spark lets tasks give back."""
    for name in names:
        yield decode(read_sealed(store, name), SegmentClocks)


def _open(store: Store, run: str, segments: pa.Table, processes: pa.Table) -> Run:
    return Run(store, run, segments_from(segments), processes_from(processes), cache_bytes=CACHE_BYTES)
