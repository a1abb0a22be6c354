"""The clocks of a run as files, and what the manifest says of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

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
fields of `ledto.skew.offsets.ClockEstimate`, and the events that have a time of the clock."""

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
"""Pairs of clocks, and sets of clocks that cannot be told apart, that the manifest names."""
SURE_EVENTS = 32
"""With fewer events, times may all be multiples of ten by chance; then only thousands count."""
PER_UNIT = {"ns": 0, "us": 1, "ms": 1, "s": 1}
"""What a clock's resolution is at least: one of its units, if that is more than a nanosecond."""


def store_clocks(store: Store, run: str, found: SegmentClocks, *, unit: str | None) -> ClocksSummary:
    """Estimate, write both tables, and give the manifest's ``clocks``. `unit` is that of times, if it is known."""
    pairs = fit_pairs(found.pairs)
    resolution = {name: resolution_of(*counted, unit) for name, counted in found.events.items()}
    offsets = estimate_offsets(pairs, resolution=resolution)
    tables = {CLOCKS_TABLE: clocks_table(offsets, found, resolution), CLOCK_PAIRS_TABLE: pairs_table(pairs)}
    files = {name: write_sealed_table(store, run, name, table) for name, table in tables.items()}
    moving = [each.name for each in offsets.clocks if each.verdict in (DRIFTS, WANDERS, STEPS, ERRATIC)]
    same = find_same_clocks(pairs, found.answers, resolution=resolution, left_out=moving)
    return summary(offsets, found, pairs, files, same)


def resolution_of(events: int, power: int, unit: str | None) -> int:
    """What a clock's readings are rounded down to, from how many there are and which power of ten divides them all."""
    likely = power if events >= SURE_EVENTS else power - power % 3
    return 10**likely if likely else PER_UNIT.get(unit or "", 0)


def clocks_table(offsets: Offsets, found: SegmentClocks, resolution: dict[str, int]) -> pa.Table:
    """All clocks that have a time, those without messages included, by name."""
    known = {each.name: each for each in offsets.clocks}
    rows = []
    for name in sorted(found.events):
        row = _row(known[name]) if name in known else _unknown(name, resolution[name])
        rows.append({**row, "events": found.events[name][0]})
    return pa.Table.from_pylist(rows, CLOCKS)


def _row(clock: ClockEstimate) -> dict[str, Any]:
    fields = {name: getattr(clock, name) for name in CLOCKS.names if name not in ("events", "steps", "track")}
    return fields | {name: [_plain(each) for each in getattr(clock, name)] for name in ("steps", "track")}


def _plain(value: ClockStep | Moment) -> dict[str, Any]:
    """The fields by name; `dataclasses.asdict` copies each and takes ten times as long."""
    return {name: getattr(value, name) for name in value.__slots__}


def _unknown(name: str, resolution: int) -> dict[str, Any]:
    nothing = {"sent": 0, "received": 0, "peers": 0, "alternatives": [], "steps": [], "track": []}
    return {"name": name, "verdict": UNKNOWN, "resolution": resolution, **nothing}


def pairs_table(pairs: ClockPairs) -> pa.Table:
    """The cells, in their order."""
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
    """Every clock, with how many events have a time of it."""
    found = []
    for row in _table(run, CLOCKS_TABLE).read(use_threads=False).to_pylist():
        events = row.pop("events")
        row["alternatives"] = tuple(row["alternatives"])
        row["steps"] = tuple(ClockStep(**step) for step in row["steps"])
        row["track"] = tuple(Moment(**moment) for moment in row["track"])
        found.append((ClockEstimate(**row), events))
    return found


def _table(run: Run, name: str) -> pq.ParquetFile:
    clocks = run.manifest.clocks
    assert clocks is not None
    return run.table(clocks.files[name])


def read_pairs(run: Run) -> ClockPairs:
    """The cells that `store_clocks` wrote."""
    table = _table(run, CLOCK_PAIRS_TABLE).read(use_threads=False)
    names = pc.unique(pa.chunked_array([*table["sender"].chunks, *table["receiver"].chunks], pa.string())).sort()
    codes = {name: pc.index_in(table[name], names).to_numpy().astype(np.int32) for name in ("sender", "receiver")}
    table = table.set_column(
        table.column_names.index("next_least"), "next_least", table["next_least"].fill_null(NO_NEXT)
    )
    level = int(table["level"][0].as_py()) if len(table) else 0
    return ClockPairs(
        tuple(names.to_pylist()), level, **codes, **{name: table[name].to_numpy() for name in COLUMNS[2:]}
    )


