r"""Decode the JSON objects of many lines by msgspec; leave every line that it might read differently to the exact reader.

msgspec accepts what `ledto.sources.json.strict` refuses. So a line is left to the exact reader if it

- has a key twice, anywhere: msgspec silently keeps the last value. To find out, the decoded value is encoded again: it has
  as many colons as the line if and only if no member was lost. A line with a colon written as ``\u003a`` is left, too;
- may have an integer beyond 64 bits: 20 digits in a row, or 19 that begin with 92 or more;
- may be nested too deep, or has an escaped NUL character, which few columns may hold;
- has a key with a backslash, if texts of members are asked for: msgspec does not keep the key's own text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from ledto.sources.json.strict import MOST_DEPTH
from ledto.sources.json.typed import NOT_TAKEN
from ledto.sources.lines import BOM, LinesBlock

Object = dict[str, Any]
Texts = dict[str, Raw]
"""Each key with its value's own text."""

PART_BYTES: Final = 64 << 10
"""The size of lines that are decoded together: they should fit into a processor's cache."""

_decode_object = msgspec.json.Decoder(Object).decode
_decode_texts = msgspec.json.Decoder(Texts).decode
_encoder = msgspec.json.Encoder()
_DIGITS = bytes(ord("0") if chr(byte).isdigit() and byte < 128 else ord(" ") for byte in range(256))
_TWENTY_DIGITS = b"0" * 20
_NEARLY_64_BITS = re.compile(rb"9[2-9][0-9]{17}")
_SPELLED_OUT = (b"\\u003a", b"\\u003A", b"\\u0000")
_HALF_DEPTH = MOST_DEPTH // 2


def parts(block: LinesBlock) -> Iterator[tuple[int, bytes]]:
    """Yield whole lines of a block, about `PART_BYTES` at once, without a byte order mark, after the first one's number."""
    data, line = block.data, block.first_line
    start = len(BOM) if block.offset == 0 and data.startswith(BOM) else 0
    while start < len(data):
        stop = data.find(b"\n", start + PART_BYTES) + 1 or len(data)
        part = data[start:stop]
        yield line, part
        line += part.count(b"\n")
        start = stop


def has_large_integers(data: bytes) -> bool:
    """Return whether these bytes may have an integer beyond 64 bits; False means that they have none."""
    return _TWENTY_DIGITS in data.translate(_DIGITS) or _NEARLY_64_BITS.search(data) is not None


def is_unusual(data: bytes) -> bool:
    """Return whether one or more lines may have an escape that the checks cannot handle, or an integer beyond 64 bits."""
    return has_large_integers(data) or (b"\\u00" in data and any(spelled in data for spelled in _SPELLED_OUT))


def may_be_deep(line: bytes) -> bool:
    """Return whether the line may be nested beyond `MOST_DEPTH`; False means that it is not."""
    return line.count(b"{") > _HALF_DEPTH or line.count(b"[") > _HALF_DEPTH


def leave_losses(values: list[Any], lines: Sequence[bytes], data: bytes) -> None:
    """Replace values that lack members of their lines by None. `data` is the lines, joined."""
    colons = sum(line.count(b":") for value, line in zip(values, lines, strict=True) if value is None)
    if _encoder.encode_lines(values).count(b":") + colons == data.count(b":"):
        return
    for number, line in enumerate(lines):
        if values[number] is not None and _encoder.encode(values[number]).count(b":") != line.count(b":"):
            values[number] = None


def objects(lines: Sequence[bytes], data: bytes) -> tuple[list[Any], list[Texts]]:
    """Decode each line: return the objects, with None for a line that is left, and the texts of their members.

    `data` is the lines, joined by line ends.
    """
    values: list[Any] = []
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
        values.append(value)
        texts.append(text)
    leave_losses(values, lines, data)
    return values, texts


def written(texts: list[Texts]) -> list[str]:
    """Write objects with these members, each in its own text."""
    return _encoder.encode_lines(texts).decode().split("\n")[:-1]
