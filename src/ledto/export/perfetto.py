"""Write a trace for Perfetto and chrome://tracing, in the JSON of Chrome's trace events.

In a history without lines, a computation is a process of the trace, and a process is a thread. In one with lines, a
process is a process of the trace, and each of its lines is a thread. An event is a short slice. An arrow leads from a send
to each of its receives; it has another category if the cause is only possible. The start and the end of a span are one
slice if it lies within the slices that are open when it starts, since slices of one thread must nest.

Times are microseconds since the first wall time of the history, with three decimals. Since 1970 they would be too large:
readers keep 53 bits, and would lose the nanoseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import pyarrow.compute as pc

from ledto.export.events import Stretches
from ledto.export.names import label
from ledto.export.times import Showing, Timeline
from ledto.questions.event import Event

LONGEST = 1_000
"""The length of an event's slice at most, in nanoseconds. It ends before the next event of its track."""
ARROW_AT = 2
"""Nanoseconds from an event's time to the ends of its arrows, which are strictly inside of its slice."""
LAST = 4
"""The length of the slice of a span's end, in nanoseconds. The span's slice ends `ARROW_AT` later."""
MESSAGE, POSSIBLE = "message", "possible"
"""The names and categories of arrows."""
START = "/start"
"""The suffix of the id of a span's start. The rest is the id of its end."""

Record = dict[str, Any]
Places = list[dict[str, int]]


def write_perfetto(stretches: Stretches, sink: BinaryIO, showing: Showing) -> Iterator[int]:
    """Write the trace; yield the number of events of each stretch."""
    run = stretches.run
    start = pc.min(run.processes.table["first_time"]).as_py() or 0
    unit = run.manifest.unit
    about = {"start": start, "unit": unit, "times": showing.times}
    sink.write(f'{{"displayTimeUnit":"ns","otherData":{_text(about)},"traceEvents":[\n'.encode())
    timeline = Timeline(unit, start, showing)
    drawn = left_out = 0
    arrow_at = 0 if showing.wall else ARROW_AT
    tracks = _Tracks(stretches)
    slices = _AsTheyAre(timeline.tick) if showing.wall else _Nested()
    elements = _Elements(sink)
    records: list[Record] = []
    for stretch in stretches.iterate():
        codes, uses = stretch.code.tolist(), stretch.uses.tolist()
        for row, event in enumerate(stretches.events(stretch)):
            line = stretch.lines[row].line if stretch.lines else None
            track = tracks.find(codes[row], line)
            causes = stretch.causes_with_assumed(row)
            at, placed = timeline.place(
                event, codes[row], track, [cause for cause, _ in causes], _known_uses(stretches, uses[row])
            )
            records += tracks.take_new()
            records += slices.add(event, track, at, _make_slice(event, tracks.places[track], at))
            for cause, (_, is_assumed) in zip(placed, causes, strict=True):
                if cause.at > at:
                    left_out += 1
                    continue
                drawn += 1
                ends = (tracks.places[cause.track], cause.at + arrow_at), (tracks.places[track], at + arrow_at)
                records += _make_arrow(drawn, POSSIBLE if is_assumed else MESSAGE, *ends)
        elements.write(records)
        records = []
        yield len(stretch)
    showing.arrows, showing.arrows_left_out = drawn, left_out
    elements.write(records + slices.finish())
    sink.write(b"\n]}\n")


@dataclass(slots=True)
class _Elements:
    """A writer of the elements of a JSON array."""

    sink: BinaryIO
    _separator: str = ""

    def write(self, records: list[Record]) -> None:
        if records:
            self.sink.write((self._separator + ",\n".join(map(_text, records))).encode())
            self._separator = ",\n"


def _known_uses(stretches: Stretches, uses: int) -> int | None:
    """Return how often an event will be a cause; None if only some processes are exported, where that is not known."""
    has_some_processes = not stretches.selection.whole and stretches.selection.positions is None
    return None if has_some_processes and uses else uses


