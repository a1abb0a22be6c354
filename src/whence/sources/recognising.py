"""Recognise the format of a file by its first bytes."""

from __future__ import annotations

import re
from typing import Final

HEAD_BYTES: Final = 64 << 10
"""How many decompressed bytes of a file are read to recognise it."""

_MARKS: Final = (
    ("otlp", re.compile(rb'"(?:resource|scope)_?(?:spans|logs)"', re.IGNORECASE)),
    ("tracing", re.compile(rb'"TracerIdentity"')),
    ("jaeger", re.compile(rb'"traceID"')),
    ("zipkin", re.compile(rb'"traceId"\s*:.*"id"\s*:|"id"\s*:.*"traceId"\s*:', re.DOTALL)),
    ("whence", re.compile(rb'"process"')),
)
"""Text that the JSON of each format always has, the most specific first."""
_VECTOR = re.compile(rb"^\S+ \{[^\n]*\}[ \t\r]*$", re.MULTILINE)
"""A line of a log for ShiViz with a host and a clock, as most programs write it."""
_PROTOBUF = re.compile(rb"\n|\0[\0-\xff]{3}\n|[\x80-\xff]{1,4}[\0-\x7f]\n", re.DOTALL)
"""A first field of type message, perhaps after its length in one of the two usual encodings."""
_TEXT_SUFFIXES = frozenset({".json", ".jsonl", ".ndjson", ".log", ".txt"})


def recognise(head: bytes, suffix: str) -> str | None:
    """Guess the format of a file from its first bytes and the suffix of its name; None if no format fits.

    HAZARD: damaged and mixed files may mislead it.
    """
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    if not text:
        return "whence"
    if text[:1] in b"{[" and (format_name := next((name for name, mark in _MARKS if mark.search(text)), None)):
        return format_name
    if _VECTOR.search(text):
        return "shiviz"
    is_text = suffix in _TEXT_SUFFIXES or not _is_binary(head)
    return "otlp" if not is_text and _PROTOBUF.match(head) else None


def _is_binary(head: bytes) -> bool:
    return any(byte < 9 or 13 < byte < 32 for byte in head[:256])
