"""The events of a history to be exported, some thousand at a time, with their causes and, if wanted, their vector clocks.

Memory is the skeleton of one segment, one stretch of events with their clocks, and a vector a message in flight.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from whence.causality.skeleton import Ints, Longs, Skeleton
from whence.export.lines import Lines, Told
from whence.export.linking import Linking
from whence.export.recording import Nearest, codes_at, followed_in_process
from whence.export.selection import Flags, Selection
from whence.export.stamping import Stamping
from whence.history import layout
from whence.history.questions.event import Event, event_columns, events_from
from whence.history.reading import Run

STRETCH_NUMBERS = 1_000_000
"""Numbers of vector clocks in memory at once, about."""


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """Some of the exported events, in an order in which causes come before effects."""

    positions: Longs
    code: Longs
    """The process of each, as a global code."""
    starts: Longs
    """int64[n + 1]: where the causes of each event start in `causes`."""
    causes: Longs
    """Positions of the direct causes in other events than the one before in the same process; all are exported."""
    assumed: Flags
    """Of each of these: whether it is not recorded as a cause, and only possibly one."""
    follows: list[list[int]] | None
    """By row: positions of what is recorded to lead to it within its process; None where each event follows the one
    before in its process."""
    told: list[Told] | None
    """By row: the same, by lines; None where that is."""
    uses: Longs
    """How many later events have it among their causes, or, where only some of the events are exported by process,
    at least 1 if any may have."""
    vectors: Ints | None
    """int32[n, W]: how many of the exported events of a process are in the past of each event, itself included."""
    entries: Longs
    """int64[n, W]: the process of each entry of the vectors, -1 for none."""

    def __len__(self) -> int:
        return len(self.positions)

    def causes_of(self, row: int) -> list[int]:
        """Positions of the causes of one event."""
        found: list[int] = self.causes[self.starts[row] : self.starts[row + 1]].tolist()
        return found

    def told_causes_of(self, row: int) -> list[tuple[int, bool]]:
        """The same, each with whether it is only possibly one."""
        assumed = self.assumed[self.starts[row] : self.starts[row + 1]].tolist()
        return list(zip(self.causes_of(row), assumed, strict=True))


class Stretches:
    """What is exported of a run."""

    def __init__(self, run: Run, selection: Selection) -> None:
        self.run = run
        self.selection = selection

    @property
    def total(self) -> int:
        """How many events there are."""
        return self.selection.events(self.run)

    @cached_property
    def names(self) -> list[str]:
        """Names of processes, by code."""
        found: list[str] = self.run.processes.process.to_pylist()
        return found

    @cached_property
    def computations(self) -> list[str]:
        """Names of the computations of processes, by code."""
        found: list[str] = self.run.processes.computation.to_pylist()
        return found

    @cached_property
    def exported_computations(self) -> int:
        """How many computations have exported events."""
        chosen = self.selection.codes & (self.run.processes.events > 0)
        return len(np.unique(self.run.processes.computation_number[chosen]))

    def each(self, *, vectors: bool = False, grouped: bool = False) -> Iterator[Stretch]:
        """All of them; `grouped` gives the events of one computation after the other, else history order."""
        found = self._each(vectors=vectors or not self.selection.whole, grouped=grouped)
        if self.selection.positions is None or self.selection.whole:
            yield from found
            return
        # Few enough to be looked at together: then it is known which of them are causes.
        together = list(found)
        causes = np.concatenate([np.empty(0, np.int64), *(each.causes for each in together)])
        used, counts = np.unique(causes, return_counts=True)
        for each in together:
            at = np.searchsorted(used, each.positions)
            inside = at < len(used)
            each.uses[:] = 0
            each.uses[inside] = np.where(used[at[inside]] == each.positions[inside], counts[at[inside]], 0)
            yield each

    def table(self, stretch: Stretch, columns: Sequence[str]) -> pa.Table:
        """Columns of the events, without dictionaries."""
        positions, run = stretch.positions, self.run
        number = run.segments.segment_of(int(positions[0]))
        first = int(run.segments.first_position[number])
        if len(positions) and positions[-1] - positions[0] + 1 == len(positions) and (np.diff(positions) == 1).all():
            found = run.events(number, columns, int(positions[0]) - first, int(positions[-1]) + 1 - first)
        else:
            found = run.rows(positions, columns)
        plain = [
            column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
            for column in found.columns
        ]
        return pa.table(plain, names=found.column_names)

    def events(self, stretch: Stretch) -> tuple[Event, ...]:
        """The events as values."""
        columns = event_columns(self.run)
        table = self.table(stretch, columns)
        return events_from(self.run, {name: table[name].to_pylist() for name in columns}, stretch.positions)

    def _told(self, stretch: Stretch, lines: Lines) -> Stretch:
        """Add how the events are told by lines, and what no line can tell to the causes of a part.

        Of a whole history the order of the process remains of the latter: an event sends one key at most.
        """
        assert stretch.follows is not None
        of_events: list[str | None] = self.table(stretch, ["line"])["line"].to_pylist()
        rows = zip(stretch.positions.tolist(), stretch.code.tolist(), of_events, stretch.follows, strict=True)
        told = list(lines.tell(rows))
        if self.selection.whole or not any(each.untold for each in told):
            return replace(stretch, told=told)
        causes = [
            {**dict(stretch.told_causes_of(row)), **dict.fromkeys(each.untold, False)} for row, each in enumerate(told)
        ]
        starts = np.cumsum([0, *map(len, causes)])
        named = np.array([cause for each in causes for cause in each], np.int64)
        assumed = np.array([only for each in causes for only in each.values()], np.bool_)
        return replace(stretch, starts=starts, causes=named, assumed=assumed, told=told)

    def _each(self, *, vectors: bool, grouped: bool) -> Iterator[Stretch]:
        lines = Lines()
        linking = None if self.selection.whole else Linking(self.run, self.selection)
        has_lines = self.run.has_lines and not grouped
        nearest = Nearest(self.run, self.selection) if has_lines and not self.selection.whole else None
        for number in range(len(self.run.segments)):
            recorded = nearest.step(number) if nearest is not None else None
            if self.selection.codes[self.run.segments.codes_of(number)].any():
                segment = _Segment(self, number, recorded, grouped=grouped)
                for stretch in segment.stretches(linking, vectors=vectors):
                    yield self._told(stretch, lines) if has_lines else stretch

    @cached_property
    def causes_elsewhere(self) -> tuple[Longs, Longs]:
        """Positions of events that are causes in later segments, ascending, and of how many events."""
        crossings = self.run.table(self.run.table_file("crossings")).read(columns=["cause"], use_threads=False)
        found, counts = np.unique(crossings["cause"].to_numpy(), return_counts=True)
        return found, counts


class _Segment:
    """One segment, its rows in the order in which they are exported."""

    def __init__(self, whole: Stretches, number: int, nearest: dict[int, list[int]] | None, *, grouped: bool) -> None:
        run = whole.run
        self._nearest = nearest
        self._has_lines = run.has_lines and not grouped
        self._whole = whole
        self._number = number
        self._codes = run.segments.codes_of(number).astype(np.int64)
        self._computation = run.processes.computation_number[self._codes]
        rows = int(run.segments.rows[number])
        self._skeleton = run.skeleton(number, 0, rows)
        first = int(run.segments.first_position[number])
        self._positions = np.arange(first, first + rows, dtype=np.int64)
        crossings = run.messages_into(number)
        self._edges = (crossings.row.astype(np.int64), crossings.position.astype(np.int64))
        self._edges_assumed = crossings.assumed
        self._chosen = whole.selection.rows(first, self._codes[self._skeleton.process].astype(np.int32))
        if grouped and len(np.unique(self._computation)) > 1:
            self._group()

    def _group(self) -> None:
        """Bring the rows of each computation together; none of them has a cause in another."""
        order = np.argsort(self._computation[self._skeleton.process], kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        effect = place[np.repeat(np.arange(len(order)), np.diff(self._skeleton.offsets))]
        cause = place[self._skeleton.cause_rows()]
        by_effect = np.argsort(effect, kind="stable")
        counts = np.bincount(effect, minlength=len(order))
        self._skeleton = Skeleton(
            self._skeleton.process[order],
            np.concatenate(([0], np.cumsum(counts))),
            (effect - cause)[by_effect],
        )
        self._positions, self._chosen = self._positions[order], self._chosen[order]
        by_row = np.argsort(place[self._edges[0]], kind="stable")
        self._edges = (place[self._edges[0]][by_row], self._edges[1][by_row])

    @cached_property
    def _column(self) -> Ints:
        """By process: its place in vectors. Small computations share a segment, and their processes then share places."""
        if not self._whole.run.segments.starts_computation[self._number]:
            return np.arange(len(self._codes), dtype=np.int32)
        order = np.argsort(self._computation, kind="stable")
        firsts = np.flatnonzero(np.diff(self._computation[order], prepend=-1))
        column = np.empty(len(self._codes), np.int32)
        column[order] = np.arange(len(order)) - np.repeat(firsts, np.diff(np.append(firsts, len(order))))
        return column

    @cached_property
    def _entries(self) -> Longs:
        """By process: the process of each place in its vectors; -1 for places that none of its computation has."""
        computations, number = np.unique(self._computation, return_inverse=True)
        found = np.full((len(computations), self._width), -1, np.int64)
        found[number, self._column] = self._codes
        return found[number] if len(computations) > 1 else found

    def _entries_of(self, local: Ints) -> Longs:
        found = self._entries
        return found[local] if len(found) > 1 else np.broadcast_to(found, (len(local), self._width))

    @property
    def _width(self) -> int:
        return int(self._column.max(initial=-1)) + 1

    def stretches(self, linking: Linking | None, *, vectors: bool) -> Iterator[Stretch]:
        """The chosen rows, stretch by stretch."""
        wanted = np.flatnonzero(self._chosen)
        if not len(wanted):
            return
        step = max(1, min(layout.EVENT_ROWS, STRETCH_NUMBERS // self._width)) if vectors else layout.EVENT_ROWS
        stamping = self._stamping() if vectors else None
        for start in range(0, int(wanted[-1]) + 1, step):
            stop = min(start + step, len(self._skeleton))
            rows = wanted[slice(*np.searchsorted(wanted, [start, stop]))]
            found = stamping.vectors(start, stop, rows) if stamping is not None else None
            if len(rows):
                yield self._stretch(start, stop, rows, found, linking)

    def _stamping(self) -> Stamping:
        boundary = self._whole.run.boundary(self._number)
        sends = np.searchsorted(boundary.send_position, self._edges[1])
        return Stamping(self._skeleton, boundary, (self._edges[0], sends), self._column)

    def _stretch(self, start: int, stop: int, rows: Longs, vectors: Ints | None, linking: Linking | None) -> Stretch:
        local = self._skeleton.process[rows]
        code = self._codes[local]
        positions = self._positions[rows]
        entries = self._entries_of(local) if vectors is not None else np.empty((len(rows), 0), np.int64)
        follows: list[list[int]] | None = None
        if linking is None:
            starts, causes, assumed = self._messages(start, stop)
            if self._has_lines:
                follows = [self._followed.get(row, []) for row in rows.tolist()]
        else:
            assert vectors is not None
            vectors = self._renumbered(vectors, entries)
            starts, causes = linking.causes(code, self._column[local], vectors, entries)
            assumed = np.zeros(len(causes), np.bool_)
            if self._nearest is not None:
                starts, causes, assumed, follows = self._with_recorded(positions, code, starts, causes)
        return Stretch(positions, code, starts, causes, assumed, follows, None, self._uses[rows], vectors, entries)

    def _with_recorded(
        self, positions: Longs, code: Longs, starts: Longs, causes: Longs
    ) -> tuple[Longs, Longs, Flags, list[list[int]]]:
        """What is recorded to lead to each event, and of what its clock names only the rest as possible."""
        assert self._nearest is not None
        follows: list[list[int]] = []
        found: list[tuple[int, int, bool]] = []
        for row, position in enumerate(positions.tolist()):
            recorded = self._nearest[position]
            process = codes_at(self._whole.run, np.array(recorded, np.int64)).tolist()
            mine = int(code[row])
            follows.append([each for each, its in zip(recorded, process, strict=True) if its == mine])
            others = {each for each, its in zip(recorded, process, strict=True) if its != mine}
            wide = set(causes[starts[row] : starts[row + 1]].tolist())
            found += [(row, each, each not in others) for each in sorted(others | wide)]
        rows, named, assumed = (np.array([each[place] for each in found], np.int64) for place in range(3))
        return np.searchsorted(rows, np.arange(len(positions) + 1)), named, assumed.astype(np.bool_), follows

    @cached_property
    def _followed(self) -> dict[int, list[int]]:
        """By row: positions of what is recorded to lead to it within its process."""
        return followed_in_process(self._whole.run, self._number)

    @cached_property
    def _known(self) -> Longs:
        """The causes that are not assumed, as numbers made of effect and cause."""
        skeleton = self._whole.run.known_skeleton(self._number, 0, len(self._skeleton))
        effect = np.repeat(np.arange(len(skeleton)), np.diff(skeleton.offsets))
        return effect * len(skeleton) + skeleton.cause_rows()

    def _messages(self, start: int, stop: int) -> tuple[Longs, Longs, Flags]:
        """Of the chosen rows: where the causes of each start, their positions, each named once, and which are assumed."""
        part = self._skeleton.part(start, stop)
        first, last = np.searchsorted(self._edges[0], [start, stop])
        within = np.repeat(np.arange(stop - start), np.diff(part.offsets))
        effect = np.concatenate((within, self._edges[0][first:last] - start))
        causes = np.concatenate((self._positions[start + part.cause_rows()], self._edges[1][first:last]))
        assumed = np.zeros(len(causes), np.bool_)
        if self._has_lines:
            pairs = (start + within) * len(self._skeleton) + start + part.cause_rows()
            assumed = np.concatenate((~np.isin(pairs, self._known), self._edges_assumed[first:last]))
        order = np.lexsort((assumed, causes, effect))
        effect, causes, assumed = effect[order], causes[order], assumed[order]
        chosen = self._chosen[start:stop]
        kept = chosen[effect]
        kept[1:] &= (np.diff(effect) != 0) | (np.diff(causes) != 0)
        starts = np.searchsorted(effect[kept], np.append(np.flatnonzero(chosen), stop - start))
        return starts.astype(np.int64), causes[kept], assumed[kept]

    @cached_property
    def _uses(self) -> NDArray[np.int64]:
        effect = np.repeat(np.arange(len(self._skeleton)), np.diff(self._skeleton.offsets))
        pairs = np.unique(self._skeleton.cause_rows() * len(self._skeleton) + effect)
        uses = np.bincount(pairs // len(self._skeleton), minlength=len(self._skeleton)).astype(np.int64)
        elsewhere, counts = self._whole.causes_elsewhere
        at = np.searchsorted(elsewhere, self._positions)
        inside = np.flatnonzero(at < len(elsewhere))
        inside = inside[elsewhere[at[inside]] == self._positions[inside]]
        uses[inside] += counts[at[inside]]
        return uses

    def _renumbered(self, vectors: Ints, entries: Longs) -> Ints:
        """Entries count exported events only, so that each process counts its own without gaps."""
        selection = self._whole.selection
        found = np.where((entries >= 0) & selection.codes[entries], vectors, 0)
        if selection.positions is not None:
            # They are of one computation, so all rows have the same processes in the same places.
            for column, code in enumerate(entries[0].tolist()):
                if code in selection.indices:
                    found[:, column] = np.searchsorted(selection.indices[code][0], vectors[:, column], side="right")
        return found
