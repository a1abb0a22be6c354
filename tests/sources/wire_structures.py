"""Bad protobuf that knows its structure: lengths, tags and payloads of a sample's fields, one of them wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.sources.structures import Case

_VARINT, _FIXED64, _MESSAGE, _FIXED32 = 0, 1, 2, 5
_LARGEST_VARINT = b"\xff" * 9 + b"\x01"


@dataclass(frozen=True)
class Field:
    """Where one field stands in a sample."""

    start: int
    payload: int
    """Where its value begins, after the tag and, if there is one, the length."""
    stop: int
    has_length: bool


def fields(data: bytes, start: int, stop: int) -> Iterator[Field]:
    """Every field between the two places, those inside others included; raises `ValueError` where there are none."""
    position = start
    while position < stop:
        begin = position
        tag, position = _varint(data, position, stop)
        kind = tag & 7
        if not tag >> 3 or kind not in (_VARINT, _FIXED64, _MESSAGE, _FIXED32):
            raise ValueError
        payload = position
        if kind == _VARINT:
            _, position = _varint(data, position, stop)
        elif kind == _MESSAGE:
            length, payload = _varint(data, position, stop)
            position = payload + length
        else:
            position += 8 if kind == _FIXED64 else 4
        if position > stop:
            raise ValueError
        yield Field(begin, payload, position, kind == _MESSAGE)
        if kind == _MESSAGE:
            try:
                yield from list(fields(data, payload, position))
            except ValueError:
                continue  # A text, or bytes.


def _varint(data: bytes, position: int, stop: int) -> tuple[int, int]:
    value, shift = 0, 0
    while position < stop and shift < 64:
        value |= (data[position] & 127) << shift
        position += 1
        if not data[position - 1] & 128:
            return value, position
        shift += 7
    raise ValueError


def bad_wire(sample: bytes) -> st.SearchStrategy[Case]:
    """Cases of a sample of protobuf, which is one message or several in a row."""
    found = list(fields(sample, 0, len(sample)))
    number = st.integers(0, 1 << 20)

    def case(what: str, which: int, how: int) -> Case:
        field = found[which % len(found)]
        before, value, after = sample[: field.payload], sample[field.payload : field.stop], sample[field.stop :]
        noise = bytes((how * 31 + at * 17) & 255 for at in range(len(value)))
        other = found[how % len(found)]
        data = {
            "cut off": lambda: sample[: field.payload + how % (len(value) + 1)],
            "another tag": lambda: sample[: field.start] + bytes([how & 255]) + sample[field.start + 1 :],
            "a payload of noise": lambda: before + noise + after,
            "a payload of 0xff": lambda: before + b"\xff" * len(value) + after,
            "a wrong length": lambda: before[:-1] + bytes([how & 255]) + value + after,
            "a huge length": lambda: before[:-1] + _LARGEST_VARINT + value + after,
            "a field lost": lambda: sample[: field.start] + after,
            "a field repeated": lambda: sample[: field.stop] + sample[field.start : field.stop] + after,
            "a field in another": lambda: before + sample[other.start : other.stop] + after,
        }[what]()
        return Case(what, data, False)

    changes = ("cut off", "another tag", "a payload of noise", "a payload of 0xff", "a wrong length", "a huge length")
    moves = ("a field lost", "a field repeated", "a field in another")
    return st.builds(case, st.sampled_from(changes + moves), number, number)
