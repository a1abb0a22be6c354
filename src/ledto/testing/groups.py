"""Random histories of structured groups: local networks with bounded delays and skews, gateways on a slow network.

Time is simulated in whole ticks. Half of the local messages take exactly the least delay and receivers often answer at
once, so that every bound is met with equality. Global messages overtake each other and come twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from random import Random
from typing import Literal

from ledto.clocks.hcg.gateway import Forwarded, Gateway
from ledto.clocks.hcg.member import GroupMember
from ledto.clocks.hcg.rules import Rules, Skew
from ledto.clocks.hcg.stamps import GlobalStamp, LocalStamp
from ledto.clocks.hcg.structure import Group, Subgroup
from ledto.testing.truth import TrueHistory

Network = Literal["bounded", "causal", "overtaking"]
"""How local messages reach the gateway. bounded: within a delay that it knows and waits for. causal: in causal order,
with nothing to wait for. overtaking: only each sender's in order, although the gateway relies on causal order."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The size and the bounds of a random group; times are in ticks."""

    subgroups: int = 3
    members: int = 3
    delta: int = 4
    max_delay: int = 12
    max_global_delay: int = 120
    tau: int = 2
    gap: int = 15
    """The mean time between two spontaneous sends of a member."""
    span: int = 200
    """How long members send."""
    skew: Skew = "pairwise"
    network: Network = "bounded"
    log_limit: int = 64


def random_shape(seed: int, *, span: int = 45) -> Shape:
    """Draw a small group with any structure and any bounds, equal and zero ones included."""
    random = Random(seed)
    delta = random.randint(0, 6)
    return Shape(
        subgroups=random.randint(2, 4),
        members=random.randint(1, 4),
        delta=delta,
        max_delay=delta + random.choice((0, 1, 8, 20)),
        tau=random.choice((0, 1, 3, 8)),
        gap=random.choice((3, 8, 20)),
        span=span,
        skew=random.choice(("pairwise", "utc")),
        network=random.choice(("bounded", "causal")),
        log_limit=random.choice((1, 3, 64)),
    )


@dataclass(slots=True)
class GroupMessage:
    """A message: its send event in `GroupRun.messages`, and its stamps."""

    event: int
    sender: str
    local: LocalStamp
    forwarded: GlobalStamp | None = None


@dataclass(slots=True)
class GroupRun:
    """The true history of a group, and the stamps that its clocks gave."""

    group: Group
    messages: TrueHistory = field(default_factory=TrueHistory)
    """Happened-before of messages: a gateway that passes one on adds nothing to it."""
    events: TrueHistory = field(default_factory=TrueHistory)
    """Happened-before of events: a gateway is a process like the others."""
    sent: list[GroupMessage] = field(default_factory=list)
    stamped: list[tuple[int, LocalStamp]] = field(default_factory=list)
    """Events of `events`, with their local stamps."""
    relays: dict[str, list[int]] = field(default_factory=dict)
    """By subgroup: the messages that its gateway delivered, in order, as indices of `sent`."""

    def global_pairs(self) -> Iterator[tuple[GlobalStamp, GlobalStamp, bool]]:
        """Yield all ordered pairs of forwarded messages, and whether the first truly happened before the second."""
        forwarded = [(m.event, m.forwarded) for m in self.sent if m.forwarded is not None]
        for a, stamp_a in forwarded:
            for b, stamp_b in forwarded:
                if a != b:
                    yield stamp_a, stamp_b, self.messages.precedes(a, b)

    def local_pairs(self) -> Iterator[tuple[LocalStamp, LocalStamp, bool]]:
        """Yield all ordered pairs of stamped events of one subgroup, and whether the first truly happened first."""
        for a, stamp_a in self.stamped:
            for b, stamp_b in self.stamped:
                if a != b and stamp_a.subgroup == stamp_b.subgroup:
                    yield stamp_a, stamp_b, self.events.precedes(a, b)


