"""The observer paper's sections 2, 3.1 and 5 once more, in plain Python and from the text: slow, and made to be read.

Nothing of the simulation's code is used. Stamps are Figure 1's, with an array indexed relative to the process's clock;
causal pasts are sets of messages; copies under way are a list that is searched at every step; delays are drawn by
inverting the normal distribution. Only the generator and the order of draws are the simulation's, so that both make the
same choices.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from statistics import NormalDist

from ledto.simulation import Model

WORD = (1 << 64) - 1


class Draws:
    """SplitMix64."""

    def __init__(self, seed: int) -> None:
        self.state = int.from_bytes(hashlib.sha256(seed.to_bytes(8, "little")).digest()[:8], "little")

    def word(self) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & WORD
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
        return z ^ (z >> 31)

    def unit(self) -> float:
        return (self.word() >> 1) / 2**63

    def chance(self, probability: float) -> bool:
        return (self.word() >> 1) < probability * 2**63

    def below(self, limit: int) -> int:
        while True:
            product = (self.word() >> 32) * limit
            if product % 2**32 >= 2**32 % limit:
                return product >> 32


@dataclass
class Stamp:
    r: int
    c: int
    kn: dict[int, int]


@dataclass
class Message:
    sender: int
    seq: int
    stamp: Stamp
    past: frozenset[tuple[int, int]]
    """Messages ``(sender, seq)`` whose send happened before this one's, and itself."""


@dataclass
class Copy:
    message: Message
    recipient: int
    due: int
    hops: int = 0
    """Relays passed."""


class Process:
    """Figure 1, for a program that runs with `eps`."""

    def __init__(self, number: int, eps: int) -> None:
        self.number = number
        self.eps = eps
        self.rt = 0
        self.stamp = Stamp(0, 0, {0: 1})
        self.past: frozenset[tuple[int, int]] = frozenset()
        self.sent = 0
        self.inbox: list[Message] = []
        self.bursting = False

    def event(self, received: list[Message]) -> None:
        known = [self.stamp, *(message.stamp for message in received)]
        c = max(0, *(stamp.r + stamp.c - self.rt for stamp in known))
        kn = {t: max(stamp.kn.get(t + self.rt - stamp.r, 0) for stamp in known) for t in range(-self.eps, self.eps)}
        kn[0] += 1
        self.stamp = Stamp(self.rt, c, kn)
        self.past = self.past.union(*(message.past for message in received))

    def send(self) -> Message:
        self.sent += 1
        self.past |= {(self.number, self.sent)}
        return Message(self.number, self.sent, self.stamp, self.past)


@dataclass
class Row:
    process: int
    seq: int
    r: int
    c: int
    kn: list[int]
    arrival: int
    past: frozenset[tuple[int, int]]


