"""Which format a file is of, by its first bytes: people have many, and know them by their tools' names, if at all."""

from __future__ import annotations

import re
from typing import Final

HEAD_BYTES: Final = 64 << 10
"""How much of a file is looked at, decompressed."""

_MARKS: Final = (
    ("otlp", re.compile(rb'"(?:resource|scope)_?(?:spans|logs)"', re.IGNORECASE)),
    ("tracing", re.compile(rb'"TracerIdentity"')),
    ("jaeger", re.compile(rb'"traceID"')),
    ("zipkin", re.compile(rb'"traceId"\s*:.*"id"\s*:|"id"\s*:.*"traceId"\s*:', re.DOTALL)),
    ("whence", re.compile(rb'"process"')),
)
"""What the JSON of each format cannot do without, most telling first."""
_VECTOR = re.compile(rb"^\S+ \{[^\n]*\}[ \t\r]*$", re.MULTILINE)
"""A line of a log for ShiViz as most programs write them: host and clock."""
_PROTOBUF = re.compile(rb"\n|\0[\0-\xff]{3}\n|[\x80-\xff]{1,4}[\0-\x7f]\n", re.DOTALL)
"""A first field of type message; before it possibly its length, in one of the two ways that are in use."""
_TEXT_SUFFIXES = frozenset({".json", ".jsonl", ".ndjson", ".log", ".txt"})


def recognise(head: bytes, suffix: str) -> str | None:
    """The format of a file that begins with these bytes and whose name ends so; None for one that nothing speaks for.

    A guess, which looks for what a format cannot do without; damaged and mixed files may mislead it.
    """
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    if not text:
        return "whence"
    if text[:1] in b"{[" and (found := next((name for name, mark in _MARKS if mark.search(text)), None)):
        return found
    if _VECTOR.search(text):
        return "shiviz"
    is_text = suffix in _TEXT_SUFFIXES or not _is_binary(head)
    return "otlp" if not is_text and _PROTOBUF.match(head) else None


def _is_binary(head: bytes) -> bool:
    return any(byte < 9 or 13 < byte < 32 for byte in head[:256])
