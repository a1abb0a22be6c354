"""The observer paper's model as one would write it with SimPy: the `closest` reading, in SimPy's own terms.

Every process of the model is a SimPy process that waits for its turn, has a `Store` for an inbox and draws what it has
received out of it; every message is a SimPy process that waits until the most advanced clock shows its time of arrival and
puts itself into the stores of its receivers. Stamps and vectors are lists.
"""

from __future__ import annotations

from collections.abc import Generator
from random import Random
from typing import Any

import simpy


class SimpyModel:
    """Steps until `messages` reports have reached the observer; `steps` counts clock increments."""

    def __init__(self, processes: int, eps: int, delta: int, rate: float, messages: int, seed: int) -> None:
        self.env = simpy.Environment()
        self.random = Random(seed)
        self.n, self.eps, self.delta, self.rate, self.messages = processes, eps, delta, rate, messages
        self.clock = [0] * (processes + 1)
        self.top = [0] * processes
        self.kn = [[0] * eps for _ in range(processes)]
        self.vector = [[0] * processes for _ in range(processes)]
        self.inbox = [simpy.Store(self.env) for _ in range(processes)]
        self.turn = [self.env.event() for _ in range(processes + 1)]
        self.shows: dict[int, simpy.Event] = {}
        self.reports: list[Any] = []
        self.steps = 0
        self.most_advanced = 0

    def run(self) -> SimpyModel:
        for j in range(self.n):
            self.env.process(self._process(j))
        self.env.run(self.env.process(self._turns()))
        return self

    def _turns(self) -> Generator[simpy.Event, None, None]:
        """G1: one process at a time, drawn among those whose tick keeps the clocks within eps."""
        while len(self.reports) < self.messages:
            j = self.random.randrange(self.n + 1)
            if self.clock[j] + 1 - min(self.clock) > self.eps:
                continue
            self.clock[j] += 1
            self.steps += 1
            if self.clock[j] > self.most_advanced:
                self.most_advanced = self.clock[j]
                shown = self.shows.pop(self.most_advanced, None)
                if shown:
                    shown.succeed()
            turn, self.turn[j] = self.turn[j], self.env.event()
            yield turn.succeed()

    def _process(self, j: int) -> Generator[simpy.Event, None, None]:
        while True:
            yield self.turn[j]
            heard: list[Any] = []
            while self.inbox[j].items:
                heard.append((yield self.inbox[j].get()))
            self._event(j, heard)

    def _event(self, j: int, heard: list[Any]) -> None:
        reading = self.clock[j]
        top = max([reading, self.top[j], *(m[1] for m in heard)])
        kn = self._seen(top, self.top[j], self.kn[j])
        for _, heard_top, heard_kn, heard_vector in heard:
            kn = [max(a, b) for a, b in zip(kn, self._seen(top, heard_top, heard_kn), strict=True)]
            self.vector[j] = [max(a, b) for a, b in zip(self.vector[j], heard_vector, strict=True)]
        kn[top - reading] += 1
        self.top[j], self.kn[j] = top, kn
        if self.random.random() < self.rate:
            self.vector[j][j] += 1
            self.env.process(self._travel((reading, top, kn, list(self.vector[j])), j))

    def _seen(self, top: int, own_top: int, kn: list[int]) -> list[int]:
        shift = min(top - own_top, self.eps)
        return [0] * shift + kn[: self.eps - shift]

    def _travel(self, message: Any, sender: int) -> Generator[simpy.Event, None, None]:
        delay = -1.0
        while delay < 0:
            delay = self.random.gauss(self.delta / 2, self.delta / 4)
        if delay > self.delta:
            return
        due = message[0] + int(delay)
        if due > self.most_advanced:
            yield self.shows.setdefault(due, self.env.event())
        self.reports.append((sender, message, self.clock[self.n]))
        for other in range(self.n):
            if other != sender:
                yield self.inbox[other].put(message)
