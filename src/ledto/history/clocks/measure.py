"""Measure what the messages of a segment show about clocks, and add up the measurements of segments.

The clock of an event is the one that ``clock_name`` names, or else the one of its process. So a process has one clock even
if it takes part in many computations. A message counts if both its events have a wall time. If it was sent in an earlier
segment, its send is read from there.

HAZARD: if a receive was quarantined and its message was used nevertheless, edges that bridge the gap count as messages.
They bound clocks as truly, but another cutting of the history may have one more or less of them.
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
from ledto.history.clocks.answered import find_answered
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
"""The exponents of the powers of ten for which it is checked whether all times are multiples of them."""
FIGURES_BITS = 6
"""Leading bits of delays that are kept when they are counted. Percentiles are up to 3% too small because of this."""


@dataclass(frozen=True, slots=True, eq=False)
class SegmentClocks:
    """What one segment shows about clocks. `add_clocks` adds up those of several segments."""

    pairs: ClockPairs
    """Counts and least differences of messages, by pair of clocks and bin of time."""
    events: dict[str, tuple[int, int]]
    """By clock: the number of events with a wall time, and the largest exponent of ten, up to `COARSEST`, whose power
    divides all these times."""
    message_delays: Waits
    """Delays of messages between different clocks, by these clocks; 0 for those received before they were sent."""
    report_delays: Waits
    """Times from events to the arrivals of their reports; 0 for those that arrived before."""
    early_reports: int
    """Reports that arrived before their event, by the clocks."""
    answers: ClockPairs
    """Counts and least differences from the start of a server to the end of its client, for clients that are assumed to
    have waited and did not fail. They have one cell for each pair of clocks."""


def time_bins(run: Run, number: int, *, most: int) -> OccupiedBins:
    """Find the bins that hold a segment's wall times; at most `most` bins."""
    times = _longs(run.events(number, ("time",), 0, int(run.segments.rows[number]))["time"])
    return occupied_bins(times[times != NO_TIME], most=most)


def measure_segment(run: Run, number: int, *, level: int) -> SegmentClocks:
    """Measure the messages that a segment's events received. Bins of time are ``2**level`` wide."""
    rows = int(run.segments.rows[number])
    if not rows:
        return SegmentClocks(no_pairs(level), {}, Waits.none(), Waits.none(), 0, no_pairs(WIDEST))
    table = run.events(number, ("time", "arrival", *_clock_column(run)), 0, rows)
    time, arrival = (_longs(table[name]) for name in ("time", "arrival"))
    skeleton = run.known_skeleton(number, 0, rows)
    of_process, names = _clocks_of_processes(run, number)
    clock = _clocks_of_rows(of_process[skeleton.process], table, names)
    effects = np.repeat(np.arange(rows), np.diff(skeleton.offsets))
    causes = skeleton.cause_rows()
    into = run.known_messages_into(number)
    positions, place = np.unique(into.position, return_inverse=True)
    senders = np.zeros(len(positions), np.int64)
    senders[place] = into.process
    far = run.rows(positions, ("time", *_clock_column(run)))
    far_clock = _clocks_of_rows(of_process[senders], far, names)
    messages = (
        np.concatenate((clock[causes], far_clock[place])),
        np.concatenate((clock[effects], clock[into.row])),
        np.concatenate((time[causes], _longs(far["time"])[place])),
        np.concatenate((time[effects], time[into.row])),
        np.concatenate((effects, into.row)) + int(run.segments.first_position[number]),
    )
    timed = (messages[2] != NO_TIME) & (messages[3] != NO_TIME)
    sender, receiver, send, receive, position = messages if timed.all() else (column[timed] for column in messages)
    between = (receive - send)[sender != receiver]
    reported = (time != NO_TIME) & (arrival != NO_TIME)
    delays = (arrival - time)[reported]
    answers = _measure_answers(run, number, names, clock, time)
    return SegmentClocks(
        count_pairs(list(names), sender, receiver, send, receive, position, level=level),
        _count_events(list(names), clock, time),
        _count_rounded(between),
        _count_rounded(delays),
        int((delays < 0).sum()),
        answers,
    )


