"""A lock for each clock, held by single operations and by groups of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import RLock
from typing import Any


class LockedClock:
    """A clock whose operations are atomic, and can be grouped.

    >>> from ledto.clocks import VectorClock
    >>> clock, question = VectorClock("shop"), VectorClock("cart").send()
    >>> with clock.grouped():          # Berry's vt_lock / vt_unlock
    ...     answers_to = clock.receive(question)
    ...     reply = clock.send()
    >>> reply
    <cart:1 shop:2>

    No operation of another thread comes between those of a group. HAZARD: do not wait for a message inside a group: the
    thread that receives it needs the same lock.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = RLock()

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError(
            f"a {type(self).__name__} belongs to one process and cannot be copied or pickled: two clocks would give two "
            "events one stamp. Send stamps (or hand_over() an Instance); give every process a clock of its own"
        )

    def grouped(self) -> AbstractContextManager[object]:
        """Hold the clock for several operations, as a context manager."""
        return self._lock


@contextmanager
def holding(one: LockedClock, other: LockedClock) -> Iterator[None]:
    """Hold two clocks. Locks are always acquired in one order, so two threads cannot block each other."""
    first, second = sorted((one, other), key=id)
    with first.grouped(), second.grouped():
        yield
