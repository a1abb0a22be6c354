"""Random histories of ordered messages, reordered, duplicated and lost; every delivery is compared with the truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from ledto.testing.processes import TrueRun


@dataclass(slots=True)
class TrueMessage:
    """A message in the truth: its sender and counter, its destination, its send event, and its place among deliveries."""

    stamp: Any
    sender: str
    count: int
    to: str
    event: int
    rank: int | None = None
    """Its place among the deliveries at its destination; None before it is delivered."""


class OrderingContradiction(AssertionError):
    """A delivery out of causal order without a flag, or a flag without a reason."""


class OrderingHistory:
    """Runs clocks with ``send(to)``, ``try_deliver`` and ``deliver(timeout_s=0)`` over a network that loses and reorders.

    At each delivery it checks: undelivered predecessors are named by its gaps or by earlier ones at that process; it is
    flagged late exactly if a message that depends on it was delivered there first; a second copy is a duplicate.
    """

    def __init__(self, make: Callable[[str], Any], random: Random, *, loss: float) -> None:
        self._make = make
        self._random = random
        self._loss = loss
        self._copies = 0.2
        self._clocks: dict[str, Any] = {}
        self._last: dict[str, int | None] = {}
        self._network: list[TrueMessage] = []
        self._delivered: dict[str, list[TrueMessage]] = {}
        self._all: list[TrueMessage] = []
        self._gaps: dict[str, list[tuple[str, int, int]]] = {}
        self.run = TrueRun()

    def play(self, *, processes: int, actions: int) -> TrueRun:
        """Play random actions, then let all messages under way arrive."""
        for i in range(processes):
            name = f"p{i}"
            self._clocks[name], self._last[name] = self._make(name), None
            self._delivered[name], self._gaps[name] = [], []
        for _ in range(actions):
            if self._random.random() < 0.5 or not self._network:
                self._send(self._random.choice(list(self._clocks)))
            else:
                self._arrive(self._random.randrange(len(self._network)), patience=self._random.random() < 0.8)
        self._copies = 0.0
        while self._network:
            waiting = len(self._network)
            for _ in range(waiting):
                self._arrive(0, patience=True)
            if len(self._network) == waiting:
                if not self._loss:
                    raise OrderingContradiction(f"{waiting} messages wait although none was lost")
                self._arrive(0, patience=False)
        return self.run

    def _send(self, sender: str) -> None:
        to = self._random.choice(list(self._clocks))
        stamp = self._clocks[sender].send(to)
        event = self.run.history.add(f"{sender} sends to {to}", self._last[sender])
        self._last[sender] = event
        self.run.stamps.append((event, stamp))
        message = TrueMessage(stamp, sender, stamp.clock[sender], to, event)
        self._all.append(message)
        if self._random.random() >= self._loss:
            self._network.append(message)

    def _arrive(self, position: int, *, patience: bool) -> None:
        message = self._network.pop(position)
        clock = self._clocks[message.to]
        delivery = clock.try_deliver(message.stamp)
        if delivery is None and not (patience or not self._loss):
            delivery = clock.deliver(message.stamp, timeout_s=0)
        if delivery is None:
            self._network.append(message)
            return
        if delivery.duplicate is not (message.rank is not None):
            raise OrderingContradiction(f"copy of {message} judged duplicate={delivery.duplicate}")
        if message.rank is None:
            self._judge(message, delivery)
            if self._random.random() < self._copies:
                self._network.append(message)

    def _judge(self, message: TrueMessage, delivery: Any) -> None:
        to, history = message.to, self.run.history
        self._gaps[to] += [tuple(gap) for gap in delivery.gaps]
        before = [m for m in self._all if m.to == to and m.rank is None and history.precedes(m.event, message.event)]
        for missing in before:
            if not any(s == missing.sender and have < missing.count <= need for s, have, need in self._gaps[to]):
                raise OrderingContradiction(f"{message} delivered at {to} before {missing}, and no gap says so")
        if delivery.gaps and not before:
            raise OrderingContradiction(f"{message} names gaps {delivery.gaps}, and nothing is missing")
        overtaken = any(history.precedes(message.event, m.event) for m in self._delivered[to])
        if delivery.late is not overtaken:
            raise OrderingContradiction(f"{message} judged late={delivery.late}, truly {overtaken}")
        message.rank = len(self._delivered[to])
        self._delivered[to].append(message)
        event = history.add(f"{to} delivers from {message.sender}", self._last[to], message.event)
        self._last[to] = event