def _measure_answers(run: Run, number: int, names: dict[str, int], clock: Ints, time: Longs) -> ClockPairs:
    """Measure answers between servers and clients of different clocks. Adds the codes of new clocks to `names`."""
    answers = find_answered(run, number)
    if not len(answers.client):
        return no_pairs(WIDEST)
    positions, place = np.unique(answers.server, return_inverse=True)
    far = run.rows(positions, ("process", *_clock_column(run)))
    of_process = pc.index_in(far["process"].cast(pa.string()), pa.array(list(names))).to_numpy().astype(np.int32)
    server = _clocks_of_rows(of_process, far, names)[place]
    client = clock[answers.client]
    failed = run.events(number, ("error",), 0, len(time))["error"]
    waited = ~pc.fill_null(failed, False).to_numpy()[answers.client]
    chosen = waited & (server != client) & (answers.began != NO_TIME) & (time[answers.client] != NO_TIME)
    rows = answers.client[chosen]
    return count_pairs(
        list(names),
        server[chosen],
        client[chosen],
        answers.began[chosen],
        time[rows],
        rows + int(run.segments.first_position[number]),
        level=WIDEST,
    )


def _clock_column(run: Run) -> tuple[str, ...]:
    """Give the column that names clocks, if the history has it."""
    return (CLOCK_NAME,) if CLOCK_NAME in run.event_schema().names else ()


def _clocks_of_processes(run: Run, number: int) -> tuple[Ints, dict[str, int]]:
    """Number the clocks of a segment's processes: give the clock's code by local code of the process, and codes by name."""
    encoded = run.processes.process.take(pa.array(run.segments.codes_of(number))).dictionary_encode()
    names: dict[str, int] = {name: code for code, name in enumerate(encoded.dictionary.to_pylist())}
    return encoded.indices.to_numpy().astype(np.int32), names


def _clocks_of_rows(of_process: Ints, table: pa.Table, names: dict[str, int]) -> Ints:
    """Give for each row the code of its clock. `of_process` has those of the rows' processes. Adds new clocks to `names`."""
    if CLOCK_NAME not in table.column_names or table[CLOCK_NAME].null_count == len(table):
        return of_process
    column = table[CLOCK_NAME]
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    encoded = column.combine_chunks().dictionary_encode()
    encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    codes = np.array([names.setdefault(name, len(names)) for name in encoded.dictionary.to_pylist()], np.int32)
    named = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    return np.where(named < 0, of_process, codes[named]).astype(np.int32)


def _count_events(names: Sequence[str], clock: Ints, time: Longs) -> dict[str, tuple[int, int]]:
    """Compute `SegmentClocks.events`."""
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
        undecided = ~finer[clock]
        clock, time = clock[undecided], time[undecided]
    return {names[code]: (int(counts[code]), int(power[code])) for code in np.flatnonzero(counts).tolist()}


def _count_rounded(delays: Longs) -> Waits:
    """Count delays, rounded to `FIGURES_BITS` bits, so that the counts of many segments take little memory."""
    delays = np.maximum(delays, 0)
    bits = np.frexp(delays.astype(np.float64))[1].astype(np.int64)
    shift = np.maximum(0, bits - FIGURES_BITS)
    counted = Waits.of(delays >> shift << shift)
    if not len(delays):
        return counted
    return Waits(counted.values, counted.counts, counted.width, int(delays.max()), int(delays.sum()))


def add_clocks(parts: Iterable[SegmentClocks], *, level: int) -> SegmentClocks:
    """Add up the measurements of several segments. Takes them one by one, so that only a few are in memory."""
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
    values: Longs = column.to_numpy().astype(np.int64, copy=False)
    return values
