"""The loops of matching channels. `ledto.causality.channels` says what they compute, and why."""

from __future__ import annotations

from enum import IntFlag
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ledto.causality.order import NO_TIME
from ledto.kernels import kernel, part

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]
Codes = NDArray[np.uint8]

NO_SEQ: Final = NO_TIME
"""In place of a sequence number: there is none."""
NO_SIZE: Final = -1
"""In place of a number of bytes: it is not known."""
LONGEST_STREAM_BYTES: Final = 1 << 62
"""Sums are cut off here, so that absurd sizes do not overflow 64 bits."""
KNOWN_ORDER: Final = -1
"""In place of a part of a stream: the row's place is known."""
NO_ROW: Final = -1


class Doubt(IntFlag):
    """Why a match may be wrong; see `ledto.causality.channels`."""

    ORDER = 1
    SURPLUS = 2
    BACKWARDS = 4
    SIZES = 8
    REPORTS = 16
    LOSS = 128


_ORDER, _SURPLUS, _BACKWARDS, _LOSS = (
    int(doubt) for doubt in (Doubt.ORDER, Doubt.SURPLUS, Doubt.BACKWARDS, Doubt.LOSS)
)


@kernel("int64[::1](int64[::1], int64[::1], int64[::1])")
def latest_so_far(side: Longs, process: Longs, rank: Longs) -> Longs:
    """Give for each row the largest rank so far of its side and process; rows are sorted by these."""
    latest = rank.copy()
    for i in range(1, len(rank)):
        if side[i] == side[i - 1] and process[i] == process[i - 1] and latest[i - 1] > latest[i]:
            latest[i] = latest[i - 1]
    return latest


@kernel("UniTuple(int64[::1], 3)(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def places_in_streams(
    size: Longs, side: Longs, begun: Longs, units: Longs, missing: Longs
) -> tuple[Longs, Longs, Longs]:
    """Find where each row begins and ends in its stream: behind all rows before it and what may be missing among these.

    By row, for its stream: `begun` is where the stream goes on, and `units` the sum of earlier rows. The third result is the
    sum including the row.
    """
    first, last, together = np.empty(len(size), np.int64), np.empty(len(size), np.int64), np.empty(len(size), np.int64)
    at, unit = 0, 0
    for i in range(len(size)):
        if i == 0 or side[i] != side[i - 1]:
            at, unit = begun[i], units[i]
        first[i] = max(at, min(unit, LONGEST_STREAM_BYTES - missing[i]) + missing[i])
        at = min(first[i] + size[i], LONGEST_STREAM_BYTES)
        unit = min(unit + size[i], LONGEST_STREAM_BYTES)
        last[i], together[i] = at, unit
    return first, last, together


@kernel("UniTuple(int64[::1], 2)(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def unordered_parts(
    side: Longs, process: Longs, clock: Longs, moment: Longs, first: Longs, last: Longs
) -> tuple[Longs, Longs]:
    """Find for each row the part of its stream in which its place is unknown: its begin and end; `KNOWN_ORDER` if known."""
    low, high = np.full(len(side), KNOWN_ORDER, np.int64), np.full(len(side), KNOWN_ORDER, np.int64)
    begin = 0
    while begin < len(side):
        end = begin
        one_process, comparable = True, True
        while end < len(side) and side[end] == side[begin]:
            one_process = one_process and process[end] == process[begin]
            comparable = comparable and clock[end] == clock[begin] and moment[end] != NO_TIME
            end += 1
        at = end if one_process else begin
        while at < end:
            stop, mixed = at, False
            while stop < end and (not comparable or moment[stop] == moment[at]):
                mixed = mixed or process[stop] != process[at]
                stop += 1
            if mixed:
                low[at:stop] = first[at]
                high[at:stop] = last[stop - 1]
            at = stop
        begin = end
    return low, high


@part
def _own_stretches(is_send: Flags, first: Longs, last: Longs, low: Longs, process: Longs) -> Longs:
    """Find for each send up to where in its stream all sends behind it are of its own process, in a known order."""
    until = last.copy()
    follower = NO_ROW
    for row in range(len(is_send) - 1, -1, -1):
        if not is_send[row]:
            follower = NO_ROW
        elif last[row] > first[row]:
            if low[row] != KNOWN_ORDER:
                until[row] = first[row]
            # In another channel, places begin again from 0: only the next send of this one begins where this one ends.
            elif follower != NO_ROW and first[follower] == last[row] and process[follower] == process[row]:
                until[row] = until[follower]
            follower = row
    return until


@part
def _sent_by(earliest: Longs, begin: int, middle: int, latest: int) -> int:
    """Find the first of these sends that cannot have been sent by a time; `earliest` ascends."""
    low, high = begin, middle
    while low < high:
        half = (low + high) // 2
        if earliest[half] <= latest:
            low = half + 1
        else:
            high = half
    return low