@dataclass
class Simulation:
    model: Model
    draws: Draws
    program_eps: int
    """What Figure 1 runs with: eps, or eps + 1 where receives may happen between ticks."""
    rows: list[Row] = field(default_factory=list)
    trace: list[tuple[int, str, tuple[int, int] | None, int]] = field(default_factory=list)
    """Each event: process, kind, message, and the process's clock."""

    def __post_init__(self) -> None:
        self.processes = [Process(j, self.program_eps) for j in range(self.model.processes)]
        self.observer = Process(self.model.processes, self.program_eps)
        self.under_way: list[Copy] = []

    @property
    def clocks(self) -> list[int]:
        return [process.rt for process in (*self.processes, self.observer)]

    def reading(self, sender: int) -> int:
        """The clock that the arrival of this sender's messages goes by."""
        return self.processes[sender].rt if self.model.arrives_by == "sender" else max(self.clocks)

    def run(self) -> list[Row]:
        while len(self.rows) < self.model.messages:
            self.step()
        return self.rows[: self.model.messages]

    def step(self) -> None:
        everyone = [*self.processes, self.observer]
        while True:
            picked = everyone[self.draws.below(len(everyone))]
            if all(abs(picked.rt + 1 - other.rt) <= self.model.eps for other in everyone if other is not picked):
                break
        picked.rt += 1
        assert max(self.clocks) - min(self.clocks) <= self.model.eps, "G1"
        arrived = [copy for copy in self.under_way if self.has_arrived(copy)]
        self.under_way = [copy for copy in self.under_way if copy not in arrived]
        for copy in arrived:
            self.arrive(copy)
        if picked is not self.observer:
            self.tick(picked)

    def has_arrived(self, copy: Copy) -> bool:
        reading = self.reading(copy.message.sender)
        if reading < copy.due:
            return False
        relays = self.model.relays
        if relays is None or copy.recipient != self.observer.number:
            return True
        while copy.hops < relays.hops:
            relay = (copy.message.sender + copy.hops) % relays.count
            if reading % relays.period != relay * relays.period // relays.count:
                return False
            copy.hops += 1
        return True

    def arrive(self, copy: Copy) -> None:
        message = copy.message
        late = self.processes[message.sender].rt - message.stamp.r
        if copy.recipient == self.observer.number:
            assert late <= self.model.longest_delay, "G2, as far as relays and bursts let it hold"
            c = message.stamp.c
            kn = [message.stamp.kn.get(c - i, 0) for i in range(self.program_eps)]
            self.rows.append(Row(message.sender, message.seq, message.stamp.r, c, kn, self.observer.rt, message.past))
            return
        assert late <= self.model.delta * (self.model.bursts.multiplier if self.model.bursts else 1), "G2"
        receiver = self.processes[copy.recipient]
        if self.model.receives == "on_arrival":
            receiver.event([message])
            self.trace.append((receiver.number, "receive", (message.sender, message.seq), receiver.rt))
        else:
            receiver.inbox.append(message)

    def tick(self, process: Process) -> None:
        bursts = self.model.bursts
        if bursts and self.draws.chance(bursts.leave if process.bursting else bursts.enter):
            process.bursting = not process.bursting
        sends = self.draws.chance(self.model.rate)
        received, process.inbox = process.inbox, []
        if received and sends and self.model.receives == "before_send":
            process.event(received)
            process.event([])
        elif received or sends or self.model.idle_ticks == "local_event":
            process.event(received)
            if not (received or sends):
                self.trace.append((process.number, "local", None, process.rt))
        if sends:
            self.send(process)

    def send(self, process: Process) -> None:
        message = process.send()
        self.trace.append((process.number, "send", (message.sender, message.seq), process.rt))
        others = [j for j in range(self.model.processes) if j != process.number]
        if self.model.recipients == "one":
            others = [others[self.draws.below(len(others))]]
        delay = self.delay(process) if self.model.delays == "shared" else None
        for recipient in (*others, self.observer.number):
            if self.model.delays == "independent":
                delay = self.delay(process)
            lost = self.model.loss > 0 and self.draws.chance(self.model.loss)
            if delay is not None and not lost:
                copy = Copy(message, recipient, process.rt + delay)
                if self.has_arrived(copy):
                    self.arrive(copy)
                else:
                    self.under_way.append(copy)

    def delay(self, process: Process) -> int | None:
        """None: lost. A delay below 0 is drawn again, so what is drawn is from the part of the normal above 0."""
        mean, sd = map(float, self.model.delay.ticks(self.model.delta))
        normal = NormalDist(mean, sd)
        negative = normal.cdf(0)
        real = normal.inv_cdf(negative + self.draws.unit() * (1 - negative))
        if real > self.model.delta:
            return None
        rounded = {"down": math.floor, "nearest": round, "up": math.ceil}[self.model.rounding](real)
        return rounded * (self.model.bursts.multiplier if self.model.bursts and process.bursting else 1)


def simulation(model: Model, seed: int, *, program_eps: int | None = None) -> Simulation:
    eps = model.eps + (model.receives == "on_arrival") if program_eps is None else program_eps
    return Simulation(model, Draws(seed), eps)
