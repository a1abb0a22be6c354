"""The compiled part of `ledto.simulation.raw_logs`: run a system, report by report, and spell its messages' names.

True time is one counter of nanoseconds that no process sees. Three kinds of things happen in its order: a process acts
(a local event or a send), a message arrives (a receive), a report arrives at the collector (a row). Messages and
reports under way wait in heaps by the time they are due. All draws are integers, so a seed gives the same rows
everywhere.

State is kept in arrays, so that a run can stop after any row and go on later; memory depends on how much is under way,
not on how long the run is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ledto.kernels import inlined, kernel
from ledto.simulation.draws import below, draw, exponential

NEVER = (1 << 63) - 1
"""A time after all others."""
NO_EVENT = -1
NO_SENDER = -1
NO_READING = -(1 << 62)
"""The clock of a process before its first event."""
LOCAL, SEND, RECEIVE = range(3)
NAMES_OF_A_KIND = 4
"""How many names local events have; messages have as many others."""
_TAIL_DOUBLINGS = 10

# Settings of a run.
EVENTS, ACTION_GAP, LAST_LOCAL, LAST_MULTICAST, FANOUT, DELAY, REPORT_DELAY, REPORTS_IN_ORDER = range(8)
LAST_LOST, LAST_DUPLICATED, EPS_AMPLITUDE, RESOLUTION, START = range(8, 13)
SETTINGS = 13

# The progress of a run.
NOW, NEXT_ACTION, MADE, MESSAGES_DUE, REPORTS_DUE = range(5)
PROGRESS = 5

# A process: where its clock's deviation started and how it drifts (in 2**-20), and what it has done so far.
PHASE, DRIFT, SENDS, SEQ, CLOCK, LATEST_REPORT, LATEST_EVENT = range(7)
OF_A_PROCESS = 7

# A message under way.
TO, FROM, NUMBER, NAME, SENT_BY = range(5)
OF_A_MESSAGE = 5

# A report: the fields of a row, and the truth about it. A lost one becomes a row, too, which the caller leaves out.
R_PROCESS, R_TIME, R_KIND, R_FROM, R_NUMBER, R_NAME, R_SEQ, R_ARRIVAL, R_EVENT, R_BEFORE, R_CAUSE, R_LOST = range(12)
OF_A_REPORT = 12


@inlined
def push(due: Any, slots: Any, size: int, time: int) -> Any:
    """Add a slot that becomes due at `time`, and return it; `slots` beyond the size of the heap are free."""
    slot = slots[size]
    place = size
    while place > 0:
        parent = (place - 1) >> 1
        if due[parent] <= time:
            break
        due[place] = due[parent]
        slots[place] = slots[parent]
        place = parent
    due[place] = time
    slots[place] = slot
    return slot


@inlined
def pop(due: Any, slots: Any, size: int) -> Any:
    """Remove the slot that is due first. It is free from then on, and keeps its values until the next push."""
    slot = slots[0]
    last = size - 1
    time = due[last]
    moved = slots[last]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= last:
            break
        if child + 1 < last and due[child + 1] < due[child]:
            child += 1
        if due[child] >= time:
            break
        due[place] = due[child]
        slots[place] = slots[child]
        place = child
    due[place] = time
    slots[place] = moved
    slots[last] = slot
    return slot


@inlined
def long_tailed(state: Any, mean: int) -> Any:
    """Draw an exponential time, doubled as often as draws of one in four say: one in about x**2 is x times the usual.

    The mean of the result is about 1.5 times `mean`; no time is more than 2**10 times an exponential one.
    """
    if mean == 0:
        return np.int64(0)
    value = exponential(state, mean)
    bits = draw(state)
    doublings = 0
    while doublings < _TAIL_DOUBLINGS and bits & 3 == 0:
        bits >>= 2
        doublings += 1
    return value << doublings


@inlined
def reading(settings: Any, actor: Any, now: int) -> Any:
    """Read the process's clock: true time plus a deviation that drifts to and fro between its bounds.

    Never less than its last reading, and more than it if the resolution is 1 ns. The deviation stays within its bounds
    all the same, because no two events have the same true time.
    """
    resolution = settings[RESOLUTION]
    amplitude = settings[EPS_AMPLITUDE]
    deviation = np.int64(0)
    if amplitude > 0:
        phase = (actor[PHASE] + ((now * actor[DRIFT]) >> 20)) % (4 * amplitude)
        deviation = phase - amplitude if phase < 2 * amplitude else 3 * amplitude - phase
    clock = now + deviation
    clock -= clock % resolution
    least = actor[CLOCK] + (resolution == 1)
    actor[CLOCK] = max(clock, least)
    return actor[CLOCK] + settings[START]


@kernel(
    "int64(uint64[::1], int64[::1], int64[::1], int32[::1], int64[:, ::1], int64[::1], int64[::1], int64[:, ::1], "
    "int64[::1], int64[::1], int64[:, ::1], int64[:, ::1])"
)
def advance(
    state: Any,
    settings: Any,
    progress: Any,
    turns: Any,
    actors: Any,
    message_due: Any,
    message_slots: Any,
    messages: Any,
    report_due: Any,
    report_slots: Any,
    reports: Any,
    rows: Any,
) -> Any:
    """Run on until the rows are full, a heap needs room, or the run has ended; return how many rows were filled."""
    filled = 0
    targets = np.empty(settings[FANOUT] + 1, np.int64)
    while filled < len(rows):
        made = progress[MADE]
        running = made < settings[EVENTS]
        action = progress[NEXT_ACTION] if running else NEVER
        message = message_due[0] if running and progress[MESSAGES_DUE] > 0 else NEVER
        report = report_due[0] if progress[REPORTS_DUE] > 0 else NEVER
        if report != NEVER and report <= action and report <= message:
            slot = pop(report_due, report_slots, progress[REPORTS_DUE])
            progress[REPORTS_DUE] -= 1
            rows[filled] = reports[slot]
            filled += 1
            continue
        if not running:
            break
        if progress[MESSAGES_DUE] + settings[FANOUT] >= len(message_due) or progress[REPORTS_DUE] + 2 >= len(
            report_due
        ):
            break
        cause = NO_EVENT
        if message <= action:
            now = max(message, progress[NOW] + 1)
            slot = pop(message_due, message_slots, progress[MESSAGES_DUE])
            progress[MESSAGES_DUE] -= 1
            process = messages[slot, TO]
            kind, sender, number = RECEIVE, messages[slot, FROM], messages[slot, NUMBER]
            name, cause = messages[slot, NAME], messages[slot, SENT_BY]
        else:
            now = max(action, progress[NOW] + 1)
            progress[NEXT_ACTION] = now + exponential(state, settings[ACTION_GAP])
            process = np.int64(turns[below(state, len(turns))])
            name = below(state, NAMES_OF_A_KIND)
            kind, sender, number = LOCAL, np.int64(NO_SENDER), np.int64(0)
            if draw(state) > settings[LAST_LOCAL]:
                kind, sender = SEND, process
                actors[process, SENDS] += 1
                number = actors[process, SENDS]
                name += NAMES_OF_A_KIND
                copies = 1
                if draw(state) <= settings[LAST_MULTICAST]:
                    copies = settings[FANOUT]
                for copy in range(copies):
                    to = below(state, len(actors) - 1)
                    targets[copy] = to + (to >= process)
                    again = False
                    for earlier in range(copy):
                        again |= targets[earlier] == targets[copy]
                    if again:
                        continue
                    arrival = now + 1 + long_tailed(state, settings[DELAY])
                    slot = push(message_due, message_slots, progress[MESSAGES_DUE], arrival)
                    progress[MESSAGES_DUE] += 1
                    messages[slot, TO] = targets[copy]
                    messages[slot, FROM] = process
                    messages[slot, NUMBER] = number
                    messages[slot, NAME] = name
                    messages[slot, SENT_BY] = made
        progress[NOW] = now
        progress[MADE] += 1
        actor = actors[process]
        actor[SEQ] += 1
        before = actor[LATEST_EVENT]
        actor[LATEST_EVENT] = made
        time = reading(settings, actor, now)
        lost = settings[LAST_LOST] >= 0 and draw(state) <= settings[LAST_LOST]
        copies = 1
        if settings[LAST_DUPLICATED] >= 0 and not lost and draw(state) <= settings[LAST_DUPLICATED]:
            copies = 2
        for _ in range(copies):
            arrival = now + long_tailed(state, settings[REPORT_DELAY])
            if settings[REPORTS_IN_ORDER]:
                arrival = max(arrival, actor[LATEST_REPORT] + 1)
                actor[LATEST_REPORT] = arrival
            slot = push(report_due, report_slots, progress[REPORTS_DUE], arrival)
            progress[REPORTS_DUE] += 1
            reports[slot, R_PROCESS] = process
            reports[slot, R_TIME] = time
            reports[slot, R_KIND] = kind
            reports[slot, R_FROM] = sender
            reports[slot, R_NUMBER] = number
            reports[slot, R_NAME] = name
            reports[slot, R_SEQ] = actor[SEQ]
            reports[slot, R_ARRIVAL] = arrival + settings[START]
            reports[slot, R_EVENT] = made
            reports[slot, R_BEFORE] = before
            reports[slot, R_CAUSE] = cause
            reports[slot, R_LOST] = lost
    return filled


@inlined
def _digits(number: int) -> Any:
    count = 1
    while number >= 10:
        number //= 10
        count += 1
    return count


@inlined
def _write_digits(data: Any, end: int, number: int) -> None:
    while True:
        end -= 1
        data[end] = 48 + number % 10
        number //= 10
        if number == 0:
            break


@kernel("Tuple((int32[::1], uint8[::1]))(int64[:, ::1])")
def spell_messages(rows: Any) -> Any:
    """Spell the rows' messages, ``p3-17`` for the 17th of process 3: return offsets and bytes; empty for local events."""
    offsets = np.zeros(len(rows) + 1, np.int32)
    for row in range(len(rows)):
        length = 0
        if rows[row, R_FROM] != NO_SENDER:
            length = 2 + _digits(rows[row, R_FROM]) + _digits(rows[row, R_NUMBER])
        offsets[row + 1] = offsets[row] + length
    data = np.empty(offsets[-1], np.uint8)
    for row in range(len(rows)):
        if rows[row, R_FROM] != NO_SENDER:
            end = offsets[row + 1]
            _write_digits(data, end, rows[row, R_NUMBER])
            end -= _digits(rows[row, R_NUMBER]) + 1
            data[end] = 45  # -
            _write_digits(data, end, rows[row, R_FROM])
            data[offsets[row]] = 112  # p
    return offsets, data
