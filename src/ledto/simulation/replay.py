"""Stamp a recorded trace instead of synthetic traffic, by the same rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledto.events.columns import Ints, ReportArrays, TrueOrder
from ledto.kernels import kernel
from ledto.simulation.delay import Delay, Rounding
from ledto.simulation.draws import seeded
from ledto.simulation.flight import NONE
from ledto.simulation.observer import draw_delay
from ledto.simulation.stamper import (
    HIGH,
    StampedRowArrays,
    count_event,
    merge_stamp,
    new_bodies,
    new_heads,
    new_rows,
    raise_to,
    report,
    ring_length,
    row_types,
    stamp,
)

LOCAL, SEND, RECEIVE = range(3)
"""The values of `RecordedTrace.kind`."""
NEVER = -1
"""As `RecordedTrace.arrival`: the report of the send did not reach the observer."""


class TraceError(ValueError):
    """A trace that cannot have happened, or not within the given eps."""


@dataclass(frozen=True, slots=True)
class RecordedTrace:
    """Events in columns, each process's in its own order, otherwise in any order.

    One literal row: ``process=3 kind=SEND message=17 wall=120 arrival=127`` says that process 3, when its clock read
    120, sent message 17, whose report reached the observer when the observer's clock read 127.
    """

    process: Ints
    """0 and up; the largest one is the number of processes minus 1."""
    kind: Ints
    """`LOCAL`, `SEND` or `RECEIVE`."""
    message: Ints
    """The message sent or received, named by any integer; one send, any number of receives. Ignored if local."""
    wall: Ints
    """The process's clock in ticks, from 0; it never goes back."""
    arrival: Ints
    """For a send, the observer's clock when its report arrived, or `NEVER`; ignored for other events."""


def replay(trace: RecordedTrace, eps: int) -> tuple[ReportArrays, TrueOrder]:
    """Stamp a trace whose clocks were never more than `eps` ticks apart; return its reports, by arrival, and the truth.

    Events may share a tick, and receives may lie between ticks, so stamps have eps + 1 elements of ``kn``. Raises
    `TraceError` for a message received and never sent, or sent twice; for a clock that goes back; for receives that
    wait for each other; and for a receive that shows two clocks further apart than eps, whose stamps would be wrong.
    """
    if eps < 1:
        raise ValueError(f"eps must be an integer from 1, not {eps}")
    if len(trace.process) == 0:
        raise TraceError("a trace without events has no processes to stamp")
    process, kind, wall = (np.ascontiguousarray(column, np.int64) for column in (trace.process, trace.kind, trace.wall))
    arrival = np.where(kind == SEND, trace.arrival, NEVER).astype(np.int64)
    _check_columns(trace, process, kind, wall)
    slot = _slots(trace, kind)
    processes = int(process.max()) + 1
    rows = new_rows(int(np.count_nonzero(arrival != NEVER)), processes, eps + 1)
    order = np.argsort(process, kind="stable").astype(np.int64)
    starts = np.searchsorted(process[order], np.arange(processes + 1)).astype(np.int64)
    outcome, event = stamp_all(processes, eps, ring_length(eps + 1), order, starts, kind, wall, arrival, slot, rows)
    if outcome == _DRIFT:
        raise TraceError(
            f"event {event}: process {process[event]} at {wall[event]} received a message whose past has a clock reading "
            f"more than eps = {eps} ticks ahead; replay with a larger eps, or correct the wall times"
        )
    if outcome == _DEADLOCK:
        raise TraceError(
            f"event {event}: process {process[event]} receives a message that is sent only after it: a causal loop"
        )
    by_arrival = np.argsort(rows.arrival, kind="stable")
    ordered = StampedRowArrays(*(column[by_arrival] for column in rows))
    reports = ReportArrays(ordered.process, ordered.seq, ordered.r, ordered.c, ordered.kn, ordered.arrival)
    return reports, TrueOrder(ordered.process, ordered.seq, ordered.vector)


def drawn_arrivals(
    wall: Ints, delta: int, seed: int, *, delay: Delay = Delay.half, rounding: Rounding = "down"
) -> NDArray[np.int64]:
    """Draw arrivals for a trace without any: each reading plus a delay, or `NEVER` if that is above delta.

    Assumes that the observer's clock agrees with the sender's.
    """
    readings = np.ascontiguousarray(wall, np.int64)
    return np.asarray(_draw_arrivals(readings, delay.last_draws(delta, rounding), seeded(seed)))


