"""Interpret names that are no event's id: an id in upper case, a span, a trace, a line, a quarantined report."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ledto.history.run import Run
from ledto.history.tables import Longs
from ledto.questions.event import Event, events_at

HEXADECIMAL = re.compile(r"[0-9a-f]{16}|[0-9a-f]{32}")
MOST_ROWS = 5_000_000
"""How many events are searched for a line of a name that may be the id of a trace or span, the newest first."""
FEW_ROWS = 1_000_000
"""How many events are searched for a line of any other name."""
SHOWN = 5
"""How many events a message lists."""
MOST_LISTED = 1_000
"""How many events of a line are searched for those to list."""


def other_spellings(asked: str) -> Iterator[tuple[str, str | None]]:
    """Yield ids that the name may mean, each with the line that the event has to be on, or None for any.

    Ids of spans and traces are written in lower case, and ``TRACE/SPAN`` and ``TRACE/SPAN/start`` name events of one span.
    """
    lower = asked.lower()
    parts = lower.split("/")
    if not HEXADECIMAL.fullmatch(parts[0]):
        return
    if lower != asked:
        yield lower, None
    if len(parts) > 1 and HEXADECIMAL.fullmatch(parts[1]):
        yield "/".join(parts[1:]), "/".join(parts[:2])


def on_line(run: Run, asked: str) -> Longs:
    """Find the positions, ascending, of events on a line of this name, or on the lines of a trace of this name."""
    parts = asked.lower().split("/")
    is_trace = all(HEXADECIMAL.fullmatch(part) for part in parts)
    names = [asked, asked.lower()] if is_trace else [asked]
    remaining = MOST_ROWS if is_trace else FEW_ROWS
    positions: list[Longs] = []
    for number in reversed(range(len(run.segments))):
        rows = int(run.segments.rows[number])
        remaining -= rows
        if remaining < 0:
            break
        if run.segments.lines_file[number] is None:
            continue
        lines = run.events(number, ["line"], 0, rows)["line"].combine_chunks()
        lines = lines if pa.types.is_dictionary(lines.type) else lines.dictionary_encode()
        lines = lines.combine_chunks() if isinstance(lines, pa.ChunkedArray) else lines
        texts = lines.dictionary.cast(pa.string())
        met = pc.is_in(texts, value_set=pa.array(names, pa.string()))
        if is_trace and len(parts) == 1:
            met = pc.or_(met, pc.starts_with(texts, f"{asked.lower()}/"))
        codes = np.flatnonzero(met.to_numpy(zero_copy_only=False))
        if len(codes):
            line_codes = lines.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            positions.append(np.flatnonzero(np.isin(line_codes, codes)) + int(run.segments.first_position[number]))
    return np.concatenate([np.empty(0, np.int64), *reversed(positions)])


def describe_choices(run: Run, asked: str, positions: Longs) -> str:
    """Say what the name stands for, and list some of its events: first those that failed, then the last ones."""
    events = events_at(run, positions[-MOST_LISTED:])
    telling = sorted(events, key=lambda event: (not event.error, -event.position))[:SHOWN]
    parts = asked.split("/")
    what = "a line"
    if all(HEXADECIMAL.fullmatch(part.lower()) for part in parts):
        what = "a trace" if len(parts) == 1 else "a span"
    several = f"{len(positions):,} event{'' if len(positions) == 1 else 's'}"
    listed = ", ".join(_named(event) for event in sorted(telling, key=lambda event: event.position))
    return f"{asked!r} is {what} of {several}: ask about one of these: {listed}"


def _named(event: Event) -> str:
    name = f" ({event.name}{', error' if event.error else ''})" if event.name else ""
    return f"{event.id}{name}"


def why_quarantined(run: Run, asked: str, process: str, seq: int | None) -> str | None:
    """Say why the report of an event is quarantined, and where it is; None if there is no such report."""
    for file in run.manifest.quarantine_files:
        for batch in run.file_batches(file):
            table = pa.Table.from_batches([batch])
            table = table.filter(pc.equal(table["outcome"], "quarantined"))
            for row in table.filter(pc.match_substring(pc.fill_null(table["text"], ""), asked)).to_pylist():
                if _document(row["text"]).get("id") == asked:
                    return f"{row['reason']} ({row['file']}:{row['place']})"
            if seq is None:
                continue
            for row in table.filter(pc.fill_null(pc.equal(table["process"], process), False)).to_pylist():
                if _document(row["text"]).get("seq") == seq:
                    return f"{row['reason']} ({row['file']}:{row['place']})"
    return None


def _document(text: str | None) -> dict[str, object]:
    """Parse the text of a report; empty if it is no JSON object."""
    try:
        document = json.loads(text or "")
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
