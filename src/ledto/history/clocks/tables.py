"""Estimate the clocks of a run, write and read their tables, and summarize them for the manifest.

::

    HISTORY/runs/<run>/clocks-<sum>.parquet       a row for each clock: how wrong it is, and how sure that is
    HISTORY/runs/<run>/clock_pairs-<sum>.parquet  a row for each pair of clocks and bin of time: counts, least differences
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ledto.history.clocks.measure import SegmentClocks
from ledto.history.manifest import ClocksSummary, SameClock
from ledto.history.run import Run
from ledto.history.sealed import write_sealed_table
from ledto.history.store import Store
from ledto.measures.delays import Waits
from ledto.skew.offsets import (
    DRIFTS,
    ERRATIC,
    STEADY,
    STEPS,
    UNKNOWN,
    WANDERS,
    ClockEstimate,
    Offsets,
    estimate_offsets,
)
from ledto.skew.pairs import COLUMNS, NO_NEXT, ClockPairs, fit_pairs
from ledto.skew.same_clocks import SameClocks, find_same_clocks
from ledto.skew.steps import ClockStep, Moment

CLOCKS_TABLE, CLOCK_PAIRS_TABLE = "clocks", "clock_pairs"
"""Keys of the files' names in the manifest's ``clocks``, under ``files``."""

CLOCKS = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("verdict", pa.string(), nullable=False),
        pa.field("reference", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("low", pa.int64()),
        pa.field("high", pa.int64()),
        pa.field("drift_ppm", pa.float64()),
        pa.field("drift_low_ppm", pa.float64()),
        pa.field("drift_high_ppm", pa.float64()),
        pa.field("events", pa.int64(), nullable=False),
        pa.field("sent", pa.int64(), nullable=False),
        pa.field("received", pa.int64(), nullable=False),
        pa.field("peers", pa.int64(), nullable=False),
        pa.field("resolution", pa.int64(), nullable=False),
        pa.field("alternatives", pa.list_(pa.string()), nullable=False),
        pa.field(
            "steps",
            pa.list_(pa.struct([pa.field(name, pa.int64()) for name in ("first", "last", "low", "high")])),
            nullable=False,
        ),
        pa.field(
            "track",
            pa.list_(
                pa.struct([pa.field("time", pa.int64()), pa.field("low", pa.int64()), pa.field("high", pa.int64())])
            ),
            nullable=False,
        ),
    ]
)
"""``"pay", "behind", "web", -170000000, -190000000, -150000000, null, null, null, 2000, 900, 870, 3, 0, [], [], [...]``: the
fields of `ledto.skew.offsets.ClockEstimate`, and the number of events with a time of the clock."""

CLOCK_PAIRS = pa.schema(
    [
        pa.field("sender", pa.string(), nullable=False),
        pa.field("receiver", pa.string(), nullable=False),
        pa.field("level", pa.int8(), nullable=False),
        *(pa.field(name, pa.int64(), nullable=name == "next_least") for name in COLUMNS[2:]),
    ]
)
"""``"web", "pay", 32, 395812, 395812, 17, -150000000, ...``: the cells of `ledto.skew.pairs.ClockPairs`. Bins
are ``2**level`` wide and start at multiples of that."""

MOST_PAIRS = 10
"""How many pairs of clocks, and sets of clocks that may be one, the manifest names."""
SURE_EVENTS = 32
"""With fewer events, all times may be multiples of ten by chance; then only powers of a thousand count."""
PER_UNIT = {"ns": 0, "us": 1, "ms": 1, "s": 1}
"""The least resolution of a clock: one unit, if that is more than a nanosecond."""


def store_clocks(store: Store, run: str, measured: SegmentClocks, *, unit: str | None) -> ClocksSummary:
    """Estimate the clocks, write both tables, and give the manifest's ``clocks``. `unit` is that of times, if known."""
    pairs = fit_pairs(measured.pairs)
    resolution = {name: resolution_of(*counted, unit) for name, counted in measured.events.items()}
    offsets = estimate_offsets(pairs, resolution=resolution)
    tables = {CLOCKS_TABLE: _clocks_table(offsets, measured, resolution), CLOCK_PAIRS_TABLE: _pairs_table(pairs)}
    files = {name: write_sealed_table(store, run, name, table) for name, table in tables.items()}
    moving = [clock.name for clock in offsets.clocks if clock.verdict in (DRIFTS, WANDERS, STEPS, ERRATIC)]
    same = find_same_clocks(pairs, measured.answers, resolution=resolution, left_out=moving)
    return _summarize(offsets, measured, pairs, files, same)


