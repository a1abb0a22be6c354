"""Read and write MessagePack values, as far as messages of other vector-clock libraries need it.

Values are written in their shortest spelling, as the specification (github.com/msgpack/msgpack, spec.md) advises. Any
spelling that the specification allows is read, because other libraries choose differently: ``5`` in one byte or in
nine. What two readers could understand differently is refused: a key that comes twice, text that is not UTF-8.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ledto.errors import StampError

MOST_DEPTH: Final = 64
"""How deep arrays and maps may be nested."""

_NIL, _FALSE, _TRUE = 0xC0, 0xC2, 0xC3
_CONSTANTS: Final[dict[int, Any]] = {_NIL: None, _FALSE: False, _TRUE: True}
_NUMBERS: Final = {
    0xCA: struct.Struct(">f"),
    0xCB: struct.Struct(">d"),
    0xCC: struct.Struct(">B"),
    0xCD: struct.Struct(">H"),
    0xCE: struct.Struct(">I"),
    0xCF: struct.Struct(">Q"),
    0xD0: struct.Struct(">b"),
    0xD1: struct.Struct(">h"),
    0xD2: struct.Struct(">i"),
    0xD3: struct.Struct(">q"),
}
_SIZES: Final = {1: struct.Struct(">B"), 2: struct.Struct(">H"), 4: struct.Struct(">I")}
_FIXED_EXTENSIONS: Final = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}


class Extension(NamedTuple):
    """A value of a type that MessagePack itself does not know; type -1 is a time."""

    code: int
    data: bytes


@dataclass(frozen=True, slots=True)
class _Sized:
    """How a kind of value announces its length: within the first byte, or in one, two or four bytes after it."""

    short: int
    short_most: int
    codes: dict[int, int]

    def head(self, size: int) -> bytes:
        if size <= self.short_most:
            return bytes((self.short | size,))
        for code, width in self.codes.items():
            if size < 1 << 8 * width:
                return bytes((code,)) + _SIZES[width].pack(size)
        raise StampError(f"{size} bytes or items are more than MessagePack can say")


_TEXT = _Sized(0xA0, 31, {0xD9: 1, 0xDA: 2, 0xDB: 4})
_BYTES = _Sized(0, -1, {0xC4: 1, 0xC5: 2, 0xC6: 4})
_ARRAY = _Sized(0x90, 15, {0xDC: 2, 0xDD: 4})
_MAP = _Sized(0x80, 15, {0xDE: 2, 0xDF: 4})
_EXTENSION = _Sized(0, -1, {0xC7: 1, 0xC8: 2, 0xC9: 4})


def pack_value(value: object, *, depth: int = 0) -> bytes:
    """Encode a value.

    It is None, a bool, an integer of 64 bits with or without sign, a float, text, bytes, a list of values, a dict whose
    keys are text, integers or bytes, or an `Extension`. Anything else raises `StampError`.
    """
    kind = type(value)
    if value is None or kind is bool:
        return bytes((_NIL if value is None else _TRUE if value else _FALSE,))
    if isinstance(value, int) and kind is int:
        return _pack_integer(value)
    if isinstance(value, float) and kind is float:
        return b"\xcb" + _NUMBERS[0xCB].pack(value)
    if isinstance(value, str):
        try:
            raw = value.encode()
        except UnicodeEncodeError:
            raise StampError("text with half of a surrogate pair cannot be sent") from None
        return _TEXT.head(len(raw)) + raw
    if isinstance(value, bytes):
        return _BYTES.head(len(value)) + value
    if isinstance(value, Extension):
        if type(value.code) is not int or not -128 <= value.code <= 127 or not isinstance(value.data, bytes):
            raise StampError(f"an Extension has a code from -128 to 127 and bytes, not {value!r:.60}")
        short = next((code for code, size in _FIXED_EXTENSIONS.items() if size == len(value.data)), None)
        head = _EXTENSION.head(len(value.data)) if short is None else bytes((short,))
        return head + struct.pack(">b", value.code) + value.data
    if kind is not list and kind is not dict:
        raise StampError(f"a {kind.__name__} cannot be sent; a payload is made of plain values, lists and dicts")
    if depth == MOST_DEPTH:
        raise StampError(f"more than {MOST_DEPTH} lists and dicts inside each other")
    if isinstance(value, list):
        return _ARRAY.head(len(value)) + b"".join(pack_value(item, depth=depth + 1) for item in value)
    assert isinstance(value, dict)
    out = [_MAP.head(len(value))]
    for key, item in value.items():
        _check_key(key)
        out += (pack_value(key), pack_value(item, depth=depth + 1))
    return b"".join(out)


def _pack_integer(value: int) -> bytes:
    if -32 <= value <= 127:
        return struct.pack(">b", value)
    for code in (0xCC, 0xCD, 0xCE, 0xCF) if value >= 0 else (0xD0, 0xD1, 0xD2, 0xD3):
        try:
            return bytes((code,)) + _NUMBERS[code].pack(value)
        except struct.error:
            continue
    raise StampError("an integer beyond 64 bits cannot be sent")


def _check_key(key: object) -> None:
    if type(key) not in (str, int, bytes):
        raise StampError(f"the keys of a map are text, integers or bytes, not {type(key).__name__}")


class MsgpackReader:
    """A reader of one value after the other; every failure is a `StampError` that names the byte."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def fail(self, expected: str) -> StampError:
        """Make the error for the current position."""
        return StampError(f"byte {self._position} of {len(self._data)}: expected {expected}")

    def value(self, *, depth: int = 0) -> Any:
        """Read the next value. Announced sizes are checked against the remaining bytes before memory is allocated."""
        code = self._bytes(1)[0]
        if code <= 0x7F or code >= 0xE0:
            return code if code <= 0x7F else code - 256
        if code in _CONSTANTS:
            return _CONSTANTS[code]
        if code in _NUMBERS:
            return self._number(_NUMBERS[code])
        if code in _FIXED_EXTENSIONS:
            return self._extension(_FIXED_EXTENSIONS[code])
        if (size := self._size(code, _TEXT)) is not None:
            return self._text(size)
        if (size := self._size(code, _BYTES)) is not None:
            return self._bytes(size)
        if (size := self._size(code, _EXTENSION)) is not None:
            return self._extension(size)
        if (size := self._size(code, _ARRAY)) is not None:
            self._check_items(size, depth)
            return [self.value(depth=depth + 1) for _ in range(size)]
        if (size := self._size(code, _MAP)) is not None:
            self._check_items(2 * size, depth)
            return self._map(size, depth)
        self._position -= 1
        raise self.fail(f"a value, found the byte {code:#x}, with which no value begins")

    def end(self) -> None:
        """Refuse bytes after the last value."""
        if self._position != len(self._data):
            raise self.fail(f"the end, found {len(self._data) - self._position} more bytes")

    def _map(self, size: int, depth: int) -> dict[Any, Any]:
        entries: dict[Any, Any] = {}
        for _ in range(size):
            start = self._position
            key = self.value(depth=depth + 1)
            if type(key) not in (str, int, bytes) or key in entries:
                self._position = start
                raise self.fail("a key of text, integer or bytes that the map does not have yet")
            entries[key] = self.value(depth=depth + 1)
        return entries

    def _size(self, code: int, kind: _Sized) -> int | None:
        """Read the length that a first byte announces; None if it begins another kind of value."""
        if kind.short <= code <= kind.short + kind.short_most:
            return code - kind.short
        width = kind.codes.get(code)
        return None if width is None else int(self._number(_SIZES[width]))

    def _check_items(self, count: int, depth: int) -> None:
        remaining = len(self._data) - self._position
        if count > remaining:
            raise self.fail(f"at most {remaining} items in the {remaining} remaining bytes, found {count}")
        if depth == MOST_DEPTH:
            raise self.fail(f"at most {MOST_DEPTH} arrays and maps inside each other")

    def _extension(self, size: int) -> Extension:
        return Extension(int(self._number(_NUMBERS[0xD0])), self._bytes(size))

    def _number(self, form: struct.Struct) -> Any:
        return form.unpack(self._bytes(form.size))[0]

    def _text(self, size: int) -> str:
        raw = self._bytes(size)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self._position -= size
            raise self.fail("text in UTF-8") from None

    def _bytes(self, size: int) -> bytes:
        start, stop = self._position, self._position + size
        if stop > len(self._data):
            raise self.fail(f"{size} bytes, found {len(self._data) - start}")
        self._position = stop
        return self._data[start:stop]
