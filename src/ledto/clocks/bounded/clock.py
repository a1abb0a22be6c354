"""Bounded stamps ``<r, c, kn>``: an order consistent with causality in a few bytes, where clocks drift little.

Given (paper, section 2): no two clocks ever differ by more than `eps` (G1), and a message that is not lost arrives
within `delta` (G2). Properties:

- ``e -> f`` implies ``less(stamp(e), stamp(f))`` for whole stamps. The converse does not hold: there is no `Relation`;
- ``0 <= c <= eps``, and a stamp's size depends on eps, delta and the number of processes only, never on how long the
  computation runs.

The parts: `r` is the process's own reading; ``r + c`` is the largest reading of any process that it knows of; ``kn[t]``
is how many events at reading ``r + t`` it knows of. A stamp keeps the elements in the order `less` compares them:
``kn[c]``, ``kn[c - 1]``, ... down to ``kn[c - eps]``. Lower ones are never compared again, because ``r + c`` never
falls, so dropping them, or keeping the first k only, on the wire or when comparing, gives one and the same order. That
order of the first k elements, for k <= eps, *can* contradict causality: it is what the paper trades for bytes.

Where this departs from the paper: its arrays end at ``kn[eps - 1]``, but a receive *between* ticks of the receiver's
clock can make ``c`` equal to eps, and `less` then contradicts causality. One more element repairs it, so that any
number of events may share a tick.

HAZARD: a reading that goes back, or a stamp further ahead than eps, breaks G1. Both raise `ClockDrift` and change
nothing: the bound was too small, and every later stamp would be wrong.

Source: Kulkarni and Arumugam, Approximate Causal Observer, sections 3 and 6.5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from ledto.clocks import json_fields
from ledto.clocks.locked import LockedClock
from ledto.clocks.relation import OrderedStamp, require
from ledto.clocks.wire import MAX_COUNTER, Kind, StampReader, Writer, check_name
from ledto.errors import ClockDrift, StampError

MAX_ELEMENTS = 1 << 16
"""The most elements of kn in a stamp."""


@dataclass(frozen=True, slots=True)
class BoundedStamp(OrderedStamp):
    """``<r, c, kn>`` of one event of `process`."""

    kind: ClassVar[Kind] = Kind.BOUNDED

    process: str
    r: int
    c: int
    kn: tuple[int, ...]
    """Event counts, largest reading first: ``kn[i]`` is the paper's ``kn[c - i]``."""

    def sort_key(self) -> tuple[Any, ...]:
        return (self.r + self.c, self.kn, self.process)

    def first(self, k: int) -> BoundedStamp:
        """Keep the first `k` elements: a smaller stamp, and more often wrong about what came first."""
        if k < 1:
            raise ValueError(f"a stamp keeps at least 1 element, not {k}; see physical_and_c() for none")
        return replace(self, kn=self.kn[:k])

    def physical_and_c(self) -> BoundedStamp:
        """DPC2: keep the reading and `c`, without elements."""
        return replace(self, kn=())

    def physical_only(self) -> BoundedStamp:
        """DPC1: keep the reading alone."""
        return replace(self, c=0, kn=())

    def to_bytes(self) -> bytes:
        """Give the self-contained form; `ledto.clocks.BoundedFormat` gives the few bytes that travel with a message."""
        out = Writer(self.kind)
        out.text(self.process)
        out.varint(self.r)
        out.varint(self.c)
        out.varint(len(self.kn))
        for count in self.kn:
            out.varint(count)
        return out.done()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        read = StampReader(data, cls.kind)
        process, r, c = read.text(), read.varint(), read.varint()
        kn = tuple(read.varint() for _ in range(read.count(least_bytes_each=1)))
        read.end()
        return cls(process, r, c, kn)

    def to_json(self) -> dict[str, Any]:
        return {"clock": "bounded", "process": self.process, "r": self.r, "c": self.c, "kn": list(self.kn)}

    @classmethod
    def from_json(cls, value: object) -> Self:
        fields = json_fields.read_fields(value, "bounded", {"process", "r", "c", "kn"})
        kn = fields["kn"]
        if not isinstance(kn, list) or len(kn) > MAX_ELEMENTS:
            raise StampError(f"kn is a list of at most {MAX_ELEMENTS} integers")
        return cls(
            json_fields.read_name(fields["process"]),
            json_fields.read_integer(fields["r"], "r"),
            json_fields.read_integer(fields["c"], "c"),
            tuple(json_fields.read_integer(count, "an element of kn") for count in kn),
        )

    def __repr__(self) -> str:
        return f"{self.process}<{self.r} +{self.c} kn={list(self.kn)}>"