def resolution_of(events: int, power: int, unit: str | None) -> int:
    """Guess what a clock's times are rounded to, from their number and the exponent of ten whose power divides them all."""
    likely = power if events >= SURE_EVENTS else power - power % 3
    return 10**likely if likely else PER_UNIT.get(unit or "", 0)


def _clocks_table(offsets: Offsets, measured: SegmentClocks, resolution: dict[str, int]) -> pa.Table:
    """Make a table of all clocks with events, those without messages included, by name."""
    estimates = {clock.name: clock for clock in offsets.clocks}
    rows = []
    for name in sorted(measured.events):
        row = _estimate_row(estimates[name]) if name in estimates else _unknown_row(name, resolution[name])
        rows.append({**row, "events": measured.events[name][0]})
    return pa.Table.from_pylist(rows, CLOCKS)


def _estimate_row(clock: ClockEstimate) -> dict[str, Any]:
    fields = {name: getattr(clock, name) for name in CLOCKS.names if name not in ("events", "steps", "track")}
    return fields | {name: [_as_dict(value) for value in getattr(clock, name)] for name in ("steps", "track")}


def _as_dict(value: ClockStep | Moment) -> dict[str, Any]:
    """Give the fields by name. `dataclasses.asdict` copies each field and takes ten times as long."""
    return {name: getattr(value, name) for name in value.__slots__}


def _unknown_row(name: str, resolution: int) -> dict[str, Any]:
    """Make the row of a clock without messages."""
    empty = {"sent": 0, "received": 0, "peers": 0, "alternatives": [], "steps": [], "track": []}
    return {"name": name, "verdict": UNKNOWN, "resolution": resolution, **empty}


def _pairs_table(pairs: ClockPairs) -> pa.Table:
    """Make a table of the cells, in their order."""
    names = pa.array(pairs.names, pa.string())
    columns: dict[str, Any] = {
        name: pa.DictionaryArray.from_arrays(pa.array(getattr(pairs, name)), names).cast(pa.string())
        for name in ("sender", "receiver")
    }
    columns["level"] = pa.repeat(pa.scalar(pairs.level, pa.int8()), len(pairs))
    columns |= {name: pa.array(getattr(pairs, name)) for name in COLUMNS[2:]}
    columns["next_least"] = pa.array(pairs.next_least, mask=pairs.next_least == NO_NEXT)
    return pa.table(columns, schema=CLOCK_PAIRS)


def read_clocks(run: Run) -> list[tuple[ClockEstimate, int]]:
    """Read every clock, and how many events have a time of it."""
    clocks = []
    summary = run.manifest.clocks
    assert summary is not None
    for row in run.table(summary.files[CLOCKS_TABLE]).read(use_threads=False).to_pylist():
        events = row.pop("events")
        row["alternatives"] = tuple(row["alternatives"])
        row["steps"] = tuple(ClockStep(**step) for step in row["steps"])
        row["track"] = tuple(Moment(**moment) for moment in row["track"])
        clocks.append((ClockEstimate(**row), events))
    return clocks


