"""Talk to processes that stamp with GoVector: write and read its messages and its log, from a `VectorClock`.

A message is three MessagePack values: the sender's id, the payload, and a map of process to counter. One literal
message, of ``shop`` at its second event, with the payload 7:

    >>> GoVectorMessage("shop", 7, VectorStamp({"shop": 2})).to_bytes().hex(" ")
    'a4 73 68 6f 70 07 81 a4 73 68 6f 70 02'

A payload is made of None, booleans, integers of 64 bits, floats, text, bytes, `msgpack.ExtType`, `msgpack.Timestamp`, lists,
and dicts whose keys are text, integers or bytes. Any spelling of a value is read, because Go writes ``5`` in nine bytes.
What two readers could understand differently is refused: a key that comes twice, text that is not UTF-8.

Needs ``ledto[interop]``. Properties: GoVector's own decoder reads what `GoVector.prepare_send` gives, and the other way
round. A receive counts one event and keeps the larger counter of every other process, as GoVector's "tick, then merge" does.

HAZARDS, all of them GoVector's:

- GoVector adopts any counter it is sent, its own included, so it does not notice a restart under the same id. Here a
  message that claims events which this process never made raises `ClockError`, and changes nothing.
- the format cannot say that causes may be missing, so a clock that accepted an unstamped message may not send.
- a GoVector process merges what it could read of a broken message; here a broken message is refused whole.
- some versions count their start as event 1 ("Initialization Complete"), others begin with 0. Both work; this class
  begins with 0, and `clock.local()` makes such an event.

Source: github.com/DistributedClocks/GoVector, govec/govec.go.
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple

from ledto.clocks.vector.clock import VectorClock
from ledto.clocks.vector.stamp import VectorStamp
from ledto.errors import ClockError, StampError
from ledto.extras import name_missing_extra

with name_missing_extra():
    import msgpack

MAX_MESSAGE_BYTES: Final = 1 << 20
"""The default limit for messages, sent and received."""
MOST_DEPTH: Final = 64
"""How deep the lists and dicts of a payload may be nested."""

_SCALARS: Final = (type(None), bool, int, float)
_KEYS: Final = (str, int, bytes)
_MESSAGE_VALUES: Final = 3


class GoVectorMessage(NamedTuple):
    """A message of GoVector, decoded."""

    process: str
    """The sender."""
    payload: Any
    stamp: VectorStamp
    """The clock of the send."""

    def to_bytes(self) -> bytes:
        """Encode for GoVector; raises `StampError` for a payload that MessagePack cannot express."""
        _check_payload(self.payload)
        pack = msgpack.Packer(strict_types=False).pack
        try:
            return b"".join(map(pack, (self.process, self.payload, dict(self.stamp))))
        except (ValueError, OverflowError) as error:
            raise StampError(f"the payload cannot be sent: {error}") from None

    @staticmethod
    def from_bytes(data: bytes, *, max_bytes: int = MAX_MESSAGE_BYTES) -> GoVectorMessage:
        """Read one message; raises `StampError`, and nothing else, for bytes that are not exactly one."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise StampError(f"a GoVector message is bytes, not {type(data).__name__}")
        if len(data) > max_bytes:
            raise StampError(f"{len(data)} bytes are over the limit of {max_bytes} for a GoVector message")
        process, payload, counters = _unpack(bytes(data))
        if not isinstance(process, str):
            raise StampError(f"a GoVector message begins with its sender's id, not {process!r:.60}")
        _check_payload(payload)
        if not isinstance(counters, dict):
            raise StampError(f"a GoVector message ends with a map of counters, not {counters!r:.60}")
        stamp = VectorStamp(counters)
        if not stamp.known(process):
            raise StampError(f"the clock of a GoVector message does not count its sender {process!r:.60}")
        return GoVectorMessage(process, payload, stamp)


