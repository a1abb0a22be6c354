"""Random histories of processes that send messages: spawns, rendezvous, losses, reorderings, duplicates.

Each action is first done by the clocks and, once they have stamped it, recorded with its true causes. If a clock
refuses or holds back a message, it has not happened (yet).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from ledto.clocks.relation import Stamp
from ledto.testing.time import Drift, TickingClocks
from ledto.testing.truth import TrueHistory


@dataclass(slots=True)
class MessageInFlight:
    """A message on its way: its stamp, and the event that sent it."""

    stamp: Any
    cause: int
    sender: str
    sent_at: int


@dataclass(slots=True)
class TrueRun:
    """A true history, and the stamps that clocks gave to its events: ``(event number, stamp)``."""

    history: TrueHistory = field(default_factory=TrueHistory)
    stamps: list[tuple[int, Stamp]] = field(default_factory=list)


class ProcessHistory:
    """Plays one random history over clocks that have ``local``, ``send`` and ``receive``.

    Calls ``spawn`` and ``synchronise`` if the clock has them, unless time is bounded (a spawned clock would need its
    own reading).
    """

    def __init__(self, make: Callable[..., Any], random: Random, *, drift: Drift | None) -> None:
        self._make = make
        self._random = random
        self._time = TickingClocks(random, drift) if drift else None
        self._drift = drift
        self._clocks: dict[str, Any] = {}
        self._last: dict[str, int | None] = {}
        self._inbox: dict[str, list[MessageInFlight]] = {}
        self.run = TrueRun()

    def play(self, *, processes: int, actions: int) -> TrueRun:
        """Play `actions` random actions among `processes` processes (more where they spawn)."""
        for i in range(processes):
            self._start(f"p{i}")
        moves = [self._local, self._send, self._send, self._receive, self._receive]
        if self._time is None:
            first = self._clocks["p0"]
            moves += [
                move for name, move in (("spawn", self._spawn), ("synchronise", self._meet)) if hasattr(first, name)
            ]
        for _ in range(actions):
            if self._time:
                self._time.tick()
            # The process that acts need not be the one that ticked: events happen between ticks, and several at one reading.
            self._random.choice(moves)(self._random.choice(list(self._clocks)))
        return self.run

    def _start(self, process: str) -> None:
        if self._time:
            self._time.start(process)
            self._clocks[process] = self._make(process, self._time.reader(process))
        else:
            self._clocks[process] = self._make(process)
        self._last[process] = None
        self._inbox[process] = []

    def _record(self, label: str, process: str, stamp: Stamp, *causes: int | None) -> int:
        event = self.run.history.add(label, self._last[process], *causes)
        self._last[process] = event
        self.run.stamps.append((event, stamp))
        return event

    def _local(self, process: str) -> None:
        self._record(f"{process} local", process, self._clocks[process].local())

    def _send(self, process: str) -> None:
        stamp = self._clocks[process].send()
        event = self._record(f"{process} send", process, stamp)
        sent_at = self._time.now(process) if self._time else 0
        targets = [p for p in self._clocks if p != process]
        for target in self._random.sample(targets, self._random.randint(0, len(targets))):
            self._inbox[target].append(MessageInFlight(stamp, event, process, sent_at))

    def _receive(self, process: str) -> None:
        inbox = self._inbox[process]
        if self._time and self._drift:
            # G2: a message is lost if it has not arrived while its sender's clock was within delta of the send.
            inbox[:] = [m for m in inbox if self._time.now(m.sender) <= m.sent_at + self._drift.delta]
        if not inbox:
            return
        chosen = self._random.randrange(len(inbox))
        message = inbox[chosen]
        if self._random.random() < 0.8:  # otherwise it stays, and may come again: a duplicate
            del inbox[chosen]
        stamp = self._clocks[process].receive(message.stamp)
        self._record(f"{process} receive", process, stamp, message.cause)

    def _spawn(self, process: str) -> None:
        child = f"p{len(self._clocks)}"
        parent = self._clocks[process]
        self._clocks[child] = parent.spawn(child)
        event = self._record(f"{process} spawn {child}", process, parent.stamp)
        self._last[child] = event
        self._inbox[child] = []

    def _meet(self, process: str) -> None:
        other = self._random.choice(list(self._clocks))
        if other == process:
            return
        stamp = self._clocks[process].synchronise(self._clocks[other])
        event = self._record(f"{process} meets {other}", process, stamp, self._last[other])
        self._last[other] = event