@dataclass(slots=True)
class _Tracks:
    """The threads of the trace, in the order in which events are first drawn on them."""

    stretches: Stretches
    places: Places = field(default_factory=list)
    """By track: its ``pid`` and ``tid`` in the trace."""
    _tracks: dict[tuple[int, str | None], int] = field(default_factory=dict)
    _new: list[Record] = field(default_factory=list)
    _processes: set[int] = field(default_factory=set)

    def find(self, code: int, line: str | None) -> int:
        """Return the track of a line of a process; make it if it is new."""
        track = self._tracks.get((code, line))
        if track is None:
            track = self._tracks[code, line] = len(self.places)
            self._add(code, line, track)
        return track

    def take_new(self) -> list[Record]:
        """Return the records that name the tracks made since the last call."""
        records, self._new = self._new, []
        return records

    def _add(self, code: int, line: str | None, track: int) -> None:
        has_lines = self.stretches.run.has_lines
        process = self.stretches.names[code]
        if has_lines:
            owner = code
            title = f"{process} {self.stretches.computations[code]}".rstrip()
        else:
            owner = int(self.stretches.run.processes.computation_number[code])
            title = self.stretches.computations[code] or "history"
        place = {"pid": owner + 1, "tid": track + 1}
        self.places.append(place)
        if owner not in self._processes:
            self._processes.add(owner)
            self._new.append({"ph": "M", "name": "process_name", **place, "args": {"name": title}})
        self._new.append({"ph": "M", "name": "thread_name", **place, "args": {"name": line or process}})
        order = track if has_lines else code
        self._new.append({"ph": "M", "name": "thread_sort_index", **place, "args": {"sort_index": order}})


def _make_slice(event: Event, place: dict[str, int], at: int) -> Record:
    """Make the slice of an event, without its duration."""
    args: Record = {"id": event.id, "seq": event.seq, "position": event.position}
    optional: Record = {"time": event.time, "corrected_time": event.corrected_time, "message": event.message}
    optional |= {"missing": list(event.missing) or None, "error": event.error or None}
    optional |= {"attributes": dict(event.attributes) or None}
    args |= {name: value for name, value in optional.items() if value is not None}
    return {"ph": "X", "name": label(event), "cat": event.kind, **place, "ts": _to_microseconds(at), "args": args}


def _make_arrow(number: int, name: str, *ends: tuple[dict[str, int], int]) -> tuple[Record, Record]:
    same = {"name": name, "cat": name, "id": number}
    (cause, start), (effect, end) = ends
    return {"ph": "s", **same, **cause, "ts": _to_microseconds(start)}, {
        "ph": "f",
        "bp": "e",
        **same,
        **effect,
        "ts": _to_microseconds(end),
    }


@dataclass(slots=True)
class _AsTheyAre:
    """Slices at wall times. Each is one unit long, so two of a thread have the same time or do not overlap.

    The start and the end of a span stay two slices: by wall time, it may end before it starts.
    """

    tick: int

    def add(self, event: Event, track: int, at: int, slice_: Record) -> list[Record]:
        return [{**slice_, "dur": _to_microseconds(self.tick)}]

    def finish(self) -> list[Record]:
        return []


@dataclass(slots=True)
class _Nested:
    """Slices at times that ascend on each track. Each is kept until its duration is known."""

    _last: dict[int, tuple[int, Record, bool]] = field(default_factory=dict)
    """By track: the time and slice of its last event, and whether that is the start of a span."""
    _open: dict[int, list[tuple[str, int, Record]]] = field(default_factory=dict)
    """By track: open spans, innermost last, with the time and slice of their starts."""

    def add(self, event: Event, track: int, at: int, slice_: Record) -> list[Record]:
        """Add the slice of the next event; return the slices that are now complete."""
        complete = self._complete_last(track, at)
        is_start = event.id.endswith(START)
        if is_start:
            self._open.setdefault(track, []).append((event.id.removesuffix(START), at, slice_))
        else:
            complete += self._close_span(event, track, at, slice_)
        self._last[track] = (at, slice_, is_start)
        return complete

    def finish(self) -> list[Record]:
        """Return the slices that are not complete at the end."""
        slices = [slice_ for track in list(self._last) for slice_ in self._complete_last(track, None)]
        return slices + [slice_ for stack in self._open.values() for _, _, slice_ in stack]

    def _complete_last(self, track: int, until: int | None) -> list[Record]:
        if track not in self._last:
            return []
        at, slice_, is_start = self._last.pop(track)
        slice_.setdefault("dur", _to_microseconds(LONGEST if until is None else min(LONGEST, until - at - ARROW_AT)))
        return [] if is_start else [slice_]

    def _close_span(self, event: Event, track: int, at: int, end: Record) -> list[Record]:
        """Return the start of the span that the event ends, if any. It lasts as long as the span if no other is inside."""
        stack = self._open.get(track, [])
        for depth in range(len(stack) - 1, -1, -1):
            if stack[depth][0] == event.id:
                _, started_at, start = stack.pop(depth)
                if depth == len(stack):
                    start["dur"], end["dur"] = (
                        _to_microseconds(at + LAST + ARROW_AT - started_at),
                        _to_microseconds(LAST),
                    )
                return [start]
        return []


def _to_microseconds(nanoseconds: int) -> float:
    return nanoseconds / 1_000


_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
