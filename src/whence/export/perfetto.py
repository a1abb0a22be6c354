"""A trace for Perfetto and chrome://tracing: the JSON of Chrome's trace events.

A computation is a process of the trace and a process a thread of it. Where processes do several things at once, a process
is a process of the trace and each of its lines a thread. An event is a short slice; an arrow leads from a send to each of
its receives, and one of another category where that is only possible. The two ends of a span are one slice if it lies
within the slices that are open when it starts: slices of one thread must nest.

Times count microseconds from the first wall time of the history, with three decimals: since 1970 they would be so large
that readers, who keep 53 bits, lost the nanoseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import pyarrow.compute as pc

from whence.export.spelling import label
from whence.export.stretches import Stretches
from whence.export.times import Showing, Timeline
from whence.history.questions.event import Event

LONGEST = 1_000
"""Nanoseconds that an event's slice lasts at most; it ends before the next event of its track."""
ARROW_AT = 2
"""Nanoseconds after an event's time at which its arrows start and end: strictly inside of its slice."""
LAST = 4
"""Nanoseconds that the slice of a span's end lasts, and `ARROW_AT` later the span's own ends."""
MESSAGE, POSSIBLE = "message", "possible"
"""Names and categories of arrows."""
START = "/start"
"""What the id of a span's start ends with; the rest is the id of its end."""

Record = dict[str, Any]
Places = list[dict[str, int]]


def write_perfetto(stretches: Stretches, sink: BinaryIO, showing: Showing) -> Iterator[int]:
    """The whole trace. Gives the number of events after each piece."""
    run = stretches.run
    start = pc.min(run.processes.table["first_time"]).as_py() or 0
    unit = run.manifest.unit
    about = {"start": start, "unit": unit, "times": showing.times}
    sink.write(f'{{"displayTimeUnit":"ns","otherData":{_text(about)},"traceEvents":[\n'.encode())
    timeline = Timeline(unit, start, showing)
    drawn = left_out = 0
    inside = 0 if showing.wall else ARROW_AT
    tracks = _Tracks(stretches)
    slices = _AsTheyAre(timeline.tick) if showing.wall else _Nested()
    elements = _Elements(sink)
    records: list[Record] = []
    for stretch in stretches.each():
        codes, uses = stretch.code.tolist(), stretch.uses.tolist()
        for row, event in enumerate(stretches.events(stretch)):
            line = stretch.told[row].line if stretch.told else None
            track = tracks.of(codes[row], line)
            told = stretch.told_causes_of(row)
            causes = [cause for cause, _ in told]
            at, placed = timeline.place(event, codes[row], track, causes, _uses(stretches, uses[row]))
            records += tracks.named()
            records += slices.add(event, track, at, _slice(event, tracks.places[track], at))
            for cause, (_, only_possible) in zip(placed, told, strict=True):
                if cause.at > at:
                    left_out += 1
                    continue
                drawn += 1
                ends = (tracks.places[cause.track], cause.at + inside), (tracks.places[track], at + inside)
                records += _arrow(drawn, POSSIBLE if only_possible else MESSAGE, *ends)
        elements.write(records)
        records = []
        yield len(stretch)
    showing.arrows, showing.arrows_left_out = drawn, left_out
    elements.write(records + slices.rest())
    sink.write(b"\n]}\n")


@dataclass(slots=True)
class _Elements:
    """Writes the elements of an array."""

    sink: BinaryIO
    _separator: str = ""

    def write(self, records: list[Record]) -> None:
        if records:
            self.sink.write((self._separator + ",\n".join(map(_text, records))).encode())
            self._separator = ",\n"


def _uses(stretches: Stretches, uses: int) -> int:
    """Where only some processes are exported, it is not known how often a cause will be one: never let go of it."""
    part = not stretches.selection.whole and stretches.selection.positions is None
    return -1 if part and uses else uses


