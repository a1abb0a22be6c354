"""Messages under way: which copy arrives when, without a heap.

Arrival times lie a bounded number of ticks ahead, so each timeline (the most advanced clock, or each sender's) has a
ring of lists, one for each tick:

- ``copies``, int32: for each copy under way its message (a row of the stamps), its recipient and the next of its list;
- ``due``, int32[timeline, tick & (ring - 1)]: the first and the last copy of a list, so that copies arrive in send
  order;
- ``inbox``, int32[process]: the latest of the copies that have arrived and are not yet received;
- ``spare``, int64: the first spare message and the first spare copy, and how many copies are spare.

Spare rows are reused last-in first-out, so that a run touches little memory; full tables are doubled.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ledto.kernels import inlined
from ledto.simulation.stamper import HOLDERS, NEXT_SPARE

NONE = -1
"""No copy, no message or no timeline."""
MESSAGE, RECIPIENT, NEXT = range(3)
FIRST, LAST = range(2)
SPARE_MESSAGE, SPARE_COPY, SPARE_COPIES = range(3)


@inlined
def spare_messages(heads: Any, spare: Any, first: int) -> None:
    """Add the new rows, from `first` on, to the spare messages."""
    for message in range(first, heads.shape[0]):
        heads[message, NEXT_SPARE] = spare[SPARE_MESSAGE]
        spare[SPARE_MESSAGE] = message


@inlined
def spare_copies(copies: Any, spare: Any, first: int) -> None:
    """Add the new copies, from `first` on, to the spare ones."""
    for copy in range(first, copies.shape[0]):
        copies[copy, NEXT] = spare[SPARE_COPY]
        spare[SPARE_COPY] = copy
        spare[SPARE_COPIES] += 1


@inlined
def doubled(table: Any) -> Any:
    """Return the same rows, and as many new ones."""
    longer = np.zeros((2 * table.shape[0], table.shape[1]), table.dtype)
    longer[: table.shape[0]] = table
    return longer


@inlined
def new_message(heads: Any, spare: Any) -> Any:
    """Take a spare row, held by the sender until `let_go`; the caller has checked that there is one."""
    message = spare[SPARE_MESSAGE]
    spare[SPARE_MESSAGE] = heads[message, NEXT_SPARE]
    heads[message, HOLDERS] = 1
    return message


@inlined
def let_go(heads: Any, spare: Any, message: int) -> None:
    """Count one holder of the message less; after the last one its row becomes spare."""
    heads[message, HOLDERS] -= 1
    if heads[message, HOLDERS] == 0:
        heads[message, NEXT_SPARE] = spare[SPARE_MESSAGE]
        spare[SPARE_MESSAGE] = message


@inlined
def new_copy(copies: Any, heads: Any, spare: Any, message: int, recipient: int) -> Any:
    """Take a spare copy, in no list yet; the caller has checked that there is one."""
    copy = spare[SPARE_COPY]
    spare[SPARE_COPY] = copies[copy, NEXT]
    spare[SPARE_COPIES] -= 1
    copies[copy, MESSAGE] = message
    copies[copy, RECIPIENT] = recipient
    copies[copy, NEXT] = NONE
    heads[message, HOLDERS] += 1
    return copy


@inlined
def end_copy(copies: Any, heads: Any, spare: Any, copy: int) -> None:
    """Make a received copy spare."""
    copies[copy, NEXT] = spare[SPARE_COPY]
    spare[SPARE_COPY] = copy
    spare[SPARE_COPIES] += 1
    let_go(heads, spare, copies[copy, MESSAGE])


@inlined
def put_due(due: Any, copies: Any, copy: int, timeline: int, tick: int) -> None:
    """Let the copy arrive when the timeline reaches the tick."""
    place = tick & (due.shape[1] - 1)
    last = due[timeline, place, LAST]
    if last == NONE:
        due[timeline, place, FIRST] = copy
    else:
        copies[last, NEXT] = copy
    due[timeline, place, LAST] = copy


@inlined
def pop_due(due: Any, timeline: int, tick: int) -> Any:
    """Empty the list due at this tick and return its head; follow `NEXT` from there."""
    place = tick & (due.shape[1] - 1)
    copy = due[timeline, place, FIRST]
    due[timeline, place, FIRST] = NONE
    due[timeline, place, LAST] = NONE
    return copy