@kernel(
    "Tuple((int64[::1], int64[::1], boolean[::1], boolean[::1], uint8[::1], boolean[::1], int64[::1]))(int64[::1], "
    "boolean[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], "
    "int64[::1], int64[::1], int64[::1], boolean[::1], boolean[::1], int64[::1], int64[::1], int64[::1])",
)
def match_streams(
    starts: Longs,
    is_send: Flags,
    first: Longs,
    last: Longs,
    low: Longs,
    high: Longs,
    clock: Longs,
    time: Longs,
    process: Longs,
    earliest: Longs,
    latest: Longs,
    sent_before: Longs,
    sent_at_most: Longs,
    one_sender: Flags,
    receivers_lack: Flags,
    received_before: Longs,
    short_before: Longs,
    smallest_before: Longs,
) -> tuple[Longs, Longs, Flags, Flags, Codes, Flags, Longs]:
    """Lay both streams of each channel side by side and match what overlaps; `causes` are rows, receive by receive."""
    rows = len(is_send)
    counts = np.zeros(rows, np.int64)
    # Two streams of together n parts overlap in fewer than n pairs.
    causes = np.empty(rows, np.int64)
    missing, unreceived = np.zeros(rows, np.bool_), np.zeros(rows, np.bool_)
    doubts, guessed = np.zeros(rows, np.uint8), np.zeros(rows, np.bool_)
    own_until = _own_stretches(is_send, first, last, low, process)
    shorts = np.zeros(len(starts) - 1, np.int64)
    losses = np.zeros(rows, np.int64)
    # By send: the earliest time of it and of all sends behind it.
    earliest_from = earliest.copy()
    pairs = 0
    for channel in range(len(starts) - 1):
        begin, end = starts[channel], starts[channel + 1]
        middle = begin
        while middle < end and is_send[middle]:
            unreceived[middle] = last[middle] > first[middle] and last[middle] > received_before[channel]
            middle += 1
        for row in range(middle - 2, begin - 1, -1):
            earliest_from[row] = min(earliest_from[row], earliest_from[row + 1])
        sent_so_far = last[middle - 1] if middle > begin else sent_before[channel]
        short = short_before[channel]
        # No more was lost before a receive than before a later one.
        lost = LONGEST_STREAM_BYTES
        for row in range(end - 1, middle - 1, -1):
            by_then = _sent_by(earliest_from, begin, middle, latest[row])
            # Missing sends before the next send may have been sent by then, too.
            sent = first[by_then] if by_then < middle else max(sent_so_far, sent_at_most[channel])
            lost = min(lost, sent - last[row])
            losses[row] = lost
            short = max(short, last[row] - sent)
        shorts[channel] = short
        # How much can have been lost, of the sends up to the last that a receive may have taken: those small enough.
        # Unreported receives need not have taken whole sends.
        losable, looked_at = LONGEST_STREAM_BYTES if receivers_lack[channel] else 0, begin
        too_large = first[begin] if middle > begin else sent_before[channel]
        smallest = smallest_before[channel]
        send = begin
        for row in range(middle, end):
            if last[row] == first[row]:
                continue
            while send < middle and last[send] <= first[row]:
                send += 1
            doubt = _SURPLUS if short > 0 else 0
            cause, covered = send, 0
            while cause < middle and first[cause] < last[row]:
                if last[cause] > first[cause]:
                    causes[pairs] = cause
                    pairs += 1
                    counts[row] += 1
                    covered += min(last[cause], last[row]) - max(first[cause], first[row])
                    unreceived[cause] = False
                    if clock[cause] == clock[row] and time[row] != NO_TIME and time[cause] > time[row]:
                        doubt |= _BACKWARDS
                    # A receive that takes all sends of unknown order takes the same in any order.
                    if low[cause] != KNOWN_ORDER and not (first[row] <= low[cause] and high[cause] <= last[row]):
                        doubt |= _ORDER
                    # Receives of unknown order that all take parts of one send do so in any order.
                    if low[row] != KNOWN_ORDER and not (first[cause] <= low[row] and high[row] <= last[cause]):
                        doubt |= _ORDER
                cause += 1
            missing[row] = covered < last[row] - first[row]
            if not counts[row]:
                continue
            # If so much was lost before, this receive took what is so much further on.
            lost = losses[row]
            if too_large > 0 and smallest <= lost:
                losable = min(losable + too_large, LONGEST_STREAM_BYTES)
                too_large, smallest = 0, LONGEST_STREAM_BYTES
            while looked_at < middle and first[looked_at] < last[row] + min(lost, losable):
                size = last[looked_at] - first[looked_at]
                if size <= lost:
                    losable = min(losable + size, LONGEST_STREAM_BYTES)
                elif size > 0:
                    too_large = min(too_large + size, LONGEST_STREAM_BYTES)
                    smallest = min(smallest, size)
                looked_at += 1
            furthest = last[row] + min(lost, losable)
            if lost > 0 and losable > 0 and furthest > last[send]:
                doubt |= _LOSS
                guessed[row] = not one_sender[channel] and own_until[causes[pairs - counts[row]]] < furthest
            doubts[row] = doubt
    return counts, causes[:pairs].copy(), missing, unreceived, doubts, guessed, shorts