def _summarize(
    offsets: Offsets, measured: SegmentClocks, pairs: ClockPairs, files: dict[str, str], same: Sequence[SameClocks]
) -> ClocksSummary:  # fmt: skip
    silent = len(measured.events) - len(offsets.clocks)
    verdicts = Counter(clock.verdict for clock in offsets.clocks) + Counter({UNKNOWN: silent})
    return ClocksSummary(
        clocks=len(measured.events),
        groups=offsets.groups,
        verdicts=dict(sorted(verdicts.items())),
        broken=tuple(clock.name for clock in offsets.broken[:MOST_PAIRS]),
        eps={"at_least": offsets.eps_low, "at_most": offsets.eps_high, "unbounded": offsets.unbounded},
        message_delays={**_delays(measured.message_delays), **_corrected(offsets, pairs)},
        report_delays={**_delays(measured.report_delays), "before_event": measured.early_reports},
        files=files,
        same=tuple(SameClock(clocks.names, clocks.apart, clocks.by_answers) for clocks in same[:MOST_PAIRS]),
    )


def _delays(waits: Waits) -> dict[str, Any]:
    delays = waits.delays()
    if delays is None:
        return {"count": 0}
    return {"count": delays.deliveries, "p50": delays.p50, "p95": delays.p95, "p99": delays.p99, "max": delays.max}


def _corrected(offsets: Offsets, pairs: ClockPairs) -> dict[str, Any]:
    """Find the longest delay of a message after subtracting the estimated offsets, between clocks with constant offsets."""
    steady = {
        clock.name: clock.offset for clock in offsets.clocks if clock.verdict in STEADY and clock.drift_ppm is None
    }
    offset = np.array([steady.get(name) or 0 for name in pairs.names], np.int64)
    is_steady = np.array([steady.get(name) is not None for name in pairs.names], np.bool_)
    references = {clock.name: clock.reference for clock in offsets.clocks}
    against = np.unique([references.get(name) or "" for name in pairs.names], return_inverse=True)[1]
    if not len(pairs):
        return {"corrected_count": 0}
    both_steady = is_steady[pairs.sender] & is_steady[pairs.receiver]
    same_reference = against[pairs.sender] == against[pairs.receiver]
    chosen = pairs.take((pairs.sender != pairs.receiver) & both_steady & same_reference)
    if not len(chosen):
        return {"corrected_count": 0}
    longest = int((chosen.largest - offset[chosen.receiver] + offset[chosen.sender]).max())
    return {"corrected_count": int(chosen.messages.sum()), "corrected_max": longest}


def between_clocks(pairs: ClockPairs) -> dict[str, Any]:
    """Count how often wall clocks put a message before its cause, and find the pairs of clocks that do so most often."""
    is_between = pairs.sender != pairs.receiver
    between, within = pairs.take(is_between), pairs.take(~is_between)
    # Each pair of codes is one number, because `np.unique` is slow for rows of several numbers.
    clocks = max(1, len(pairs.names))
    packed, place = np.unique(between.sender.astype(np.int64) * clocks + between.receiver, return_inverse=True)
    sender, receiver = np.divmod(packed, clocks)
    messages, before_cause, ties, earlier_by = np.zeros((4, len(packed)), np.int64)
    np.add.at(messages, place, between.messages)
    np.add.at(before_cause, place, between.before_cause)
    np.add.at(ties, place, between.ties)
    np.maximum.at(earlier_by, place, np.maximum(0, -between.least))
    order = np.lexsort((np.arange(len(messages)), -earlier_by, -before_cause))
    return {
        "messages": int(messages.sum()),
        "before_cause": int(before_cause.sum()),
        "ties": int(ties.sum()),
        "earlier_by": int(earlier_by.max(initial=0)),
        "pairs_before_cause": int((before_cause > 0).sum()),
        "pairs": [
            {
                "sender": pairs.names[sender[pair]],
                "receiver": pairs.names[receiver[pair]],
                "messages": int(messages[pair]),
                "before_cause": int(before_cause[pair]),
                "ties": int(ties[pair]),
                "earlier_by": int(earlier_by[pair]),
            }
            for pair in order[:MOST_PAIRS].tolist()
            if before_cause[pair]
        ],
        "within_one_clock": {
            "messages": int(within.messages.sum()),
            "before_cause": int(within.before_cause.sum()),
            "earlier_by": int(max(0, -within.least.min(initial=0))),
        },
    }
