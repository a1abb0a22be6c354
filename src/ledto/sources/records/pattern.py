r"""Lines of any text by a regular expression with named groups. The groups that match are the fields of a record.

One literal pattern, a line, and its record::

    (?<time>\S+ \S+) (?<level>[A-Z]+) (?<logger>\S+): (?<message>.*)

    2024-05-01 12:00:00,250 ERROR pay.cards: card declined

    {"time": "2024-05-01 12:00:00,250", "level": "ERROR", "logger": "pay.cards", "message": "card declined"}

The pattern must match a whole line, so that nothing of a line is lost. Lines that it does not match, as those of a stack
trace, become the field ``continuation`` of the record before them. Without such a record, they are bad records.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ledto.sources.contract import SourceError
from ledto.sources.records.contract import DecodedRecords, Fields, Options, RecordDecoder
from ledto.sources.records.lines import CONTINUATION, MOST_CONTINUATION_BYTES, text_of_line
from ledto.sources.regex.timed import TimedPattern, compile_timed
from ledto.sources.rows import BadRecord

PATTERN, CONTINUE = "pattern", "continue"

_NO_MATCH = "no-match: the line does not match the pattern"
_GROUP = re.compile(r"\(\?<(?![=!])")


@dataclass(frozen=True, slots=True)
class Pattern:
    """Lines by the option ``pattern``. With ``continue = false``, lines that do not match are bad records."""

    name: str = "regex"
    suffixes: tuple[str, ...] = (".log", ".txt")
    options: tuple[str, ...] = (PATTERN, CONTINUE)
    values_are_text: bool = True

    def joins_lines(self, options: Options, head: bytes) -> bool:
        return bool(options.get(CONTINUE, True))

    def sniff(self, head: bytes) -> dict[str, Any] | None:
        return None

    def decoder(self, options: Options, head: bytes) -> RecordDecoder:
        return _PatternDecoder(compile_pattern(options.get(PATTERN)), joins=bool(options.get(CONTINUE, True)))


def compile_pattern(pattern: object) -> TimedPattern:
    """Compile a pattern with named groups, written as in Python or as in JavaScript. Raises `SourceError`."""
    if not isinstance(pattern, str) or not pattern:
        raise SourceError(
            "the format regex needs a pattern with named groups, (?<time>...): give it in the mapping, or with --regex"
        )
    try:
        compiled = compile_timed(_GROUP.sub("(?P<", pattern))
    except ValueError as error:
        raise SourceError(f"the pattern is no regular expression: {error}: {pattern!r:.200}") from None
    if not compiled.names:
        raise SourceError(f"the pattern has no named groups, as (?<time>...): {pattern!r:.200}")
    return compiled


class _PatternDecoder:
    """A decoder that keeps the last record until the next one begins."""

    takes_blank_lines = False

    def __init__(self, pattern: TimedPattern, *, joins: bool) -> None:
        self._pattern = pattern
        self._joins = joins
        self._open: tuple[Fields, int, list[bytes]] | None = None
        self._size_bytes = 0

    def decode(self, lines: Sequence[bytes], places: Sequence[int], *, is_last: bool) -> DecodedRecords:
        decoded = DecodedRecords()
        for line, place in zip(lines, places, strict=True):
            try:
                record = self._pattern.named_groups(text_of_line(line))
            except BadRecord as error:
                self._close(decoded)
                decoded.add_bad(str(error), place, line)
                continue
            if record is not None:
                self._close(decoded)
                if self._joins:
                    self._open, self._size_bytes = (record, place, [line]), 0
                else:
                    decoded.add(record, place, line)
            elif self._open is not None and self._size_bytes + len(line) <= MOST_CONTINUATION_BYTES:
                self._open[2].append(line)
                self._size_bytes += len(line)
            else:
                self._close(decoded)
                decoded.add_bad(_NO_MATCH, place, line)
        if is_last:
            self._close(decoded)
        return decoded

    def _close(self, decoded: DecodedRecords) -> None:
        """Add the record that was open, with the lines that were joined to it."""
        if self._open is None:
            return
        record, place, lines = self._open
        self._open = None
        if len(lines) > 1:
            more = "\n".join(text_of_line(line) for line in lines[1:])
            record[CONTINUATION] = f"{record[CONTINUATION]}\n{more}" if CONTINUATION in record else more
        decoded.add(record, place, b"\n".join(lines))
