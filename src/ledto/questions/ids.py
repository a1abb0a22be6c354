"""What a name may stand for that is no event's own: an id in upper case, a span, a trace, a line, a report set aside."""

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
"""Events whose lines are looked through, the newest first."""
FEW_ROWS = 1_000_000
"""So many are looked through for any name; more only for what may be the id of a trace or span."""
SHOWN = 5
LOOKED_AT, MOST_GROUPS = 16_384, 16
"""Events that are looked at together for errors, and how often."""
MOST_LISTED = 1_000


def other_spellings(asked: str) -> Iterator[tuple[str, str | None]]:
    """Ids that the name may be meant for, and the line that such an event has to be on, if any.

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
    """Positions, ascending, of events on a line of this name, or on a line of a trace of this name."""
    parts = asked.lower().split("/")
    is_trace = all(HEXADECIMAL.fullmatch(part) for part in parts)
    names = [asked, asked.lower()] if is_trace else [asked]
    left = MOST_ROWS if is_trace else FEW_ROWS
    found: list[Longs] = []
    for number in reversed(range(len(run.segments))):
        rows = int(run.segments.rows[number])
        left -= rows
        if left < 0:
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
            own = lines.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            found.append(np.flatnonzero(np.isin(own, codes)) + int(run.segments.first_position[number]))
    return np.concatenate([np.empty(0, np.int64), *reversed(found)])


def choices(run: Run, asked: str, positions: Longs) -> str:
    """What the name stands for, and some of its events: those that failed first, then the last ones."""
    events = events_at(run, positions[-MOST_LISTED:])
    telling = sorted(events, key=lambda event: (not event.error, -event.position))[:SHOWN]
    parts = asked.split("/")
    what = "a line"
    if all(HEXADECIMAL.fullmatch(part.lower()) for part in parts):
        what = "a trace" if len(parts) == 1 else "a span"
    several = f"{len(positions):,} event{'' if len(positions) == 1 else 's'}"
    listed = ", ".join(_named(event) for event in sorted(telling, key=lambda event: event.position))
    return f"{asked!r} is {what} of {several}: ask about one of these: {listed}"


def worth_asking(run: Run) -> tuple[Event, ...]:
    """Up to `SHOWN` events, the newest first: some of the last errors, of different names, and the last event."""
    if not run.events_total:
        return ()
    last = run.events_total - 1
    found: dict[str, int] = {}
    for start in range(last - last % LOOKED_AT, max(-1, last - MOST_GROUPS * LOOKED_AT), -LOOKED_AT):
        places = np.arange(start, min(start + LOOKED_AT, run.events_total))
        rows = run.rows(places, ["error", "name"])
        failed = np.flatnonzero(pc.fill_null(rows["error"], False).to_numpy(zero_copy_only=False))[::-1]
        for row, name in zip(failed.tolist(), rows["name"].take(pa.array(failed)).to_pylist(), strict=True):
            if len(found) < SHOWN - 1:
                found.setdefault(name or "", start + row)
        if len(found) == SHOWN - 1:
            break
    return events_at(run, sorted({*found.values(), last}, reverse=True))


def _named(event: Event) -> str:
    name = f" ({event.name}{', error' if event.error else ''})" if event.name else ""
    return f"{event.id}{name}"


def set_aside(run: Run, asked: str, process: str, seq: int | None) -> str | None:
    """Why the report of an event was set aside, and where it is; None if no such report was."""
    for file in run.manifest.aside_files:
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
    try:
        found = json.loads(text or "")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
