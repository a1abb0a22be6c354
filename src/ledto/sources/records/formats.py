"""List the record formats by name, find out which one a file has, and decode the first records of a file."""

from __future__ import annotations

from typing import Any, Final

from ledto.sources.contract import SourceError
from ledto.sources.records.contract import Fields, Options, RecordFormat
from ledto.sources.records.journald import Journald
from ledto.sources.records.lines import JsonRecords, Logfmt, PlainText
from ledto.sources.records.pattern import Pattern
from ledto.sources.records.separated import CSV, TSV
from ledto.sources.records.syslog import Syslog

RECORD_FORMATS: Final[dict[str, RecordFormat]] = {
    each.name: each for each in (Journald(), JsonRecords(), Syslog(), Logfmt(), TSV, CSV, Pattern(), PlainText())
}
"""The formats by name, those first that are recognised most surely."""


def record_format(name: str) -> RecordFormat:
    """Return the format of that name. Raises `SourceError` for an unknown one."""
    if name not in RECORD_FORMATS:
        raise SourceError(f"there is no record format {name!r}; there are {', '.join(RECORD_FORMATS)}")
    return RECORD_FORMATS[name]


def sniff_records(head: bytes) -> tuple[str, dict[str, Any]] | None:
    """Return the name of the format of a file that begins like this, with its options; None if it fits none."""
    for name, form in RECORD_FORMATS.items():
        if (options := form.sniff(head)) is not None:
            return name, options
    return None


def decode_head(name: str, head: bytes, options: Options | None = None) -> list[Fields | None]:
    """Decode the records of the beginning of a file, without a last line that may be cut off; None for bad ones.

    Raises `SourceError` for an unknown format or wrong options.
    """
    decoder = record_format(name).decoder(options or {}, head)
    lines = head.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    places = range(1, len(lines))
    kept = [
        (line, place)
        for line, place in zip(lines[:-1], places, strict=True)
        if decoder.takes_blank_lines or line.strip(b" \t\r")
    ]
    return decoder.decode([line for line, _ in kept], [place for _, place in kept], is_last=True).records
