"""Read and write the bytes of stamps, for every stamp codec.

Layout shared by all stamps: one byte ``version << 4 | kind``, then the clock's own fields. Integers are unsigned LEB128
in their shortest form; text is its UTF-8 length and bytes. The reader accepts one spelling of each value only, so two
different byte strings never decode to one stamp.
"""

from __future__ import annotations

from enum import IntEnum

from ledto.errors import StampError

VERSION = 1
MAX_STAMP_BYTES = 1 << 20
"""The longest stamp; longer input is refused unread."""
MAX_NAME_BYTES = 255
"""The longest process id, in UTF-8."""
MAX_COUNTER = (1 << 63) - 1
"""The largest counter: fits a signed 64-bit integer in Arrow, Spark and Java, and a lane of a packed vector."""
DAMAGED = "the stamp is damaged, or was not written by ledto"
"""The end of errors about stamps that break a rule which every writer here keeps."""


class Kind(IntEnum):
    """What a stamp's first byte names, in its low half."""

    LAMPORT = 1
    HYBRID = 2
    VECTOR = 3
    ORDERING = 4
    BOUNDED = 5
    AUTONOMOUS = 6
    PAPER_AUTONOMOUS = 7
    INTERVAL_TREE = 8
    LOCAL_GROUP = 9
    GLOBAL_GROUP = 10
    VECTOR_MESSAGE = 11
    ORDERING_MESSAGE = 12


class Writer:
    """A buffer that one stamp's bytes are written to."""

    __slots__ = ("_out",)

    def __init__(self, kind: Kind) -> None:
        self._out = bytearray((VERSION << 4 | kind,))

    def varint(self, value: int) -> None:
        """Append an unsigned integer of at most 63 bits."""
        if not 0 <= value <= MAX_COUNTER:
            raise StampError(f"{value} does not fit a stamp: counters run from 0 to 2**63 - 1")
        out = self._out
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)

    def byte(self, value: int) -> None:
        """Append one raw byte."""
        self._out.append(value)

    def text(self, value: str) -> None:
        """Append a process id."""
        raw = check_name(value)
        self.varint(len(raw))
        self._out += raw

    def raw(self, value: bytes) -> None:
        """Append bytes as they are."""
        self._out += value

    def done(self) -> bytes:
        """Return the finished stamp; `StampError` if it is too long."""
        if len(self._out) > MAX_STAMP_BYTES:
            raise StampError(f"a stamp of {len(self._out)} bytes is over the limit of {MAX_STAMP_BYTES}")
        return bytes(self._out)


class StampReader:
    """A reader of one stamp's bytes; every failure is a `StampError` that names the byte."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes, kind: Kind) -> None:
        if not isinstance(data, bytes | bytearray | memoryview):
            raise StampError(f"a stamp is bytes, not {type(data).__name__}")
        if len(data) > MAX_STAMP_BYTES:
            raise StampError(f"{len(data)} bytes are over the limit of {MAX_STAMP_BYTES} for a stamp")
        self.data = bytes(data)
        self.position = 1
        actual = kind_of(self.data)
        if actual is not kind:
            raise StampError(f"byte 0: expected a {kind.name.lower()} stamp, found {actual.name.lower()}")

    def fail(self, expected: str) -> StampError:
        """Make the error for the current position."""
        return StampError(f"byte {self.position} of {len(self.data)}: expected {expected}")

    def varint(self, *, at_most: int = MAX_COUNTER) -> int:
        """Read an unsigned integer of at most `at_most`, in its shortest spelling."""
        data, start = self.data, self.position
        value = shift = 0
        position = start
        while True:
            if position >= len(data):
                raise self.fail("an integer, found the end")
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 56 + 7:
                raise self.fail("an integer of at most 63 bits")
        if byte == 0 and position - start > 1:
            raise self.fail("an integer in its shortest form")
        if value > at_most:
            raise self.fail(f"an integer of at most {at_most}, found {value}")
        self.position = position
        return value

    def count(self, *, least_bytes_each: int) -> int:
        """Read the number of items that follow; refuse more than the rest of the input can hold."""
        start = self.position
        value = self.varint()
        remaining = len(self.data) - self.position
        if value * least_bytes_each > remaining:
            self.position = start
            raise self.fail(
                f"at most {remaining // least_bytes_each} items in the {remaining} remaining bytes, found {value}"
            )
        return value

    def byte(self) -> int:
        """Read one raw byte."""
        if self.position >= len(self.data):
            raise self.fail("a byte, found the end")
        self.position += 1
        return self.data[self.position - 1]

    def raw(self, length: int) -> bytes:
        """Read the next `length` bytes."""
        if self.position + length > len(self.data):
            raise self.fail(f"{length} bytes")
        self.position += length
        return self.data[self.position - length : self.position]

    def text(self) -> str:
        """Read a process id."""
        length = self.varint(at_most=MAX_NAME_BYTES)
        if length == 0:
            raise self.fail("a process id that is not empty")
        raw = self.raw(length)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self.position -= length
            raise self.fail("a process id in UTF-8") from None

    def end(self) -> None:
        """Refuse bytes after the stamp."""
        if self.position != len(self.data):
            raise self.fail(f"the end, found {len(self.data) - self.position} more bytes")


def kind_of(data: bytes) -> Kind:
    """Tell which clock made these bytes; `StampError` for bytes that none of ours made."""
    if not data:
        raise StampError("an empty byte string is not a stamp")
    version, code = data[0] >> 4, data[0] & 0x0F
    if version != VERSION:
        raise StampError(f"byte 0: codec version {version} is not known here; this reader knows version {VERSION}")
    try:
        return Kind(code)
    except ValueError:
        raise StampError(f"byte 0: no clock has code {code}") from None


def check_name(value: object) -> bytes:
    """Return a process id's UTF-8 bytes; `StampError` for what cannot be an id."""
    if not isinstance(value, str) or not value:
        raise StampError(f"a process id is a string that is not empty, not {value!r:.60}")
    try:
        raw = value.encode()
    except UnicodeEncodeError:
        raise StampError(f"a process id must encode as UTF-8: {value!r:.60}") from None
    if len(raw) > MAX_NAME_BYTES:
        raise StampError(f"a process id takes at most {MAX_NAME_BYTES} bytes, not {len(raw)}")
    return raw
