"""A recorded trace instead of synthetic traffic: the same stamping rules, on events that did happen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.events.columns import Ints, Reports, Truth
from whence.kernels import kernel
from whence.simulation.delay import Delay, Rounding
from whence.simulation.draws import seeded
from whence.simulation.flight import NONE
from whence.simulation.observed import drawn_delay
from whence.simulation.stamping import (
    HIGH,
    Rows,
    count_event,
    new_bodies,
    new_heads,
    new_rows,
    raise_to,
    report,
    ring_length,
    row_types,
    stamp,
    take_in,
)

LOCAL, SEND, RECEIVE = range(3)
"""The values of `Trace.kind`."""
NEVER = -1
"""As `Trace.arrival`: the send's report did not reach the observer."""


class TraceError(ValueError):
    """A trace that cannot have happened, or not within the given eps."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Events in columns, each process's in the order it had them; otherwise in any order.

    One literal row: ``process=3 kind=SEND message=17 wall=120 arrival=127`` says that process 3, at its clock's
    120, sent message 17, whose report reached the observer at the observer's 127.
    """

    process: Ints
    """0 and up; the largest one tells how many processes there are."""
    kind: Ints
    """`LOCAL`, `SEND` or `RECEIVE`."""
    message: Ints
    """The message sent or received, named by any integer; one send, any number of receives. Ignored if local."""
    wall: Ints
    """The process's clock in ticks, from 0; never back."""
    arrival: Ints
    """For a send, the observer's clock when its report came in, or `NEVER`; ignored for other events."""


def replay(trace: Trace, eps: int) -> tuple[Reports, Truth]:
    """Stamp a trace whose clocks were never more than `eps` ticks apart; its reports, by arrival, and the truth.

    Events may share a tick, and receives may lie between ticks, so stamps carry eps + 1 elements of ``kn``. Raises
    `TraceError` for a message received and never sent, or sent twice; for a clock that goes back; for receives that
    wait for each other; and for a receive that shows two clocks further apart than eps, whose stamps would be
    wrong.
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
    stopped, at = stamp_all(processes, eps, ring_length(eps + 1), order, starts, kind, wall, arrival, slot, rows)
    if stopped == _DRIFT:
        raise TraceError(
            f"event {at}: process {process[at]} at {wall[at]} received a message that knows of a clock more than "
            f"eps = {eps} ticks ahead; replay with a larger eps, or correct the wall times"
        )
    if stopped == _DEADLOCK:
        raise TraceError(f"event {at}: process {process[at]} receives what is sent only after it: a causal loop")
    by_arrival = np.argsort(rows.arrival, kind="stable")
    kept = Rows(*(column[by_arrival] for column in rows))
    reports = Reports(kept.process, kept.seq, kept.r, kept.c, kept.kn, kept.arrival)
    return reports, Truth(kept.process, kept.seq, kept.vector)


def drawn_arrivals(
    wall: Ints, delta: int, seed: int, *, delay: Delay = Delay.half, rounding: Rounding = "down"
) -> NDArray[np.int64]:
    """Arrivals for a trace without any: each reading plus a drawn delay, or `NEVER` where that would be above delta.

    The observer's clock is taken to agree with the sender's.
    """
    readings = np.ascontiguousarray(wall, np.int64)
    return np.asarray(_draw_arrivals(readings, delay.last_draws(delta, rounding), seeded(seed)))


def _check_columns(trace: Trace, process: NDArray[np.int64], kind: NDArray[np.int64], wall: NDArray[np.int64]) -> None:
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
        at = order[back[0] + 1]
        raise TraceError(f"event {at}: the clock of process {process[at]} goes back to {wall[at]}")


def _slots(trace: Trace, kind: NDArray[np.int64]) -> NDArray[np.int64]:
    """Messages numbered from 0, one a send, at their sends and their receives."""
    message = np.asarray(trace.message)
    sends = np.flatnonzero(kind == SEND)
    names, first = np.unique(message[sends], return_index=True)
    if len(names) < len(sends):
        again = np.setdiff1d(sends, sends[first])[0]
        raise TraceError(f"event {again}: message {message[again]} is sent a second time")
    receives = np.flatnonzero(kind == RECEIVE)
    found = np.searchsorted(names, message[receives])
    known = found < len(names)
    known[known] = names[found[known]] == message[receives][known]
    if not known.all():
        lost = receives[~known][0]
        raise TraceError(f"event {lost}: message {message[lost]} is received and never sent")
    slot = np.full(len(message), NONE, np.int64)
    slot[sends[first]] = np.arange(len(names))
    slot[receives] = found
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
    """Stamp events as far as receives find their sends; how it ended, and at which event."""
    mask = ring - 1
    messages = max(0, slot.max() + 1)
    heads, bodies = new_heads(processes, messages), new_bodies(processes, messages, mask)
    sent = np.zeros(messages, np.bool_)
    at = starts[:processes].copy()
    row, done = 0, 0
    while done < len(order):
        before = done
        for j in range(processes):
            while at[j] < starts[j + 1]:
                event = order[at[j]]
                message = processes + slot[event]
                if kind[event] == RECEIVE and not sent[slot[event]]:
                    break
                raise_to(heads, bodies, j, wall[event], mask)
                if kind[event] == RECEIVE:
                    take_in(heads, bodies, j, message, eps + 1, mask)
                if heads[j, HIGH] - wall[event] > eps:
                    return _DRIFT, event
                count_event(bodies, j, wall[event], mask)
                if kind[event] == SEND:
                    stamp(heads, bodies, j, wall[event], message, mask)
                    sent[slot[event]] = True
                    if arrival[event] != NEVER:
                        report(heads, bodies, message, arrival[event], rows, row, mask)
                        row += 1
                at[j] += 1
                done += 1
        if done == before:
            for j in range(processes):
                if at[j] < starts[j + 1]:
                    return _DEADLOCK, order[at[j]]
    return _DONE, 0


@kernel("int64[::1](int64[::1], int64[::1], uint64[::1])")
def _draw_arrivals(wall: Any, last_delay: Any, state: Any) -> Any:
    arrivals = np.empty(len(wall), np.int64)
    for event in range(len(wall)):
        delay = drawn_delay(state, last_delay)
        arrivals[event] = NEVER if delay == NONE else wall[event] + delay
    return arrivals
