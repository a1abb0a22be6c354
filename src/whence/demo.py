"""``make demo``: the clocks at work on a small scripted computation.

A shop of four processes whose wall clocks disagree. An order fails; the log sorted by wall time shows an innocent refund
near the failure and puts effects before their causes. The stamps tell what really led to it, and what cannot have.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TextIO

from whence.clocks import (
    BoundedClock,
    BoundedFormat,
    BoundedStamp,
    HybridClock,
    HybridStamp,
    Relation,
    VectorClock,
    VectorStamp,
    relation,
)

SKEW_MS = {"gateway": 0, "orders": -40, "payments": +25, "mail": -15}
"""How far each wall clock is off."""
EPS_MS, DELTA_MS = 70, 20
MS = 1_000_000


class Stamps(NamedTuple):
    """The same event stamped by three clocks."""

    vector: VectorStamp
    hybrid: HybridStamp
    bounded: BoundedStamp


class Clocks:
    """The three clocks of one process."""

    def __init__(self, process: str, read_ms: Callable[[], int]) -> None:
        self.vector = VectorClock(process)
        self.hybrid = HybridClock(process, physical=lambda: read_ms() * MS, max_offset_ns=EPS_MS * MS)
        self.bounded = BoundedClock(process, EPS_MS, DELTA_MS, physical=read_ms)

    def event(self) -> Stamps:
        """Stamp a local event or a send."""
        return Stamps(self.vector.local(), self.hybrid.local(), self.bounded.local())

    def receive(self, sent: Stamps) -> Stamps:
        """Stamp a receipt."""
        return Stamps(
            self.vector.receive(sent.vector), self.hybrid.receive(sent.hybrid), self.bounded.receive(sent.bounded)
        )


@dataclass(frozen=True)
class Logged:
    """One line of the shop's log."""

    true_ms: int
    process: str
    name: str
    stamps: Stamps

    @property
    def wall_ms(self) -> int:
        """The time that the process's own clock showed."""
        return self.true_ms + SKEW_MS[self.process]


class Shop:
    """Runs the script; true time is only used to move the wall clocks on."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.log: list[Logged] = []
        self._clocks = {process: Clocks(process, partial(self._read_ms, process)) for process in SKEW_MS}

    def local(self, process: str, name: str) -> Stamps:
        """Something happens in a process."""
        return self._logged(process, name, self._clocks[process].event())

    def message(self, sender: str, receiver: str, name: str, *, delay_ms: int = 6) -> Stamps:
        """One process tells another."""
        sent = self._logged(sender, f"{name} ->", self._clocks[sender].event())
        self.now_ms += delay_ms
        return self._logged(receiver, f"-> {name}", self._clocks[receiver].receive(sent))

    def _read_ms(self, process: str) -> int:
        return self.now_ms + SKEW_MS[process]

    def _logged(self, process: str, name: str, stamps: Stamps) -> Stamps:
        self.log.append(Logged(self.now_ms, process, name, stamps))
        self.now_ms += 3
        return stamps


def play() -> tuple[list[Logged], Logged]:
    """The script: the log, and the failure in it."""
    shop = Shop()
    shop.message("gateway", "orders", "place order 42")
    shop.local("payments", "refund order 17")
    shop.message("orders", "payments", "charge order 42")
    shop.local("payments", "card limit lowered")
    shop.message("orders", "mail", "confirm order 42")
    shop.message("payments", "orders", "charge refused")
    shop.local("mail", "newsletter sent")
    shop.local("orders", "FAILURE order 42 confirmed but not paid")
    return shop.log, shop.log[-1]


def main(out: TextIO = sys.stdout) -> None:
    """Print the log as the wall clocks order it, then the answer."""
    log, failure = play()

    def line(event: Logged) -> str:
        return f"  {event.wall_ms:>5} ms  {event.process:<9} {event.name:<40} {event.stamps.vector!r}\n"

    def is_cause(event: Logged) -> bool:
        return relation(event.stamps.vector, failure.stamps.vector) is Relation.BEFORE

    by_wall = sorted(log, key=lambda event: event.wall_ms)
    rank = {id(event): i for i, event in enumerate(by_wall)}
    inverted = [
        (a, b)
        for a in log
        for b in log
        if relation(a.stamps.vector, b.stamps.vector) is Relation.BEFORE and rank[id(a)] > rank[id(b)]
    ]
    layout = BoundedFormat(EPS_MS, DELTA_MS, tuple(SKEW_MS), 2)
    apart_ms = max(SKEW_MS.values()) - min(SKEW_MS.values())
    out.write(f"The log, sorted by wall clocks that are up to {apart_ms} ms apart (right: the vector stamp):\n\n")
    out.writelines(map(line, by_wall))
    out.write(f"\nThat order puts {len(inverted)} pairs of cause and effect the wrong way round, such as\n\n")
    out.writelines(map(line, inverted[0]))
    out.write("\nWhat led to the failure? The events that happened before it, in causal order:\n\n")
    causes = [event for event in log if is_cause(event)]
    out.writelines(line(event) for event in sorted(causes, key=lambda event: event.stamps.hybrid.sort_key()))
    out.write("\nWhat cannot have: no path of messages leads from these to the failure.\n\n")
    out.writelines(line(event) for event in log if event is not failure and not is_cause(event))
    wrong = {
        "wall clock": len(inverted),
        "hybrid stamps": _inversions(log, [event.stamps.hybrid.sort_key() for event in log]),
        "bounded stamps": _inversions(log, [event.stamps.bounded.sort_key() for event in log]),
    }
    sizes = {
        "wall clock": 8,
        "hybrid stamps": len(failure.stamps.hybrid.to_bytes()),
        "bounded stamps": len(failure.stamps.bounded.to_bytes()),
    }
    out.write("\nPairs put the wrong way round when the log is sorted by\n\n")
    out.writelines(f"  {by:<15} {count:>3}   ({sizes[by]} bytes a stamp)\n" for by, count in wrong.items())
    out.write(
        f"  {'vector stamps':<15} {0:>3}   ({len(failure.stamps.vector.to_bytes())} bytes, "
        "and the only one here that can say: concurrent)\n"
        f"\nA bounded stamp cut to 2 elements travels in {layout.size_bytes} bytes.\n"
    )


def _inversions(log: list[Logged], keys: list[tuple[object, ...]]) -> int:
    """Pairs that a sort by these keys puts against causality."""
    return sum(
        1
        for a, key_a in zip(log, keys, strict=True)
        for b, key_b in zip(log, keys, strict=True)
        if relation(a.stamps.vector, b.stamps.vector) is Relation.BEFORE and not key_a < key_b
    )


if __name__ == "__main__":
    main()
