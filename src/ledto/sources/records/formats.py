"""List the record formats by name, find out which one a file has, and decode the first records of a file."""

from __future__ import annotations

from typing import Any, Final

from ledto.sources.contract import SourceError
from ledto.sources.lines import BOM
from ledto.sources.records.contract import Fields, Options, RecordFormat
from ledto.sources.records.journald import Journald
from ledto.sources.records.lines import JsonRecords, Logfmt, PlainText, whole_lines
from ledto.sources.records.pattern import Pattern
from ledto.sources.records.separated import CSV, TSV, Separated, column_names
from ledto.sources.records.syslog import Syslog

RECORD_FORMATS: Final[dict[str, RecordFormat]] = {
    each.name: each for each in (Journald(), JsonRecords(), Syslog(), Logfmt(), TSV, CSV, Pattern(), PlainText())
}
"""The formats by name, those first that are recognised most surely."""


HEAD_BYTES: Final = 64 << 10
"""How many decompressed bytes of a file are looked at to recognise it."""


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


def sniff_container(head: bytes) -> tuple[str, dict[str, Any]] | None:
    """Do the same for lines of a container, of which up to a half may be plain text between records."""
    sniffed = sniff_records(head)
    if sniffed is not None:
        return sniffed
    lines = whole_lines(head)
    for name in ("json", "logfmt"):
        form = RECORD_FORMATS[name]
        fitting = sum(form.sniff(line + b"\n") is not None for line in lines)
        if lines and 2 * fitting >= len(lines):
            return name, {}
    return None


def field_names(name: str, head: bytes, options: Options | None = None) -> set[str]:
    """Return the names of the fields of a file that begins like this; of a table, those of all columns."""
    form = record_format(name)
    if isinstance(form, Separated):
        return {*column_names(form, options or {}, head)}
    return {key for record in decode_head(name, head, options) if record is not None for key in record}


def decode_head(name: str, head: bytes, options: Options | None = None) -> list[Fields | None]:
    """Decode the records of the first `HEAD_BYTES` of a file, or of all of it; None for bad ones.

    Raises `SourceError` for an unknown format or wrong options.
    """
    decoder = record_format(name).decoder(options or {}, head)
    lines = head.removeprefix(BOM).split(b"\n")
    if len(head) >= HEAD_BYTES or not lines[-1]:
        lines.pop()
    kept = [
        (line, place) for place, line in enumerate(lines, start=1) if decoder.takes_blank_lines or line.strip(b" \t\r")
    ]
    return decoder.decode([line for line, _ in kept], [place for _, place in kept], is_last=True).records