@dataclass(slots=True)
class _Tracks:
    """The threads of the trace, in the order in which events are first drawn on them."""

    stretches: Stretches
    places: Places = field(default_factory=list)
    """By track: where it is in the trace."""
    _tracks: dict[tuple[int, str | None], int] = field(default_factory=dict)
    _new: list[Record] = field(default_factory=list)
    _processes: set[int] = field(default_factory=set)

    def of(self, code: int, line: str | None) -> int:
        """The track of a line of a process."""
        track = self._tracks.get((code, line))
        if track is None:
            track = self._tracks[code, line] = len(self.places)
            self._add(code, line, track)
        return track

    def named(self) -> list[Record]:
        """What tells the names of the tracks that are new since this was last asked."""
        found, self._new = self._new, []
        return found

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


def _slice(event: Event, place: dict[str, int], at: int) -> Record:
    """All but how long it lasts."""
    args: Record = {"id": event.id, "seq": event.seq, "position": event.position}
    told: Record = {"time": event.time, "corrected_time": event.corrected_time, "message": event.message}
    told |= {"missing": list(event.missing) or None, "error": event.error or None}
    told |= {"attributes": dict(event.attributes) or None}
    args |= {name: value for name, value in told.items() if value is not None}
    return {"ph": "X", "name": label(event), "cat": event.kind, **place, "ts": _us(at), "args": args}


def _arrow(number: int, name: str, *ends: tuple[dict[str, int], int]) -> tuple[Record, Record]:
    same = {"name": name, "cat": name, "id": number}
    (cause, start), (effect, end) = ends
    return {"ph": "s", **same, **cause, "ts": _us(start)}, {"ph": "f", "bp": "e", **same, **effect, "ts": _us(end)}


@dataclass(slots=True)
class _AsTheyAre:
    """Slices at wall times: one unit long, so that on one thread two are the same time or do not overlap.

    Spans are left as their two ends: by wall time, one may end before it starts.
    """

    tick: int

    def add(self, event: Event, track: int, at: int, piece: Record) -> list[Record]:
        return [{**piece, "dur": _us(self.tick)}]

    def rest(self) -> list[Record]:
        return []


@dataclass(slots=True)
class _Nested:
    """Slices at times that ascend on each track; each is held until it is known how long it lasts."""

    _last: dict[int, tuple[int, Record, bool]] = field(default_factory=dict)
    """By track: time and slice of its last event, and whether it is the start of a span."""
    _open: dict[int, list[tuple[str, int, Record]]] = field(default_factory=dict)
    """By track: spans that have started and not ended, innermost last, with the slices of their starts."""

    def add(self, event: Event, track: int, at: int, piece: Record) -> list[Record]:
        """The slices that are now complete."""
        complete = self._settled(track, at)
        starts = event.id.endswith(START)
        if starts:
            self._open.setdefault(track, []).append((event.id.removesuffix(START), at, piece))
        else:
            complete += self._ended(event, track, at, piece)
        self._last[track] = (at, piece, starts)
        return complete

    def rest(self) -> list[Record]:
        """Those that nothing completed."""
        found = [piece for track in list(self._last) for piece in self._settled(track, None)]
        return found + [piece for stack in self._open.values() for _, _, piece in stack]

    def _settled(self, track: int, until: int | None) -> list[Record]:
        if track not in self._last:
            return []
        at, piece, starts = self._last.pop(track)
        piece.setdefault("dur", _us(LONGEST if until is None else min(LONGEST, until - at - ARROW_AT)))
        return [] if starts else [piece]

    def _ended(self, event: Event, track: int, at: int, piece: Record) -> list[Record]:
        """The start of the span that the event ends, if it does: as long as the span if that is the innermost."""
        stack = self._open.get(track, [])
        for depth in range(len(stack) - 1, -1, -1):
            if stack[depth][0] == event.id:
                _, start, first = stack.pop(depth)
                if depth == len(stack):
                    first["dur"], piece["dur"] = _us(at + LAST + ARROW_AT - start), _us(LAST)
                return [first]
        return []


def _us(nanoseconds: int) -> float:
    return nanoseconds / 1_000


_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
