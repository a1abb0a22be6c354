r"""JSON objects of many lines, decoded by msgspec; whatever might be read in another way is left to the exact reader.

msgspec lets through what `ledto.sources.json.strict` refuses. So a line is left if it

- has a key twice, anywhere. msgspec keeps the last value without a word. What was decoded is written again: it has as many
  colons as the line if and only if no member was lost, unless a colon is spelled ``\u003a``, which is left as well;
- may have an integer beyond 64 bits: some 20 digits in a row, or 19 that begin with 92 or more;
- may be nested too deep, or spells a NUL character, which few columns may hold;
- has a key with a backslash, where texts of members are asked for: its own text is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from ledto.sources.json.strict import MOST_DEPTH
from ledto.sources.lines import LinesBlock
from ledto.sources.native.lines import BOM

Object = dict[str, Any]
Texts = dict[str, Raw]
"""Key -> the value's own text."""

NOT_TAKEN: Final = (msgspec.MsgspecError, ValueError, RecursionError)
"""What decoding raises. Bytes that are no UTF-8 are a `ValueError`."""

PART_BYTES: Final = 64 << 10
"""Of lines that are decoded together: few enough for the processor's cache."""

_decode_object = msgspec.json.Decoder(Object).decode
_decode_texts = msgspec.json.Decoder(Texts).decode
_encoder = msgspec.json.Encoder()
_DIGITS = bytes(ord("0") if chr(byte).isdigit() and byte < 128 else ord(" ") for byte in range(256))
_TWENTY_DIGITS = b"0" * 20
_NEARLY_64_BITS = re.compile(rb"9[2-9][0-9]{17}")
_SPELLED_OUT = (b"\\u003a", b"\\u003A", b"\\u0000")
_HALF_DEPTH = MOST_DEPTH // 2


def parts(block: LinesBlock) -> Iterator[tuple[int, bytes]]:
    """Whole lines of a block, about `PART_BYTES` at once, without a byte order mark, and the number of the first of them."""
    data, line = block.data, block.first_line
    start = len(BOM) if block.offset == 0 and data.startswith(BOM) else 0
    while start < len(data):
        stop = data.find(b"\n", start + PART_BYTES) + 1 or len(data)
        part = data[start:stop]
        yield line, part
        line += part.count(b"\n")
        start = stop


def has_large_integers(data: bytes) -> bool:
    """Whether integers beyond 64 bits may be in these bytes; False means that none is."""
    return _TWENTY_DIGITS in data.translate(_DIGITS) or _NEARLY_64_BITS.search(data) is not None


def is_unusual(data: bytes) -> bool:
    """Whether a line, or some line of several, may spell a character that upsets the checks, or have a large integer."""
    return has_large_integers(data) or (b"\\u00" in data and any(spelled in data for spelled in _SPELLED_OUT))


def may_be_deep(line: bytes) -> bool:
    """Whether the line may be nested beyond `MOST_DEPTH`; False means that it is not."""
    return line.count(b"{") > _HALF_DEPTH or line.count(b"[") > _HALF_DEPTH


def leave_losses(values: list[Any], lines: Sequence[bytes], data: bytes) -> None:
    """Put None for values that do not hold all members of their lines; `data` is the lines together."""
    colons = sum(line.count(b":") for value, line in zip(values, lines, strict=True) if value is None)
    if _encoder.encode_lines(values).count(b":") + colons == data.count(b":"):
        return
    for number, line in enumerate(lines):
        if values[number] is not None and _encoder.encode(values[number]).count(b":") != line.count(b":"):
            values[number] = None


def objects(lines: Sequence[bytes], data: bytes) -> tuple[list[Any], list[Texts]]:
    """The object that each line is, and the texts of its members; None for a line that must be left.

    `data` is the lines together, with line ends between them.
    """
    found: list[Any] = []
    texts: list[Texts] = []
    check_each, has_backslashes = is_unusual(data), b"\\" in data
    for line in lines:
        value, text = None, {}
        try:
            if line.startswith(b"{") and not (may_be_deep(line) or (check_each and is_unusual(line))):
                text = _decode_texts(line)
                if not has_backslashes or line.count(b"\\") == b"".join(text.values()).count(b"\\"):
                    value = _decode_object(line)
        except NOT_TAKEN:
            pass
        found.append(value)
        texts.append(text)
    leave_losses(found, lines, data)
    return found, texts


def written(texts: list[Texts]) -> list[str]:
    """Objects with these members, each in its own text."""
    return _encoder.encode_lines(texts).decode().split("\n")[:-1]