def _check_columns(
    trace: RecordedTrace, process: NDArray[np.int64], kind: NDArray[np.int64], wall: NDArray[np.int64]
) -> None:
    lengths = {name: len(getattr(trace, name)) for name in ("process", "kind", "message", "wall", "arrival")}
    if len(set(lengths.values())) > 1:
        raise TraceError(f"the columns of a trace are equally long, not {lengths}")
    limits = (("process", process, 0, 1 << 20), ("kind", kind, LOCAL, RECEIVE), ("wall", wall, 0, 1 << 60))
    for name, column, least, most in limits:
        wrong = np.flatnonzero((column < least) | (column > most))
        if len(wrong):
            raise TraceError(f"event {wrong[0]}: {name} runs from {least} to {most}, not {column[wrong[0]]}")
    order = np.argsort(process, kind="stable")
    back = np.flatnonzero((np.diff(process[order]) == 0) & (np.diff(wall[order]) < 0))
    if len(back):
        event = order[back[0] + 1]
        raise TraceError(f"event {event}: the clock of process {process[event]} goes back to {wall[event]}")


def _slots(trace: RecordedTrace, kind: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number messages from 0; return, by event, the number of its message at its send and its receives."""
    message = np.asarray(trace.message)
    sends = np.flatnonzero(kind == SEND)
    names, first = np.unique(message[sends], return_index=True)
    if len(names) < len(sends):
        repeat = np.setdiff1d(sends, sends[first])[0]
        raise TraceError(f"event {repeat}: message {message[repeat]} is sent a second time")
    receives = np.flatnonzero(kind == RECEIVE)
    number = np.searchsorted(names, message[receives])
    is_sent = number < len(names)
    is_sent[is_sent] = names[number[is_sent]] == message[receives][is_sent]
    if not is_sent.all():
        unsent = receives[~is_sent][0]
        raise TraceError(f"event {unsent}: message {message[unsent]} is received and never sent")
    slot = np.full(len(message), NONE, np.int64)
    slot[sends[first]] = np.arange(len(names))
    slot[receives] = number
    return slot


_DONE, _DRIFT, _DEADLOCK = range(3)


def _stamp_signature(types: Any) -> Any:
    number, column = types.int64, types.int64[::1]
    return types.UniTuple(number, 2)(number, number, number, *[column] * 6, row_types(types))


@kernel(_stamp_signature)
def stamp_all(
    processes: int,
    eps: int,
    ring: int,
    order: Any,
    starts: Any,
    kind: Any,
    wall: Any,
    arrival: Any,
    slot: Any,
    rows: Any,
) -> Any:
    """Stamp events as far as receives find their sends; return how it ended, and at which event."""
    mask = ring - 1
    messages = max(0, slot.max() + 1)
    heads, bodies = new_heads(processes, messages), new_bodies(processes, messages, mask)
    sent = np.zeros(messages, np.bool_)
    next_place = starts[:processes].copy()
    row, stamped = 0, 0
    while stamped < len(order):
        before = stamped
        for j in range(processes):
            while next_place[j] < starts[j + 1]:
                event = order[next_place[j]]
                message = processes + slot[event]
                if kind[event] == RECEIVE and not sent[slot[event]]:
                    break
                raise_to(heads, bodies, j, wall[event], mask)
                if kind[event] == RECEIVE:
                    merge_stamp(heads, bodies, j, message, eps + 1, mask)
                if heads[j, HIGH] - wall[event] > eps:
                    return _DRIFT, event
                count_event(bodies, j, wall[event], mask)
                if kind[event] == SEND:
                    stamp(heads, bodies, j, wall[event], message, mask)
                    sent[slot[event]] = True
                    if arrival[event] != NEVER:
                        report(heads, bodies, message, arrival[event], rows, row, mask)
                        row += 1
                next_place[j] += 1
                stamped += 1
        if stamped == before:
            for j in range(processes):
                if next_place[j] < starts[j + 1]:
                    return _DEADLOCK, order[next_place[j]]
    return _DONE, 0


@kernel("int64[::1](int64[::1], int64[::1], uint64[::1])")
def _draw_arrivals(wall: Any, last_delay: Any, state: Any) -> Any:
    arrivals = np.empty(len(wall), np.int64)
    for event in range(len(wall)):
        delay = draw_delay(state, last_delay)
        arrivals[event] = NEVER if delay == NONE else wall[event] + delay
    return arrivals