def less(e: BoundedStamp, f: BoundedStamp) -> bool:
    """Compare by the paper's order: ``(r + c, kn[c], kn[c-1], ..., process)``, lexicographically.

    True whenever e's event happened before f's, given G1. Raises `ValueError` for stamps with different numbers of
    elements, which have no common order.
    """
    require(e, BoundedStamp, "less compares")
    require(f, BoundedStamp, "less compares")
    if len(e.kn) != len(f.kn):
        raise ValueError(
            f"stamps with {len(e.kn)} and {len(f.kn)} elements have no common order: cut both with first(k)"
        )
    return e.sort_key() < f.sort_key()


class BoundedClock(LockedClock):
    """The bounded clock of one process. Thread-safe; several events may share a reading."""

    __slots__ = ("_kn", "_physical", "_r", "_top", "delta", "elements", "eps", "process")

    def __init__(
        self, process: str, eps: int, delta: int, *, physical: Callable[[], int], elements: int | None = None
    ) -> None:
        """Start at reading 0. `physical` gives this process's reading in ticks; `eps` and `delta` are in the same ticks.

        `elements`: how many elements of kn the stamps carry, by default all eps + 1. With fewer, an effect can sort
        before its cause. All clocks of a computation use the same number: a stamp with fewer is refused.
        """
        check_name(process)
        for name, value in (("eps", eps), ("delta", delta)):
            if not isinstance(value, int) or not 0 <= value < MAX_ELEMENTS:
                raise ValueError(f"{name} is a whole number of ticks from 0 to {MAX_ELEMENTS - 1}, not {value!r}")
        if elements is None:
            elements = eps + 1
        if not isinstance(elements, int) or not 0 <= elements <= eps + 1:
            raise ValueError(f"elements is a whole number from 0 to eps + 1 = {eps + 1}, not {elements!r}")
        super().__init__()
        self.process = process
        self.eps = eps
        self.elements = elements
        self.delta = delta
        self._physical = physical
        self._r = 0
        self._top = 0
        """r + c of the latest event: the largest reading known here."""
        self._kn = (0,) * elements

    def local(self) -> BoundedStamp:
        """Stamp an event of this process."""
        return self._event(None)

    def send(self) -> BoundedStamp:
        """Stamp a message; it travels with the stamp."""
        return self._event(None)

    def receive(self, stamp: BoundedStamp) -> BoundedStamp:
        """Stamp the receipt of a message. A stamp with fewer elements than this clock's raises `StampError`."""
        require(stamp, BoundedStamp, "a BoundedClock receives")
        carried = len(stamp.kn)
        if carried > self.eps + 1:
            raise StampError(f"{stamp!r} was made with eps {carried - 1}, and {self.process!r} runs with {self.eps}")
        if carried < self.elements:
            raise StampError(
                f"{stamp!r} carries {carried} elements, and {self.process!r} compares {self.elements}: send whole stamps, "
                f"or make every clock with elements={carried}"
            )
        return self._event(stamp)

    def _event(self, received: BoundedStamp | None) -> BoundedStamp:
        with self._lock:
            r = self._physical()
            if not isinstance(r, int):
                raise TypeError(f"`physical` gives whole ticks, not {r!r:.60}")
            if r < self._r or r > MAX_COUNTER:
                raise ClockDrift(f"{self.process!r} read {r} after {self._r}: a physical clock must not go back")
            received_top = received.r + received.c if received else 0
            top = max(r, self._top, received_top)
            if top - r > self.eps:
                raise ClockDrift(
                    f"{self.process!r} reads {r} and received the reading {top}: the clocks differ by at least {top - r} "
                    f"ticks, and eps is {self.eps}. Run every process with eps >= {top - r}, or synchronise the clocks"
                )
            kn = _shift_elements(top, self._top, self._kn, self.elements)
            if received:
                kn = list(map(max, kn, _shift_elements(top, received_top, received.kn, self.elements)))
            if top - r < self.elements:
                kn[top - r] += 1
            self._r, self._top, self._kn = r, top, tuple(kn)
            return BoundedStamp(self.process, r, top - r, self._kn)


def _shift_elements(top: int, old_top: int, kn: tuple[int, ...], size: int) -> list[int]:
    """Turn the elements for readings ``old_top, old_top - 1, ...`` into those for ``top, top - 1, ...``."""
    shift = min(top - old_top, size)
    seen = [0] * shift + list(kn[: size - shift])
    return seen + [0] * (size - len(seen))
