"""What a run's messages show of its clocks: measured segment by segment, added up, estimated, and stored.

HAZARD: where a receive was set aside whose own message was used, edges that bridge the gap count as messages; they
bound clocks as truly, and there may be one more or less of them in another cutting.

A clock is what ``clock_name`` names or, without one, the process's own, so that a process that takes part in many
computations has one clock. Only messages both of whose events have a wall time count; those within one segment are
read with it, and the sends of those from an earlier one are looked up there.

::

    HISTORY/runs/<run>/clocks.parquet       one row a clock: how wrong it is, and how sure that is
    HISTORY/runs/<run>/clock_pairs.parquet  one row a pair of clocks and time: counts and least differences
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.order import NO_TIME
from ledto.history.clocks.answered import answered
from ledto.history.run import Run
from ledto.measures.delays import Waits
from ledto.skew.pairs import (
    MAX_CELLS,
    WIDEST,
    ClockPairs,
    OccupiedBins,
    count_pairs,
    merge_pairs,
    no_pairs,
    occupied_bins,
)

Longs = NDArray[np.int64]
Ints = NDArray[np.int32]

CLOCK_NAME = "clock_name"
FINEST, COARSEST = 0, 9
"""Powers of ten that times are looked at to be multiples of."""
FIGURES_BITS = 6
"""Leading bits that are kept of delays before they are counted: percentiles are up to 3% too small."""


@dataclass(frozen=True, slots=True, eq=False)
class SegmentClocks:
    """What one segment shows; those of all segments add up (`added`)."""

    pairs: ClockPairs
    events: dict[str, tuple[int, int]]
    """By clock: events with a wall time, and the largest power of ten, up to `COARSEST`, that divides all these times."""
    message_delays: Waits
    """Of messages between different clocks, by these clocks; those received before they were sent count as 0."""
    report_delays: Waits
    """From events' wall times to the arrivals of their reports; those that arrived before count as 0."""
    early_reports: int
    """Reports that arrived before their event, by the clocks."""
    answers: ClockPairs
    """From the starts of servers to the ends of their clients that are assumed to have waited and did not fail; one cell a
    pair of clocks."""


def time_bins(run: Run, number: int, *, most: int) -> OccupiedBins:
    """The bins that a segment's wall times lie in."""
    times = _longs(run.events(number, ("time",), 0, int(run.segments.rows[number]))["time"])
    return occupied_bins(times[times != NO_TIME], most=most)


def measure_segment(run: Run, number: int, *, level: int) -> SegmentClocks:
    """What the messages that a segment's events received show; bins are ``2**level`` wide."""
    rows = int(run.segments.rows[number])
    if not rows:
        return SegmentClocks(no_pairs(level), {}, Waits.none(), Waits.none(), 0, no_pairs(WIDEST))
    table = run.events(number, ("time", "arrival", *_named(run)), 0, rows)
    time, arrival = (_longs(table[name]) for name in ("time", "arrival"))
    skeleton = run.known_skeleton(number, 0, rows)
    of_process, names = _processes_clocks(run, number)
    clock = _clocks(of_process[skeleton.process], table, names)
    effects = np.repeat(np.arange(rows), np.diff(skeleton.offsets))
    causes = skeleton.cause_rows()
    into = run.known_messages_into(number)
    positions, place = np.unique(into.position, return_inverse=True)
    senders = np.zeros(len(positions), np.int64)
    senders[place] = into.process
    far = run.rows(positions, ("time", *_named(run)))
    far_clock = _clocks(of_process[senders], far, names)
    messages = (
        np.concatenate((clock[causes], far_clock[place])),
        np.concatenate((clock[effects], clock[into.row])),
        np.concatenate((time[causes], _longs(far["time"])[place])),
        np.concatenate((time[effects], time[into.row])),
        np.concatenate((effects, into.row)) + int(run.segments.first_position[number]),
    )
    timed = (messages[2] != NO_TIME) & (messages[3] != NO_TIME)
    sender, receiver, send, receive, position = messages if timed.all() else (each[timed] for each in messages)
    between = (receive - send)[sender != receiver]
    reported = (time != NO_TIME) & (arrival != NO_TIME)
    delays = (arrival - time)[reported]
    answers = _answers(run, number, names, clock, time)
    return SegmentClocks(
        count_pairs(list(names), sender, receiver, send, receive, position, level=level),
        _events_of(list(names), clock, time),
        _rounded(between),
        _rounded(delays),
        int((delays < 0).sum()),
        answers,
    )


