"""Formats whose records are single lines: JSON, logfmt and plain text; and what formats share to look at heads of files."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ledto.sources.json.strict import members
from ledto.sources.lines import BOM
from ledto.sources.records.contract import DecodedRecords, Fields, Options, RecordDecoder
from ledto.sources.rows import BadRecord

MESSAGE: Final = "message"
"""The field that holds the text of a plain line, and what is left of others."""
CONTINUATION: Final = "continuation"
"""The field that holds further lines of a record, as those of a stack trace."""
MOST_CONTINUATION_BYTES: Final = 256 << 10
"""The size of the lines that are joined to a record, at most."""

_MOST_HEAD_LINES = 50
_PAIR = re.compile(r'([^\s="\x00-\x1f]+)(?:=(?:"((?:[^"\\]|\\.)*)"|([^\s"]*)))?(?=\s|$)')
_PAIRS = re.compile(rf"\s*(?:{_PAIR.pattern}\s*)+")
_decode_text = msgspec.json.Decoder(str).decode


def whole_lines(head: bytes) -> list[bytes]:
    """Return the first lines of a file that are not blank, without the last one if it may be cut off."""
    lines = head.removeprefix(BOM).split(b"\n")
    whole = lines[:-1] if len(lines) > 1 else lines
    return [line.rstrip(b"\r") for line in whole[:_MOST_HEAD_LINES] if line.strip(b" \t\r")]


def most_are(lines: Sequence[bytes], fits: Callable[[bytes], bool]) -> bool:
    """Return whether at least four of five lines fit; False without lines."""
    return bool(lines) and 5 * sum(map(fits, lines)) >= 4 * len(lines)


def text_of_line(line: bytes) -> str:
    """Decode a line without the carriage return at its end. Raises `BadRecord` if it is not UTF-8."""
    try:
        return line.decode("utf-8").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise BadRecord("not-utf8", f"byte {error.start} of the record: {error.reason}") from None


@dataclass(frozen=True, slots=True)
class LineDecoder:
    """A decoder of lines that are one record each."""

    record_of: Callable[[bytes], Fields]
    """Decodes one line. Raises `BadRecord`."""
    takes_blank_lines: bool = False

    def decode(self, lines: Sequence[bytes], places: Sequence[int], *, is_last: bool) -> DecodedRecords:
        """Decode each line."""
        records: list[Fields | None] = []
        problems: dict[int, str] = {}
        for number, line in enumerate(lines):
            try:
                records.append(self.record_of(line))
            except BadRecord as error:
                records.append(None)
                problems[number] = str(error)
        return DecodedRecords(records, list(places), list(lines), problems)


@dataclass(frozen=True, slots=True)
class JsonRecords:
    """JSON objects, one on each line."""

    name: str = "json"
    suffixes: tuple[str, ...] = (".jsonl", ".ndjson", ".json", ".log")
    options: tuple[str, ...] = ()
    values_are_text: bool = False

    def joins_lines(self, options: Options, head: bytes) -> bool:
        return False

    def sniff(self, head: bytes) -> dict[str, Any] | None:
        return {} if most_are(whole_lines(head), _is_object) else None

    def decoder(self, options: Options, head: bytes) -> RecordDecoder:
        return LineDecoder(json_record)


def json_record(line: bytes) -> Fields:
    """Decode a JSON object. Raises `BadRecord`."""
    return {name: value for name, (value, _, _) in members(line).items()}


def _is_object(line: bytes) -> bool:
    try:
        members(line)
    except BadRecord:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Logfmt:
    """Lines of ``key=value`` and ``key="a value"``. A key alone is true."""

    name: str = "logfmt"
    suffixes: tuple[str, ...] = (".logfmt", ".log")
    options: tuple[str, ...] = ()
    values_are_text: bool = True

    def joins_lines(self, options: Options, head: bytes) -> bool:
        return False

    def sniff(self, head: bytes) -> dict[str, Any] | None:
        return {} if most_are(whole_lines(head), _is_logfmt) else None

    def decoder(self, options: Options, head: bytes) -> RecordDecoder:
        return LineDecoder(logfmt_record)


def logfmt_record(line: bytes) -> Fields:
    """Decode a line of logfmt. Raises `BadRecord`, also for a line without any ``key=value``."""
    text = text_of_line(line)
    usual = usual_logfmt(text)
    if usual is not None:
        return usual
    if "=" not in text or _PAIRS.fullmatch(text) is None:
        raise BadRecord(
            "not-logfmt", "a line has pairs of key=value, and values with spaces or quotes in double quotes"
        )
    pairs = _PAIR.findall(text)
    if '"' in text or len(text.split()) != text.count("="):
        record = {key: _value(pair, text) for pair in _PAIR.finditer(text) if (key := pair[1])}
    else:
        record = {key: value for key, _, value in pairs}
    if len(record) < len(pairs):
        keys = [pair[0] for pair in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise BadRecord("duplicate-key", f"{twice[:60]!r} is given twice")
    return record


def usual_logfmt(text: str) -> Fields | None:
    """Decode a line without escapes and keys alone, in a third of the time; None for other lines."""
    # What stands outside of quotes and what stands inside alternate.
    *segments, outside = text.split('"')
    if "\\" in text or len(segments) % 2 or not text.isprintable():
        return None
    pairs: list[Any] = []
    for at in range(0, len(segments), 2):
        *tokens, key = segments[at].split(" ")
        after = segments[at + 2] if at + 2 < len(segments) else outside
        if key[-1:] != "=" or key.count("=") > 1 or (after and after[0] != " "):
            return None
        pairs += [token.split("=", 1) for token in tokens if token]
        pairs.append((key[:-1], segments[at + 1]))
    pairs += [token.split("=", 1) for token in outside.split(" ") if token]
    try:
        record: Fields = dict(pairs)
    except ValueError:
        # A token without a sign is a key alone.
        return None
    return record if len(record) == len(pairs) and record and "" not in record else None


def _value(pair: re.Match[str], text: str) -> str:
    if pair[2] is None:
        # A key alone means true; a key with nothing after its sign means empty text.
        return "true" if pair[3] is None else pair[3]
    quoted = pair[2]
    if "\\" not in quoted:
        return quoted
    try:
        return _decode_text(f'"{quoted}"')
    except (msgspec.MsgspecError, ValueError):
        return quoted.replace('\\"', '"').replace("\\\\", "\\")


def _is_logfmt(line: bytes) -> bool:
    """Return whether a line is surely logfmt: two pairs or more, and no more keys alone than pairs."""
    try:
        record = logfmt_record(line)
    except BadRecord:
        return False
    return line.count(b"=") >= 2 and len(record) <= 2 * line.count(b"=")


@dataclass(frozen=True, slots=True)
class PlainText:
    """Lines of any text. Each is the field ``message`` of its record.

    Lines of a stack trace, which were joined to the line before them, are the field ``continuation``.
    """

    name: str = "text"
    suffixes: tuple[str, ...] = (".log", ".txt")
    options: tuple[str, ...] = ()
    values_are_text: bool = True

    def joins_lines(self, options: Options, head: bytes) -> bool:
        return False

    def sniff(self, head: bytes) -> dict[str, Any] | None:
        return None

    def decoder(self, options: Options, head: bytes) -> RecordDecoder:
        return LineDecoder(_text_record)


def _text_record(line: bytes) -> Fields:
    message, is_joined, more = text_of_line(line).partition("\n")
    return {MESSAGE: message.removesuffix("\r"), CONTINUATION: more} if is_joined else {MESSAGE: message}
