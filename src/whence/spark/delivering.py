"""Delivery of a whole run under several policies: one task a segment, which reads, delivers, counts and writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import SparkSession

from whence.delivery.options import read_policies
from whence.delivery.policies import Phi
from whence.history.deliveries import agree_terms, deliver_and_write, summary
from whence.history.delivering import LIMIT_ROWS
from whence.history.reading import Run
from whence.history.spans import Blocks, survey_segment
from whence.history.storage import Store
from whence.history.tables import processes_from, segments_from
from whence.spark.sweep import sweep

CACHE_BYTES = 64 << 20


def deliver(
    session: SparkSession,
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
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Any]:
    """Deliver the segments of a run, committed or not, and give the manifest's ``policies`` and ``wall_clock``.

    `policies` are ``NAME`` or ``NAME:PHI``; `eps`, `delta` and `tick` are in the history's unit. Files are written under
    names of their own each time a task runs; those that count are listed in the result (``files`` of each policy).
    `whence.history.delivering` says what is exact and when, `agree_terms` what is assumed where nothing is given.

    Two jobs: times are surveyed first, so that each task knows which rows of its neighbours it needs.
    """
    read_policies(policies, phi=phi)
    opened = partial(_open, store, run, segments, processes)
    count = segments.num_rows
    numbers = range(count)

    def survey(number: int) -> Blocks:
        return survey_segment(opened(), number)

    found = sweep(
        session, [partial(survey, number) for number in numbers], on_progress=lambda done: on_progress(done, 2 * count)
    )
    blocks = Blocks.joined(found)
    terms = agree_terms(policies, blocks, eps=eps, delta=delta, tick=tick, phi=phi, elements=elements)

    def work(number: int) -> Any:
        return deliver_and_write(opened(), number, terms, blocks, attempt=uuid4().hex[:12], limit_rows=limit_rows)

    outcomes = sweep(
        session,
        [partial(work, number) for number in numbers],
        on_progress=lambda done: on_progress(count + done, 2 * count),
    )
    return summary(outcomes, terms)


def _open(store: Store, run: str, segments: pa.Table, processes: pa.Table) -> Run:
    return Run(store, {"run": run}, segments_from(segments), processes_from(processes), cache_bytes=CACHE_BYTES)
