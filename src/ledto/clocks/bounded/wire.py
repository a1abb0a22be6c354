"""Bounded stamps in a few bytes: the modulo-B form, bit by bit.

All processes agree on a `BoundedFormat` beforehand, as on eps and delta, so no byte describes the layout:

===========  ======================================  ===================================================================
field        bits                                    why it is enough
===========  ======================================  ===================================================================
version      3
r mod B      ceil(log2(delta + 2 eps + 1))           the reader's reading minus r lies in [-eps, delta + eps]
c            ceil(log2(eps + 1))                     0 <= c <= eps
process      ceil(log2(n))                           the tie-breaker of `less`
k elements   k * ceil(log2(n * events_per_tick + 1)) n processes make at most that many events at one reading
===========  ======================================  ===================================================================

rounded up to whole bytes. With eps = delta = 10, 10 processes and 2 events a tick: 3 + 5 + 4 + 4 + 5 k bits, so that 2
elements take 4 bytes.

Where this departs from the paper: ``B >= eps + delta + 1`` is too small when the delay is measured on the sender's clock,
and ``kn < n`` is exceeded by one (twice n where a receive and a send are two events).

HAZARD: if a message takes longer than delta, or clocks are further apart than eps, `unpack` gives a wrong `r`, and no check
can find that. The modulo also limits faults: no `r` further than delta + eps back or eps ahead passes over the wire.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ledto.clocks.bounded.clock import MAX_ELEMENTS, BoundedStamp
from ledto.clocks.relation import require
from ledto.clocks.wire import check_name
from ledto.errors import StampError

_VERSION = 1
_VERSION_BITS = 3


@dataclass(frozen=True, slots=True)
class BoundedFormat:
    """The wire format of the stamps of some processes; all sizes follow from the parameters."""

    eps: int
    delta: int
    processes: tuple[str, ...]
    elements: int
    """How many elements of kn are sent: 0 (DPC2) to eps + 1 (all)."""
    events_per_tick: int = field(default=2, kw_only=True)
    """The most events of one process at one reading of its clock."""

    def __post_init__(self) -> None:
        for name, low, high in (
            ("eps", 0, MAX_ELEMENTS - 1),
            ("delta", 0, MAX_ELEMENTS - 1),
            ("elements", 0, self.eps + 1),
            ("events_per_tick", 1, 1 << 32),
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or not low <= value <= high:
                raise ValueError(f"{name} is a whole number from {low} to {high}, not {value!r}")
        if type(self.processes) is not tuple:
            raise ValueError(f"processes is a tuple of names, not {self.processes!r:.60}")
        if not self.processes or len(set(self.processes)) != len(self.processes):
            raise ValueError("a format names at least one process, and each once")
        for process in self.processes:
            check_name(process)

    @classmethod
    def that_fits(
        cls, payload_bytes: int, eps: int, delta: int, processes: Sequence[str], *, events_per_tick: int = 2
    ) -> BoundedFormat:
        """Choose the format with the most elements that fits a payload, such as the 29 bytes of a mote."""
        names = tuple(processes)
        for elements in range(eps + 1, -1, -1):
            fit = cls(eps, delta, names, elements, events_per_tick=events_per_tick)
            if fit.size_bytes <= payload_bytes:
                return fit
        raise ValueError(f"not even r and c fit {payload_bytes} bytes: they take {fit.size_bytes}")

    @property
    def modulus(self) -> int:
        """B: how many readings a reader must tell apart."""
        return self.delta + 2 * self.eps + 1

    @property
    def field_bits(self) -> dict[str, int]:
        """The width of each field; that of ``kn`` is for one element."""
        return {
            "version": _VERSION_BITS,
            "r": _bits(self.modulus),
            "c": _bits(self.eps + 1),
            "process": _bits(len(self.processes)),
            "kn": _bits(len(self.processes) * self.events_per_tick + 1),
        }

    @property
    def size_bytes(self) -> int:
        """The size of every stamp in this format."""
        bits = self.field_bits
        return -(-(bits["version"] + bits["r"] + bits["c"] + bits["process"] + self.elements * bits["kn"]) // 8)

    def pack(self, stamp: BoundedStamp) -> bytes:
        """Give the stamp's bytes; `StampError` if the stamp breaks a bound of the format."""
        require(stamp, BoundedStamp, "a BoundedFormat packs")
        if stamp.process not in self.processes:
            raise StampError(f"{stamp.process!r} is not one of the {len(self.processes)} processes of the format")
        if len(stamp.kn) < self.elements:
            raise StampError(f"the format carries {self.elements} elements, and the stamp has {len(stamp.kn)}")
        bits = self.field_bits
        values = [
            ("version", _VERSION),
            ("r", stamp.r % self.modulus),
            ("c", stamp.c),
            ("process", self.processes.index(stamp.process)),
            *(("kn", count) for count in stamp.kn[: self.elements]),
        ]
        packed = used = 0
        for name, value in values:
            if value < 0 or value >> bits[name]:
                raise StampError(
                    f"{name} = {value} needs more than {bits[name]} bits: raise "
                    + ("events_per_tick" if name == "kn" else "eps")
                )
            packed = packed << bits[name] | value
            used += bits[name]
        return (packed << 8 * self.size_bytes - used).to_bytes(self.size_bytes)

    def unpack(self, data: bytes, now: int) -> BoundedStamp:
        """Read a stamp, for a process whose own clock reads `now`; it has the elements of the format only."""
        if not isinstance(now, int):
            raise TypeError(f"`now` is the reader's own reading in whole ticks, not {now!r:.60}")
        if not isinstance(data, bytes) or len(data) != self.size_bytes:
            raise StampError(f"a stamp of this format is {self.size_bytes} bytes")
        bits = self.field_bits
        packed, remaining = int.from_bytes(data), 8 * len(data)

        def take(name: str) -> int:
            nonlocal remaining
            remaining -= bits[name]
            return packed >> remaining & (1 << bits[name]) - 1

        version, r_mod, c, index = take("version"), take("r"), take("c"), take("process")
        kn = tuple(take("kn") for _ in range(self.elements))
        if version != _VERSION:
            raise StampError(f"format version {version} is not known here; this reader knows version {_VERSION}")
        most = len(self.processes) * self.events_per_tick
        if r_mod >= self.modulus or c > self.eps or index >= len(self.processes) or max(kn, default=0) > most:
            raise StampError("a field is outside its bounds: the sender uses another format")
        if packed & (1 << remaining) - 1:
            raise StampError("a stamp's spare bits must be zero and are not: it is damaged, or of another format")
        oldest = now - self.delta - self.eps
        r = oldest + (r_mod - oldest) % self.modulus
        if r < 0:
            raise StampError(f"a stamp from before reading 0 reached a clock that reads {now}")
        return BoundedStamp(self.processes[index], r, c, kn)


def _bits(values: int) -> int:
    """Return how many bits tell so many values apart."""
    return (values - 1).bit_length()
