r"""Entries of systemd's journal: ``journalctl -o json``, one object a line, and ``journalctl -o export``.

An entry of the export format is a line ``FIELD=text`` for each field, and a blank line at its end. A field whose value is
not plain text is its name alone on a line, then its length as 64 bits, little-endian, then its bytes and a line end. Those
bytes may hold line ends, so a file of this form is read from its beginning.

A field that an entry has several times becomes a list. Bytes that are not UTF-8 are written as ``\xNN``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ledto.sources.lines import BOM, LINE_LIMIT_BYTES
from ledto.sources.records.contract import DecodedRecords, Fields, Options, RecordDecoder
from ledto.sources.records.lines import LineDecoder, json_record, most_are, whole_lines

TIME: Final = "__REALTIME_TIMESTAMP"
_NAME = re.compile(rb"[A-Z_][A-Z0-9_]{0,63}")
_LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True)
class Journald:
    """The journal in either form; the first byte of a file tells which."""

    name: str = "journald"
    suffixes: tuple[str, ...] = (".journal.json", ".export", ".json", ".jsonl")
    options: tuple[str, ...] = ()
    values_are_text: bool = True

    def joins_lines(self, options: Options, head: bytes) -> bool:
        return not _is_json(head)

    def sniff(self, head: bytes) -> dict[str, Any] | None:
        if _is_json(head):
            return {} if most_are(whole_lines(head), lambda line: b'"%b"' % TIME.encode() in line) else None
        return {} if re.search(rb"^%b=[0-9]+$" % TIME.encode(), head[:4096], re.MULTILINE) else None

    def decoder(self, options: Options, head: bytes) -> RecordDecoder:
        return LineDecoder(_entry_of) if _is_json(head) else _ExportDecoder()


def _is_json(head: bytes) -> bool:
    return head.removeprefix(BOM).lstrip(b" \t\r\n")[:1] == b"{"


def _entry_of(line: bytes) -> Fields:
    """Decode an entry that is a JSON object. Raises `BadRecord`."""
    return {name: _text_of(value) for name, value in json_record(line).items()}


def _text_of(value: Any) -> Any:
    """Return the text of a value that is written as a list of its bytes."""
    if isinstance(value, list):
        if value and all(type(byte) is int and 0 <= byte < 256 for byte in value):
            return bytes(value).decode("utf-8", errors="backslashreplace")
        return [_text_of(element) for element in value]
    return value


class _ExportDecoder:
    """A decoder of the export format. It keeps the bytes of the entry that has not ended."""

    takes_blank_lines = True

    def __init__(self) -> None:
        self._held = b""
        self._place = 1

    def decode(self, lines: Sequence[bytes], places: Sequence[int], *, is_last: bool) -> DecodedRecords:
        decoded = DecodedRecords()
        if lines:
            self._place = self._place if self._held else places[0]
            self._held += b"\n".join(lines) + b"\n"
        start = 0
        while start < len(self._held):
            end = self._add_entry(start, decoded, is_last=is_last)
            if end is None:
                break
            self._place += self._held.count(b"\n", start, end)
            start = end
        self._held = self._held[start:]
        return decoded

    def _add_entry(self, start: int, decoded: DecodedRecords, *, is_last: bool) -> int | None:
        """Add the entry that begins here; return where the next begins, or None if this one is not complete yet."""
        data, entry, at = self._held, Fields(), start
        bad: list[tuple[int, int]] = []
        while True:
            line_end = data.find(b"\n", at)
            if line_end < 0:
                if not is_last:
                    return None
                break
            line = data[at:line_end].rstrip(b"\r")
            if not line:
                at = line_end + 1
                break
            name, is_text, value = line.partition(b"=")
            after = line_end + 1
            if _NAME.fullmatch(name) is None:
                bad.append((at, line_end))
            elif is_text:
                _put(entry, name, value)
            else:
                value_end = self._after_bytes(line_end + 1, is_last=is_last)
                if value_end is None:
                    return None
                if value_end == after:
                    bad.append((at, line_end))
                else:
                    _put(entry, name, data[after + _LENGTH_BYTES : value_end - 1])
                after = value_end
            at = after
        for bad_start, bad_end in bad:
            place = self._place + data.count(b"\n", start, bad_start)
            decoded.add_bad("not-journald: no field of an entry", place, data[bad_start:bad_end])
        if entry:
            decoded.add(entry, self._place, data[start:at])
        return max(at, start + 1)

    def _after_bytes(self, at: int, *, is_last: bool) -> int | None:
        """Return the end of the value whose length stands here; None if it is not there yet, `at` if this is no length."""
        data = self._held
        if len(data) < at + _LENGTH_BYTES:
            return at if is_last else None
        length = int.from_bytes(data[at : at + _LENGTH_BYTES], "little")
        end = at + _LENGTH_BYTES + length
        if length > LINE_LIMIT_BYTES:
            return at
        if len(data) <= end:
            return at if is_last else None
        return end + 1 if data[end : end + 1] == b"\n" else at


def _put(entry: Fields, name: bytes, value: bytes) -> None:
    key, text = name.decode(), value.decode("utf-8", errors="backslashreplace")
    if key not in entry:
        entry[key] = text
    elif isinstance(entry[key], list):
        entry[key].append(text)
    else:
        entry[key] = [entry[key], text]
