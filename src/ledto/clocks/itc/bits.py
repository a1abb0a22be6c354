"""Read and write fields of any number of bits, for codecs of trees. Zero bits fill the last byte."""

from __future__ import annotations

from ledto.clocks.wire import MAX_COUNTER
from ledto.errors import StampError


class BitWriter:
    """A buffer for fields, most significant bit first."""

    __slots__ = ("_bits",)

    def __init__(self) -> None:
        self._bits: list[str] = []

    def put(self, value: int, width: int) -> None:
        """Append a field of `width` bits."""
        if width:
            self._bits.append(f"{value:0{width}b}")

    def number(self, value: int, order: int) -> None:
        """Append a counter as an exponential-Golomb code: two more bits for each doubling."""
        if not 0 <= value <= MAX_COUNTER:
            raise StampError("a counter of a stamp runs from 0 to 2**63 - 1")
        scaled = value + (1 << order)
        self.put(scaled, 2 * scaled.bit_length() - order - 1)

    def done(self) -> bytes:
        """Return all fields, filled up to whole bytes."""
        bits = "".join(self._bits)
        size = -(-len(bits) // 8)
        return int(bits.ljust(8 * size, "0") or "0", 2).to_bytes(size)


class BitReader:
    """A reader of fields; missing bits and bits after the last field raise `StampError`."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, width: int) -> int:
        """Read the next field of `width` bits."""
        start, end = self._position, self._position + width
        if end > 8 * len(self._data):
            raise StampError(f"expected {width} more bits, found {8 * len(self._data) - start}")
        self._position = end
        covering = int.from_bytes(self._data[start // 8 : -(-end // 8)])
        return covering >> -end % 8 & (1 << width) - 1

    def number(self, order: int) -> int:
        """Read a counter from its exponential-Golomb code."""
        zeros = 0
        while not self.take(1):
            zeros += 1
            if zeros > 63:
                raise StampError("a counter of a stamp has at most 63 bits")
        value = (1 << zeros + order | self.take(zeros + order)) - (1 << order)
        if value > MAX_COUNTER:
            raise StampError("a counter of a stamp runs from 0 to 2**63 - 1")
        return value

    def end(self) -> None:
        """Refuse whole bytes, or bits that are not zero, after the last field."""
        remaining = 8 * len(self._data) - self._position
        if remaining > 7 or self.take(remaining):
            raise StampError(f"expected the end, found {remaining} more bits")
