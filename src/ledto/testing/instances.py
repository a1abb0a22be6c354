"""Random histories of instances that fork and join (autonomous causality).

The same three moves under two names: ``duplicate`` and ``combine`` (`ledto.clocks.Instance`), ``fork`` and ``join``
(`ledto.clocks.IntervalTreeClock`).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from ledto.testing.processes import TrueRun


class InstanceHistory:
    """Plays one random history of events, forks, joins and losses over instances grown from one root.

    Only events of ``event`` are compared: clocks may or may not count forks and joins as events, and reachability
    passes through them either way.
    """

    def __init__(self, make: Callable[[], Any], random: Random) -> None:
        self._random = random
        self._live: list[tuple[Any, int | None]] = [(make(), None)]
        self.run = TrueRun()

    def play(self, *, live: int, actions: int) -> TrueRun:
        """Play `actions` random moves, keeping at most `live` instances alive."""
        for _ in range(actions):
            self._random.shuffle(self._live)
            move = self._random.random()
            if move < 0.4 or (len(self._live) == 1 and len(self._live) == live):
                self._event()
            elif move < 0.7 and len(self._live) < live:
                self._fork()
            elif len(self._live) > 1:
                self._live.pop() if move > 0.97 else self._join()
        return self.run

    def _event(self) -> None:
        instance, last = self._live.pop()
        event = self.run.history.add("event", last)
        self.run.stamps.append((event, instance.event()))
        self._live.append((instance, event))

    def _fork(self) -> None:
        instance, last = self._live.pop()
        left, right = instance.duplicate() if hasattr(instance, "duplicate") else instance.fork()
        self._live += [(left, last), (right, last)]

    def _join(self) -> None:
        (a, last_a), (b, last_b) = self._live.pop(), self._live.pop()
        joined = a.combine(b) if hasattr(a, "combine") else a.join(b)
        self._live.append((joined, self.run.history.add("join", last_a, last_b)))
