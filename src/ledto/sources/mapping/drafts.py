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
from ledto.sources.mapping.reading import FileLayout
from ledto.sources.mapping.source import Mapped
from ledto.sources.mapping.suggest import MappingDraft, suggest_mapping
from ledto.sources.records.formats import HEAD_BYTES, RECORD_FORMATS, decode_head, sniff_container, sniff_records
from ledto.sources.records.lines import whole_lines
from ledto.sources.registry import recognise

LOOKED_AT_BYTES: Final = 4 << 20
"""How many decompressed bytes of a file are looked at, at most."""
MOST_RECORDS: Final = 5_000
"""How many records of a file are looked at, at most."""
PREVIEW_BYTES: Final = 256 << 10
_LEAST_ROWS = 10
"""How many rows are made at least, to see whether a draft fits."""

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


class UnfitDraft(SourceError):
    """A draft by which most records of its files cannot be read."""


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
    left_out: tuple[str, ...] = ()
    """Why files are not among `files`, a sentence for each: they have another format, or need no mapping."""


@dataclass(frozen=True, slots=True)
class _LookedAt:
    """The beginning of a file, in whole lines, and the format of its records."""

    file: InputFile
    head: bytes
    layout: FileLayout
    format: str
    options: dict[str, Any]


def draft_mapping(inputs: Sequence[str], *, rows: int = 10) -> DraftedMapping:
    """Draft a mapping for the files that `inputs` name, or for most of them if they are of several formats.

    Raises `SourceError` if all are of formats that need no mapping, or are text of which no pattern is known, and
    `UnfitDraft` for a draft that reads less than half of the first rows.
    """
    files = find_files(inputs, tuple({suffix for form in RECORD_FORMATS.values() for suffix in form.suffixes}))
    groups: dict[str, list[_LookedAt]] = {}
    left_out = []
    for file in files:
        try:
            looked_at = _look_at(file)
        except SourceError as refused:
            left_out.append(str(refused))
            continue
        sort = repr((looked_at.format, looked_at.options, looked_at.layout.wrapper is not None))
        groups.setdefault(sort, []).append(looked_at)
    if not groups:
        raise SourceError("; ".join(left_out) or "there is no file to look at")
    chosen = max(groups.values(), key=len)
    first = chosen[0]
    left_out += [
        f"{other.file.name} is {_called(other)}, and {first.file.name} is {_called(first)}: draft another mapping for it"
        for group in groups.values()
        if group is not chosen
        for other in group
    ]
    records = [
        record
        for each in chosen
        for record in decode_head(each.format, _end_line(each.layout.head), each.options)[:MOST_RECORDS]
    ]
    read = [record for record in records if record is not None]
    draft = suggest_mapping(
        read,
        format=first.format,
        options=first.options,
        in_container=first.layout.wrapper is not None,
        names_container=all(each.layout.names_container for each in chosen),
    )
    made = [] if draft.missing else _preview(draft, first, max(rows, _LEAST_ROWS))
    _check_fit(made, first)
    return DraftedMapping(
        tuple(each.file.name for each in chosen),
        first.format,
        len(records),
        len(records) - len(read),
        draft,
        tuple(made[:rows]),
        tuple(left_out),
    )


def _look_at(file: InputFile) -> _LookedAt:
    """Find out how a file is read. Raises `SourceError` if no mapping can be drafted for it."""
    head = file.head(LOOKED_AT_BYTES)
    head = _end_line(head if len(head) < LOOKED_AT_BYTES else head[: head.rfind(b"\n") + 1] or head)
    known = recognise(head[:HEAD_BYTES], file.suffix)
    if known is not None and known not in RECORD_FORMATS and head.strip():
        raise SourceError(f"{file.name} needs no mapping, it is {known}: ledto observe {file.name} --to HISTORY")
    layout = FileLayout(file.name, head)
    sniffed = sniff_records(head) if layout.wrapper is None else sniff_container(layout.head)
    if sniffed is None and (pattern := find_pattern(layout.head)) is not None:
        sniffed = "regex", {"pattern": pattern}
    if sniffed is not None:
        return _LookedAt(file, head, layout, *sniffed)
    if layout.wrapper is not None:
        raise SourceError(
            f"{file.name} needs no mapping, it is plain text of a container: ledto observe {file.name} --to HISTORY"
        )
    lines = whole_lines(head)
    if not lines:
        raise SourceError(f"{file.name} is empty: there is nothing to draft a mapping from")
    first = lines[0][:80].decode("utf-8", errors="backslashreplace")
    raise SourceError(
        f"no pattern is known for the lines of {file.name}, such as {first!r}: write a mapping with "
        'format = "regex" and a pattern with named groups; see docs/sources/text.md'
    )


def _called(looked_at: _LookedAt) -> str:
    pattern = looked_at.options.get("pattern")
    form = looked_at.format if pattern is None else f"text that matches {pattern}"
    return form if looked_at.layout.wrapper is None else f"{form} of a container"


def _check_fit(rows: Sequence[dict[str, Any]], looked_at: _LookedAt) -> None:
    """Raise `UnfitDraft` if most of these rows are bad: such a draft would mislead."""
    reasons = [row["reason"] for row in rows if "reason" in row]
    if 2 * len(reasons) > len(rows):
        raise UnfitDraft(
            f"no mapping can be drafted for {looked_at.file.name}: by the best guess, {len(reasons)} of its first "
            f"{len(rows)} records cannot be read, as {reasons[0]}. Write one: docs/sources/mapping.md says how"
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


def _preview(draft: MappingDraft, looked_at: _LookedAt, count: int) -> list[dict[str, Any]]:
    """Make the first rows of a file by the draft, exactly as a run would."""
    file, head = looked_at.file, looked_at.head
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