def _answers(run: Run, number: int, names: dict[str, int], clock: Ints, time: Longs) -> ClockPairs:
    """What servers and clients between different clocks show; `names` gets the codes of further clocks."""
    found = answered(run, number)
    if not len(found.client):
        return no_pairs(WIDEST)
    positions, place = np.unique(found.server, return_inverse=True)
    far = run.rows(positions, ("process", *_named(run)))
    own = pc.index_in(far["process"].cast(pa.string()), pa.array(list(names))).to_numpy().astype(np.int32)
    server = _clocks(own, far, names)[place]
    client = clock[found.client]
    failed = run.events(number, ("error",), 0, len(time))["error"]
    waited = ~pc.fill_null(failed, False).to_numpy()[found.client]
    chosen = waited & (server != client) & (found.began != NO_TIME) & (time[found.client] != NO_TIME)
    rows = found.client[chosen]
    return count_pairs(
        list(names),
        server[chosen],
        client[chosen],
        found.began[chosen],
        time[rows],
        rows + int(run.segments.first_position[number]),
        level=WIDEST,
    )


def _named(run: Run) -> tuple[str, ...]:
    """The column that names clocks, if the history has it."""
    return (CLOCK_NAME,) if CLOCK_NAME in run.event_schema().names else ()


def _processes_clocks(run: Run, number: int) -> tuple[Ints, dict[str, int]]:
    """By local code of a process: the code of its own clock; and all codes by name."""
    encoded = run.processes.process.take(pa.array(run.segments.codes_of(number))).dictionary_encode()
    names: dict[str, int] = {name: code for code, name in enumerate(encoded.dictionary.to_pylist())}
    return encoded.indices.to_numpy().astype(np.int32), names


def _clocks(own: Ints, table: pa.Table, names: dict[str, int]) -> Ints:
    """By row: the code of its clock; `own` has those of the processes, and `names` gets the codes of further clocks."""
    if CLOCK_NAME not in table.column_names or table[CLOCK_NAME].null_count == len(table):
        return own
    column = table[CLOCK_NAME]
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    encoded = column.combine_chunks().dictionary_encode()
    encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    codes = np.array([names.setdefault(name, len(names)) for name in encoded.dictionary.to_pylist()], np.int32)
    named = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    return np.where(named < 0, own, codes[named]).astype(np.int32)


def _events_of(names: Sequence[str], clock: Ints, time: Longs) -> dict[str, tuple[int, int]]:
    timed = time != NO_TIME
    clock, time = (clock, time) if timed.all() else (clock[timed], time[timed])
    counts = np.bincount(clock, minlength=len(names))
    power = np.full(len(names), COARSEST)
    for exponent in range(FINEST + 1, COARSEST + 1):
        finer = np.zeros(len(names), np.bool_)
        finer[clock[time % 10**exponent != 0]] = True
        power[finer] = np.minimum(power[finer], exponent - 1)
        if power[counts > 0].max(initial=0) < exponent:
            break
        left = ~finer[clock]
        clock, time = clock[left], time[left]
    return {names[code]: (int(counts[code]), int(power[code])) for code in np.flatnonzero(counts).tolist()}


def _rounded(delays: Longs) -> Waits:
    """With few enough different values that those of many segments are small."""
    delays = np.maximum(delays, 0)
    bits = np.frexp(delays.astype(np.float64))[1].astype(np.int64)
    shift = np.maximum(0, bits - FIGURES_BITS)
    counted = Waits.of(delays >> shift << shift)
    if not len(delays):
        return counted
    return Waits(counted.values, counted.counts, counted.width, int(delays.max()), int(delays.sum()))


def added(parts: Iterable[SegmentClocks], *, level: int) -> SegmentClocks:
    """What several segments show together; takes them one by one, so that only a few are in memory."""
    waiting: list[ClockPairs] = [no_pairs(level)]
    answers = no_pairs(WIDEST)
    events: dict[str, tuple[int, int]] = {}
    messages = reports = Waits.none()
    early = 0
    for part in parts:
        waiting.append(part.pairs)
        if sum(map(len, waiting)) > 4 * MAX_CELLS:
            waiting = [merge_pairs(waiting)]
        answers = merge_pairs([answers, part.answers])
        for name, (count, power) in part.events.items():
            before, least = events.get(name, (0, COARSEST))
            events[name] = (before + count, min(least, power))
        messages, reports, early = (
            messages + part.message_delays,
            reports + part.report_delays,
            early + part.early_reports,
        )
    return SegmentClocks(merge_pairs(waiting), events, messages, reports, early, answers)


def _longs(column: Any) -> Longs:
    if column.null_count:
        column = pc.fill_null(column.cast(pa.int64()), NO_TIME)
    found: Longs = column.to_numpy().astype(np.int64, copy=False)
    return found
