"""Recognise the shape of an OTLP file from its first bytes. The answer is the same for every piece of a file.

Also the limits of requests in protobuf. This module does without the packages that decode it.
"""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import dataclass
from typing import Final, Literal

from ledto.sources.contract import FileSlice, TornStream
from ledto.sources.json.extent import Unfit, value_end
from ledto.sources.lines import BOM, LINE_LIMIT_BYTES

Shape = Literal["lines", "document", "bare", "4 bytes", "varint"]


_READ_BYTES = 64 << 10
_JSON = re.compile(rb'\s*[{\[]\s*(?:"[A-Za-z_]|[}\]]|\Z)')
_RESOURCES_TAG = 0x0A
_IN_RESOURCES = (b"\x0a", b"\x12", b"\x1a", b"\xc2", b"")
"""The first byte of the fields of a resource: resource, scopes, schema, scopes before OTLP 0.15; or the file's end."""
_FIRST_BYTE_LIMIT = 4
"""The first of the 4 bytes of a length is less: no request has 64 MB."""
_MALFORMED = -1
"""In place of a number that is no varint of at most 5 bytes."""


@dataclass(frozen=True, slots=True)
class WireLimits:
    """Limits for an untrusted request. Files have none."""

    record_bytes: int = LINE_LIMIT_BYTES
    """A longer record is quarantined without being decoded."""
    parts: int = 1 << 62
    """The number of resources, scopes and records together, at most."""


NO_LIMITS: Final = WireLimits()


def shape_of(piece: FileSlice) -> Shape:
    """Recognise the shape of a file. A file that is no OTLP counts as lines, each of which becomes a bad row.

    JSON has the shape "lines" if the first line that begins with a bracket is a whole value.
    """
    with closing(piece.open_at(0)) as stream:
        head, ended = b"", False

        def read_to(size_bytes: int) -> None:
            """Read until `head` has so many bytes, or the file ends."""
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

        read_to(_READ_BYTES)
        if framing := _framing(head):
            return framing
        start = len(BOM) if head.startswith(BOM) else 0
        while start < LINE_LIMIT_BYTES:
            end = head.find(b"\n", start)
            while end < 0 and not ended and len(head) - start <= LINE_LIMIT_BYTES:
                searched = len(head)
                read_to(2 * searched)
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
    """Return how protobuf is framed; None if this is not protobuf."""
    if len(head) < 2 or _JSON.match(head.removeprefix(BOM)):
        return None
    length, start = _varint(head, 1)
    if head[0] == _RESOURCES_TAG and length != _MALFORMED:
        return "bare" if head[start : start + 1] in _IN_RESOURCES else None
    if head[0] < _FIRST_BYTE_LIMIT and (head[4:5] in (b"\n", b"") or not any(head[:4])):
        return "4 bytes"
    length, start = _varint(head, 0)
    return "varint" if length > 0 and _is_request(head, start, start + length) else None


def _is_request(head: bytes, at: int, stop: int) -> bool:
    """Return whether resources fill the message to its end, as far as `head` reaches."""
    while at < min(stop, len(head)):
        length, start = _varint(head, at + 1)
        if head[at] != _RESOURCES_TAG or length == _MALFORMED or head[start : start + 1] not in _IN_RESOURCES:
            return False
        at = start + length
    return at == stop or at > len(head)


def _varint(head: bytes, at: int) -> tuple[int, int]:
    """Return the number at a position, or `_MALFORMED`, and the position after it."""
    value = 0
    for end in range(at, min(at + 5, len(head))):
        value |= (head[end] & 127) << 7 * (end - at)
        if head[end] < 128:
            return value, end + 1
    return _MALFORMED, 0
