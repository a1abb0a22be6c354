"""Physical clocks for random histories: bounded drift and bounded delay (G1 and G2), in whole ticks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Drift:
    """No two clocks differ by more than `eps`; a message arrives within `delta` of its sender's clock, or is lost."""

    eps: int
    delta: int


class TickingClocks:
    """Readings that advance one process at a time and never break the drift bound."""

    def __init__(self, random: Random, drift: Drift) -> None:
        self._random = random
        self._drift = drift
        self._reading: dict[str, int] = {}

    def start(self, process: str) -> None:
        """Add a process, with a reading within eps of all others."""
        readings = self._reading.values()
        low = max(readings, default=0) - self._drift.eps
        high = min(readings, default=0) + self._drift.eps
        self._reading[process] = self._random.randint(max(0, low), max(0, high)) if readings else 0

    def reader(self, process: str) -> Callable[[], int]:
        """Return the function that a clock takes as its `physical`."""
        return lambda: self._reading[process]

    def now(self, process: str) -> int:
        """Return the current reading of a process."""
        return self._reading[process]

    def tick(self) -> None:
        """Advance a random one of the processes that may advance; with eps 0 all of them, since none may be alone."""
        slowest = min(self._reading.values())
        free = [p for p, reading in self._reading.items() if reading < slowest + self._drift.eps]
        for process in [self._random.choice(free)] if free else self._reading:
            self._reading[process] += 1
