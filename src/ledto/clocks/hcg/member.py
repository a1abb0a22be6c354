"""A process of a local subgroup, with its physical (RT) and its linear (LT) clock. See `structure`."""

from __future__ import annotations

import time
from collections.abc import Callable

from ledto.clocks.hcg.stamps import LocalStamp
from ledto.clocks.hcg.structure import Group
from ledto.clocks.locked import LockedClock
from ledto.clocks.wire import MAX_COUNTER
from ledto.errors import ClockDrift, ClockError

LARGEST_RECEIVED = MAX_COUNTER // 2
"""Received counters above this are refused, so that counting on from one never runs out of bits."""


class LocalClock:
    """RT and LT of one process. Not thread-safe: its owner holds a lock."""

    __slots__ = ("_bounds", "_lt", "_peers", "_physical", "_rt_ns", "_step_back_ns", "process", "subgroup")

    def __init__(self, process: str, group: Group, physical: Callable[[], int]) -> None:
        self.process = process
        self.subgroup = group.home(process)
        self._peers = frozenset(group.subgroup(self.subgroup).processes())
        self._bounds = group.bounds(self.subgroup)
        # A clock within tau of UTC can step back by 2 tau. The largest of its readings so far is within tau of UTC, too.
        self._step_back_ns = self._bounds.skew if group.skew == "utc" else 0
        self._physical = physical
        self._rt_ns = 0
        self._lt = 0

    def read(self) -> int:
        """Read the physical clock, never behind an earlier event; `ClockDrift` if readings contradict its bound."""
        rt_ns = self._physical()
        if not 0 <= rt_ns <= MAX_COUNTER:
            raise ClockError(f"the physical clock of {self.process} reads {rt_ns}; stamps hold 0 to 2**63 - 1")
        if self._rt_ns - rt_ns > self._step_back_ns:
            raise ClockDrift(
                f"the physical clock of {self.process} went back by {self._rt_ns - rt_ns} ns, which tau does not "
                'allow; pass a clock that is only slewed, or state its distance from UTC with skew="utc"'
            )
        return max(rt_ns, self._rt_ns)

    def check(self, stamp: LocalStamp, rt_ns: int) -> None:
        """Refuse a stamp of another subgroup, and one that proves a bound of the subgroup wrong."""
        if stamp.subgroup != self.subgroup:
            raise ClockError(
                f"{self.process} of {self.subgroup} was given a local stamp of {stamp.subgroup}; send it through the "
                "gateways"
            )
        if stamp.process not in self._peers:
            raise ClockError(
                f"{stamp.process} is not a process of {self.subgroup}: add it to the Group of every process"
            )
        if stamp.lt > LARGEST_RECEIVED:
            raise ClockError(f"{stamp!r} has an LT that no process reaches by counting")
        ahead_ns = stamp.rt_ns - rt_ns
        if stamp.process != self.process and ahead_ns > self._bounds.tolerance:
            raise ClockDrift(
                f"{self.process} was sent a stamp of {stamp.process} {ahead_ns} ns ahead of its clock; tau_ns and "
                f"delta_ns of {self.subgroup} allow {self._bounds.tolerance}. Synchronise the clocks, or state bounds "
                "that hold"
            )

    def event(self, rt_ns: int, *, received_lt: int = 0) -> LocalStamp:
        """Stamp the next event, at a reading from `read`."""
        self._rt_ns = rt_ns
        self._lt = max(self._lt, received_lt) + 1
        return LocalStamp(self.subgroup, self.process, rt_ns, self._lt)


class GroupMember(LockedClock):
    """A process that is not a gateway. Thread-safe.

    It stamps and does not hold messages back. Members that want timestamp order sort by `LocalStamp.order_key`. HAZARD:
    LT starts from 0. A process that starts again needs a new name, or its gateway refuses its messages as overtaken
    ones.
    """

    __slots__ = ("_clock", "process")

    def __init__(self, process: str, group: Group, *, physical: Callable[[], int] = time.time_ns) -> None:
        """`physical` reads a clock in nanoseconds, within the group's tau."""
        super().__init__()
        self.process = process
        self._clock = LocalClock(process, group, physical)
        if process == group.subgroup(self._clock.subgroup).gateway:
            raise ClockError(f"{process} is the gateway of {self._clock.subgroup}: use Gateway")

    def local(self) -> LocalStamp:
        """Stamp an event of this process."""
        return self._event()

    def send(self) -> LocalStamp:
        """Stamp a message to members of the subgroup, its gateway, or both; all receive the same stamp."""
        return self._event()

    def receive(self, stamp: LocalStamp) -> LocalStamp:
        """Stamp the receipt of a message; on `ClockError` (`ClockDrift` for a bound) nothing has changed."""
        with self._lock:
            rt_ns = self._clock.read()
            self._clock.check(stamp, rt_ns)
            return self._clock.event(rt_ns, received_lt=stamp.lt)

    def _event(self) -> LocalStamp:
        with self._lock:
            return self._clock.event(self._clock.read())