def summary(
    offsets: Offsets, found: SegmentClocks, pairs: ClockPairs, files: dict[str, str], same: Sequence[SameClocks]
) -> ClocksSummary:  # fmt: skip
    """What the manifest says."""
    silent = len(found.events) - len(offsets.clocks)
    verdicts = Counter(each.verdict for each in offsets.clocks) + Counter({UNKNOWN: silent})
    return ClocksSummary(
        clocks=len(found.events),
        groups=offsets.groups,
        verdicts=dict(sorted(verdicts.items())),
        broken=tuple(each.name for each in offsets.broken[:MOST_PAIRS]),
        eps={"at_least": offsets.eps_low, "at_most": offsets.eps_high, "unbounded": offsets.unbounded},
        message_delays={**_delays(found.message_delays), **_corrected(offsets, pairs)},
        report_delays={**_delays(found.report_delays), "before_event": found.early_reports},
        files=files,
        same=tuple(SameClock(each.names, each.apart, each.by_answers) for each in same[:MOST_PAIRS]),
    )


def _delays(waits: Waits) -> dict[str, Any]:
    delays = waits.delays()
    if delays is None:
        return {"count": 0}
    return {"count": delays.deliveries, "p50": delays.p50, "p95": delays.p95, "p99": delays.p99, "max": delays.max}


def _corrected(offsets: Offsets, pairs: ClockPairs) -> dict[str, Any]:
    """The longest that a message took without the estimated offsets, between clocks whose offsets are constant."""
    steady = {each.name: each.offset for each in offsets.clocks if each.verdict in STEADY and each.drift_ppm is None}
    offset = np.array([steady.get(name) or 0 for name in pairs.names], np.int64)
    known = np.array([steady.get(name) is not None for name in pairs.names], np.bool_)
    references = {each.name: each.reference for each in offsets.clocks}
    against = np.unique([references.get(name) or "" for name in pairs.names], return_inverse=True)[1]
    if not len(pairs):
        return {"corrected_count": 0}
    comparable = known[pairs.sender] & known[pairs.receiver] & (against[pairs.sender] == against[pairs.receiver])
    chosen = pairs.take((pairs.sender != pairs.receiver) & comparable)
    if not len(chosen):
        return {"corrected_count": 0}
    longest = int((chosen.largest - offset[chosen.receiver] + offset[chosen.sender]).max())
    return {"corrected_count": int(chosen.messages.sum()), "corrected_max": longest}


def between_clocks(pairs: ClockPairs) -> dict[str, Any]:
    """How often wall clocks put a message before its cause, and the pairs of clocks between which they do so most."""
    other = pairs.sender != pairs.receiver
    own = pairs.take(~other)
    clocks = max(1, len(pairs.names))
    packed = pairs.sender[other].astype(np.int64) * clocks + pairs.receiver[other]
    key, place = np.unique(packed, return_inverse=True)
    counts = np.zeros((3, len(key)), np.int64)
    worst = np.zeros(len(key), np.int64)
    for row, name in enumerate(("messages", "before_cause", "ties")):
        np.add.at(counts[row], place, getattr(pairs, name)[other])
    np.maximum.at(worst, place, np.maximum(0, -pairs.least[other]))
    order = np.lexsort((np.arange(len(key)), -worst, -counts[1]))
    named = [row for row in order[:MOST_PAIRS].tolist() if counts[1][row]]
    return {
        "messages": int(counts[0].sum()),
        "before_cause": int(counts[1].sum()),
        "ties": int(counts[2].sum()),
        "earlier_by": int(worst.max(initial=0)),
        "pairs_before_cause": int((counts[1] > 0).sum()),
        "pairs": [
            {
                "sender": pairs.names[int(key[row]) // clocks],
                "receiver": pairs.names[int(key[row]) % clocks],
                "messages": int(counts[0][row]),
                "before_cause": int(counts[1][row]),
                "ties": int(counts[2][row]),
                "earlier_by": int(worst[row]),
            }
            for row in named
        ],
        "within_one_clock": {
            "messages": int(own.messages.sum()),
            "before_cause": int(own.before_cause.sum()),
            "earlier_by": int(max(0, -own.least.min(initial=0))),
        },
    }
