"""The observer paper's simulation (section 5) as one kernel: steps, sends, arrivals, stamps.

A step draws one of the n + 1 clocks, uniformly and again while its increment would break G1, and increments it. Then,
in this order: copies that are due at the new reading arrive, the process receives what has arrived, and perhaps it
sends. The observer only ticks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ledto.kernels import inlined, kernel
from ledto.simulation.draws import NO_DRAW, below, draw
from ledto.simulation.flight import (
    MESSAGE,
    NEXT,
    NONE,
    RECIPIENT,
    SPARE_COPIES,
    SPARE_MESSAGE,
    doubled,
    end_copy,
    let_go,
    new_copy,
    new_message,
    pop_due,
    put_due,
    spare_copies,
    spare_messages,
)
from ledto.simulation.stamper import (
    count_event,
    merge_stamp,
    new_bodies,
    new_heads,
    raise_to,
    report,
    row_types,
    stamp,
)


class KernelPlan(NamedTuple):
    """A `Model` as the integers of the kernel; probabilities as last accepted draws, options as 0 or 1."""

    processes: int
    eps: int
    width: int
    known_ring: int
    due_ring: int
    messages: int
    last_send: int
    last_loss: int
    to_all: int
    shared_delay: int
    by_sender: int
    on_arrival: int
    send_apart: int
    idle_event: int
    last_enter: int
    last_leave: int
    multiplier: int
    relay_hops: int
    relay_count: int
    relay_period: int


@inlined
def draw_delay(state: Any, last_delay: Any) -> Any:
    """Draw a delay in ticks; `NONE` for a message that is lost on the way."""
    drawn = draw(state)
    low, high = 0, len(last_delay)
    while low < high:
        middle = (low + high) // 2
        if drawn <= last_delay[middle]:
            high = middle
        else:
            low = middle + 1
    return low if low < len(last_delay) else NONE


@inlined
def _through_relays(plan: Any, sender: int, reached: int) -> Any:
    """Return when a report leaves its last relay, if it reaches its first one at the reading `reached`."""
    for hop in range(plan.relay_hops):
        phase = (sender + hop) % plan.relay_count * plan.relay_period // plan.relay_count
        reached += (phase - reached) % plan.relay_period
    return reached


@inlined
def _arrive(
    plan: Any, copies: Any, inbox: Any, spare: Any, copy: int, rt: Any, heads: Any, bodies: Any, rows: Any, row: int
) -> Any:
    """Let a copy arrive; return the number of the next row.

    The observer's becomes a row; a process receives its copy now, or at its next tick.
    """
    recipient = copies[copy, RECIPIENT]
    mask = plan.known_ring - 1
    if recipient == plan.processes:
        if row < plan.messages:
            report(heads, bodies, copies[copy, MESSAGE], rt[recipient], rows, row, mask)
            row += 1
        end_copy(copies, heads, spare, copy)
    elif plan.on_arrival:
        raise_to(heads, bodies, recipient, rt[recipient], mask)
        merge_stamp(heads, bodies, recipient, copies[copy, MESSAGE], plan.width, mask)
        count_event(bodies, recipient, rt[recipient], mask)
        end_copy(copies, heads, spare, copy)
    else:
        copies[copy, NEXT] = inbox[recipient]
        inbox[recipient] = copy
    return row


def _signature(types: Any) -> Any:
    plan = types.NamedUniTuple(types.int64, len(KernelPlan._fields), KernelPlan)
    return types.int64(plan, types.int64[::1], types.uint64[::1], row_types(types))


@kernel(_signature)
def observe(plan: Any, last_delay: Any, state: Any, rows: Any) -> Any:
    """Fill `rows` with reports in the order they reach the observer; return the number of steps (clock increments)."""
    n = plan.processes
    mask = plan.known_ring - 1
    spare = np.array([NONE, NONE, 0])
    heads, bodies = new_heads(n, 64), new_bodies(n, 64, mask)
    spare_messages(heads, spare, n)
    copies = np.zeros((n + 1, 3), np.int32)
    spare_copies(copies, spare, 0)
    due = np.full((n if plan.by_sender else 1, plan.due_ring, 2), NONE, np.int32)
    inbox = np.full(n, NONE, np.int32)
    rt = np.zeros(n + 1, np.int64)
    lowest, at_lowest, highest = 0, n + 1, 0
    bursting = np.zeros(n, np.bool_)
    row, steps = 0, 0
    while row < plan.messages:
        j = below(state, n + 1)
        while rt[j] - lowest >= plan.eps:  # G1
            j = below(state, n + 1)
        steps += 1
        now = rt[j] + 1
        rt[j] = now
        if now - 1 == lowest:
            at_lowest -= 1
            if at_lowest == 0:
                lowest += 1
                for k in range(n + 1):
                    at_lowest += rt[k] == lowest

        timeline = NONE
        if plan.by_sender:
            if j < n:
                timeline = j
        elif now > highest:
            highest = now
            timeline = 0
        if timeline != NONE:
            copy = pop_due(due, timeline, now)
            while copy != NONE:
                following = copies[copy, NEXT]
                row = _arrive(plan, copies, inbox, spare, copy, rt, heads, bodies, rows, row)
                copy = following
        if j == n:
            continue

        if plan.last_enter != NO_DRAW and draw(state) <= (plan.last_leave if bursting[j] else plan.last_enter):
            bursting[j] = not bursting[j]
        sends = draw(state) <= plan.last_send
        copy = inbox[j]
        receives = copy != NONE
        if not (sends or receives or plan.idle_event):
            continue
        raise_to(heads, bodies, j, now, mask)
        inbox[j] = NONE
        while copy != NONE:
            following = copies[copy, NEXT]
            merge_stamp(heads, bodies, j, copies[copy, MESSAGE], plan.width, mask)
            end_copy(copies, heads, spare, copy)
            copy = following
        count_event(bodies, j, now, mask)
        if not sends:
            continue
        if receives and plan.send_apart:
            count_event(bodies, j, now, mask)

        if spare[SPARE_MESSAGE] == NONE:
            full = heads.shape[0]
            heads, bodies = doubled(heads), doubled(bodies)
            spare_messages(heads, spare, full)
        while spare[SPARE_COPIES] < n + 1:
            full = copies.shape[0]
            copies = doubled(copies)
            spare_copies(copies, spare, full)
        message = new_message(heads, spare)
        stamp(heads, bodies, j, now, message, mask)
        only = NONE
        if not plan.to_all:
            only = below(state, n - 1)
            only += only >= j
        delay = draw_delay(state, last_delay) if plan.shared_delay else 0
        timeline_reading = now if plan.by_sender else highest
        for recipient in range(n + 1):
            if recipient == j or (only != NONE and recipient != only and recipient != n):
                continue
            if not plan.shared_delay:
                delay = draw_delay(state, last_delay)
            lost = plan.last_loss != NO_DRAW and draw(state) <= plan.last_loss
            if delay == NONE or lost:
                continue
            arrives = now + (delay * plan.multiplier if bursting[j] else delay)
            if recipient == n and plan.relay_hops > 0:
                arrives = _through_relays(plan, j, max(arrives, timeline_reading))
            copy = new_copy(copies, heads, spare, message, recipient)
            if arrives > timeline_reading:
                put_due(due, copies, copy, j if plan.by_sender else 0, arrives)
            else:
                row = _arrive(plan, copies, inbox, spare, copy, rt, heads, bodies, rows, row)
        let_go(heads, spare, message)
    return steps
