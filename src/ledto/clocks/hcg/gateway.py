"""The gateway of a subgroup: LT and RT for its members, VT for other gateways, and the log of messages that it may relay.

See `ledto.clocks.hcg.structure`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from ledto.clocks.hcg.member import LARGEST_RECEIVED, LocalClock
from ledto.clocks.hcg.rules import NetworkBounds, SentLocally, literal_level, may_precede
from ledto.clocks.hcg.stamps import GlobalStamp, Known, LocalStamp, extend
from ledto.clocks.hcg.structure import Group
from ledto.clocks.locked import LockedClock
from ledto.errors import ClockDrift, ClockError

DEFAULT_LOG_LIMIT = 64
"""Messages of each process that the log keeps."""
DEFAULT_WAITING_LIMIT = 4096
"""Global messages that may wait for their causes."""


class MessageLog:
    """The messages that the gateway received from each member and sent into the subgroup itself, bounded.

    The messages of one source that may precede a later message are a *prefix* of its messages: along a source's sends
    LT, RT and (for the gateway's own) Ts only grow, and `may_precede` asks each of them to be small. So each entry has
    the causes of itself and of all earlier ones of its source, and the newest entry that may precede stands for the
    whole prefix.

    At most `limit` entries of each source are kept. Dropped entries count as causes of every later message: that can
    order a message needlessly after them, and never leaves out a cause.
    """

    __slots__ = ("_bounds", "_entries", "_floor", "_limit")

    def __init__(self, bounds: NetworkBounds, limit: int) -> None:
        self._bounds = bounds
        self._limit = limit
        self._entries: dict[str, list[tuple[SentLocally, Known]]] = {}
        self._floor: dict[str, Known] = {}

    def __len__(self) -> int:
        return sum(map(len, self._entries.values()))

    def add(self, sent: SentLocally, known: Known) -> None:
        """Log the next message of its source; `known` are its causes and itself."""
        entries = self._entries.setdefault(sent.sender, [])
        joined = dict(entries[-1][1]) if entries else {}
        extend(joined, known)
        entries.append((sent, joined))
        if len(entries) > self._limit:
            self._floor[sent.sender] = entries.pop(0)[1]

    def behind(self, sent: SentLocally) -> dict[str, tuple[int, int]]:
        """Join the causes of all logged messages that may precede this one, and those messages."""
        behind: dict[str, tuple[int, int]] = {}
        for source, entries in self._entries.items():
            for logged, known in reversed(entries):
                if may_precede(logged, sent, self._bounds):
                    extend(behind, known)
                    break
            else:
                extend(behind, self._floor.get(source, {}))
        return behind

    def last_lt(self, source: str) -> int:
        """Return LT of the last message of a source, 0 without one."""
        entries = self._entries.get(source)
        return entries[-1][0].lt if entries else 0

    def holds(self, sent: SentLocally) -> bool:
        """Tell whether this very send is (still) in the log."""
        return any(logged.lt == sent.lt and logged.rt == sent.rt for logged, _ in self._entries.get(sent.sender, ()))


class LiteralVector:
    """The vector VT of a gateway by the rules as printed (sections 2, 3.2 and 3.3): unsound, kept to be measured."""

    __slots__ = ("_delta", "_subgroup", "_vt", "last_ts")

    def __init__(self, subgroup: str, delta: int) -> None:
        self._subgroup = subgroup
        self._delta = delta
        self._vt = {subgroup: 0}
        self.last_ts: int | None = None
        """When the gateway last sent into the subgroup."""

    def relayed(self, stamp: GlobalStamp, ts: int) -> None:
        """Merge a global message that the gateway sent into the subgroup at `ts`."""
        self.last_ts = ts
        for name, level in stamp.vt.items():
            if name != self._subgroup:
                self._vt[name] = max(level, self._vt.get(name, 0))

    def received(self, tr: int, last_ts: int | None) -> dict[str, int]:
        """Give VT of a local message received at `tr`; `last_ts` is when the gateway had last sent."""
        self._vt[self._subgroup] = literal_level(self._vt[self._subgroup], last_ts, tr, delta=self._delta)
        return dict(self._vt)


class Forwarded(NamedTuple):
    """A local message on its way out: send it to the other gateways under `stamp`."""

    local: LocalStamp
    stamp: GlobalStamp


class Relay(NamedTuple):
    """A global message that is delivered: send it to the members of the subgroup under `stamp`."""

    origin: GlobalStamp
    stamp: LocalStamp


class Arrival(NamedTuple):
    """When a held message reached the gateway; for the literal rules, also the gateway's last send before."""

    tr_ns: int
    last_ts_ns: int | None


class Gateway(LockedClock):
    """Passes messages between its subgroup and the other gateways, and stamps them both ways. Thread-safe.

    **Outwards**, ``VT_j = 1 + max`` over the logged messages that may precede, and the other elements are the maxima
    over the same messages: see `MessageLog` for what is logged and how its growth is bounded. Local messages are
    forwarded in causal order: each is held until all its causes must have arrived (`Subgroup.max_delay_ns`) and none
    that may precede it is still held. Call `release` when time has passed, at `next_release_ns`.

    **Inwards**, global messages are delivered causally: in the order of their numbers from each gateway, and after all
    the numbers that their stamps name. Duplicates are dropped. A message whose causes are missing waits; `missing`
    tells which.

    An operation that raises has changed nothing.
    """

    __slots__ = (
        "_bounds",
        "_clock",
        "_delivered",
        "_elapsed",
        "_elapsed_ns",
        "_forwarded",
        "_group",
        "_held",
        "_literal",
        "_local",
        "_log",
        "_waiting",
        "_waiting_limit",
        "process",
        "subgroup",
    )

    def __init__(
        self,
        subgroup: str,
        group: Group,
        *,
        physical: Callable[[], int] = time.time_ns,
        elapsed: Callable[[], int] = time.monotonic_ns,
        log_limit: int = DEFAULT_LOG_LIMIT,
        waiting_limit: int = DEFAULT_WAITING_LIMIT,
    ) -> None:
        """Open the gateway of a subgroup.

        `physical` is its RT clock, within the group's tau; `elapsed` measures Ts and Tr and must not step. `log_limit`
        bounds the log for each process; dropped messages count as causes of all later ones. `waiting_limit` bounds the
        global messages that wait for their causes; one more is refused, and can be sent again later.
        """
        if log_limit < 1 or waiting_limit < 0:
            raise ValueError(f"log_limit is 1 or more and waiting_limit 0 or more, not {log_limit} and {waiting_limit}")
        super().__init__()
        self._local = group.subgroup(subgroup)
        self.subgroup = subgroup
        self.process = self._local.gateway
        self._group = group
        self._clock = LocalClock(self.process, group, physical)
        self._elapsed = elapsed
        self._elapsed_ns: int | None = None
        self._bounds = group.bounds(subgroup)
        self._log = MessageLog(self._bounds, log_limit)
        self._literal = LiteralVector(subgroup, self._local.delta_ns) if group.rules == "literal" else None
        self._forwarded = 0
        self._held: dict[LocalStamp, Arrival] = {}
        self._delivered = dict.fromkeys(sorted(group.subgroups.keys() - {subgroup}), 0)
        self._waiting: dict[tuple[str, int], GlobalStamp] = {}
        self._waiting_limit = waiting_limit

    def receive_local(self, stamp: LocalStamp) -> list[Forwarded]:
        """Receive a member's message for the group; give what can go out now: it, and others held until now.

        Drops a message that came before. Raises `ClockDrift` for a stamp that proves a bound of the subgroup wrong, and
        `ClockError` for a message that comes when a later one of its sender has gone out.
        """
        with self._lock:
            rt_ns = self._clock.read()
            self._clock.check(stamp, rt_ns)
            if stamp.process == self.process:
                raise ClockError(
                    f"{stamp!r} is a stamp of the gateway itself: only its members' messages are forwarded"
                )
            tr_ns = self._read_elapsed()
            if stamp in self._held or self._log.holds(stamp.sent()):
                return self._release(tr_ns)
            self._check_late(stamp, rt_ns)
            if stamp.lt <= self._log.last_lt(stamp.process):
                raise ClockError(
                    f"{stamp!r} comes after a later message of {stamp.process} went out: it is a very old duplicate, "
                    f"or messages overtake each other in {self.subgroup}; then state its max_delay_ns"
                )
            self._clock.event(rt_ns, received_lt=stamp.lt)
            self._held[stamp] = Arrival(tr_ns, self._literal.last_ts if self._literal else None)
            return self._release(tr_ns)

    def release(self) -> list[Forwarded]:
        """Give the held messages that can go out by now, in causal order."""
        with self._lock:
            return self._release(self._read_elapsed())

    @property
    def next_release_ns(self) -> int | None:
        """When, on the `elapsed` clock, `release` can next give something; None when nothing is held."""
        with self._lock:
            # A blocked message waits for one that is not blocked, so the first of those is the first of all.
            return min((self._due_ns(stamp) for stamp in self._held if not self._blocked(stamp)), default=None)

    def receive_global(self, stamp: GlobalStamp) -> list[Relay]:
        """Receive a message of another gateway; give all that can be delivered now, causes first.

        Raises `ClockError` for a message that this group cannot have, and for one that must wait when `waiting_limit`
        is reached; that one can be sent again once `missing` is empty.
        """
        with self._lock:
            self._check_global(stamp)
            identity = (stamp.subgroup, stamp.number)
            if stamp.number <= self._delivered[stamp.subgroup] or identity in self._waiting:
                return []
            if len(self._waiting) >= self._waiting_limit and not self._deliverable(stamp):
                raise ClockError(
                    f"{len(self._waiting)} global messages wait at {self.process} for their causes, so {stamp!r} is "
                    "refused: have the `missing` ones sent again, then this one, or raise waiting_limit"
                )
            rt_ns, ts_ns = self._clock.read(), self._read_elapsed()
            self._waiting[identity] = stamp
            relays = []
            while ready := self._next_deliverable():
                relays.append(self._relay(ready, rt_ns, ts_ns))
            return relays

    def missing(self) -> dict[str, tuple[int, int]]:
        """Tell what waiting messages need, by subgroup: ``(have, need)``, the last number delivered and the last needed."""
        with self._lock:
            need = dict(self._delivered)
            for stamp in self._waiting.values():
                for name, _, number in stamp.entries:
                    last = number - 1 if name == stamp.subgroup else number
                    if name in need:
                        need[name] = max(need[name], last)
            return {name: (have, need[name]) for name, have in self._delivered.items() if need[name] > have}

    @property
    def logged(self) -> int:
        """How many messages the log holds: at most `log_limit` for each process of the subgroup."""
        with self._lock:
            return len(self._log)

    def _read_elapsed(self) -> int:
        now_ns = self._elapsed()
        if self._elapsed_ns is not None and now_ns < self._elapsed_ns:
            raise ClockDrift(
                f"the elapsed clock of {self.process} went back by {self._elapsed_ns - now_ns} ns; pass one that never "
                "steps, such as time.monotonic_ns"
            )
        self._elapsed_ns = now_ns
        return now_ns

    def _check_late(self, stamp: LocalStamp, rt_ns: int) -> None:
        if self._local.max_delay_ns is None:
            return
        most_ns = self._local.max_delay_ns + self._bounds.skew
        if rt_ns - stamp.rt_ns > most_ns:
            raise ClockDrift(
                f"{stamp!r} took {rt_ns - stamp.rt_ns} ns to the gateway; max_delay_ns and tau_ns of {self.subgroup} "
                f"allow {most_ns}. It is refused, because its effects may have gone out: state bounds that hold"
            )

    def _release(self, now_ns: int) -> list[Forwarded]:
        forwards: list[Forwarded] = []
        for stamp in sorted(self._held, key=LocalStamp.order_key):
            if self._due_ns(stamp) <= now_ns and not self._blocked(stamp):
                arrival = self._held.pop(stamp)
                forwards.append(self._forward(stamp, arrival))
        return forwards

    def _due_ns(self, stamp: LocalStamp) -> int:
        if self._local.max_delay_ns is None:
            return self._held[stamp].tr_ns
        # One later than the last cause can arrive: a cause of that very moment may be handled after this message.
        return self._held[stamp].tr_ns + self._local.max_delay_ns - self._local.delta_ns + 1

    def _blocked(self, stamp: LocalStamp) -> bool:
        return any(other.may_precede(stamp, self._bounds) for other in self._held)

    def _forward(self, local: LocalStamp, arrival: Arrival) -> Forwarded:
        """Stamp a message for the other gateways, and log it."""
        sent = local.sent(tr_ns=arrival.tr_ns)
        causes = self._log.behind(sent)
        self._forwarded += 1
        level = causes.get(self.subgroup, (0, 0))[0] + 1
        causes[self.subgroup] = (level, self._forwarded)
        self._log.add(sent, causes)
        if self._literal is None:
            return Forwarded(local, GlobalStamp.of(self.subgroup, causes))
        vt = self._literal.received(*arrival)
        printed = {name: (vt.get(name, 0), causes.get(name, (0, 0))[1]) for name in vt.keys() | causes.keys()}
        return Forwarded(local, GlobalStamp.of(self.subgroup, printed))

    def _check_global(self, stamp: GlobalStamp) -> None:
        if stamp.subgroup == self.subgroup:
            raise ClockError(f"{stamp!r} was forwarded by this gateway itself")
        for name, level, number in stamp.entries:
            self._group.subgroup(name)
            if level > LARGEST_RECEIVED or number > LARGEST_RECEIVED:
                raise ClockError(f"{stamp!r} has a counter that no gateway reaches by counting")
            if name == self.subgroup and number > self._forwarded:
                raise ClockError(
                    f"{stamp!r} follows message {number} of {self.subgroup}, whose gateway has forwarded only "
                    f"{self._forwarded}: it has lost its state; give the subgroup a new name"
                )
        other = self._waiting.get((stamp.subgroup, stamp.number), stamp)
        if other != stamp:
            raise ClockError(
                f"{stamp!r} and {other!r} are two messages with one number: the gateway of {stamp.subgroup} has lost "
                "its state; give the subgroup a new name"
            )

    def _deliverable(self, stamp: GlobalStamp) -> bool:
        return all(
            self._delivered[name] == number - 1 if name == stamp.subgroup else self._delivered[name] >= number
            for name, _, number in stamp.entries
            if name != self.subgroup
        )

    def _next_deliverable(self) -> GlobalStamp | None:
        for name, delivered in self._delivered.items():
            stamp = self._waiting.get((name, delivered + 1))
            if stamp is not None and self._deliverable(stamp):
                return stamp
        return None

    def _relay(self, origin: GlobalStamp, rt_ns: int, ts_ns: int) -> Relay:
        del self._waiting[origin.subgroup, origin.number]
        self._delivered[origin.subgroup] = origin.number
        stamp = self._clock.event(rt_ns)
        self._log.add(stamp.sent(ts_ns=ts_ns), origin.known)
        if self._literal is not None:
            self._literal.relayed(origin, ts_ns)
        return Relay(origin, stamp)