class GoVector:
    """A process among others that use GoVector. Thread-safe, as its clock is.

    >>> shop = GoVector("shop")
    >>> with shop.grouped():                     # so that the log line is about this send
    ...     data = shop.prepare_send({"order": 7})
    ...     print(shop.log_line("order placed"))
    shop {"shop":1}
    order placed
    """

    __slots__ = ("clock", "max_message_bytes")

    def __init__(
        self, process: str, *, clock: VectorClock | None = None, max_message_bytes: int = MAX_MESSAGE_BYTES
    ) -> None:
        """`clock`: the process's own clock, if it has one already for its other events."""
        if clock is not None and clock.process != process:
            raise ClockError(f"the clock belongs to {clock.process!r:.60}, not to {process!r:.60}")
        self.clock = VectorClock(process) if clock is None else clock
        self.max_message_bytes = max_message_bytes

    def __repr__(self) -> str:
        return f"<GoVector {self.clock.process!r} at {self.clock.stamp!r}>"

    def grouped(self) -> AbstractContextManager[object]:
        """Hold the clock for several operations; see `Guarded.grouped`."""
        return self.clock.grouped()

    def prepare_send(self, payload: object) -> bytes:
        """Count one event and give the message for it, for any transport.

        Raises `StampError`, and counts no event, for a payload that cannot be sent or is too long.
        """
        process = self.clock.process
        with self.grouped():
            now = self.clock.stamp
            if not now.complete:
                raise ClockError(
                    f"{process!r} accepted an unstamped message, and GoVector's format cannot say so: receivers would "
                    "believe that their causes are complete. Use a clock without accept_unstamped"
                )
            after = VectorStamp({**now, process: self.clock.count + 1})
            data = GoVectorMessage(process, payload, after).to_bytes()
            if len(data) > self.max_message_bytes:
                raise StampError(f"a message of {len(data)} bytes is over the limit of {self.max_message_bytes}")
            self.clock.send()
            return data

    def unpack_receive(self, data: bytes) -> Any:
        """Receive a message, count one event, and give the payload.

        Raises `StampError` for bytes that are not a message, and `ClockError` for a message that knows of events which
        this process never made; then no event is counted.
        """
        message = GoVectorMessage.from_bytes(data, max_bytes=self.max_message_bytes)
        self.clock.receive(message.stamp)
        return message.payload

    def log_line(self, event: str) -> str:
        """Give the latest event in the format of GoVector's log, without the last line end.

        Raises `ClockError` if there was no event yet, and for texts that a reader of the log would misread: an id with
        white space, an event of several lines.
        """
        process, stamp = self.clock.process, self.clock.stamp
        if not stamp.known(process):
            raise ClockError(f"{process!r} has made no event to log")
        if not process.isprintable() or " " in process:
            raise ClockError(f"the log separates an id from its clock by a space; {process!r:.60} has other characters")
        if len(event.splitlines()) > 1 or event != event.strip("\r\n"):
            raise ClockError("the log has one line for an event's text; replace its line ends")
        entries = ", ".join(f"{json.dumps(name, ensure_ascii=False)}:{count}" for name, count in stamp.items())
        return f"{process} {{{entries}}}\n{event}"


def _unpack(data: bytes) -> list[Any]:
    """Read the three values of a message; raises `StampError`, also for bytes after them.

    A size that is announced is compared with the length of the message before anything of that size is made. Lists inside
    lists may each announce that many items: address space is reserved for them, and memory is used as they are filled.
    """
    # A limit of 0 would be none.
    unpacker = msgpack.Unpacker(
        max_buffer_size=max(1, len(data)), strict_map_key=False, object_pairs_hook=_read_map, ext_hook=msgpack.ExtType
    )
    unpacker.feed(data)
    try:
        values = [unpacker.unpack() for _ in range(_MESSAGE_VALUES)]
    except msgpack.OutOfData:
        raise StampError(f"a GoVector message has three values; its {len(data)} bytes end within one") from None
    except (ValueError, TypeError, MemoryError, msgpack.UnpackException) as error:
        place = f"in the value that begins at byte {unpacker.tell()} of {len(data)}"
        raise StampError(f"{place}: {error or type(error).__name__}") from None
    if unpacker.tell() != len(data):
        raise StampError(f"byte {unpacker.tell()} of {len(data)}: expected the end of a GoVector message")
    return values


def _read_map(entries: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """Make the dict of a map; raises `StampError` for a key that comes twice or is of another type than `_KEYS`."""
    for key, _ in entries:
        _check_key(key)
    values = dict(entries)
    if len(values) != len(entries):
        raise StampError("a map has the same key twice")
    return values


def _check_payload(value: object, depth: int = 0) -> None:
    """Raise `StampError` for what MessagePack, or a peer that reads it, would not give back as it is."""
    kind = type(value)
    if kind in _SCALARS or isinstance(value, str | bytes | msgpack.ExtType | msgpack.Timestamp):
        return
    if kind is not list and kind is not dict:
        raise StampError(f"a {kind.__name__} cannot be sent; a payload is made of plain values, lists and dicts")
    if depth == MOST_DEPTH:
        raise StampError(f"more than {MOST_DEPTH} lists and dicts inside each other")
    if isinstance(value, dict):
        for key, item in value.items():
            _check_key(key)
            _check_payload(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check_payload(item, depth + 1)


def _check_key(key: object) -> None:
    if type(key) not in _KEYS:
        raise StampError(f"the keys of a map are text, integers or bytes, not {type(key).__name__}")