class GroupHistory:
    """Plays one random history. No random choice depends on the rules: a seed gives one history under both."""

    def __init__(self, shape: Shape, random: Random, *, rules: Rules = "sound") -> None:
        self._shape = shape
        self._random = random
        self._now = 0
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        bounded = shape.network == "bounded"
        group = Group(
            {
                f"G{j}": Subgroup(
                    gateway=f"p{j}0",
                    members=tuple(f"p{j}{i}" for i in range(1, shape.members + 1)),
                    delta_ns=shape.delta,
                    max_delay_ns=shape.max_delay if bounded else None,
                )
                for j in range(1, shape.subgroups + 1)
            },
            tau_ns=shape.tau,
            skew=shape.skew,
            rules=rules,
        )
        self.run = GroupRun(group, relays={name: [] for name in group.subgroups})
        self._members: dict[str, GroupMember] = {}
        self._gateways: dict[str, Gateway] = {}
        for name, subgroup in group.subgroups.items():
            epoch = 1_000 + random.randrange(1_000_000)
            self._gateways[name] = Gateway(
                name,
                group,
                physical=self._physical(epoch),
                elapsed=lambda: self._now,
                log_limit=shape.log_limit,
            )
            for process in subgroup.members:
                self._members[process] = GroupMember(process, group, physical=self._physical(epoch))
        processes = [process for subgroup in group.subgroups.values() for process in subgroup.processes()]
        self._last_event: dict[str, int | None] = dict.fromkeys(processes)
        self._last_message: dict[str, int | None] = dict.fromkeys(processes)
        self._by_local: dict[LocalStamp, int] = {}
        self._by_identity: dict[tuple[str, int], int] = {}
        self._under_way: dict[str, set[int]] = {name: set() for name in group.subgroups}
        self._latest_arrival: dict[str, int] = {}

    def play(self) -> GroupRun:
        """Play until every message has arrived everywhere."""
        for process in self._members:
            at = self._random.randint(1, self._shape.gap)
            while at <= self._shape.span:
                self._at(at, partial(self._send, process))
                at += self._random.randint(1, 2 * self._shape.gap)
        while self._agenda:
            self._now, _, action = heappop(self._agenda)
            action()
        return self.run

    def _physical(self, epoch: int) -> Callable[[], int]:
        tau, random = self._shape.tau, self._random
        if self._shape.skew == "utc":
            return lambda: epoch + self._now + random.randint(-tau, tau)
        ahead = random.randint(0, tau)
        return lambda: epoch + self._now + ahead

    def _at(self, time: int, action: Callable[[], None]) -> None:
        # The second element puts actions of one tick in random order.
        heappush(self._agenda, (time, self._random.getrandbits(60), action))

    def _local_delay(self) -> int:
        if self._random.random() < 0.5:
            return self._shape.delta
        return self._random.randint(self._shape.delta, self._shape.max_delay)

    def _record(self, process: str, stamp: LocalStamp, *causes: int | None) -> int:
        event = self.run.events.add(f"{stamp!r}", self._last_event[process], *causes)
        self._last_event[process] = event
        self.run.stamped.append((event, stamp))
        return event

    def _send(self, process: str) -> None:
        stamp = self._members[process].send()
        event = self._record(process, stamp)
        truth = self.run.messages.add(f"{stamp!r}", self._last_message[process])
        self._last_message[process] = truth
        index = len(self.run.sent)
        self.run.sent.append(GroupMessage(truth, process, stamp))
        self._by_local[stamp] = index
        subgroup = self.run.group.subgroup(stamp.subgroup)
        for target in subgroup.members:
            if target != process and self._random.random() < 0.6:
                self._carry(target, stamp, event, truth)
        if self._random.random() < 0.7:
            self._under_way[stamp.subgroup].add(index)
            arrival = self._now + self._local_delay()
            if self._shape.network != "bounded":
                arrival = max(arrival, self._latest_arrival.get(process, 0) + 1)
                self._latest_arrival[process] = arrival
            self._at(arrival, partial(self._reach_gateway, index, event))

    def _carry(self, target: str, stamp: LocalStamp, event: int, truth: int) -> None:
        self._at(self._now + self._local_delay(), partial(self._receive, target, stamp, event, truth))

    def _receive(self, process: str, stamp: LocalStamp, event: int, truth: int) -> None:
        self._record(process, self._members[process].receive(stamp), event)
        self._last_message[process] = self.run.messages.add(f"{process} receives", self._last_message[process], truth)
        if self._now <= self._shape.span and self._random.random() < 0.15:
            self._send(process)

    def _reach_gateway(self, index: int, event: int) -> None:
        message = self.run.sent[index]
        name = message.local.subgroup
        under_way = self._under_way[name]
        if self._shape.network == "causal" and any(
            self.run.messages.precedes(self.run.sent[other].event, message.event) for other in under_way
        ):
            self._at(self._now + 1, partial(self._reach_gateway, index, event))
            return
        under_way.discard(index)
        gateway = self._gateways[name]
        forwards = gateway.receive_local(message.local)
        # The gateway's receipt has no stamp of its own; the event that it stamps next comes after it.
        self._last_event[gateway.process] = self.run.events.add(
            f"{gateway.process} receives {message.local!r}", self._last_event[gateway.process], event
        )
        self._broadcast(forwards)
        self._wake(gateway)

    def _wake(self, gateway: Gateway) -> None:
        due = gateway.next_release_ns
        if due is not None:
            self._at(max(due, self._now), partial(self._release, gateway))

    def _release(self, gateway: Gateway) -> None:
        self._broadcast(gateway.release())
        self._wake(gateway)

    def _broadcast(self, forwards: list[Forwarded]) -> None:
        for local, stamp in forwards:
            index = self._by_local[local]
            self.run.sent[index].forwarded = stamp
            self._by_identity[stamp.subgroup, stamp.number] = index
            for name in self._gateways:
                if name != stamp.subgroup:
                    for _ in range(2 if self._random.random() < 0.2 else 1):
                        delay = self._random.randint(1, self._shape.max_global_delay)
                        self._at(self._now + delay, partial(self._reach_peer, name, stamp))

    def _reach_peer(self, name: str, stamp: GlobalStamp) -> None:
        gateway = self._gateways[name]
        for relay in gateway.receive_global(stamp):
            index = self._by_identity[relay.origin.subgroup, relay.origin.number]
            self.run.relays[name].append(index)
            event = self._record(gateway.process, relay.stamp)
            for target in self.run.group.subgroup(name).members:
                if self._random.random() < 0.7:
                    self._carry(target, relay.stamp, event, self.run.sent[index].event)
