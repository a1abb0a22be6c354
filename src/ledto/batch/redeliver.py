"""Deliver a history again under other policies: only measured, or kept in a copy of the history."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from ledto.batch.deliver import Delivered, TermsRefused, deliver
from ledto.batch.inline import InlineEngine
from ledto.batch.observe import Delivering
from ledto.errors import LedtoError
from ledto.history import layout
from ledto.history.deliver.files import SegmentOutcome, TooManyTicks, agree_terms, deliver_on, summarize
from ledto.history.deliver.rows import Blocks, survey_segment
from ledto.history.draft import Draft
from ledto.history.errors import HistoryReplaced
from ledto.history.manifest import Description
from ledto.history.run import Run
from ledto.history.sealed import read_sealed_table
from ledto.history.store import Store

OnProgress = Callable[[int, int], None]
COPIED_BYTES = 1 << 20
"""Bytes that are copied at a time."""


class CopyOntoItself(LedtoError):
    """The copy of a history was to be written to the folder of the history itself."""


def survey(run: Run) -> Blocks:
    """Read the times of all segments of a committed run, for `least_eps` and `measure`."""
    return Blocks.joined([survey_segment(run, number) for number in range(len(run.segments))])


def least_eps(blocks: Blocks) -> int:
    """Return the least eps that the clocks keep. That of a live history may be less: it does not believe every clock."""
    return int(blocks.largest_lag.max(initial=0))


def measure(
    run: Run,
    blocks: Blocks,
    delivering: Delivering,
    *,
    eps: int,
    on_progress: OnProgress = lambda done, total: None,
) -> Delivered:
    """Deliver every segment of a committed run, and count violations and delays; write nothing.

    Holds one segment in memory at a time. Raises `TermsRefused` for terms that do not fit the events, and `ClockDrift`
    for less than `least_eps`.
    """
    count = len(run.segments)
    try:
        terms = agree_terms(
            delivering.policies,
            blocks,
            eps=eps,
            delta=delivering.delta,
            tick=delivering.tick,
            phi=delivering.phi,
            elements=delivering.elements,
            as_known=delivering.as_known,
        )
    except TooManyTicks:
        raise
    except ValueError as refused:
        raise TermsRefused(str(refused)) from None
    outcomes = []
    for number in range(count):
        delivered = deliver_on(terms, run, number, blocks)
        policies = delivered.policies.items()
        outcomes.append(
            SegmentOutcome(
                number,
                dict.fromkeys(delivered.policies, ""),
                {name: deliveries.contradictions for name, deliveries in policies},
                {name: deliveries.late for name, deliveries in policies},
                {name: deliveries.waits for name, deliveries in policies},
                delivered.wall_clock,
            )
        )
        on_progress(number + 1, count)
    summaries, wall_clock = summarize(outcomes, terms)
    return Delivered({name: replace(found, files=()) for name, found in summaries.items()}, wall_clock, None)


def redeliver(
    run: Run,
    to: str | os.PathLike[str],
    delivering: Delivering,
    *,
    eps: int,
    on_progress: OnProgress = lambda done, total: None,
) -> Delivered:
    """Copy a committed run to the history at `to`, with these deliveries in place of its own.

    What is at `to` is replaced at the end. Raises as `measure` does, `HistoryReplaced` where a newer run replaces the one
    that is being copied, and `CopyOntoItself` if `to` is the folder of the run.
    """
    if run.store.is_same_folder(Store(to)):
        raise CopyOntoItself(
            f"{to} is the history itself, whose deliveries would be lost: the copy needs another folder"
        )
    manifest = run.manifest
    folder, tables = layout.run_folder(manifest.run), manifest.tables
    with Draft(to) as draft:
        segments = read_sealed_table(run.store, f"{folder}/{tables.segments}")
        processes = read_sealed_table(run.store, f"{folder}/{tables.processes}")
        names = {name for column in layout.SEGMENT_FILES for name in segments[column].to_pylist() if name}
        clock_files = () if manifest.clocks is None else manifest.clocks.files.values()
        _copy(run.store, folder, draft, names.union(manifest.quarantine_files, clock_files))
        delivered = deliver(
            InlineEngine(),
            draft.store,
            draft.run,
            segments,
            processes,
            delivering.policies,
            eps=eps,
            phi=delivering.phi,
            delta=delivering.delta,
            elements=delivering.elements,
            tick=delivering.tick,
            measure_clocks=False,
            as_known=delivering.as_known,
            on_progress=on_progress,
        )
        wall_clock = replace(delivered.wall_clock, between_clocks=manifest.wall_clock.between_clocks)
        kept = {name: getattr(manifest, name) for name in Description.__struct_fields__}
        description = Description(**{**kept, "policies": delivered.policies, "wall_clock": wall_clock})
        draft.commit(description, segments, processes)
    return Delivered(delivered.policies, wall_clock, None)


def _copy(store: Store, folder: str, draft: Draft, names: Iterable[str]) -> None:
    for name in names:
        try:
            source = store.open(f"{folder}/{name}")
        except FileNotFoundError:
            raise HistoryReplaced(f"{store} was replaced by a newer history while it was copied: try again") from None
        with source, draft.store.writing(f"{draft.folder}/{name}") as target:
            while data := source.read(COPIED_BYTES):
                target.write(data)
