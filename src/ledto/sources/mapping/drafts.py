"""Look at the first lines of files in nobody's format: find their records, draft a mapping, and show rows made by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from ledto.sources.contract import FileSlice, SourceError
from ledto.sources.files import InputFile, find_files
from ledto.sources.mapping.source import Mapped
from ledto.sources.mapping.suggest import MappingDraft, suggest_mapping
from ledto.sources.records.contract import Fields
from ledto.sources.records.formats import HEAD_BYTES, RECORD_FORMATS, decode_head, sniff_records
from ledto.sources.records.lines import whole_lines
from ledto.sources.registry import recognise

LOOKED_AT_BYTES: Final = 4 << 20
"""How many decompressed bytes of a file are looked at, at most."""
MOST_RECORDS: Final = 5_000
"""How many records of a file are looked at, at most."""
PREVIEW_BYTES: Final = 256 << 10

_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?: ?(?:Z|[+-]\d\d:?\d\d))?"
_LEVEL = r"[A-Za-z]{4,9}"
PATTERNS: Final = (
    r'(?<client>\S+) \S+ (?<user>\S+) \[(?<time>[^\]]+)\] "(?<request>[^"]*)" (?<status>\d{3}) (?<bytes>\S+)(?<rest>.*)',
    rf"(?<time>{_ISO})\s+\[(?<thread>[^\]]+)\]\s+(?<level>{_LEVEL})\s+(?<logger>[\w.$/-]+)\s*[-:]+\s(?<message>.*)",
    rf"(?<time>{_ISO})\s+(?<level>{_LEVEL})\s+\d*\s*(?:---\s+)?\[\s*(?<thread>[^\]]+)\]\s+(?<logger>[\w.$/-]+)\s*[-:]+\s(?<message>.*)",
    rf"\[?(?<time>{_ISO})\]?\s+\[?(?<level>{_LEVEL})\]?\s+\[?(?<logger>[\w.$/-]+)\]?\s*[-:]+\s(?<message>.*)",
    rf"(?<time>{_ISO})\s*[-:]\s*(?<logger>[\w.$/-]+)\s*[-:]\s*(?<level>{_LEVEL})\s*[-:]\s*(?<message>.*)",
    rf"(?<time>{_ISO})\s+(?<host>[\w.-]+)\s+(?<app>[\w./-]+)(?:\[\d+\])?:\s(?<message>.*)",
    r"(?<time>\d{4}/\d\d/\d\d \d\d:\d\d:\d\d(?:\.\d+)?)\s+\[(?<level>[a-z]+)\]\s+(?<message>.*)",
    rf"\[?(?<time>{_ISO})\]?\s+\[?(?<level>[A-Z]{{4,9}})\]?:?\s+(?<message>.*)",
    rf"\[?(?<time>{_ISO})\]?\s+(?<message>.*)",
    r"(?<time>\d{4}/\d\d/\d\d \d\d:\d\d:\d\d(?:\.\d+)?)\s+(?<message>.*)",
)
"""Patterns of text that loggers commonly write, the most telling first."""
_LEAST_SHARE = 0.5
"""The share of lines that a pattern must match: others may be those of stack traces."""


@dataclass(frozen=True, slots=True)
class DraftedMapping:
    """A mapping for some files, drafted from their first records."""

    files: tuple[str, ...]
    format: str
    records: int
    """How many records were looked at."""
    unread: int
    """How many of them the format could not read."""
    draft: MappingDraft
    rows: tuple[dict[str, Any], ...]
    """Rows that the draft makes of the first file, as columns that are not null. Empty if it cannot be used yet."""


def draft_mapping(inputs: Sequence[str], *, rows: int = 10) -> DraftedMapping:
    """Draft a mapping for all files that `inputs` name, which must be of one format.

    Raises `SourceError` for files of several formats, for formats that need no mapping, and for text of which no pattern
    is known.
    """
    files = find_files(inputs, tuple({suffix for form in RECORD_FORMATS.values() for suffix in form.suffixes}))
    chosen: tuple[str, dict[str, Any]] | None = None
    records: list[Fields | None] = []
    heads = []
    for file in files:
        head = file.head(LOOKED_AT_BYTES)
        form = _find_format(file, head)
        if chosen is not None and form != chosen:
            raise SourceError(
                f"{file.name} is {form[0]}, and {files[0].name} is {chosen[0]}: give files of one format at a time"
            )
        chosen = form
        heads.append(head if len(head) < LOOKED_AT_BYTES else head[: head.rfind(b"\n") + 1])
        records += decode_head(form[0], _end_line(heads[-1]), form[1])[:MOST_RECORDS]
    if chosen is None:
        raise SourceError("there is no file to look at")
    read = [record for record in records if record is not None]
    draft = suggest_mapping(read, format=chosen[0], options=chosen[1])
    made = () if draft.missing else tuple(_preview(draft, files[0], heads[0], rows))
    return DraftedMapping(
        tuple(file.name for file in files), chosen[0], len(records), len(records) - len(read), draft, made
    )


def _find_format(file: InputFile, head: bytes) -> tuple[str, dict[str, Any]]:
    known = recognise(head[:HEAD_BYTES], file.suffix)
    if known is not None and known not in RECORD_FORMATS and head.strip():
        raise SourceError(f"{file.name} needs no mapping, it is {known}: ledto observe {file.name} --to HISTORY")
    sniffed = sniff_records(head)
    if sniffed is not None:
        return sniffed
    pattern = find_pattern(head)
    if pattern is not None:
        return "regex", {"pattern": pattern}
    lines = whole_lines(head)
    first = lines[0][:80].decode("utf-8", errors="backslashreplace") if lines else ""
    raise SourceError(
        f"no pattern is known for the lines of {file.name}, such as {first!r}: write a mapping with "
        'format = "regex" and a pattern with named groups; see docs/sources/text.md'
    )


def find_pattern(head: bytes) -> str | None:
    """Return the first pattern that matches most lines of a file that begins like this; None if none does."""
    lines = whole_lines(head)
    sample = _end_line(b"\n".join(lines))
    for pattern in PATTERNS:
        matched = decode_head("regex", sample, {"pattern": pattern, "continue": False})
        if matched and sum(record is not None for record in matched) >= _LEAST_SHARE * len(matched):
            return pattern
    return None


def _end_line(head: bytes) -> bytes:
    return head if head.endswith(b"\n") else head + b"\n"


def _preview(draft: MappingDraft, file: InputFile, head: bytes, count: int) -> list[dict[str, Any]]:
    """Make the first rows of a file by the draft, exactly as a run would."""
    short = head if len(head) <= PREVIEW_BYTES else head[: head.rfind(b"\n", 0, PREVIEW_BYTES) + 1] or head
    rows: list[dict[str, Any]] = []
    with TemporaryDirectory(prefix="ledto-map-") as folder:
        mapping = Path(folder) / "draft.toml"
        mapping.write_text(draft.to_toml(), encoding="utf-8")
        for batch in Mapped(mapping=str(mapping)).read(FileSlice(file.name, lambda at: BytesIO(short[at:]))):
            rows += [
                {name: value for name, value in row.items() if value not in (None, "")}
                for row in batch.slice(0, count - len(rows)).to_pylist()
            ]
            if len(rows) >= count:
                break
    return rows
