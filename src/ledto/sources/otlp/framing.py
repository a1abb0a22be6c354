"""Which of its shapes a file of OTLP has, from its first bytes; the same answer wherever the file is cut."""

from __future__ import annotations

import re
from contextlib import closing
from typing import Final, Literal

from ledto.sources.contract import FileSlice, TornStream
from ledto.sources.json.extent import Unfit, value_end
from ledto.sources.lines import LINE_LIMIT_BYTES

Shape = Literal["lines", "document", "bare", "4 bytes", "varint"]

BOM: Final = b"\xef\xbb\xbf"
_READ_BYTES = 64 << 10
_JSON = re.compile(rb'\s*[{\[]\s*(?:"[A-Za-z_]|[}\]]|\Z)')
_RESOURCES_TAG = 0x0A
_IN_RESOURCES = (b"\x0a", b"\x12", b"\x1a", b"\xc2", b"")
"""What resource, scopes, schema and scopes of old begin with, or the file's end."""
_MOST_HIGH_BYTE = 4
"""Of a length in 4 bytes: no request has 64 MB."""


def shape_of(piece: FileSlice) -> Shape:
    """The shape; what is no OTLP at all is taken for lines, each of which is then complained of.

    JSON is of lines if the first line that begins like a request also ends as one.
    """
    with closing(piece.open_at(0)) as stream:
        head, ended = b"", False

        def has(size_bytes: int) -> bool:
            nonlocal head, ended
            parts = [head]
            missing = size_bytes - len(head)
            while missing > 0 and not ended:
                try:
                    part = stream.read(max(missing, _READ_BYTES))
                except TornStream:
                    part = b""
                ended = not part
                parts.append(part)
                missing -= len(part)
            head = b"".join(parts)
            return missing <= 0

        has(_READ_BYTES)
        if wire := _framing(head):
            return wire
        start = len(BOM) if head.startswith(BOM) else 0
        while start < LINE_LIMIT_BYTES:
            end = head.find(b"\n", start)
            while end < 0 and not ended and len(head) - start <= LINE_LIMIT_BYTES:
                searched = len(head)
                has(2 * searched)
                end = head.find(b"\n", searched)
            line = head[start : None if end < 0 else end].strip(b" \t\r")
            if line.startswith((b"{", b"[")):
                return "lines" if len(line) <= LINE_LIMIT_BYTES and _is_whole(line) else "document"
            if end < 0:
                break
            start = end + 1
        return "lines"


def _is_whole(line: bytes) -> bool:
    try:
        return value_end(line, 0, is_all=True) == len(line)
    except Unfit:
        return False


def _framing(head: bytes) -> Shape | None:
    """How protobuf is framed, if this is protobuf."""
    if len(head) < 2 or _JSON.match(head.removeprefix(BOM)):
        return None
    length, start = _varint(head, 1)
    if head[0] == _RESOURCES_TAG and length >= 0:
        return "bare" if head[start : start + 1] in _IN_RESOURCES else None
    if head[0] < _MOST_HIGH_BYTE and (head[4:5] in (b"\n", b"") or not any(head[:4])):
        return "4 bytes"
    length, start = _varint(head, 0)
    return "varint" if length > 0 and _is_request(head, start, start + length) else None


def _is_request(head: bytes, at: int, stop: int) -> bool:
    """Whether resources fill the message to its end, as far as can be seen."""
    while at < min(stop, len(head)):
        length, start = _varint(head, at + 1)
        if head[at] != _RESOURCES_TAG or length < 0 or head[start : start + 1] not in _IN_RESOURCES:
            return False
        at = start + length
    return at == stop or at > len(head)


def _varint(head: bytes, at: int) -> tuple[int, int]:
    """The number, or -1, and the position after it."""
    value = 0
    for end in range(at, min(at + 5, len(head))):
        value |= (head[end] & 127) << 7 * (end - at)
        if head[end] < 128:
            return value, end + 1
    return -1, 0
